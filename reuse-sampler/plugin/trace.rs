//! Hands out every block and every access in order, where the sampler asks for the program's trace instead of samples.
//!
//! Each thread collects what it does in a buffer of its own and sends it when it is full, when the thread ends and when
//! the process is about to. What another thread had collected at that moment is lost.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::api::MemInfo;
use crate::hot::Kind;
use crate::shared::message::{Message, TraceMessage, word};
use crate::world;

/// Events sent together: enough that sending costs little beside collecting, few enough to stay in the cache.
const ROOM: usize = 1 << 13;

/// What a thread has collected.
struct Buffer {
    words: Vec<u64>, // below ROOM, which it has room for
    thread: u32,
}

static ON: AtomicBool = AtomicBool::new(false);
static THREADS: AtomicU32 = AtomicU32::new(0);
/// By virtual processor. Only a processor's own thread uses its buffer.
static BUFFERS: [AtomicPtr<Buffer>; world::VCPUS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; world::VCPUS];

/// Says whether everything is handed out.
pub fn choose(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// Whether everything is handed out.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// A block is about to be executed; `data` is its word.
pub extern "C" fn block(vcpu: u32, data: *mut c_void) {
    push(vcpu, data as u64);
}

/// Memory was accessed. `LAYOUT` says how `info` is packed.
pub extern "C" fn access<const LAYOUT: u32>(vcpu: u32, info: MemInfo, address: u64, _: *mut c_void) {
    let kind = Kind::new::<LAYOUT>(info);
    push(vcpu, word::access(address, kind.bytes.trailing_zeros(), kind.is_store));
}

#[inline(always)]
fn push(vcpu: u32, word: u64) {
    let buffer = BUFFERS[vcpu as usize % world::VCPUS].load(Ordering::Relaxed);
    // SAFETY: a buffer lives until its thread, which calls this, has ended.
    match unsafe { buffer.as_mut() } {
        Some(buffer) if buffer.words.len() + 1 < ROOM => buffer.words.push(word),
        _ => push_slowly(vcpu, word),
    }
}

/// Makes a buffer, or empties a full one.
#[cold]
#[inline(never)]
fn push_slowly(vcpu: u32, word: u64) {
    let place = &BUFFERS[vcpu as usize % world::VCPUS];
    let mut buffer = place.load(Ordering::Relaxed);
    if buffer.is_null() {
        let thread = THREADS.fetch_add(1, Ordering::Relaxed);
        buffer = Box::into_raw(Box::new(Buffer { words: Vec::with_capacity(ROOM), thread }));
        place.store(buffer, Ordering::Relaxed);
    }
    // SAFETY: as in `push`.
    let buffer = unsafe { &mut *buffer };
    buffer.words.push(word);
    if buffer.words.len() >= ROOM {
        send(buffer, false);
    }
}

fn send(buffer: &mut Buffer, ended: bool) {
    let words = std::mem::replace(&mut buffer.words, Vec::with_capacity(ROOM));
    // A forked child has a copy of what its parent will send itself.
    if !world::is_silent() {
        world::send(&Message::Trace(TraceMessage { thread: buffer.thread, ended, words }));
    }
}

/// Sends what the calling thread has collected; if it has ended, its buffer goes.
pub fn hand_over(vcpu: u32, ended: bool) {
    let place = &BUFFERS[vcpu as usize % world::VCPUS];
    let buffer = place.load(Ordering::Relaxed);
    if buffer.is_null() {
        return;
    }
    // SAFETY: as in `push`.
    send(unsafe { &mut *buffer }, ended);
    if ended {
        place.store(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: made by `push_slowly`; nobody finds it any more.
        drop(unsafe { Box::from_raw(buffer) });
    }
}
