//! Numbers for blocks of code, so that counting one is an addition to an array.
//!
//! A block keeps its number when it is translated again, as happens at every change of instrumentation.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::hash::FastMap;

/// Address and number of instructions of each block ever translated.
#[derive(Default)]
pub struct Blocks {
    numbers: FastMap<(u64, u64), u32>,
    addresses: Vec<u64>, // by number
}

static BLOCKS: Mutex<Option<Blocks>> = Mutex::new(None);

/// The blocks, for as long as the guard lives.
pub fn lock() -> MutexGuard<'static, Option<Blocks>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the emulator hands back with every execution of a block, packed into a pointer: the block's number
/// (bits 0 to 31), its instructions (32 to 47) and whether its accesses are reported (48).
#[derive(Clone, Copy)]
pub struct Tag(u64);

impl Tag {
    /// The tag of a block.
    pub fn new(number: u32, instructions: u64, instrumented: bool) -> Self {
        Self(u64::from(number) | instructions.min(0xFFFF) << 32 | u64::from(instrumented) << 48)
    }

    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub const fn number(self) -> usize {
        self.0 as u32 as usize
    }

    #[inline(always)]
    pub const fn instructions(self) -> u64 {
        self.0 >> 32 & 0xFFFF
    }

    pub const fn instrumented(self) -> bool {
        self.0 >> 48 & 1 != 0
    }
}

/// The number of the block of `instructions` instructions at `address`.
pub fn number_of(address: u64, instructions: u64) -> u32 {
    let mut guard = lock();
    let blocks = guard.get_or_insert_with(Blocks::default);
    let next = blocks.addresses.len() as u32;
    let number = *blocks.numbers.entry((address, instructions)).or_insert(next);
    if number == next {
        blocks.addresses.push(address);
    }
    number
}

/// Takes the counts that are not zero out of `counts` (instructions executed, by block number) as (address,
/// instructions), each address once, ascending.
pub fn drain_counts(counts: &mut [u64]) -> Vec<(u64, u64)> {
    let guard = lock();
    let Some(blocks) = guard.as_ref() else { return Vec::new() };
    let mut code: Vec<(u64, u64)> = Vec::new();
    for (count, &address) in counts.iter_mut().zip(&blocks.addresses) {
        if *count > 0 {
            code.push((address, std::mem::take(count)));
        }
    }
    drop(guard);
    code.sort_unstable();
    code.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 += later.1;
        }
        same
    });
    code
}
