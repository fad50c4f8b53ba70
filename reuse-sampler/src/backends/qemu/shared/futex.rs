//! Sleeping on a word of shared memory, the one way to wait that needs no file descriptor.

use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[cfg(target_arch = "x86_64")]
const SYS_FUTEX: c_long = 202;
#[cfg(not(target_arch = "x86_64"))]
const SYS_FUTEX: c_long = 98; // the table of all newer architectures

const FUTEX_WAIT: c_int = 0;
const FUTEX_WAKE: c_int = 1;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Sleeps while `word` holds `expected`, at most for `timeout`. May return early for no reason.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout =
        Timespec { seconds: timeout.as_secs() as i64, nanoseconds: i64::from(timeout.subsec_nanos()) };
    // SAFETY: the word outlives the call, the timeout is a valid timespec, and the kernel only reads both.
    unsafe {
        syscall(
            SYS_FUTEX,
            ptr::from_ref(word),
            FUTEX_WAIT,
            expected,
            ptr::from_ref(&timeout),
            ptr::null::<c_void>(),
            0,
        );
    }
}

/// Wakes all that sleep on `word`, in this process and in others that map it.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the kernel takes the address of a live word and does not write to it.
    unsafe {
        syscall(SYS_FUTEX, ptr::from_ref(word), FUTEX_WAKE, c_int::MAX);
    }
}

/// Stores `value` and wakes all that sleep on `word`.
pub fn set(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::SeqCst);
    wake(word);
}
