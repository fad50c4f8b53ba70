//! Which reports of the emulator belong to one operand of an instruction.
//!
//! The emulator splits accesses of more than 8 bytes (version 10: more than 16) into several reports, and reports a
//! read-modify-write as a load and a store. Which instructions do either is known from their bytes. Repeated string
//! instructions, gathers and masked moves access their elements one by one: each is an operand of its own.

use crate::x86;

/// How the reports of one execution of an instruction make operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Each report is an operand.
    Single,
    /// A load and a store of the same bytes are one operand; where it is atomic, a store alone.
    Modified,
    /// Loads, and likewise stores, are parts of one operand as long as they lie in so many bytes: 8, 16, 32, or
    /// [`STATE`].
    Wide(u64),
}

/// More than any instruction saves or restores at once, where that is the processor's state.
pub const STATE: u64 = 1024;

impl Operand {
    /// The operands of an x86-64 instruction that accesses memory.
    pub fn of_x86(bytes: &[u8]) -> Self {
        Self::in_x86(bytes).unwrap_or(Self::Single)
    }

    fn in_x86(bytes: &[u8]) -> Option<Self> {
        let (_, rest) = bytes.split_at(x86::prefixes(bytes));
        Some(match *rest {
            // Vector prefixes: the map of opcodes, whether 32 bytes are meant, and the opcode.
            [0xC4, map, third, opcode, ..] => Self::of_vector(map & 0x1F, opcode, true, third & 4 != 0),
            [0xC5, second, opcode, ..] => Self::of_vector(1, opcode, true, second & 4 != 0),
            [0x0F, map @ (0x38 | 0x3A), opcode, ..] => {
                Self::of_vector(if map == 0x38 { 2 } else { 3 }, opcode, false, false)
            }
            [0x0F, opcode, modrm, ..] => match (opcode, modrm >> 3 & 7) {
                (0xA4 | 0xA5 | 0xAB..=0xAD | 0xB0 | 0xB1 | 0xB3 | 0xBB | 0xC0 | 0xC1, _) | (0xBA, 5..=7) => {
                    Self::Modified
                }
                (0xAE, 0 | 1 | 4..=6) | (0xC7, 3..=5) => Self::Wide(STATE),
                (0xC7, 1) => Self::Wide(16),
                _ => Self::of_vector(1, opcode, false, false),
            },
            [opcode, modrm, ..] => match (opcode, modrm >> 3 & 7) {
                (0x00 | 0x01 | 0x08 | 0x09 | 0x10 | 0x11 | 0x18 | 0x19, _)
                | (0x20 | 0x21 | 0x28 | 0x29 | 0x30 | 0x31 | 0x86 | 0x87, _)
                | (0xC0 | 0xC1 | 0xD0..=0xD3, _)
                | (0x80..=0x83, 0..=6)
                | (0xF6 | 0xF7, 2 | 3)
                | (0xFE | 0xFF, 0 | 1) => Self::Modified,
                // Ten bytes: of the floating-point stack, and far jumps.
                (0xDB, 5 | 7) | (0xDF, 4 | 6) | (0xFF, 3 | 5) => Self::Wide(16),
                (0xD9, 4 | 6) => Self::Wide(32),
                (0xDD, 4 | 6) => Self::Wide(STATE),
                _ => Self::Single,
            },
            _ => Self::Single,
        })
    }

    /// An instruction of a map (1: 0F, 2: 0F38, 3: 0F3A), most of which use vectors. Those of fewer bytes make one
    /// report, so that it does no harm to expect more.
    const fn of_vector(map: u8, opcode: u8, vex: bool, long: bool) -> Self {
        let elements = match map {
            1 => {
                !matches!(opcode, 0x10..=0x17 | 0x28..=0x2F | 0x50..=0x7F | 0xC2 | 0xC4..=0xC6 | 0xD0..=0xFF)
            }
            2 => vex && matches!(opcode, 0x2C..=0x2F | 0x8C | 0x8E | 0x90..=0x93),
            _ => false,
        };
        if elements { Self::Single } else { Self::Wide(if long { 32 } else { 16 }) }
    }

    /// The operands of an aarch64 instruction that accesses memory. Each register of a pair or a list is an operand.
    pub fn of_aarch64(word: u32) -> Self {
        let vector = word >> 26 & 1 == 1;
        let size = word >> 30;
        match (word >> 27 & 7, vector) {
            (0b001, true) => Self::Wide(if size & 1 == 1 { 16 } else { 8 }), // lists: size's low bit is Q
            (0b101 | 0b011, true) => Self::Wide(if size == 0b10 { 16 } else { 8 }), // pairs, literals
            (0b111, true) => Self::Wide(if size == 0 && word >> 23 & 1 == 1 { 16 } else { 8 }),
            // Atomics: the emulator makes them of a load and a store while there is one thread.
            (0b111, false) if word >> 24 & 1 == 0 && word >> 21 & 1 == 1 && word >> 10 & 3 == 0 => {
                Self::Modified
            }
            _ => Self::Single,
        }
    }
}

/// The operand that the last report of a thread belongs to.
#[derive(Debug, Default)]
pub struct Pieces {
    instruction: u64, // as a number of the caller's
    execution: u64,   // likewise; never the same for two executions of an instruction
    start: u64,
    end: u64,
    is_store: bool,
    any: bool,
}

impl Pieces {
    /// Whether the report belongs to the operand of the one before, which it is kept for otherwise. `width` is that of
    /// the instruction's [`Operand::Wide`].
    #[inline(always)]
    pub fn joins(
        &mut self,
        at: (u64, u64),
        (address, bytes): (u64, u64),
        is_store: bool,
        width: u64,
    ) -> bool {
        let (instruction, execution) = at;
        let joins = self.any
            && (self.instruction, self.execution, self.is_store) == (instruction, execution, is_store)
            && address.wrapping_sub(self.start) < width;
        if joins {
            self.end = self.end.max(address.wrapping_add(bytes));
        } else {
            let (start, end) = (address, address.wrapping_add(bytes));
            *self = Self { instruction, execution, start, end, is_store, any: true };
        }
        joins
    }

    /// Whether a report belongs to a read-modify-write whose load was reported: `Operand::Modified`.
    #[inline(always)]
    pub fn modifies(&mut self, at: (u64, u64), address: u64, is_store: bool) -> bool {
        let loaded =
            self.any && !self.is_store && (self.instruction, self.execution) == at && self.start == address;
        let (instruction, execution) = at;
        *self = Self { instruction, execution, start: address, end: address, is_store, any: true };
        loaded && is_store
    }

    /// Bytes of the operand that were reported.
    pub const fn bytes(&self) -> u64 {
        self.end.wrapping_sub(self.start)
    }

    /// Where the operand ends, as far as it was reported.
    pub const fn end(&self) -> u64 {
        self.end
    }
}
