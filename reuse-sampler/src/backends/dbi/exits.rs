//! Where translated code leads: out of the cache, to other code, or on.

use iced_x86::{Code as Opcode, Instruction, OpKind, Register};

use super::assemble::{Code, Gpr, RCX, RDX, RSP, encoded, through};
use super::block::{self, End, Found};
use super::chain::Owed;
use super::layout::shared;
use super::translate::{Mark, Translator};

/// Why code leaves the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// To `target`, not translated yet; the jump's distance is at `patch`.
    Link { target: u64, patch: u64, owed: Option<Owed> },
    /// The window ends before this block.
    Window { pc: u64, owed: Option<Owed> },
    /// The buffer is full before this block.
    Full { pc: u64 },
    /// A system call that the observer decides about.
    Call { pc: u64, next: u64 },
    /// A question about the processor, at `pc`.
    Identify { pc: u64, next: u64 },
    /// The block at `pc`, of this number, is not what it was.
    Changed { pc: u64, number: u32 },
    /// Something that is not translated.
    Unsupported { pc: u64, why: &'static str },
}

impl Exit {
    /// What was counted before and is not executed.
    pub(super) const fn owed(self) -> Option<Owed> {
        match self {
            Self::Link { owed, .. } | Self::Window { owed, .. } => owed,
            _ => None,
        }
    }

    /// The same exit, once that is paid.
    pub(super) const fn paid(self) -> Self {
        match self {
            Self::Link { target, patch, .. } => Self::Link { target, patch, owed: None },
            Self::Window { pc, .. } => Self::Window { pc, owed: None },
            other => other,
        }
    }

    /// Where the program is then.
    pub(super) const fn pc(self) -> u64 {
        match self {
            Self::Link { target: pc, .. }
            | Self::Window { pc, .. }
            | Self::Full { pc }
            | Self::Call { pc, .. }
            | Self::Identify { pc, .. }
            | Self::Changed { pc, .. }
            | Self::Unsupported { pc, .. } => pc,
        }
    }
}

/// What translation needs to know of the cache.
pub(super) trait Cache {
    /// A number for an exit.
    fn exit(&mut self, exit: Exit) -> u32;
    /// Where the code for `pc` is, if it is translated.
    fn translated(&self, pc: u64) -> Option<u64>;
}

/// Addresses of the entry points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries {
    pub exit: u64,
    pub call: u64,
    pub probe: u64,
    pub share: u64,
}

/// Where the code is that a block goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To be found.
    Linked,
    /// Placed behind the block.
    Behind,
    At(u64),
}

/// The indirect entry of the block at `pc`: goes on to `block` if that is what is asked for.
pub(super) fn verify(code: &mut Code, pc: u64, block: u64, entries: Entries) {
    code.set_long(RDX, pc.wrapping_neg());
    code.raw(&[0x48, 0x8D, 0x0C, 0x11]); // lea rcx, [rcx+rdx]
    code.raw(&[0xE3, 5]); // jrcxz over the jump
    code.jump(entries.probe);
    code.load(RCX, shared::SLOT_A);
    code.load(RDX, shared::SLOT_B);
    code.jump(block);
}

impl<C: Cache> Translator<'_, C> {
    pub(super) fn exit_stub(&mut self, exit: Exit) -> u64 {
        let address = self.cold.here();
        let number = self.cache.exit(exit);
        self.cold.store_value(number, shared::EXIT);
        self.cold.jump(self.entries.exit);
        address
    }

    /// Leaves at once.
    pub(super) fn leave(&mut self, exit: Exit) {
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

    /// Writes the jump at the end of a block, or what else goes on from there. Whether it runs into what is behind it.
    pub(super) fn end(&mut self, found: &Found, next: Next, marks: &mut Vec<Mark>) -> Option<bool> {
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
                    let (_, opcode) = found.bytes_of(last)?.split_last()?;
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
            End::Identify => self.leave(Exit::Identify { pc: last.ip(), next: after }),
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
    pub(super) fn push(&mut self, address: u64) {
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

const LOOKUP: [Option<(Gpr, u32)>; 3] = [Some((RCX, shared::SLOT_A)), Some((RDX, shared::SLOT_B)), None];
