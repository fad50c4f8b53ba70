//! Hands out every block and every access in order, or every block with its instructions, where the sampler asks for the program's trace instead of samples.
//!
//! Each thread collects what it does in a buffer of its own and sends it when it is full, when the thread ends and when
//! the process is about to. What another thread had collected at that moment is lost.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::api::MemInfo;
use crate::channel;
use crate::halt::is_silent;
use crate::hot::Kind;
use crate::operand::{Pieces, STATE};
use crate::settings::header;
use crate::shared::futex;
use crate::shared::layout::Reported;
use crate::shared::message::{CodeMessage, Message, TraceMessage};
use crate::shared::word::{self, Place};
use crate::threads::VCPUS;

/// Events sent together: enough that sending costs little beside collecting, few enough to stay in the cache.
const ROOM: usize = 1 << 13;

/// Longest sleep before a waiting thread looks again whether it is its turn.
const NAP: Duration = Duration::from_millis(500);

/// What a thread has collected.
struct Buffer {
    words: Vec<u64>, // below `room`; it has room for ROOM
    room: usize,     // in [2, ROOM]
    thread: u32,
    blocks: u64,    // executed so far
    pieces: Pieces, // the operand accessed last by an instruction whose operands come in pieces
    further: u64,   // accesses beyond the first of each operand, not sent yet
}

static REPORTED: AtomicU32 = AtomicU32::new(Reported::Windows as u32);
/// The number of the next block that is listed; held while one is.
static NEXT: Mutex<u64> = Mutex::new(0);
static THREADS: AtomicU32 = AtomicU32::new(0);
/// By virtual processor. Only a processor's own thread uses its buffer.
static BUFFERS: [AtomicPtr<Buffer>; VCPUS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; VCPUS];

/// Says what is handed out.
pub fn choose(reported: Reported) {
    REPORTED.store(reported as u32, Ordering::Relaxed);
}

/// What is handed out.
pub fn reported() -> Reported {
    Reported::from_number(REPORTED.load(Ordering::Relaxed))
}

/// Reports a translated block whose first instruction is at `address`, and returns its number. What executes it is
/// sent later.
pub fn list(address: u64, sizes: Vec<u8>) -> u64 {
    if is_silent() {
        return 0; // nobody learns that it is executed
    }
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let number = *next;
    channel::send(&Message::Code(CodeMessage { number, address, sizes }));
    *next += 1;
    number
}

/// A block is about to be executed; `data` is its word or its number.
pub extern "C" fn block(vcpu: u32, data: *mut c_void) {
    push(vcpu, data as u64);
    if let Some(buffer) = buffer(vcpu) {
        buffer.blocks += 1;
    }
}

/// Memory was accessed by an instruction at the [`Place`] in `data`. `LAYOUT` says how `info` is packed.
pub extern "C" fn access<const LAYOUT: u32>(vcpu: u32, info: MemInfo, address: u64, data: *mut c_void) {
    let (kind, place) = (Kind::new::<LAYOUT>(info), Place::from_bits(data as u64));
    push(vcpu, word::access(address, kind.bytes.trailing_zeros(), kind.is_store, place));
}

/// The same by an instruction that is too far into its block for a place: `data` is its address.
pub extern "C" fn far_access<const LAYOUT: u32>(vcpu: u32, info: MemInfo, address: u64, data: *mut c_void) {
    let kind = Kind::new::<LAYOUT>(info);
    push(vcpu, word::site(data as u64));
    push(vcpu, word::access(address, kind.bytes.trailing_zeros(), kind.is_store, Place::OF_SITE));
}

/// The same by an instruction whose loads, or stores, are parts of an operand of up to `WIDTH` bytes: a part that follows
/// the one before makes that access longer. `NEAR` says whether `data` is a place or an address.
pub extern "C" fn wide<const LAYOUT: u32, const WIDTH: u64, const NEAR: bool>(
    vcpu: u32,
    info: MemInfo,
    address: u64,
    data: *mut c_void,
) {
    let kind = Kind::new::<LAYOUT>(info);
    if let Some(buffer) = buffer(vcpu) {
        let before = buffer.pieces.end();
        let at = (data as u64, buffer.blocks);
        if buffer.pieces.joins(at, (address, kind.bytes), kind.is_store, WIDTH) {
            let last = buffer.words.last_mut().filter(|_| WIDTH < STATE && address == before);
            if last.is_some_and(|last| word::lengthen(last, buffer.pieces.bytes())) {
                return;
            }
            buffer.further += 1;
        }
    }
    push_access::<LAYOUT, NEAR>(vcpu, info, address, data);
}

