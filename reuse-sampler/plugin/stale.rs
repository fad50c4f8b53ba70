//! Works around pointers that emulators before version 8 leave behind.
//!
//! While an instruction runs that calls a function of the emulator, the processor points to the instruction's
//! callbacks, in case that function accesses memory. An instruction that ends its block (a return, a call)
//! jumps past the place where the pointer is cleared. Nothing happens as long as every instruction brings
//! callbacks of its own. But when the translations are dropped and the new ones report no accesses, the
//! pointer leads to freed memory, and the next function that accesses memory takes what is there for
//! callbacks. So instructions that call such functions get a callback at all times, one that does nothing.
//!
//! Which ones do is unknown. Here is the other side: the common instructions that certainly do not, because
//! their accesses are translated in place. A callback too many costs a little time; one too few, a crash.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::Instruction;
use crate::code;

static NEEDED: AtomicBool = AtomicBool::new(true);

/// Says whether the emulator leaves pointers behind.
pub fn choose(needed: bool) {
    NEEDED.store(needed, Ordering::Relaxed);
}

/// Whether an instruction must have a callback even if nobody wants to know.
///
/// # Safety
/// The handle is valid.
pub unsafe fn needs_callback(instruction: *mut Instruction) -> bool {
    if !NEEDED.load(Ordering::Relaxed) {
        return false;
    }
    // SAFETY: as the caller's.
    let bytes = unsafe { code::bytes(instruction) };
    if bytes.is_empty() {
        return false;
    }
    !if code::is_aarch64() { is_plain_aarch64(&bytes) } else { is_plain_x86(&bytes) }
}

fn is_plain_x86(bytes: &[u8]) -> bool {
    // Segment overrides (which thread-local variables use), operand size, repetition; not the lock prefix.
    let prefixes = bytes.iter().take_while(|b| matches!(b, 0x64 | 0x65 | 0x66 | 0xF2 | 0xF3)).count();
    let bytes = match &bytes[prefixes..] {
        [0x40..=0x4F, rest @ ..] => rest,
        bytes => bytes,
    };
    match *bytes {
        // Arithmetic, push, pop, jumps, moves, lea, string operations, shifts, return, call, loops.
        [0x00..=0x05 | 0x08..=0x0D | 0x10..=0x15 | 0x18..=0x1D | 0x20..=0x25 | 0x28..=0x2D, ..] => true,
        [0x30..=0x35 | 0x38..=0x3D | 0x50..=0x5F | 0x63 | 0x68..=0x6B | 0x70..=0x7F, ..] => true,
        [0x80..=0x81 | 0x83..=0x85 | 0x88..=0x8B | 0x8D | 0x8F..=0x99 | 0xA4..=0xBF, ..] => true,
        [0xC0..=0xC3 | 0xC6 | 0xC7 | 0xC9 | 0xD0..=0xD3 | 0xE0..=0xE3 | 0xE8 | 0xE9 | 0xEB, ..] => true,
        [0xF6 | 0xF7 | 0xFE, ..] => true,
        // inc, dec, call, jmp, push; far calls and jumps read descriptors.
        [0xFF, modrm, ..] => !matches!(modrm >> 3 & 7, 3 | 5),
        [0x0F, 0x38 | 0x3A, ..] => true,
        [0x0F, second, ..] => is_plain_0f(second),
        // The same with vector prefixes; of the map 0F38 not masked loads and stores and gathers.
        [0xC5, _, second, ..] => is_plain_0f(second),
        [0xC4, map, _, opcode, ..] => match map & 0x1F {
            1 => is_plain_0f(opcode),
            2 => !matches!(opcode, 0x2C..=0x2F | 0x8C | 0x8E | 0x90..=0x93),
            map => map == 3,
        },
        _ => false,
    }
}

/// Moves of vectors, nops, conditional moves, jumps and sets, bit operations, multiplication, extension,
/// exchange-and-add and compare-and-exchange without a lock, and vector arithmetic, whose operands are loaded
/// before a function is called; not the masked store F7.
fn is_plain_0f(opcode: u8) -> bool {
    matches!(
        opcode,
        0x10..=0x18
            | 0x1E
            | 0x1F
            | 0x28..=0x2F
            | 0x40..=0x76
            | 0x7C..=0x9F
            | 0xA3..=0xA5
            | 0xAB..=0xAD
            | 0xAF..=0xB1
            | 0xB3
            | 0xB6..=0xC2
            | 0xC4..=0xC6
            | 0xC8..=0xF6
            | 0xF8..=0xFE
    )
}

fn is_plain_aarch64(bytes: &[u8]) -> bool {
    let Some(&word) = bytes.first_chunk() else { return false };
    let word = u32::from_le_bytes(word);
    let loads_and_stores = word >> 25 & 0b0101 == 0b0100;
    if !loads_and_stores {
        // Arithmetic, vector arithmetic, branches; not SVE and reserved codes, not system instructions (which
        // include the zeroing of a cache line).
        return word >> 27 & 0b11 != 0 && word >> 24 != 0xD5;
    }
    match word >> 27 & 0b111 {
        0b101 => true,                // pairs
        0b011 => word >> 24 & 1 == 0, // literals; the others are unscaled with release, or tags
        0b111 => {
            let offset = word >> 24 & 1 == 1 || word >> 21 & 1 == 0;
            offset || word >> 10 & 0b11 == 0b10 // a register offset; the others are atomics
        }
        _ => false,
    }
}
