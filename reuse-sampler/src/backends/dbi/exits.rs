//! Where translated code leads: out of the cache, to other code, or on.

use super::assemble::{Code, RCX, RDX};
use super::chain::Owed;
use super::layout::shared;

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
