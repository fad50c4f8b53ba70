//! x86-64, with `iced-x86`'s knowledge of what each instruction accesses, implicitly too.

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess, Register, UsedMemory};

use crate::AccessKind;
use crate::perf::kernel::{Operand, Operands, Registers};

/// A repeated string instruction counts with the element it is at; gathers, whose addresses are in vector registers,
/// are not understood.
pub(super) fn operands(code: &[u8], registers: &Registers) -> Operands {
    let mut decoder = Decoder::with_ip(64, code, registers.pc, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return Operands::Unknown;
    }
    let mut factory = InstructionInfoFactory::new();
    let mut found = Vec::new();
    for memory in factory.info(&instruction).used_memory() {
        let (loads, stores) = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            _ => continue,
        };
        let bytes = memory.memory_size().size() as u32;
        let value = |register: Register, _, _| value_of(register, &registers.words);
        let (Some(address), true) = (memory.virtual_address(0, value), bytes > 0) else {
            return Operands::Unknown;
        };
        // An atomic read-modify-write is one store, as it is to the other backends.
        if loads && !(stores && instruction.has_lock_prefix()) {
            found.push(Operand { address, bytes, kind: AccessKind::Load });
        }
        if stores {
            found.push(Operand { address, bytes, kind: AccessKind::Store });
        }
    }
    found.sort_by_key(|operand| operand.kind == AccessKind::Store);
    Operands::Known(found)
}

/// Whether the instruction at `pc` accesses memory, or is none.
pub(super) fn may_access(code: &[u8], pc: u64) -> bool {
    let instruction = Decoder::with_ip(64, code, pc, DecoderOptions::NONE).decode();
    let accesses = |memory: &UsedMemory| !matches!(memory.access(), OpAccess::None | OpAccess::NoMemAccess);
    instruction.is_invalid()
        || InstructionInfoFactory::new().info(&instruction).used_memory().iter().any(accesses)
}

/// From `user_regs_struct`.
fn value_of(register: Register, words: &[u64]) -> Option<u64> {
    let word = match register.full_register() {
        Register::R15 => 0,
        Register::R14 => 1,
        Register::R13 => 2,
        Register::R12 => 3,
        Register::RBP => 4,
        Register::RBX => 5,
        Register::R11 => 6,
        Register::R10 => 7,
        Register::R9 => 8,
        Register::R8 => 9,
        Register::RAX => 10,
        Register::RCX => 11,
        Register::RDX => 12,
        Register::RSI => 13,
        Register::RDI => 14,
        Register::RIP => 16,
        Register::RSP => 19,
        Register::FS => 21,
        Register::GS => 22,
        Register::CS | Register::DS | Register::ES | Register::SS => return Some(0),
        _ => return None,
    };
    let value = words.get(word).copied()?;
    // Addresses are computed with whole registers, or with their lower halves.
    Some(if register.size() == 4 { value & 0xFFFF_FFFF } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &[u8]) -> Vec<(u64, u32, bool)> {
        // rax = 0xA00, rbx = 0xB00, rcx = 3, rsi = 0x5100, rdi = 0x5200, rsp = 0x8000, fs base = 0x7000
        let mut words = vec![0; 27];
        for (at, value) in
            [(10, 0xA00), (5, 0xB00), (11, 3), (13, 0x5100), (14, 0x5200), (19, 0x8000), (21, 0x7000)]
        {
            words[at] = value;
        }
        let registers = Registers { pc: 0x40_0000, words };
        match operands(code, &registers) {
            Operands::Known(found) => {
                found.iter().map(|o| (o.address, o.bytes, o.kind == AccessKind::Store)).collect()
            }
            Operands::Unknown => vec![(u64::MAX, 0, false)],
        }
    }

    /// Encodings and operands as `objdump -d` shows them.
    #[test]
    fn operands_of_common_instructions() {
        type Case = (&'static [u8], &'static [(u64, u32, bool)]);
        let cases: [Case; 13] = [
            (&[0x48, 0x8B, 0x04, 0x8B], &[(0xB0C, 8, false)]), // mov rax, [rbx+rcx*4]
            (&[0x89, 0x50, 0x10], &[(0xA10, 4, true)]),        // mov [rax+0x10], edx
            (&[0x83, 0x03, 0x01], &[(0xB00, 4, false), (0xB00, 4, true)]), // add dword [rbx], 1
            (&[0xF0, 0x48, 0x0F, 0xB1, 0x0B], &[(0xB00, 8, true)]), // lock cmpxchg [rbx], rcx
            (&[0x50], &[(0x7FF8, 8, true)]),                   // push rax
            (&[0xC3], &[(0x8000, 8, false)]),                  // ret
            (&[0xE8, 0, 0, 0, 0], &[(0x7FF8, 8, true)]),       // call
            (&[0x48, 0xA5], &[(0x5100, 8, false), (0x5200, 8, true)]), // movsq
            (&[0x48, 0x8D, 0x04, 0x8B], &[]),                  // lea
            (&[0x90], &[]),                                    // nop
            (&[0x48, 0x8B, 0x05, 0x10, 0, 0, 0], &[(0x40_0017, 8, false)]), // mov rax, [rip+0x10]
            (&[0x64, 0x48, 0x8B, 0x04, 0x25, 8, 0, 0, 0], &[(0x7008, 8, false)]), // mov rax, fs:[8]
            (&[0xC5, 0xFE, 0x6F, 0x03], &[(0xB00, 32, false)]), // vmovdqu ymm0, [rbx]
        ];
        for (code, expected) in cases {
            assert_eq!(of(code), expected, "{code:x?}");
        }
        // vpgatherdd has its addresses in a vector register.
        assert_eq!(of(&[0xC4, 0xE2, 0x75, 0x90, 0x04, 0x93]), [(u64::MAX, 0, false)]);
    }
}
