//! What runs for every block executed and every access made.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::api::{MemInfo, qemu_plugin_mem_is_store, qemu_plugin_mem_size_shift};
use crate::blocks::Tag;
use crate::boundary;
use crate::thread::Thread;
use crate::threads;

/// A block is about to be executed.
pub extern "C" fn block(vcpu: u32, data: *mut c_void) {
    let tag = Tag::from_bits(data as u64);
    let thread = threads::thread(vcpu);
    // SAFETY: a thread's state lives as long as the process, and only its own thread, which calls this,
    // changes it while it executes blocks. A virtual processor without a state has one with limit 0.
    let thread = unsafe { &mut *thread };
    let progress = thread.progress + tag.instructions();
    if progress >= thread.limit.load(Ordering::Relaxed) || tag.number() >= thread.capacity {
        boundary::before_block(vcpu, tag);
        return;
    }
    thread.progress = progress;
    // SAFETY: the number is below the capacity.
    unsafe { *thread.counts.add(tag.number()) += tag.instructions() };
}

/// Memory was accessed by the instruction at the address in `data`. `LAYOUT` says how `info` is packed.
///
/// Kept small: what is rare is elsewhere and called last, so that no register needs saving.
pub extern "C" fn access<const LAYOUT: u32, const STRIDES: bool>(vcpu: u32, info: MemInfo, address: u64, data: *mut c_void) {
    // SAFETY: as in `block`.
    let thread = unsafe { &mut *threads::thread(vcpu) };
    if !thread.active {
        return;
    }
    let kind = Kind::new::<LAYOUT>(info);
    if STRIDES {
        thread.tracker.operand(data as u64, address, kind.is_store);
    }
    let line = address >> thread.line_shift;
    if address.wrapping_add(kind.bytes - 1) >> thread.line_shift == line {
        thread.tracker.access(line, data as u64, kind.is_store);
    } else {
        straddle(thread, kind, address, data as u64);
    }
}

/// An access to more than one line is one access to each.
#[cold]
#[inline(never)]
fn straddle(thread: &mut Thread, kind: Kind, address: u64, pc: u64) {
    let first = address >> thread.line_shift;
    let last = address.saturating_add(kind.bytes - 1) >> thread.line_shift;
    thread.further += last - first;
    for line in first..=last {
        thread.tracker.access(line, pc, kind.is_store);
    }
}

/// The same by an instruction whose loads, or stores, are parts of an operand of up to `WIDTH` bytes. Its first part is
/// an access; a later one only if it touches another line than the parts before.
pub extern "C" fn wide<const LAYOUT: u32, const WIDTH: u64, const STRIDES: bool>(
    vcpu: u32,
    info: MemInfo,
    address: u64,
    data: *mut c_void,
) {
    // SAFETY: as in `block`.
    let thread = unsafe { &mut *threads::thread(vcpu) };
    if !thread.active {
        return;
    }
    let (kind, pc) = (Kind::new::<LAYOUT>(info), data as u64);
    let seen = thread.pieces.end();
    if thread.pieces.joins((pc, thread.progress), (address, kind.bytes), kind.is_store, WIDTH) {
        let line = |address: u64| address >> thread.line_shift;
        let (first, last, before) =
            (line(address), line(address.saturating_add(kind.bytes - 1)), line(seen - 1));
        for line in (first..=last).filter(|&line| line != before) {
            thread.tracker.access(line, pc, kind.is_store);
            thread.further += 1;
        }
    } else {
        if STRIDES {
            thread.tracker.operand(pc, address, kind.is_store);
        }
        straddle(thread, kind, address, pc);
    }
}

/// The same by an instruction that reads, modifies and writes an operand.
pub extern "C" fn modified<const LAYOUT: u32, const STRIDES: bool>(vcpu: u32, info: MemInfo, address: u64, data: *mut c_void) {
    // SAFETY: as in `block`.
    let thread = unsafe { &mut *threads::thread(vcpu) };
    if !thread.active {
        return;
    }
    let (kind, pc) = (Kind::new::<LAYOUT>(info), data as u64);
    thread.further += u64::from(thread.pieces.modifies((pc, thread.progress), address, kind.is_store));
    if STRIDES {
        thread.tracker.operand(pc, address, kind.is_store);
    }
    straddle(thread, kind, address, pc);
}

/// How an access is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub bytes: u64, // a power of two in [1, 4096]
    pub is_store: bool,
}

/// A packing that is not known: the emulator is asked about each access.
pub const ASK: u32 = 0;

impl Kind {
    #[inline(always)]
    pub fn new<const LAYOUT: u32>(info: MemInfo) -> Self {
        if LAYOUT == ASK {
            Self::ask(info)
        } else {
            Self { bytes: 1 << (info >> LAYOUT & 7), is_store: info >> 17 & 1 != 0 }
        }
    }

    fn ask(info: MemInfo) -> Self {
        // SAFETY: plain functions of their argument.
        let (shift, is_store) = unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
        Self { bytes: 1 << shift.min(12), is_store }
    }

    /// Whether the emulator packs kinds in this way: asks about all there are.
    pub fn are_packed<const LAYOUT: u32>() -> bool {
        (0..1 << 18).all(|info| Self::new::<LAYOUT>(info) == Self::ask(info))
    }
}
