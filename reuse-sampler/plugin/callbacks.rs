//! Which function the emulator calls for the accesses of an instruction.

use std::ffi::c_void;

use crate::api::{MemInfo, MemoryCallback};
use crate::hot::{ASK, Kind, access, modified, wide};
use crate::operand::{Operand, STATE};
use crate::shared::layout::Reported;
use crate::trace;

/// Memory was accessed and nobody wants to know.
pub extern "C" fn nothing(_: u32, _: MemInfo, _: u64, _: *mut c_void) {}

/// What is called for the accesses of an instruction.
#[derive(Clone, Copy)]
pub struct Pair {
    /// Takes the address of the instruction; in a trace the place of the instruction in its block.
    pub near: MemoryCallback,
    /// Takes the address of the instruction, in a trace where there is no place for it.
    pub far: MemoryCallback,
}

/// What is called for accesses, by the instruction's [`Operand`].
#[derive(Clone, Copy)]
pub struct Accesses {
    single: Pair,
    modified: Pair,
    wide: [Pair; 4], // of 8, 16, 32 bytes, and of the processor's state
}

impl Accesses {
    /// The accesses are ignored.
    pub const IGNORED: Self = {
        let nothing = Pair { near: nothing, far: nothing };
        Self { single: nothing, modified: nothing, wide: [nothing; 4] }
    };

    /// What is called for an instruction of such operands.
    pub const fn of(&self, operand: Operand) -> Pair {
        match operand {
            Operand::Single => self.single,
            Operand::Modified => self.modified,
            Operand::Wide(8) => self.wide[0],
            Operand::Wide(16) => self.wide[1],
            Operand::Wide(32) => self.wide[2],
            Operand::Wide(_) => self.wide[3],
        }
    }
}

/// The callbacks for accesses that suit this emulator. The packing is not promised by the interface, but it is
/// the same for the life of a process: bits of the size begin at 4 or 5, the one for stores is 17.
pub fn choose_access(reported: Reported, strides: bool) -> Accesses {
    fn of_windows<const LAYOUT: u32, const STRIDES: bool>() -> Accesses {
        let both = |callback: MemoryCallback| Pair { near: callback, far: callback };
        Accesses {
            single: both(access::<LAYOUT, STRIDES>),
            modified: both(modified::<LAYOUT, STRIDES>),
            wide: [
                both(wide::<LAYOUT, 8, STRIDES>),
                both(wide::<LAYOUT, 16, STRIDES>),
                both(wide::<LAYOUT, 32, STRIDES>),
                both(wide::<LAYOUT, STATE, STRIDES>),
            ],
        }
    }
    fn of_layout<const LAYOUT: u32>(reported: Reported, strides: bool) -> Accesses {
        match reported {
            Reported::Windows if strides => of_windows::<LAYOUT, true>(),
            Reported::Windows => of_windows::<LAYOUT, false>(),
            Reported::Accesses => {
                const fn wide<const LAYOUT: u32, const WIDTH: u64>() -> Pair {
                    Pair {
                        near: trace::wide::<LAYOUT, WIDTH, true>,
                        far: trace::wide::<LAYOUT, WIDTH, false>,
                    }
                }
                Accesses {
                    single: Pair { near: trace::access::<LAYOUT>, far: trace::far_access::<LAYOUT> },
                    modified: Pair {
                        near: trace::modified::<LAYOUT, true>,
                        far: trace::modified::<LAYOUT, false>,
                    },
                    wide: [
                        wide::<LAYOUT, 8>(),
                        wide::<LAYOUT, 16>(),
                        wide::<LAYOUT, 32>(),
                        wide::<LAYOUT, STATE>(),
                    ],
                }
            }
            Reported::Fetches => Accesses::IGNORED,
        }
    }
    if Kind::are_packed::<4>() {
        of_layout::<4>(reported, strides)
    } else if Kind::are_packed::<5>() {
        of_layout::<5>(reported, strides)
    } else {
        of_layout::<ASK>(reported, strides)
    }
}
