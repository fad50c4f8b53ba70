//! A process of its own for the thread that controls a program that was there before.
//!
//! When a tracer is killed, what it traces goes on at once, with the signal at which it stood: the `SIGTRAP` of an
//! event or a step, of which it dies. So what traces such a program must not die with this process. It shares this
//! one's memory and files, as a thread does, but is a process in a session of its own, which whoever kills this one
//! does not hit, and which lets the program go once its parent is gone.
//!
//! Were this process killed while one of its threads allocates from the guard's own arena, the guard might wait for
//! ever; one has an arena of its own where the C library gives threads theirs.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use nix::libc;

use super::trace;

const STACK: usize = 8 << 20;
/// Microseconds between two looks at whether the parent is there.
const LOOK: i64 = 50_000;

/// Does `work` in a process that shares this one's memory, and waits for its end. Where there can be no such process, the
/// calling thread does it, and is told why.
pub(in crate::backends::perf) fn guarded<F: FnOnce(Option<io::Error>)>(work: F) {
    // SAFETY: zeroes are a valid value of a plain structure.
    let mut task = Task { work: Some(work), signals: unsafe { std::mem::zeroed() } };
    if let Err(error) = begin(&mut task) {
        if let Some(work) = task.work {
            work(Some(error));
        }
    }
}

struct Task<F> {
    work: Option<F>,
    signals: libc::sigset_t, // that the calling thread blocks
}

fn begin<F: FnOnce(Option<io::Error>)>(task: &mut Task<F>) -> io::Result<()> {
    let (protection, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK,
    );
    // SAFETY: a new mapping at an address of the kernel's choice.
    let stack = unsafe { libc::mmap(null_mut(), STACK, protection, kind, -1, 0) };
    if stack == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // No signal at its end, so that nobody who waits for other children hears of it.
    let shared = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SYSVSEM;
    // SAFETY: the new process runs `process` on a stack of its own, with this thread's thread-local storage (`errno`
    // too): until its end this thread does nothing but wait, and no signal wakes it, so that no two use that at once.
    // The task and the stack outlive the wait.
    let result = unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut task.signals);
        let top = stack.cast::<u8>().add(STACK);
        let guard = libc::clone(process::<F>, top.cast(), shared, (&raw mut *task).cast());
        let result =
            if guard < 0 { Err(io::Error::last_os_error()) } else { trace::wait_for(guard).map(drop) };
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const task.signals, null_mut());
        result
    };
    // SAFETY: mapped above, and used by nobody any more.
    unsafe { libc::munmap(stack, STACK) };
    result
}

extern "C" fn process<F: FnOnce(Option<io::Error>)>(task: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `begin` passes this, and does nothing with it before this process ends.
    let task = unsafe { &mut *task.cast::<Task<F>>() };
    // SAFETY: passes numbers, and values that live during the calls; the handler touches nothing. Handlers and the
    // mask of signals are this process's own.
    unsafe {
        libc::setsid();
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = trace::nothing as *const () as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, null_mut());
        let mut blocked = task.signals;
        libc::sigdelset(&raw mut blocked, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, null_mut());
        let every = libc::timeval { tv_sec: 0, tv_usec: LOOK };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut());
    }
    let work = task.work.take();
    let ended = catch_unwind(AssertUnwindSafe(|| work.map(|work| work(None))));
    // SAFETY: ends this process alone, and nothing of the other's.
    unsafe { libc::_exit(i32::from(ended.is_err())) }
}

/// Whether the calling process is a guard, and the observer that it is for is gone.
pub(super) fn is_alone(observer: u32) -> bool {
    // SAFETY: asks for a number.
    std::process::id() != observer && unsafe { libc::getppid() } != observer as i32
}

/// Ends a guard.
pub(super) fn leave() -> ! {
    // SAFETY: passes a number.
    unsafe { libc::_exit(0) }
}
