//! Whether code reads the flags that it is entered with, before it writes them.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, RflagsBits};

use super::block::{End, end_of};
use super::memory::{Source, Trust};

/// Those of arithmetic.
pub(super) const FLAGS: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;

/// Whether the flags that the instruction writes are written whatever its operands are.
fn surely_writes(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    !matches!(
        instruction.mnemonic(),
        M::Shl | M::Shr | M::Sar | M::Sal | M::Rol | M::Ror | M::Rcl | M::Rcr | M::Shld | M::Shrd
    ) && !instruction.has_rep_prefix()
        && !instruction.has_repne_prefix()
}

/// What the flags are for: read first, or written first. Ends with those that are neither.
#[derive(Clone, Copy, Debug)]
pub(super) struct Liveness {
    pub unknown: u32,
    pub read: bool,
}

impl Liveness {
    pub(super) fn see(&mut self, instruction: &Instruction) {
        if self.unknown == 0 || self.read {
            return;
        }
        if instruction.rflags_read() & self.unknown != 0 {
            self.read = true;
        } else if surely_writes(instruction) {
            self.unknown &= !instruction.rflags_modified();
        }
    }
}

/// Whether the code at `pc` may read those of the `unknown` flags that it is entered with. Code more than `depth` jumps away is
/// assumed to.
pub(super) fn may_read_flags(pc: u64, unknown: u32, depth: u32, read: &mut dyn FnMut(u64) -> Source) -> bool {
    let source = read(pc);
    if source.trust != Trust::Fixed {
        return true;
    }
    let mut decoder = Decoder::with_ip(64, source.bytes(), pc, DecoderOptions::NONE);
    let mut liveness = Liveness { unknown, read: false };
    let mut instruction = Instruction::default();
    for _ in 0..24 {
        if !decoder.can_decode() {
            return true;
        }
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return true;
        }
        liveness.see(&instruction);
        if liveness.read {
            return true;
        }
        if liveness.unknown == 0 {
            return false;
        }
        let unknown = liveness.unknown;
        match end_of(&instruction) {
            None => {}
            _ if depth == 0 => return true,
            Some(End::Jump(target) | End::Call(target)) => {
                return may_read_flags(target, unknown, depth - 1, read);
            }
            Some(End::Branch(target)) => {
                return may_read_flags(target, unknown, depth - 1, read)
                    || may_read_flags(instruction.next_ip(), unknown, depth - 1, read);
            }
            Some(_) => return true,
        }
    }
    true
}
