//! What is said between a thread and the sampler: messages one way, plans the other.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::engine::tracker::Mode;
use crate::halt::{is_silent, resume};
use crate::settings::{header, locked, region, settings};
use crate::shared::futex;
use crate::shared::layout::{SLOTS, Slot};
use crate::shared::message::Message;
use crate::thread::{Thread, status};

/// Messages are written one at a time. The buffer is kept.
pub static WRITER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Longest sleep before a waiting thread looks again whether it is to go on.
const NAP: Duration = Duration::from_millis(500);

/// The number of a window that begins.
pub fn next_window() -> u64 {
    header().map_or(0, |header| header.windows.fetch_add(1, Ordering::Relaxed))
}

/// Sends a message. Waits while the ring is full: should the sampler die, this process ends.
pub fn send(message: &Message) {
    let Some(settings) = settings() else { return };
    let mut buffer = locked(&WRITER);
    buffer.clear();
    message.encode(&mut buffer);
    settings.ring.write(&buffer);
}

/// The plan of a thread's first window, once the sampler gave it.
pub fn initial_plan(thread: &Thread) -> Mode {
    let Some(header) = header() else { return Mode::Off };
    thread.status.store(status::WAITING, Ordering::SeqCst);
    while header.started.load(Ordering::SeqCst) == 0 && !is_silent() {
        futex::wait(&header.started, 0, NAP);
    }
    resume(thread);
    header.initial.load()
}

/// A place to wait for the next plan; none if there will be none.
pub fn take_slot(thread: &Thread) -> Option<u32> {
    let slots = &region()?.slots;
    loop {
        for offset in 0..SLOTS {
            let slot = (thread.number as usize + offset) % SLOTS;
            let held = &slots[slot].held;
            if held.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                slots[slot].state.store(0, Ordering::SeqCst);
                return Some(slot as u32);
            }
        }
        if is_silent() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits at `slot` for the plan; none if there will be none.
pub fn wait_for_plan(thread: &Thread, slot: u32) -> Option<Mode> {
    let slot = region()?.slots.get(slot as usize)?;
    thread.status.store(status::WAITING, Ordering::SeqCst);
    let plan = loop {
        match slot.state.load(Ordering::SeqCst) {
            Slot::PLAN => break Some(slot.plan.load()),
            Slot::RELEASE => break None,
            _ if is_silent() => break None,
            _ => {
                futex::wait(&slot.state, 0, NAP);
            }
        }
    };
    slot.held.store(0, Ordering::SeqCst);
    resume(thread);
    plan.filter(|_| !is_silent())
}

/// Lets threads that wait for a plan go on without one.
pub fn release_waiting() {
    let slots = region().map(|region| &region.slots).into_iter().flatten();
    for slot in slots.filter(|slot| slot.held.load(Ordering::SeqCst) != 0) {
        futex::set(&slot.state, Slot::RELEASE);
    }
}
