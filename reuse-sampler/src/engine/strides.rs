//! How far apart in memory an instruction's successive accesses are, sampled.

use super::gaps::{Gaps, Rate};
use super::random::Random;

/// Accesses after which an instruction is no longer waited for.
pub const PATIENCE: u64 = 1 << 20;

/// An access is chosen at random, and its instruction waited for. One is waited for at a time, so that an access costs one
/// comparison.
#[derive(Clone, Debug)]
pub struct StrideSampler {
    pc: u64,      // waited for, while `waiting`
    store: bool,  // of its accesses, which kind: a copy loads and stores
    address: u64, // of its last access
    waiting: bool,
    left: u64, // accesses until the next one is chosen, or patience ends; at least 1
    gaps: Gaps,
    random: Random,
}

impl StrideSampler {
    /// One access in `mean` (at least 1) is chosen on average; `seed` and `stream` decide which.
    #[must_use]
    pub fn new(mean: f64, seed: u64, stream: u64) -> Self {
        let mut random = Random::new(seed, stream ^ 0x7374_7269_6465);
        let mut gaps = Gaps::new(Rate::Sparse { mean }, &mut random);
        let left = gaps.next(&mut random);
        Self { pc: 0, store: false, address: 0, waiting: false, left, gaps, random }
    }

    /// Sees an access. Returns the bytes since its instruction's last one, if that was waited for.
    #[inline]
    pub fn access(&mut self, pc: u64, address: u64, store: bool) -> Option<i64> {
        if self.waiting && pc == self.pc && store == self.store {
            self.rest();
            return Some(address.wrapping_sub(self.address) as i64);
        }
        self.left -= 1;
        if self.left == 0 {
            self.turn(pc, address, store);
        }
        None
    }

    #[cold]
    fn turn(&mut self, pc: u64, address: u64, store: bool) {
        if self.waiting {
            self.rest();
        } else {
            self.waiting = true;
            (self.pc, self.address, self.store, self.left) = (pc, address, store, PATIENCE);
        }
    }

    #[cold]
    fn rest(&mut self) {
        self.waiting = false;
        self.left = self.gaps.next(&mut self.random);
    }
}
