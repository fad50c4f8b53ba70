//! Instruments code as it is translated: every block, and while somebody needs them every access.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::{
    ACCESSES, BlockCallback, NO_REGISTERS, PluginId, TranslationBlock, qemu_plugin_insn_haddr,
    qemu_plugin_insn_size, qemu_plugin_insn_vaddr, qemu_plugin_register_vcpu_insn_exec_cb, qemu_plugin_register_vcpu_mem_cb,
    qemu_plugin_register_vcpu_tb_exec_cb, qemu_plugin_tb_get_insn, qemu_plugin_tb_n_insns,
    qemu_plugin_tb_vaddr,
};
use crate::blocks::{Tag, number_of};
use crate::callbacks::Accesses;
use crate::operand::Operand;
use crate::shared::layout::Reported;
use crate::shared::word::{self, Place};
use crate::{code, hot, instrumentation, settings, stale, trace};

/// The callbacks for accesses, chosen at installation.
pub static ACCESS: OnceLock<Accesses> = OnceLock::new();

/// A block was translated.
pub extern "C" fn block(_: PluginId, block: *mut TranslationBlock) {
    let instrumented = instrumentation::instrumented();
    // SAFETY: the emulator's handles are valid during this call, indices are below the count it gave.
    unsafe {
        let instructions = code::instructions_of(block);
        let (address, count) = (qemu_plugin_tb_vaddr(block), instructions as u64);
        let reported = trace::reported();
        let (callback, data): (BlockCallback, u64) = match reported {
            Reported::Windows => (hot::block, Tag::new(number_of(address, count), count, instrumented).bits()),
            Reported::Accesses => (trace::block, word::block(address, count)),
            Reported::Fetches => {
                let size = |index| qemu_plugin_insn_size(qemu_plugin_tb_get_insn(block, index)) as u8;
                (trace::block, trace::list(address, (0..instructions).map(size).collect()))
            }
        };
        qemu_plugin_register_vcpu_tb_exec_cb(block, callback, NO_REGISTERS, data as *mut c_void);
        learn_base(block);
        note_last(block, qemu_plugin_tb_n_insns(block));
        let accesses = ACCESS.get().filter(|_| instrumented).copied().unwrap_or(Accesses::IGNORED);
        for index in 0..instructions {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            if (instrumented && reported != Reported::Fetches) || stale::needs_callback(instruction) {
                let pc = qemu_plugin_insn_vaddr(instruction);
                let bytes = code::bytes(instruction);
                if instrumented && code::is_unseen(&bytes) {
                    let nothing = std::ptr::null_mut();
                    qemu_plugin_register_vcpu_insn_exec_cb(instruction, count_unseen, NO_REGISTERS, nothing);
                }
                let operand = code::operand(&bytes).unwrap_or_else(|| {
                    note_unread();
                    Operand::Single
                });
                let accesses = accesses.of(operand);
                let place = Place::within(pc.wrapping_sub(address)).filter(|_| reported == Reported::Accesses);
                let (callback, data) =
                    place.map_or((accesses.far, pc), |place| (accesses.near, place.bits()));
                let data = data as *mut c_void;
                qemu_plugin_register_vcpu_mem_cb(instruction, callback, NO_REGISTERS, ACCESSES, data);
            }
        }
    }
}

/// An instruction is executed whose accesses the emulator does not report.
extern "C" fn count_unseen(_: u32, _: *mut c_void) {
    if let Some(header) = settings::header() {
        header.unseen.fetch_add(1, Ordering::Relaxed);
    }
}

/// Notes that an instruction's bytes cannot be read, so that its operands may be counted in pieces.
#[cold]
fn note_unread() {
    if let Some(header) = settings::header() {
        header.unread.store(1, Ordering::Relaxed);
    }
}

/// Notes the last instruction of a block. One that the emulator does not implement ends its block, and the block is
/// executed as soon as it is translated: should the program die of it, this is where.
///
/// # Safety
/// The block is being translated.
unsafe fn note_last(block: *mut TranslationBlock, instructions: usize) {
    let Some(region) = settings::region() else { return };
    // SAFETY: as the caller's; the block has that many instructions.
    let (pc, bytes) = unsafe {
        let last = qemu_plugin_tb_get_insn(block, instructions.saturating_sub(1));
        (qemu_plugin_insn_vaddr(last), code::memory(last))
    };
    region.note_last(pc, &bytes);
}

/// Whether the sampler knows where the program's address 0 is in the emulator's address space.
static BASE_KNOWN: AtomicBool = AtomicBool::new(false);

/// # Safety
/// The block is being translated.
unsafe fn learn_base(block: *mut TranslationBlock) {
    if BASE_KNOWN.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: as the caller's; a block has a first instruction.
    let (here, there) = unsafe {
        let first = qemu_plugin_tb_get_insn(block, 0);
        (qemu_plugin_insn_vaddr(first), qemu_plugin_insn_haddr(first) as u64)
    };
    if there != 0 {
        if let Some(region) = settings::region() {
            region.guest_base.store(there.wrapping_sub(here), Ordering::Relaxed);
        }
        BASE_KNOWN.store(true, Ordering::Relaxed);
    }
}
