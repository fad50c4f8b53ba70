//! Writes the translation of a block.
//!
//! The program's instructions are copied as they are, except those that refer to their own address. What is added
//! destroys nothing of the program's: spilled registers go to slots behind GS, flags are kept where the program may
//! still read them, and nothing is written below its stack pointer.
//!
//! Two kinds of code exist for a block. Both count: instructions are subtracted from what is left of the window, and
//! a counter is incremented. Code that only counts does so once a chain of blocks. Code that also records accesses counts
//! each block, and writes one word for it, then an address for each access, to a buffer that the observer reads.

use iced_x86::{Code as Opcode, Instruction, InstructionInfoFactory, OpKind, Register, UsedMemory};

use super::assemble::{Code, Gpr, RAX, RCX, RDX, RSP, encoded, general, through};
use super::block::{self, End, Found, Operand};
use super::chain::{Chained, Owed};
use super::exits::{Cache, Entries, Exit, Next};
use super::layout::shared;
use super::recording;

/// What is observed by a kind of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counting = 0,
    Recording = 1,
}

/// Where an instruction of the program is in translated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub address: u64,
    pub pc: u64,
    /// Registers whose values are in slots.
    pub spilled: [Option<(Gpr, u32)>; 3],
}

/// A translated block.
#[derive(Debug)]
pub(super) struct Translation {
    pub operands: Vec<Operand>,
    pub marks: Vec<Mark>,
    /// Whether it runs into whatever is placed behind it, which must be the next instruction's block.
    pub continues: bool,
}

/// Writes one block.
pub(super) struct Translator<'a, C> {
    pub hot: &'a mut Code,
    pub cold: &'a mut Code,
    pub cache: &'a mut C,
    pub entries: Entries,
    pub kind: Kind,
    pub factory: &'a mut InstructionInfoFactory,
    pub number: u32,
    pub counter: u32,
    /// That of a repeated string instruction's elements.
    pub elements: u32,
    /// What a jump out of a chain owes.
    pub owed: Option<Owed>,
}

/// The registers that recording uses.
#[derive(Clone, Copy)]
pub(super) struct Scratch {
    pub buffer: Gpr,
    pub value: Gpr,
}

