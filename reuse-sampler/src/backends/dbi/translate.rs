//! Writes the translation of a block.
//!
//! The program's instructions are copied as they are, except those that refer to their own address. What is added
//! destroys nothing of the program's: spilled registers go to slots behind GS, flags are kept where the program may
//! still read them, and nothing is written below its stack pointer.
//!
//! Three kinds of code exist for a block. All count: instructions are subtracted from what is left of the window, and
//! a counter is incremented. Code that only counts does so once a chain of blocks. Code that also records accesses writes
//! one word for a run of blocks, then an address for each access, to a buffer that the observer reads, and counts the run.
//! At the end of a window code of the third kind goes on, which counts and records each block.

use iced_x86::{Code as Opcode, InstructionInfoFactory, OpKind, Register, UsedMemory};

use super::assemble::{Code, Gpr, RAX, RCX, RSP, encoded, general, through};
use super::block::{self, End, Found, Operand};
use super::chain::{Chained, Owed};
use super::exits::{Cache, Entries, Exit, Next};
use super::layout::shared;
use super::memory::Trust;
use super::recording;
use super::runs::advance;
use super::runtime::{RETRY, SHARE};

/// What is observed by a kind of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counting = 0,
    Recording = 1,
    /// As recording does, block by block.
    Stepping = 2,
}

/// Where an instruction of the program is in translated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub address: u64,
    pub pc: u64,
    /// Registers whose values are in slots.
    pub spilled: [Option<(Gpr, u32)>; 3],
}

/// A translated block, or some.
#[derive(Debug, Default)]
pub(super) struct Translation {
    /// Those recorded.
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

impl<'a, C: Cache> Translator<'a, C> {
    /// For a run that was written before: what is counted where does not matter.
    pub(super) fn again(
        hot: &'a mut Code,
        cold: &'a mut Code,
        cache: &'a mut C,
        entries: Entries,
        factory: &'a mut InstructionInfoFactory,
    ) -> Self {
        let kind = Kind::Recording;
        Self { hot, cold, cache, entries, kind, factory, number: 0, counter: 0, elements: 0, owed: None }
    }
}

impl<C: Cache> Translator<'_, C> {
    /// Translates `found`. `may_continue` says whether the block of its next instruction can be placed behind it.
    pub(super) fn translate(&mut self, found: &Found, may_continue: bool) -> Translation {
        self.gate(found.source.trust != Trust::Fixed);
        let (hot, cold) = (self.hot.bytes.len(), self.cold.bytes.len());
        self.block(found, may_continue).unwrap_or_else(|| {
            self.hot.bytes.truncate(hot);
            self.cold.bytes.truncate(cold);
            self.leave(Exit::Unsupported { pc: found.pc, why: "an instruction that cannot be moved" });
            Translation::default()
        })
    }

