//! The states of all threads, by virtual processor.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::settings::{header, locked};
use crate::thread::Thread;

/// Virtual processors whose state is found by index. The emulator gives the smallest number above all those
/// in use, and no system runs that many threads at once.
pub const VCPUS: usize = 1 << 16;
static THREADS: [AtomicPtr<Thread>; VCPUS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; VCPUS];
/// Stands for a processor without a state: its limit is always 0.
static NOBODY: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());

/// Threads that have begun and not ended.
static ALIVE: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

/// A thread that lives.
#[derive(Clone, Copy)]
pub struct Handle(pub *mut Thread);
// SAFETY: the state behind it is used by its own thread, or by another one while its own is halted.
unsafe impl Send for Handle {}

/// Makes room for the states; called once, before any other of these functions.
pub fn begin() {
    let nobody = Box::into_raw(Box::new(Thread::new(u32::MAX, (0, 0), 0, 1)));
    NOBODY.store(nobody, Ordering::Relaxed);
    for entry in &THREADS {
        entry.store(nobody, Ordering::Relaxed);
    }
}

/// Forgets all states: those of the process that forked this one. They are leaked, as the copy of their memory is shared.
pub fn forget_all() {
    let nobody = NOBODY.load(Ordering::Relaxed);
    for entry in &THREADS {
        if entry.load(Ordering::Relaxed) != nobody {
            entry.store(nobody, Ordering::Relaxed);
        }
    }
    alive().clear();
}

/// The state of a virtual processor, which may be that of nobody.
#[inline(always)]
pub fn thread(vcpu: u32) -> *mut Thread {
    THREADS[vcpu as usize % VCPUS].load(Ordering::Relaxed)
}

/// The state of a virtual processor, made for it if there is none. Called by its own thread.
pub fn thread_or_new(vcpu: u32) -> *mut Thread {
    let found = thread(vcpu);
    if found != NOBODY.load(Ordering::Relaxed) {
        return found;
    }
    let Some(header) = header() else { return found };
    let number = header.threads.fetch_add(1, Ordering::Relaxed);
    let [seed, strides, window] =
        [&header.seed, &header.strides, &header.window].map(|word| word.load(Ordering::Relaxed));
    let new = Thread::new(number, (seed, strides), header.line_shift.load(Ordering::Relaxed), window);
    let new = Box::into_raw(Box::new(new));
    locked(&ALIVE).push(Handle(new));
    THREADS[vcpu as usize % VCPUS].store(new, Ordering::Relaxed);
    new
}

/// The state of a virtual processor if it has one.
pub fn thread_of(vcpu: u32) -> Option<*mut Thread> {
    Some(thread(vcpu)).filter(|&thread| thread != NOBODY.load(Ordering::Relaxed))
}

/// The threads that live. While the guard does, none begins or ends.
pub fn alive() -> MutexGuard<'static, Vec<Handle>> {
    locked(&ALIVE)
}

/// Forgets the state of a virtual processor, whose thread has ended.
pub fn forget(vcpu: u32) {
    THREADS[vcpu as usize % VCPUS].store(NOBODY.load(Ordering::Relaxed), Ordering::Relaxed);
}
