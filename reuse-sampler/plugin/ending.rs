//! Last reports: of a thread that ends, and of all threads together.

use crate::boundary::{self, End};
use crate::channel::{release_waiting, send};
use crate::halt::{self, is_silent};
use crate::instrumentation::set_needs;
use crate::settings::is_owner;
use crate::shared::message::Message;
use crate::thread::{Phase, Thread};
use crate::threads::{self, Handle};

/// Ends a thread, which calls this itself as the last thing it does.
pub fn exit_thread(vcpu: u32) {
    let Some(ended) = threads::thread_of(vcpu) else { return };
    let mut alive = threads::alive();
    // SAFETY: the thread itself calls, and whoever halts others holds the lock.
    let thread = unsafe { &mut *ended };
    if !is_silent() && thread.phase != Phase::Silent {
        boundary::close(thread, End::Exit, None);
    }
    boundary::silence(thread);
    // The instrumentation changes at another thread's next boundary: this one executes nothing any more.
    set_needs(thread, false);
    alive.retain(|other| other.0 != ended);
    threads::forget(vcpu);
    drop(alive);
    // SAFETY: nobody finds the state any more.
    drop(unsafe { Box::from_raw(ended) });
}

/// Reports all threads for the last time. `caller` is the thread that calls, if one does; the others are
/// halted for it. They run on unobserved afterwards, or observed anew if the caller says
/// [`continue_observing`] instead of [`finish`].
pub fn report_all(caller: Option<*mut Thread>, how: End) {
    let mut alive = threads::alive();
    if is_silent() {
        return;
    }
    if how == End::Exit {
        if let Ok(maps) = std::fs::read_to_string("/proc/self/maps") {
            send(&Message::Mapped(maps));
        }
    }
    halt::begin();
    alive.sort_by_key(|thread| number(thread.0));
    let deadline = halt::deadline();
    for &Handle(thread) in alive.iter() {
        if Some(thread) == caller || halt::stop(thread, deadline) {
            // SAFETY: the thread is the caller's own or halted, and stays so until it is released.
            let thread = unsafe { &mut *thread };
            if thread.phase != Phase::Silent {
                boundary::close(thread, how, None);
                set_needs(thread, false);
                thread.phase = Phase::Fresh;
            }
        } else {
            send(&Message::Lost { thread: number(thread) });
        }
    }
}

/// After [`report_all`]: threads run on unobserved.
pub fn finish() {
    let owner = is_owner();
    if owner && halt::end_observation() {
        send(&Message::End);
    }
    halt::release();
    // A forked child sees the same places to wait at, which are not its own.
    if owner {
        release_waiting();
    }
}

/// After [`report_all`]: threads run on and are observed, with new windows.
pub fn continue_observing() {
    halt::release();
}

fn number(thread: *mut Thread) -> u32 {
    // SAFETY: the number never changes, and the caller holds the list of living threads.
    unsafe { (*thread).number }
}
