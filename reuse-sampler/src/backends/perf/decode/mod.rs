//! Which memory an instruction touches, from its bytes and the registers before it is executed.

pub(super) mod a64;
#[cfg(all(feature = "decode-x86", target_arch = "x86_64"))]
mod x86;

use super::kernel::{Operands, Registers};

/// Whether this machine's instructions are understood at all.
pub(super) const AVAILABLE: bool =
    cfg!(target_arch = "aarch64") || cfg!(all(feature = "decode-x86", target_arch = "x86_64"));

/// Bytes in the longest instruction.
pub(super) const LENGTH: usize = if cfg!(target_arch = "aarch64") { 4 } else { 16 };

/// Whether the instruction that `code` begins with, at `pc`, may access memory.
pub(super) fn may_access(code: &[u8], pc: u64) -> bool {
    #[cfg(target_arch = "aarch64")]
    {
        let _ = pc;
        code.first_chunk().is_none_or(|word| a64::may_access(u32::from_le_bytes(*word)))
    }
    #[cfg(all(feature = "decode-x86", target_arch = "x86_64"))]
    {
        x86::may_access(code, pc)
    }
    #[cfg(not(any(target_arch = "aarch64", all(feature = "decode-x86", target_arch = "x86_64"))))]
    {
        let _ = (code, pc);
        true
    }
}

/// What the instruction that `code` begins with does.
pub(super) fn operands(code: &[u8], registers: &Registers) -> Operands {
    #[cfg(target_arch = "aarch64")]
    {
        match code.first_chunk() {
            Some(word) => a64::operands(u32::from_le_bytes(*word), registers.pc, &registers.words),
            None => Operands::Unknown,
        }
    }
    #[cfg(all(feature = "decode-x86", target_arch = "x86_64"))]
    {
        x86::operands(code, registers)
    }
    #[cfg(not(any(target_arch = "aarch64", all(feature = "decode-x86", target_arch = "x86_64"))))]
    {
        let _ = (code, registers);
        Operands::Unknown
    }
}
