//! The bytes of instructions.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::api::{
    Instruction, TranslationBlock, qemu_plugin_insn_data, qemu_plugin_insn_haddr, qemu_plugin_insn_size,
    qemu_plugin_tb_get_insn, qemu_plugin_tb_n_insns,
};
use crate::operand::Operand;
use crate::x86;

/// Version of the interface that came with emulator 9.1, which reads and writes operands of ten bytes and the processor's
/// state by pointers of its own.
const UNSEEN_SINCE: u32 = 3;

/// Version of the emulator's interface.
static VERSION: AtomicU32 = AtomicU32::new(0);

static IS_AARCH64: AtomicBool = AtomicBool::new(false);

/// Takes the version of the emulator's interface, which need not be the one asked for, and whether the program is for
/// aarch64; it is for x86-64 otherwise.
pub fn choose(version: u32, aarch64: bool) {
    VERSION.store(version, Ordering::Relaxed);
    IS_AARCH64.store(aarch64, Ordering::Relaxed);
}

/// Whether the program is for aarch64; for x86-64 otherwise.
pub fn is_aarch64() -> bool {
    IS_AARCH64.load(Ordering::Relaxed)
}

/// The bytes of an instruction, at most 16.
pub struct Bytes {
    bytes: [u8; 16],
    length: usize, // at most 16
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The bytes of an instruction; none where the emulator cannot read them.
///
/// # Safety
/// The handle is valid.
pub unsafe fn bytes(instruction: *mut Instruction) -> Bytes {
    /// The function's type from version 3 of the interface on.
    type Copy = unsafe extern "C" fn(*const Instruction, *mut c_void, usize) -> usize;
    let mut bytes = [0; 16];
    // SAFETY: as the caller's; before version 3 the emulator keeps the bytes during the translation of the block, from
    // version 3 on it writes no more than it is asked for.
    let length = unsafe {
        let length = qemu_plugin_insn_size(instruction).min(16);
        if VERSION.load(Ordering::Relaxed) < 3 {
            let data = qemu_plugin_insn_data(instruction).cast::<u8>();
            if data.is_null() {
                0
            } else {
                bytes[..length].copy_from_slice(std::slice::from_raw_parts(data, length));
                length
            }
        } else {
            let data = qemu_plugin_insn_data as *const c_void;
            std::mem::transmute::<*const c_void, Copy>(data)(instruction, bytes.as_mut_ptr().cast(), length)
                .min(length)
        }
    };
    Bytes { bytes, length }
}

/// The bytes of memory that an instruction begins with, up to the end of its page: more than [`bytes`] has of one that the
/// emulator does not implement.
///
/// # Safety
/// The handle is valid.
pub unsafe fn memory(instruction: *mut Instruction) -> Bytes {
    const PAGE: usize = 4096;
    let mut bytes = [0; 16];
    // SAFETY: as the caller's; the emulator has just translated what is there, and the page does not end before.
    unsafe {
        let from = qemu_plugin_insn_haddr(instruction).cast::<u8>();
        if from.is_null() {
            return Bytes { bytes, length: 0 };
        }
        let length = (PAGE - from as usize % PAGE).min(16);
        bytes[..length].copy_from_slice(std::slice::from_raw_parts(from, length));
        Bytes { bytes, length }
    }
}

/// The operands of an instruction; none if its bytes cannot be read.
pub fn operand(bytes: &[u8]) -> Option<Operand> {
    if bytes.is_empty() {
        None
    } else if is_aarch64() {
        bytes.first_chunk().map(|&word| Operand::of_aarch64(u32::from_le_bytes(word)))
    } else {
        Some(Operand::of_x86(bytes))
    }
}

/// Whether the emulator accesses the operand of an instruction without reporting it.
pub fn is_unseen(bytes: &[u8]) -> bool {
    VERSION.load(Ordering::Relaxed) >= UNSEEN_SINCE && !is_aarch64() && x86::is_state(bytes)
}

/// Instructions that a block executes: without a last one that is cut by the end of its page, which the block
/// after it executes. Emulators from version 8.2 on, whose interface is newer than version 1, leave it out themselves.
///
/// # Safety
/// The handle is valid.
pub unsafe fn instructions_of(block: *mut TranslationBlock) -> usize {
    // SAFETY: as the caller's; indices are below the count.
    unsafe {
        let count = qemu_plugin_tb_n_insns(block);
        if count < 2 || VERSION.load(Ordering::Relaxed) > 1 || is_aarch64() {
            return count;
        }
        let last = bytes(qemu_plugin_tb_get_insn(block, count - 1));
        count - usize::from(!last.is_empty() && x86::is_cut(&last))
    }
}
