//! How far apart in memory an instruction's successive accesses are, sampled.

use super::gaps::{Gaps, Rate};
use super::random::Random;

/// Accesses after which an instruction is no longer waited for. Meanwhile nothing else is chosen: a loop of a million accesses
/// must not pass unseen because the one before it ended just then.
pub const PATIENCE: u64 = 1 << 16;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_seen_whatever_ended_before_it() {
        const LENGTH: u64 = 1 << 20;
        for seed in 0..200 {
            let mut sampler = StrideSampler::new(50.0, seed, 0);
            let mut strides = 0;
            for (pc, accesses) in [(1, 1000), (2, 1), (3, LENGTH)] {
                for i in 0..accesses {
                    strides += u64::from(sampler.access(pc, 8 * i, false).is_some() && pc == 3);
                }
            }
            assert!(strides > LENGTH / 50 * 4 / 5, "seed {seed}: {strides}");
        }
    }
}
