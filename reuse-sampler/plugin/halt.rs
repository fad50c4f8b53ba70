//! Stopping threads before their next block, for the last report, and the end of observation.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::settings::is_owner;
use crate::shared::futex;
use crate::thread::{Thread, status};

/// Threads are to stop before their next block.
static HALTED: AtomicBool = AtomicBool::new(false);
/// Sleepers: halted threads. Counts releases.
static RELEASES: AtomicU32 = AtomicU32::new(0);
/// The emulator has taken all callbacks out and waited until no thread executes code that has them.
static QUIET: AtomicBool = AtomicBool::new(false);
/// The last report was sent.
static FINISHED: AtomicBool = AtomicBool::new(false);

/// Longest sleep before a waiting thread looks again whether it is to go on.
const NAP: Duration = Duration::from_millis(500);
/// A running thread comes to its next block within microseconds; one that does not in this time is stuck.
const HALT: Duration = Duration::from_secs(2);

/// Whether nothing is to be observed any more, as is so in children of the program.
pub fn is_silent() -> bool {
    FINISHED.load(Ordering::SeqCst) || !is_owner()
}

/// Ends observation; whether it had not ended before.
pub fn end_observation() -> bool {
    !FINISHED.swap(true, Ordering::SeqCst)
}

/// Nobody is halted: this process was just forked.
pub fn start_over() {
    HALTED.store(false, Ordering::SeqCst);
}

/// Whether observation has ended, in this process or in the one that forked it before it did.
pub fn is_finished() -> bool {
    FINISHED.load(Ordering::SeqCst)
}

/// Asks all threads to stop before their next block, until [`release`].
pub fn begin() {
    HALTED.store(true, Ordering::SeqCst);
}

/// Lets halted threads go on.
pub fn release() {
    HALTED.store(false, Ordering::SeqCst);
    RELEASES.fetch_add(1, Ordering::SeqCst);
    futex::wake(&RELEASES);
}

/// Whether threads are to stop before their next block.
pub fn is_halted() -> bool {
    HALTED.load(Ordering::SeqCst)
}

/// Comes back from waiting or from a system call: blocks may be executed again once nobody halts the world.
pub fn resume(thread: &Thread) {
    thread.status.store(status::RUNNING, Ordering::SeqCst);
    park_if_halted(thread);
}

/// Sleeps while the world is halted.
pub fn park_if_halted(thread: &Thread) {
    while is_halted() && is_owner() {
        let releases = RELEASES.load(Ordering::SeqCst);
        thread.status.store(status::WAITING, Ordering::SeqCst);
        if is_halted() {
            futex::wait(&RELEASES, releases, NAP);
        }
        thread.status.store(status::RUNNING, Ordering::SeqCst);
    }
}

/// When threads that were asked to halt now count as stuck.
pub fn deadline() -> Instant {
    Instant::now() + HALT
}

/// From now on no callback is called: threads need not be stopped, and would not hear of it.
pub fn nobody_runs() {
    QUIET.store(true, Ordering::SeqCst);
}

/// Stops `thread` before its next block. False if it does not get there in time.
pub fn stop(thread: *mut Thread, deadline: Instant) -> bool {
    // SAFETY: only the two atomics are used; the caller holds the list of living threads.
    let (limit, status) = unsafe { (&(*thread).limit, &(*thread).status) };
    limit.store(0, Ordering::SeqCst);
    while status.load(Ordering::SeqCst) == status::RUNNING && !QUIET.load(Ordering::SeqCst) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    true
}
