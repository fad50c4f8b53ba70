//! The few instructions that translation adds, as bytes.

use iced_x86::{Encoder, Instruction, Register};

/// Number of a general register in machine code.
pub(super) type Gpr = u8;
pub(super) const RAX: Gpr = 0;
pub(super) const RCX: Gpr = 1;
pub(super) const RDX: Gpr = 2;
pub(super) const RSP: Gpr = 4;

/// Code to be placed at a known address.
#[derive(Debug)]
pub(super) struct Code {
    pub address: u64,
    pub bytes: Vec<u8>,
}

impl Code {
    pub(super) fn at(address: u64) -> Self {
        Self::again(address, Vec::new())
    }

    /// The same, in the room of code that was placed.
    pub(super) fn again(address: u64, mut room: Vec<u8>) -> Self {
        room.clear();
        Self { address, bytes: room }
    }

    /// Address of the next byte.
    pub(super) fn here(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// `opcode` with a 64-bit operand at `gs:[offset]` and `field` in the register bits.
    fn gs(&mut self, wide: bool, opcode: u8, field: u8, offset: u32) {
        self.raw(&[0x65]);
        let rex = 0x40 | u8::from(wide) << 3 | (field >> 3) << 2;
        if rex != 0x40 {
            self.raw(&[rex]);
        }
        self.raw(&[opcode, (field & 7) << 3 | 4, 0x25]);
        self.raw(&offset.to_le_bytes());
    }

    /// `mov gs:[offset], register`
    pub(super) fn store(&mut self, register: Gpr, offset: u32) {
        self.gs(true, 0x89, register, offset);
    }

    /// `mov register, gs:[offset]`
    pub(super) fn load(&mut self, register: Gpr, offset: u32) {
        self.gs(true, 0x8B, register, offset);
    }

    /// `mov gs:[offset], register`, its lower half
    pub(super) fn store_half(&mut self, register: Gpr, offset: u32) {
        self.gs(false, 0x89, register, offset);
    }

    /// `mov register, gs:[offset]`, its lower half
    pub(super) fn load_half(&mut self, register: Gpr, offset: u32) {
        self.gs(false, 0x8B, register, offset);
    }

    /// `mov dword ptr gs:[offset], value`
    pub(super) fn store_value(&mut self, value: u32, offset: u32) {
        self.gs(false, 0xC7, 0, offset);
        self.raw(&value.to_le_bytes());
    }

    /// `sub qword ptr gs:[offset], value`
    pub(super) fn subtract(&mut self, value: i32, offset: u32) {
        if let Ok(short) = i8::try_from(value) {
            self.gs(true, 0x83, 5, offset);
            self.raw(&short.to_le_bytes());
        } else {
            self.gs(true, 0x81, 5, offset);
            self.raw(&value.to_le_bytes());
        }
    }

    /// `inc dword ptr gs:[offset]`
    pub(super) fn increment(&mut self, offset: u32) {
        self.gs(false, 0xFF, 0, offset);
    }

    /// `dec dword ptr gs:[offset]`
    pub(super) fn decrement(&mut self, offset: u32) {
        self.gs(false, 0xFF, 1, offset);
    }

    /// Compares 1, 2, 4 or 8 bytes at `[base+displacement]`; the latter by way of `register`.
    pub(super) fn compare_bytes(&mut self, base: Gpr, displacement: i32, bytes: &[u8], register: Gpr) {
        if let Ok(bytes) = bytes.try_into() {
            self.set_long(register, u64::from_le_bytes(bytes));
            self.based(0x3B, register, base, displacement);
            return;
        }
        if bytes.len() == 2 {
            self.raw(&[0x66]);
        }
        self.raw(&[0x40 | base >> 3, if bytes.len() == 1 { 0x80 } else { 0x81 }, 0xB8 | base & 7]);
        if base & 7 == 4 {
            self.raw(&[0x24]);
        }
        self.raw(&displacement.to_le_bytes());
        self.raw(bytes);
    }

    /// `cmp register, gs:[offset]`
    pub(super) fn compare(&mut self, register: Gpr, offset: u32) {
        self.gs(true, 0x3B, register, offset);
    }

    /// `mov register, value`
    pub(super) fn set(&mut self, register: Gpr, value: u64) {
        if let Ok(short) = u32::try_from(value) {
            if register >= 8 {
                self.raw(&[0x41]);
            }
            self.raw(&[0xB8 | register & 7]);
            self.raw(&short.to_le_bytes());
        } else {
            self.set_long(register, value);
        }
    }

    /// The same, always in ten bytes.
    pub(super) fn set_long(&mut self, register: Gpr, value: u64) {
        self.raw(&[0x48 | register >> 3, 0xB8 | register & 7]);
        self.raw(&value.to_le_bytes());
    }

    /// `opcode register, [base+displacement]`
    fn based(&mut self, opcode: u8, register: Gpr, base: Gpr, displacement: i32) {
        self.raw(&[0x48 | (register >> 3) << 2 | base >> 3, opcode, 0x80 | (register & 7) << 3 | base & 7]);
        if base & 7 == 4 {
            self.raw(&[0x24]);
        }
        self.raw(&displacement.to_le_bytes());
    }

    /// `lea register, [base+displacement]`
    pub(super) fn lea(&mut self, register: Gpr, base: Gpr, displacement: i32) {
        self.based(0x8D, register, base, displacement);
    }

    /// `lea register, [base+index*scale+displacement]` of any shape, in 64 or 32 bits
    pub(super) fn lea_full(
        &mut self,
        register: Gpr,
        base: Option<Gpr>,
        index: Option<(Gpr, u8)>,
        displacement: i32,
        wide: bool,
    ) {
        let (index, scale) = index.unwrap_or((4, 1)); // 4: none
        let low = base.unwrap_or(5);
        self.raw(&[0x40
            | u8::from(wide) << 3
            | (register >> 3) << 2
            | (index >> 3) << 1
            | base.map_or(0, |b| b >> 3)]);
        let mode = if base.is_some() { 0x80 } else { 0 };
        self.raw(&[0x8D, mode | (register & 7) << 3 | 4]);
        self.raw(&[(scale.trailing_zeros() as u8) << 6 | (index & 7) << 3 | low & 7]);
        self.raw(&displacement.to_le_bytes());
    }

    /// `lea register, [base+index]`, the index not rsp
    pub(super) fn lea_sum(&mut self, register: Gpr, base: Gpr, index: Gpr) {
        self.lea_full(register, Some(base), Some((index, 1)), 0, true);
    }

    /// `mov [base+displacement], register`
    pub(super) fn put(&mut self, base: Gpr, displacement: i32, register: Gpr) {
        self.based(0x89, register, base, displacement);
    }

    /// `mov qword ptr [base], value`
    pub(super) fn put_value(&mut self, base: Gpr, value: u32) {
        self.raw(&[0x48 | base >> 3, 0xC7, 0x80 | base & 7]);
        if base & 7 == 4 {
            self.raw(&[0x24]);
        }
        self.raw(&0_i32.to_le_bytes());
        self.raw(&value.to_le_bytes());
    }

    /// `not register`
    pub(super) fn complement(&mut self, register: Gpr) {
        self.raw(&[0x48 | register >> 3, 0xF7, 0xD0 | register & 7]);
    }

    /// `mov to, from`
    pub(super) fn copy(&mut self, to: Gpr, from: Gpr) {
        self.raw(&[0x48 | (from >> 3) << 2 | to >> 3, 0x89, 0xC0 | (from & 7) << 3 | to & 7]);
    }

    /// Does nothing, for as long as four bytes are not aligned after `opcode` bytes.
    pub(super) fn align(&mut self, opcode: u64) {
        let nothing: [&[u8]; 4] = [&[], &[0x90], &[0x66, 0x90], &[0x0F, 0x1F, 0x00]];
        let missing = (self.here() + opcode).wrapping_neg() % 4;
        self.raw(nothing[missing as usize]);
    }

    /// `jmp target`
    pub(super) fn jump(&mut self, target: u64) {
        self.raw(&[0xE9]);
        self.relative(target);
    }

    /// `jcc target`, by the low four bits of its opcode
    pub(super) fn jump_if(&mut self, condition: u8, target: u64) {
        self.raw(&[0x0F, 0x80 | condition]);
        self.relative(target);
    }

    /// The distance to `target` from behind itself; the region is smaller than 2 GiB.
    fn relative(&mut self, target: u64) {
        let distance = target.wrapping_sub(self.here() + 4) as i32;
        self.raw(&distance.to_le_bytes());
    }

    /// `jmp gs:[register*8+offset]`
    pub(super) fn jump_table(&mut self, register: Gpr, offset: u32) {
        self.raw(&[0x65, 0xFF, 0x24, 0xC5 | register << 3]);
        self.raw(&offset.to_le_bytes());
    }

    /// `push qword ptr [rip+...]` of the eight bytes at `address`
    pub(super) fn push_from(&mut self, address: u64) {
        self.raw(&[0xFF, 0x35]);
        self.relative(address);
    }

    /// Flags into rax, which is kept in `slot`.
    pub(super) fn save_flags(&mut self, slot: u32) {
        self.store(RAX, slot);
        self.raw(&[0x9F, 0x0F, 0x90, 0xC0]); // lahf; seto al
    }

    /// And back.
    pub(super) fn restore_flags(&mut self, slot: u32) {
        self.raw(&[0x04, 0x7F, 0x9E]); // add al, 127; sahf
        self.load(RAX, slot);
    }
}

/// The instruction's bytes at `address`; none where a relative operand is out of reach.
pub(super) fn encoded(instruction: &Instruction, address: u64) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(64);
    encoder.encode(instruction, address).ok()?;
    Some(encoder.take_buffer())
}

/// The instruction with `register` in place of its relative address.
pub(super) fn through(instruction: &Instruction, register: Register) -> Instruction {
    let mut through = *instruction;
    through.set_memory_base(register);
    through.set_memory_displacement64(0);
    through.set_memory_displ_size(0);
    through
}

/// The general register of this number.
pub(super) fn general(number: Gpr) -> Option<Register> {
    const REGISTERS: [Register; 16] = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    REGISTERS.get(usize::from(number)).copied()
}
