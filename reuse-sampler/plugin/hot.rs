//! What runs for every block executed and every access made.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::api::{MemInfo, qemu_plugin_mem_is_store, qemu_plugin_mem_size_shift};
use crate::blocks::Tag;
use crate::boundary;
use crate::world;

/// A block is about to be executed.
pub extern "C" fn block(vcpu: u32, data: *mut c_void) {
    let tag = Tag::from_bits(data as u64);
    let thread = world::thread(vcpu);
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

/// Memory was accessed by the instruction at the address in `data`.
pub extern "C" fn access(vcpu: u32, info: MemInfo, address: u64, data: *mut c_void) {
    let thread = world::thread(vcpu);
    // SAFETY: as in `block`.
    let thread = unsafe { &mut *thread };
    if !thread.active {
        return;
    }
    let pc = data as u64;
    let kind = kind_of(info);
    let last = address.saturating_add(kind.bytes() - 1) >> thread.line_shift;
    let mut line = address >> thread.line_shift;
    thread.tracker.access(line, pc, kind.is_store());
    while line < last {
        line += 1;
        thread.tracker.access(line, pc, kind.is_store());
    }
}

/// Memory was accessed and nobody wants to know.
pub extern "C" fn nothing(_: u32, _: MemInfo, _: u64, _: *mut c_void) {}

/// How an access is made: binary logarithm of its bytes, and 128 for a store.
#[derive(Clone, Copy)]
struct Kind(u8);

impl Kind {
    #[inline(always)]
    const fn bytes(self) -> u64 {
        1 << (self.0 & 0x3F)
    }

    #[inline(always)]
    const fn is_store(self) -> bool {
        self.0 & 0x80 != 0
    }
}

const KINDS: usize = 256;
/// What the emulator said of accesses: what was asked, plus one, above eight bits of [`Kind`].
static KINDS_SEEN: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];

/// The kind of an access. The emulator packs it differently in every version, and a program has few kinds of
/// accesses, so the answers are remembered.
#[inline(always)]
fn kind_of(info: MemInfo) -> Kind {
    let entry = &KINDS_SEEN[(info ^ info >> 8 ^ info >> 16) as usize % KINDS];
    let seen = entry.load(Ordering::Relaxed);
    if seen >> 8 == u64::from(info) + 1 { Kind(seen as u8) } else { ask_kind(info, entry) }
}

#[cold]
fn ask_kind(info: MemInfo, entry: &AtomicU64) -> Kind {
    // SAFETY: plain functions of their argument, which the emulator just gave us.
    let (shift, store) = unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
    let kind = shift.min(12) as u8 | u8::from(store) << 7;
    entry.store((u64::from(info) + 1) << 8 | u64::from(kind), Ordering::Relaxed);
    Kind(kind)
}