    fn block(&mut self, found: &Found, may_continue: bool) -> Option<Translation> {
        if let End::Unsupported(why) = found.end {
            self.leave(Exit::Unsupported { pc: found.pc, why });
            return Some(Translation::default());
        }
        let scratch = (self.kind != Kind::Counting).then(|| scratch(found.untouched));
        let mut done = Translation::default();
        // Code that changes may have become what reads the flags.
        if found.sets_trap() && !found.is_verified() {
            let why = "the program has the processor stop after each instruction";
            let stub = self.exit_stub(Exit::Unsupported { pc: found.pc, why });
            done.marks.push(self.mark(found.pc, None, None));
            self.hot.raw(&[0xF6, 0x44, 0x24, 1, 1]); // test byte ptr [rsp+1], 1; the flags are lost anyway
            self.hot.jump_if(5, stub);
        }
        self.prologue(found, found.instructions.len(), scratch, &mut done.marks);
        if found.repeated.is_some() {
            self.repeated(found, scratch, &mut done)?;
        } else {
            self.body(found, scratch, &mut done)?;
            if let Some(scratch) = scratch {
                self.hot.put_value(scratch.buffer, recording::header_of(self.number, &done.operands));
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

    /// A jump to what follows, unless it is led elsewhere: to the next translation, once there is one.
    pub(super) fn gate(&mut self, wanted: bool) {
        if wanted {
            self.hot.align(1);
            self.hot.raw(&[0xE9, 0, 0, 0, 0]);
        }
    }

    /// Writes the instructions of a block that is counted already.
    pub(super) fn chained(&mut self, found: &Found, next: Next, done: &mut Translation) -> Option<()> {
        self.body(found, None, done)?;
        self.end(found, next, &mut done.marks)?;
        Some(())
    }

    /// All but the jump at the end.
    pub(super) fn body(
        &mut self,
        found: &Found,
        scratch: Option<Scratch>,
        done: &mut Translation,
    ) -> Option<()> {
        if found.repeated.is_some() {
            return self.repeated(found, scratch, done);
        }
        let copied = found.instructions.len() - usize::from(found.end != End::Falls);
        let mut accesses = &found.accesses[..];
        for (position, instruction) in found.instructions.iter().enumerate() {
            if let Some(scratch) = scratch {
                let own = accesses.iter().take_while(|(_, operand)| operand.pc == instruction.ip()).count();
                for (memory, operand) in &accesses[..own] {
                    done.operands.push(*operand);
                    self.address(memory, scratch);
                    self.hot.put(scratch.buffer, 8 * done.operands.len() as i32, scratch.value);
                }
                accesses = &accesses[own..];
            }
            if position < copied {
                self.copy(found, position, scratch, &mut done.marks)?;
            }
        }
        Some(())
    }

    /// Takes `instructions` off what is left of the window. Returns where to go if there were less than that, and are again:
    /// to what is written next to `cold`.
    fn take_off(&mut self, instructions: i32) -> u64 {
        let (left, again) = (share_of(self.counter), self.hot.here());
        self.hot.subtract(instructions, left);
        let over = self.cold.here();
        self.cold.subtract(-instructions, left);
        self.cold.store(RCX, shared::SLOT_F);
        self.cold.raw(&[0x48, 0x8D, 0x0D, 5, 0, 0, 0]); // lea rcx, [rip+5]: behind the jump
        self.cold.jump(self.entries.share + SHARE * u64::from((left - shared::LEFT) / 8));
        let retry = self.cold.here();
        self.cold.load(RCX, shared::SLOT_F);
        self.cold.jump(again);
        debug_assert_eq!(self.cold.here(), retry + RETRY);
        self.cold.load(RCX, shared::SLOT_F);
        over
    }

    /// Counts a chain from the block at `pc` on, less what is owed.
    pub(super) fn approach(&mut self, pc: u64, chain: &Chained, owed: Option<Owed>) {
        let owes = owed.map_or(0, |owed| owed.instructions);
        let instructions = chain.instructions as i32 - owes as i32;
        if chain.needs_flags {
            self.hot.save_flags(shared::SLOT_E);
        }
        let over = self.take_off(instructions);
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

    /// Counts `instructions`, from the block on.
    pub(super) fn prologue(
        &mut self,
        found: &Found,
        instructions: usize,
        scratch: Option<Scratch>,
        marks: &mut Vec<Mark>,
    ) {
        let instructions = instructions as i32;
        if found.needs_flags {
            self.hot.save_flags(shared::SLOT_E);
        }
        if let Some(scratch) = scratch {
            self.hot.store(scratch.buffer, shared::SLOT_A);
            self.hot.load(scratch.buffer, shared::BUFFER);
            self.hot.compare(scratch.buffer, shared::BUFFER_END);
            let full = self.undo(found, scratch.into(), Exit::Full { pc: found.pc });
            self.hot.jump_if(7, full);
        }
        let over = self.take_off(instructions);
        self.undo(found, scratch, Exit::Window { pc: found.pc, owed: None });
        self.hot.jump_if(8, over);
        self.hot.increment(shared::COUNTS + 4 * self.counter);
        if found.is_verified() {
            self.verify(found, scratch, marks);
        }
        if found.needs_flags {
            self.hot.restore_flags(shared::SLOT_E);
        }
        if let Some(scratch) = scratch.filter(|_| !found.is_verified()) {
            self.hot.store(scratch.value, shared::SLOT_B);
        }
    }

    /// Compares the block's bytes with those that are translated. The registers that recording uses are in their slots
    /// meanwhile.
    fn verify(&mut self, found: &Found, recording: Option<Scratch>, marks: &mut Vec<Mark>) {
        let Scratch { buffer: address, value } = scratch(found.untouched);
        if recording.is_none() {
            self.hot.store(address, shared::SLOT_A);
        }
        self.hot.store(value, shared::SLOT_B);
        let changed = self.cold.here();
        self.cold.subtract(-(found.instructions.len() as i32), share_of(self.counter));
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
        let bytes = found.bytes();
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
    pub(super) fn undo(&mut self, found: &Found, scratch: Option<Scratch>, exit: Exit) -> u64 {
        let address = self.cold.here();
        if found.needs_flags {
            self.cold.restore_flags(shared::SLOT_E);
        }
        if let Some(scratch) = scratch {
            self.cold.load(scratch.buffer, shared::SLOT_A);
        }
        self.exit_stub(exit);
        address
    }

    pub(super) fn release(&mut self, scratch: Scratch, words: usize) {
        advance(self.hot, scratch.buffer, words);
        self.hot.load(scratch.buffer, shared::SLOT_A);
        self.hot.load(scratch.value, shared::SLOT_B);
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
        position: usize,
        scratch: Option<Scratch>,
        marks: &mut Vec<Mark>,
    ) -> Option<()> {
        let (instruction, relative) = (&found.instructions[position], usize::from(found.relative[position]));
        let bytes = found.bytes_of(instruction)?;
        if relative == 0 {
            marks.push(self.mark(instruction.ip(), scratch, None));
            self.hot.raw(bytes);
            if instruction.code() == Opcode::Wrfsbase_r64 {
                self.hot.store(block::number(instruction.op0_register()), shared::FS_BASE);
            }
            return Some(());
        }
        let target = instruction.ip_rel_memory_address();
        let distance = target.wrapping_sub(self.hot.here() + bytes.len() as u64) as i64;
        if let Ok(distance) = i32::try_from(distance) {
            marks.push(self.mark(instruction.ip(), scratch, None));
            self.hot.raw(&bytes[..relative]);
            self.hot.raw(&distance.to_le_bytes());
            self.hot.raw(&bytes[relative + 4..]);
            return Some(());
        }
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
        let mut used = block::registers_of(self.factory.info(instruction)) | 1 << RSP;
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
}

/// From where the code with this counter takes what is left of the window: not from where the code before it does.
pub(super) const fn share_of(counter: u32) -> u32 {
    shared::SHARES[counter as usize % shared::SHARES.len()]
}

/// Two registers of those that are not used, for recording.
pub(super) fn scratch(untouched: u16) -> Scratch {
    let buffer = untouched.ilog2() as Gpr;
    let rest = untouched & !(1 << buffer);
    Scratch { buffer, value: rest.ilog2() as Gpr }
}