/// The same by an instruction that reads, modifies and writes an operand.
pub extern "C" fn modified<const LAYOUT: u32, const NEAR: bool>(
    vcpu: u32,
    info: MemInfo,
    address: u64,
    data: *mut c_void,
) {
    if let Some(buffer) = buffer(vcpu) {
        let at = (data as u64, buffer.blocks);
        buffer.further += u64::from(buffer.pieces.modifies(at, address, Kind::new::<LAYOUT>(info).is_store));
    }
    push_access::<LAYOUT, NEAR>(vcpu, info, address, data);
}

fn push_access<const LAYOUT: u32, const NEAR: bool>(
    vcpu: u32,
    info: MemInfo,
    address: u64,
    data: *mut c_void,
) {
    if NEAR {
        access::<LAYOUT>(vcpu, info, address, data);
    } else {
        far_access::<LAYOUT>(vcpu, info, address, data);
    }
}

/// The buffer of the calling thread, once it has one.
#[inline(always)]
fn buffer<'a>(vcpu: u32) -> Option<&'a mut Buffer> {
    let buffer = BUFFERS[vcpu as usize % VCPUS].load(Ordering::Relaxed);
    // SAFETY: a buffer lives until its thread, which alone uses it and calls this, has ended.
    unsafe { buffer.as_mut() }
}

#[inline(always)]
fn push(vcpu: u32, word: u64) {
    match buffer(vcpu) {
        Some(buffer) if buffer.words.len() + 1 < buffer.room => buffer.words.push(word),
        _ => push_slowly(vcpu, word),
    }
}

/// Words that a thread collects: as many as are good for speed, unless others run beside it.
fn room() -> usize {
    let stretch = header().map_or(ROOM, |header| header.stretch.load(Ordering::Relaxed) as usize);
    if THREADS.load(Ordering::Relaxed) > 1 { stretch.clamp(2, ROOM) } else { ROOM }
}

/// Makes a buffer, or empties a full one.
#[cold]
#[inline(never)]
fn push_slowly(vcpu: u32, word: u64) {
    let place = &BUFFERS[vcpu as usize % VCPUS];
    let mut buffer = place.load(Ordering::Relaxed);
    if buffer.is_null() {
        let thread = THREADS.fetch_add(1, Ordering::Relaxed);
        let words = Vec::with_capacity(ROOM);
        buffer = Box::into_raw(Box::new(Buffer {
            words,
            room: room(),
            thread,
            blocks: 1,
            pieces: Pieces::default(),
            further: 0,
        }));
        place.store(buffer, Ordering::Relaxed);
    }
    // SAFETY: as in `push`.
    let buffer = unsafe { &mut *buffer };
    // Before it is too late to make the last access longer.
    if buffer.words.len() + 1 >= buffer.room {
        send(buffer, false);
    }
    buffer.words.push(word);
}

fn send(buffer: &mut Buffer, ended: bool) {
    let words = std::mem::replace(&mut buffer.words, Vec::with_capacity(ROOM));
    buffer.room = room();
    // A forked child has a copy of what its parent will send itself.
    if !is_silent() {
        let further = std::mem::take(&mut buffer.further);
        take_turns(|| {
            channel::send(&Message::Trace(TraceMessage { thread: buffer.thread, ended, words, further }));
        });
    }
}

/// Runs `send` once all threads that asked before have done so. Where the sampler is slower than the program, a mutex would
/// let one thread send again and again while the others wait, and threads that run in parallel would seem to run one
/// after the other.
fn take_turns(send: impl FnOnce()) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static NOW: AtomicU32 = AtomicU32::new(0);
    let turn = NEXT.fetch_add(1, Ordering::SeqCst);
    loop {
        let now = NOW.load(Ordering::SeqCst);
        if now == turn {
            break;
        }
        futex::wait(&NOW, now, NAP);
    }
    send();
    futex::set(&NOW, turn.wrapping_add(1));
}

/// Sends what the calling thread has collected; if it has ended, its buffer goes.
pub fn hand_over(vcpu: u32, ended: bool) {
    let place = &BUFFERS[vcpu as usize % VCPUS];
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
