//! Where a window of a thread ends and its next one begins.
//!
//! A window ends after the block that completes it, whatever is observed, so that plans do not move
//! boundaries. How that end is seen depends on whether accesses are. If not, everything about the window is
//! known when its last block *begins*: it is reported then, and if the next plan wants accesses, the
//! emulator is asked to translate anew, which it does right after this block; the next window begins with a
//! block whose accesses are reported. If accesses are seen, the last block must be through: the window is
//! reported when the block after it begins, and if the next plan does not want accesses, that block's are
//! ignored while the emulator gets ready to translate anew. Either way no access is missed and none counted
//! in the wrong window.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::blocks::{Tag, drain_counts};
use crate::engine::report::Report;
use crate::engine::tracker::Mode;
use crate::shared::message::{Message, WindowMessage};
use crate::thread::{Phase, Thread, Window, status};
use crate::{channel, halt, instrumentation, settings, threads};

/// A block is about to be executed that must not just be counted.
#[cold]
#[inline(never)]
pub fn before_block(vcpu: u32, tag: Tag) {
    // SAFETY: called by the thread itself.
    let thread = unsafe { &mut *threads::thread_or_new(vcpu) };
    if tag.number() >= thread.capacity {
        thread.grow(tag.number());
    }
    halt::park_if_halted(thread);
    if halt::is_silent() {
        silence(thread);
        return;
    }
    match thread.phase {
        Phase::Silent => return,
        Phase::Running => {}
        Phase::Fresh => {
            let plan = channel::initial_plan(thread);
            open(thread, plan, Some(tag));
        }
        Phase::Opening => see(thread, tag),
        Phase::Closing => {
            if !meet(thread, Some(tag)) {
                return;
            }
        }
    }
    thread.progress += tag.instructions();
    thread.counts()[tag.number()] += tag.instructions();
    if thread.progress >= thread.boundary {
        if thread.active {
            thread.phase = Phase::Closing;
        } else {
            meet(thread, None);
        }
    }
    rearm(thread);
}

/// Makes the next block come here or not, as the phase says.
fn rearm(thread: &Thread) {
    let limit = match thread.phase {
        Phase::Running => thread.boundary,
        Phase::Silent => u64::MAX,
        Phase::Fresh | Phase::Opening | Phase::Closing => 0,
    };
    thread.limit.store(limit, Ordering::SeqCst);
    // Whoever halts the world sets its flag before it sets the limit, so one of the two is seen.
    if halt::is_halted() {
        thread.limit.store(0, Ordering::SeqCst);
    }
}

/// Reports the window, waits for the plan of the next one and begins it, with the block `first` if it has
/// not been counted yet. False if there will be none.
fn meet(thread: &mut Thread, first: Option<Tag>) -> bool {
    let Some(slot) = channel::take_slot(thread) else {
        silence(thread);
        return false;
    };
    close(thread, End::Boundary, Some(slot));
    let Some(plan) = channel::wait_for_plan(thread, slot) else {
        silence(thread);
        return false;
    };
    open(thread, plan, first);
    true
}

/// Begins a window. `first` is the block about to be executed, unless that one was counted before.
fn open(thread: &mut Thread, mode: Mode, first: Option<Tag>) {
    // With nothing to follow there is nothing to see.
    let mode = if mode == Mode::Watch && thread.open == 0 { Mode::Off } else { mode };
    let length = settings::window_length();
    thread.boundary = (thread.progress / length + 1).saturating_mul(length);
    let index = channel::next_window();
    thread.window =
        Some(Window { index, mode, began: thread.progress, seen_from: None, since: Instant::now() });
    thread.active = false;
    instrumentation::set_needs(thread, mode != Mode::Off);
    if mode == Mode::Off {
        thread.tracker.begin_window(index, mode);
        thread.phase = Phase::Running;
    } else {
        thread.phase = Phase::Opening;
        if let Some(tag) = first {
            see(thread, tag);
        }
    }
    instrumentation::switch_if_needed();
}

/// Begins to observe accesses with this block, if they are reported.
fn see(thread: &mut Thread, tag: Tag) {
    let Some(window) = &mut thread.window else { return };
    if tag.instrumented() {
        thread.tracker.begin_window(window.index, window.mode);
        window.seen_from = Some(thread.progress);
        thread.active = true;
        thread.phase = Phase::Running;
    } else {
        // Another thread's change of instrumentation is still under way, or this is a new thread's first
        // block: the window goes unseen up to here, and says so.
        thread.tracker.begin_window(window.index, Mode::Off);
        instrumentation::switch_if_needed();
    }
}

/// How a window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Boundary,
    Exit,
    Interrupt,
}

/// Ends the window and reports it. Without a window in progress (the thread waits for a plan) the samples
/// still open are reported in a window of their own, if there are any. The thread calls this itself or is
/// halted.
pub fn close(thread: &mut Thread, how: End, slot: Option<u32>) {
    let idle = thread.window.is_none();
    let window = thread.window.take().unwrap_or_else(|| {
        let index = channel::next_window();
        thread.tracker.begin_window(index, Mode::Watch);
        Window { index, mode: Mode::Watch, began: thread.progress, seen_from: None, since: Instant::now() }
    });
    thread.active = false;
    let report = match how {
        End::Boundary => thread.tracker.end_window(),
        End::Exit => thread.tracker.end_thread(),
        End::Interrupt => thread.tracker.interrupt(),
    };
    thread.open = report.open;
    if idle && report == (Report { accesses: 0, ..Report::default() }) {
        return;
    }
    let progress = thread.progress;
    let code = drain_counts(thread.counts());
    instrumentation::note_window(code.len() as u64, progress - window.began, window.mode != Mode::Off);
    channel::send(&Message::Window(Box::new(WindowMessage {
        thread: thread.number,
        index: window.index,
        slot,
        instructions: progress - window.began,
        seen_instructions: window.seen_from.map_or(0, |from| progress - from),
        profiled: window.mode != Mode::Off,
        elapsed: window.since.elapsed().as_nanos() as u64,
        code,
        further: std::mem::take(&mut thread.further),
        report,
    })));
}

/// Stops counting for good: the program is over for the sampler.
pub fn silence(thread: &mut Thread) {
    thread.active = false;
    thread.window = None;
    thread.phase = Phase::Silent;
    thread.status.store(status::RUNNING, Ordering::SeqCst);
    rearm(thread);
}
