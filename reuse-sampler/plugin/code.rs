//! The bytes of instructions, as far as the emulator tells them to everybody in the same way.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::{Instruction, TranslationBlock, qemu_plugin_insn_data, qemu_plugin_insn_size};
use crate::api::{qemu_plugin_tb_get_insn, qemu_plugin_tb_n_insns};
use crate::{system_calls, x86};

static TOLD: AtomicBool = AtomicBool::new(false);

/// Says whether the interface is of version 1, before the function that tells the bytes changed its type.
pub fn choose(told: bool) {
    TOLD.store(told, Ordering::Relaxed);
}

/// The bytes of an instruction, if they are told.
///
/// # Safety
/// The handle is valid, and the bytes are used while it is.
pub unsafe fn bytes<'a>(instruction: *mut Instruction) -> Option<&'a [u8]> {
    TOLD.load(Ordering::Relaxed).then(|| {
        // SAFETY: the emulator keeps the bytes during the translation of the block.
        unsafe {
            let size = qemu_plugin_insn_size(instruction);
            std::slice::from_raw_parts(qemu_plugin_insn_data(instruction).cast::<u8>(), size)
        }
    })
}

/// Instructions that a block executes: without a last one that is cut by the end of its page, which the block
/// after it executes.
///
/// # Safety
/// The handle is valid.
pub unsafe fn instructions_of(block: *mut TranslationBlock) -> usize {
    // SAFETY: as the caller's; indices are below the count.
    unsafe {
        let count = qemu_plugin_tb_n_insns(block);
        if count < 2 || system_calls::is_aarch64() {
            return count;
        }
        let last = bytes(qemu_plugin_tb_get_insn(block, count - 1));
        count - usize::from(last.is_some_and(x86::is_cut))
    }
}