impl<C: Cache> Translator<'_, C> {
    /// Translates `found`. `may_continue` says whether the block of its next instruction can be placed behind it.
    pub(super) fn translate(&mut self, found: &Found, may_continue: bool) -> Translation {
        let (hot, cold) = (self.hot.bytes.len(), self.cold.bytes.len());
        self.block(found, may_continue).unwrap_or_else(|| {
            self.hot.bytes.truncate(hot);
            self.cold.bytes.truncate(cold);
            self.leave(Exit::Unsupported { pc: found.pc, why: "an instruction that cannot be moved" });
            Translation { operands: Vec::new(), marks: Vec::new(), continues: false }
        })
    }

    fn block(&mut self, found: &Found, may_continue: bool) -> Option<Translation> {
        if let End::Unsupported(why) = found.end {
            self.leave(Exit::Unsupported { pc: found.pc, why });
            return Some(Translation { operands: Vec::new(), marks: Vec::new(), continues: false });
        }
        let scratch = (self.kind == Kind::Recording).then(|| scratch(found));
        let marks = Vec::with_capacity(found.instructions.len() + 2);
        let mut done = Translation { operands: Vec::new(), marks, continues: false };
        if found.changes {
            self.hot.align(1);
            self.hot.raw(&[0xE9, 0, 0, 0, 0]); // leads to the next translation once there is one
        }
        self.prologue(found, scratch, &mut done.marks);
        if found.repeated.is_some() {
            self.repeated(found, scratch, &mut done);
        } else {
            self.body(found, scratch, &mut done)?;
            if let Some(scratch) = scratch {
                let plain = done.operands.iter().all(Operand::is_plain);
                let operands = plain.then_some(done.operands.len());
                self.hot.put_value(scratch.buffer, recording::header(self.number, operands));
                self.release(scratch, 1 + done.operands.len());
            }
        }
        let next = match found.end {
            End::Falls | End::Branch(_) | End::SystemCall if may_continue => Next::Behind,
            _ => Next::Linked,
        };
        done.continues = self.end(found, next, &mut done.marks)?;
        Some(done)
    }

    /// Writes the instructions of a block that is counted already.
    pub(super) fn chained(&mut self, found: &Found, next: Next) -> Option<Translation> {
        let mut done = Translation { operands: Vec::new(), marks: Vec::new(), continues: false };
        self.body(found, None, &mut done)?;
        self.end(found, next, &mut done.marks)?;
        Some(done)
    }

    /// All but the jump at the end.
    fn body(&mut self, found: &Found, scratch: Option<Scratch>, done: &mut Translation) -> Option<()> {
        if found.repeated.is_some() {
            self.repeated(found, scratch, done);
            return Some(());
        }
        let copied = found.instructions.len() - usize::from(found.end != End::Falls);
        for (position, instruction) in found.instructions.iter().enumerate() {
            self.record(instruction, scratch, &mut done.operands);
            if position < copied {
                self.copy(found, instruction, scratch, &mut done.marks)?;
            }
        }
        Some(())
    }

    /// Counts a chain from the block at `pc` on, less what is owed.
    pub(super) fn approach(&mut self, pc: u64, chain: &Chained, owed: Option<Owed>) {
        let owes = owed.map_or(0, |owed| owed.instructions);
        let instructions = chain.instructions as i32 - owes as i32;
        if chain.needs_flags {
            self.hot.save_flags(shared::SLOT_E);
        }
        self.hot.subtract(instructions, shared::LEFT);
        let over = self.cold.here();
        self.cold.subtract(-instructions, shared::LEFT);
        if chain.needs_flags {
            self.cold.restore_flags(shared::SLOT_E);
        }
        self.exit_stub(Exit::Window { pc, owed });
        self.hot.jump_if(8, over);
        self.hot.increment(shared::COUNTS + 4 * self.counter);
        if chain.needs_flags {
            self.hot.restore_flags(shared::SLOT_E);
        }
    }

    fn prologue(&mut self, found: &Found, scratch: Option<Scratch>, marks: &mut Vec<Mark>) {
        let instructions = found.instructions.len() as i32;
        if found.needs_flags {
            self.hot.save_flags(shared::SLOT_E);
        }
        if let Some(scratch) = scratch {
            self.hot.store(scratch.buffer, shared::SLOT_A);
            self.hot.load(scratch.buffer, shared::BUFFER);
            self.hot.compare(scratch.buffer, shared::BUFFER_END);
            let full = self.undo(found, scratch.into(), 0, Exit::Full { pc: found.pc });
            self.hot.jump_if(7, full);
        }
        self.hot.subtract(instructions, shared::LEFT);
        let over = self.undo(found, scratch, instructions, Exit::Window { pc: found.pc, owed: None });
        self.hot.jump_if(8, over);
        self.hot.increment(shared::COUNTS + 4 * self.counter);
        if let Some(bytes) = found.verified() {
            self.verify(found, bytes, scratch, marks);
        }
        if found.needs_flags {
            self.hot.restore_flags(shared::SLOT_E);
        }
        if let Some(scratch) = scratch.filter(|_| !found.changes) {
            self.hot.store(scratch.value, shared::SLOT_B);
        }
    }

    /// Compares the block's bytes with those that are translated. The registers that recording uses are in their slots
    /// meanwhile.
    fn verify(&mut self, found: &Found, bytes: &[u8], recording: Option<Scratch>, marks: &mut Vec<Mark>) {
        let Scratch { buffer: address, value } = scratch(found);
        if recording.is_none() {
            self.hot.store(address, shared::SLOT_A);
        }
        self.hot.store(value, shared::SLOT_B);
        let changed = self.cold.here();
        self.cold.subtract(-(found.instructions.len() as i32), shared::LEFT);
        self.cold.decrement(shared::COUNTS + 4 * self.counter);
        if found.needs_flags {
            self.cold.restore_flags(shared::SLOT_E);
        }
        self.cold.load(address, shared::SLOT_A);
        self.cold.load(value, shared::SLOT_B);
        self.exit_stub(Exit::Changed { pc: found.pc, number: self.number });

        self.hot.set_long(address, found.pc);
        let flags = found.needs_flags.then_some((RAX, shared::SLOT_E));
        let spilled = [Some((address, shared::SLOT_A)), Some((value, shared::SLOT_B)), flags];
        marks.push(Mark { spilled, ..self.mark(found.pc, None, None) });
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = found.pc + (bytes.len() - rest.len()) as u64;
            // The program may have made the processor check alignment.
            let aligned = |length: &usize| *length <= rest.len() && at % *length as u64 == 0;
            let (now, after) = rest.split_at([8, 4, 2].into_iter().find(aligned).unwrap_or(1));
            self.hot.compare_bytes(address, (at - found.pc) as i32, now, value);
            self.hot.jump_if(5, changed);
            rest = after;
        }
        if recording.is_some() {
            self.hot.load(address, shared::BUFFER);
        } else {
            self.hot.load(address, shared::SLOT_A);
            self.hot.load(value, shared::SLOT_B);
        }
    }

    /// Code that leaves before the block, as if it had not been entered.
    fn undo(&mut self, found: &Found, scratch: Option<Scratch>, instructions: i32, exit: Exit) -> u64 {
        let address = self.cold.here();
        if instructions != 0 {
            self.cold.subtract(-instructions, shared::LEFT);
        }
        if found.needs_flags {
            self.cold.restore_flags(shared::SLOT_E);
        }
        if let Some(scratch) = scratch {
            self.cold.load(scratch.buffer, shared::SLOT_A);
        }
        self.exit_stub(exit);
        address
    }

    fn exit_stub(&mut self, exit: Exit) -> u64 {
        let address = self.cold.here();
        let number = self.cache.exit(exit);
        self.cold.store_value(number, shared::EXIT);
        self.cold.jump(self.entries.exit);
        address
    }

    /// Leaves at once.
    fn leave(&mut self, exit: Exit) {
        let stub = self.exit_stub(exit);
        self.hot.jump(stub);
    }

    /// Goes to the block at `target`, by way of the observer until it is translated.
    fn link(&mut self, target: u64) {
        self.hot.align(1);
        let patch = self.hot.here() + 1;
        let to = self.link_target(target, patch);
        self.hot.jump(to);
    }

    fn link_target(&mut self, target: u64, patch: u64) -> u64 {
        let known = if self.owed.is_none() { self.cache.translated(target) } else { None };
        known.unwrap_or_else(|| self.exit_stub(Exit::Link { target, patch, owed: self.owed }))
    }

    pub(super) fn release(&mut self, scratch: Scratch, words: usize) {
        self.hot.lea(scratch.buffer, scratch.buffer, 8 * words as i32);
        self.hot.store(scratch.buffer, shared::BUFFER);
        self.hot.load(scratch.buffer, shared::SLOT_A);
        self.hot.load(scratch.value, shared::SLOT_B);
    }

    fn record(&mut self, instruction: &Instruction, scratch: Option<Scratch>, operands: &mut Vec<Operand>) {
        for (memory, operand) in block::accesses(self.factory, instruction) {
            operands.push(operand);
            if let Some(scratch) = scratch {
                self.address(&memory, scratch);
                self.hot.put(scratch.buffer, 8 * operands.len() as i32, scratch.value);
            }
        }
    }

    /// The address of an operand.
    fn address(&mut self, memory: &UsedMemory, scratch: Scratch) {
        let value = scratch.value;
        let general = |register: Register| {
            (register.is_gpr64() || register.is_gpr32()).then(|| block::number(register))
        };
        let (base, index) = (general(memory.base()), general(memory.index()));
        let displacement = memory.displacement();
        let fs = memory.segment() == Register::FS;
        match (base, index, displacement as i64) {
            (None, None, _) => self.hot.set(value, displacement),
            (_, _, small) => {
                let narrow = memory.base().is_gpr32() || memory.index().is_gpr32();
                self.hot.lea_full(
                    value,
                    base,
                    index.map(|i| (i, memory.scale() as u8)),
                    small as i32,
                    !narrow,
                );
            }
        }
        if fs {
            self.hot.store(scratch.buffer, shared::SLOT_C);
            self.hot.load(scratch.buffer, shared::FS_BASE);
            self.hot.lea_sum(value, value, scratch.buffer);
            self.hot.load(scratch.buffer, shared::SLOT_C);
        }
    }

    pub(super) fn mark(&self, pc: u64, scratch: Option<Scratch>, more: Option<(Gpr, u32)>) -> Mark {
        let spilled = match scratch {
            Some(s) => [Some((s.buffer, shared::SLOT_A)), Some((s.value, shared::SLOT_B)), more],
            None => [more, None, None],
        };
        Mark { address: self.hot.here(), pc, spilled }
    }

    /// An instruction of the program's.
    fn copy(
        &mut self,
        found: &Found,
        instruction: &Instruction,
        scratch: Option<Scratch>,
        marks: &mut Vec<Mark>,
    ) -> Option<()> {
        if !instruction.is_ip_rel_memory_operand() {
            marks.push(self.mark(instruction.ip(), scratch, None));
            let start = (instruction.ip() - found.pc) as usize;
            self.hot.raw(found.code.get(start..start + instruction.len())?);
            return Some(());
        }
        if let Some(bytes) = encoded(instruction, self.hot.here()) {
            marks.push(self.mark(instruction.ip(), scratch, None));
            self.hot.raw(&bytes);
            return Some(());
        }
        let target = instruction.ip_rel_memory_address();
        let register = (instruction.op0_kind() == OpKind::Register).then(|| instruction.op0_register());
        match (instruction.code(), register) {
            (Opcode::Lea_r64_m, Some(register)) => {
                marks.push(self.mark(instruction.ip(), scratch, None));
                self.hot.set(block::number(register), target);
                return Some(());
            }
            (Opcode::Mov_r64_rm64 | Opcode::Mov_r32_rm32, Some(register)) => {
                self.hot.set(block::number(register), target);
                marks.push(self.mark(instruction.ip(), scratch, None));
                let bytes = encoded(&through(instruction, register.full_register()), self.hot.here())?;
                self.hot.raw(&bytes);
                return Some(());
            }
            _ => {}
        }
        let mut used = block::registers_of(self.factory, instruction) | 1 << RSP;
        if let Some(scratch) = scratch {
            used |= 1 << scratch.buffer | 1 << scratch.value;
        }
        let free = (!used).trailing_zeros() as Gpr;
        self.hot.store(free, shared::SLOT_D);
        self.hot.set(free, target);
        marks.push(self.mark(instruction.ip(), scratch, Some((free, shared::SLOT_D))));
        let bytes = encoded(&through(instruction, general(free)?), self.hot.here())?;
        self.hot.raw(&bytes);
        self.hot.load(free, shared::SLOT_D);
        Some(())
    }

    fn end(&mut self, found: &Found, next: Next, marks: &mut Vec<Mark>) -> Option<bool> {
        let last = found.instructions.last()?;
        let after = found.next();
        match found.end {
            End::Falls => return Some(self.go_on(next, after)),
            End::Jump(target) => return Some(self.go_on(next, target)),
            End::Branch(target) => {
                if last.is_jcc_short_or_near() {
                    self.hot.align(2);
                    let patch = self.hot.here() + 2;
                    let to = self.link_target(target, patch);
                    self.hot.jump_if((last.condition_code() as u8).wrapping_sub(1) & 15, to);
                } else {
                    // These jump by a byte only: over the jump of not taking it.
                    let start = (last.ip() - found.pc) as usize;
                    let bytes = found.code.get(start..start + last.len())?;
                    let (_, opcode) = bytes.split_last()?;
                    // Taken: over the short jump, which goes over the long one and what aligns it.
                    self.hot.raw(opcode);
                    let short = self.hot.bytes.len() + 2;
                    self.hot.raw(&[2, 0xEB, 0]);
                    self.link(target);
                    let length = self.hot.bytes.len() - short - 1;
                    self.hot.bytes[short] = length as u8;
                }
                return Some(self.go_on(next, after));
            }
            End::Call(target) => {
                marks.push(self.mark(last.ip(), None, None));
                self.push(after);
                return Some(self.go_on(next, target));
            }
            End::Return(bytes) => {
                self.hot.store(RCX, shared::SLOT_A);
                self.hot.store(RDX, shared::SLOT_B);
                marks.push(Mark { spilled: LOOKUP, ..self.mark(last.ip(), None, None) });
                self.hot.raw(&[0x59]); // pop rcx
                if bytes != 0 {
                    self.hot.lea(RSP, RSP, bytes.into());
                }
                self.look_up();
            }
            End::IndirectJump | End::IndirectCall => {
                self.hot.store(RCX, shared::SLOT_A);
                self.hot.store(RDX, shared::SLOT_B);
                if last.op0_kind() == OpKind::Register {
                    self.hot.copy(RCX, block::number(last.op0_register()));
                } else {
                    let mut load =
                        Instruction::with2(Opcode::Mov_r64_rm64, Register::RCX, Register::RCX).ok()?;
                    load.set_op1_kind(OpKind::Memory);
                    load.set_memory_base(last.memory_base());
                    load.set_memory_index(last.memory_index());
                    load.set_memory_index_scale(last.memory_index_scale());
                    load.set_memory_displacement64(last.memory_displacement64());
                    load.set_memory_displ_size(last.memory_displ_size());
                    if last.segment_prefix() == Register::FS {
                        load.set_segment_prefix(Register::FS);
                    }
                    if last.is_ip_rel_memory_operand() && encoded(&load, self.hot.here()).is_none() {
                        self.hot.set(RCX, last.ip_rel_memory_address());
                        load = through(&load, Register::RCX);
                    }
                    marks.push(Mark { spilled: LOOKUP, ..self.mark(last.ip(), None, None) });
                    let bytes = encoded(&load, self.hot.here())?;
                    self.hot.raw(&bytes);
                }
                if found.end == End::IndirectCall {
                    marks.push(Mark { spilled: LOOKUP, ..self.mark(last.ip(), None, None) });
                    self.push(after);
                }
                self.look_up();
            }
            End::SystemCall => {
                // The kernel destroys rcx and r11.
                let number = self.cache.exit(Exit::Call { pc: last.ip(), next: after });
                self.hot.store_value(number, shared::EXIT);
                let lea = self.hot.here();
                let back = lea + 7 + 9 + 5;
                self.hot.raw(&[0x48, 0x8D, 0x0D]);
                self.hot.raw(&((back - lea - 7) as i32).to_le_bytes()); // lea rcx, [rip+...]
                self.hot.store(RCX, shared::AFTER_CALL);
                self.hot.jump(self.entries.call);
                debug_assert_eq!(self.hot.here(), back);
                self.hot.set(RCX, after);
                return Some(self.go_on(next, after));
            }
            End::Unsupported(_) => {}
        }
        Some(false)
    }

    /// Goes on at `pc`. Whether it runs into what is behind it.
    fn go_on(&mut self, next: Next, pc: u64) -> bool {
        match next {
            Next::Behind => return true,
            Next::At(address) => self.hot.jump(address),
            Next::Linked => self.link(pc),
        }
        false
    }

    /// Pushes a return address.
    fn push(&mut self, address: u64) {
        while self.cold.here() % 8 != 0 {
            self.cold.raw(&[0xCC]);
        }
        let constant = self.cold.here();
        self.cold.raw(&address.to_le_bytes());
        self.hot.push_from(constant);
    }

    /// Goes to the program's address in rcx; rcx and rdx are in their slots.
    fn look_up(&mut self) {
        self.hot.store(RCX, shared::PC);
        self.hot.raw(&[0x0F, 0xB7, 0xD1]); // movzx edx, cx
        self.hot.jump_table(RDX, shared::LOOKUPS + self.kind as u32 * shared::LOOKUP_SIZE);
    }
}

/// The registers that a block does not use, for recording.
pub(super) fn scratch(found: &Found) -> Scratch {
    let buffer = found.untouched.ilog2() as Gpr;
    let rest = found.untouched & !(1 << buffer);
    Scratch { buffer, value: rest.ilog2() as Gpr }
}

const LOOKUP: [Option<(Gpr, u32)>; 3] = [Some((RCX, shared::SLOT_A)), Some((RDX, shared::SLOT_B)), None];
