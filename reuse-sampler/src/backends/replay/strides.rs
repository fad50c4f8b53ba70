//! How far apart in memory an instruction's successive accesses are: whether a prefetcher could know the next one.

use std::collections::{BTreeMap, HashMap};

use crate::engine::gaps::{Gaps, Rate};
use crate::engine::random::Random;
use crate::{Access, SampleGap};

/// Different strides that are counted at one instruction; further ones count as irregular.
const STRIDES: usize = 16;
/// Accesses after which an instruction is no longer waited for.
const PATIENCE: u64 = 1 << 20;

/// The distance in bytes from one access of an instruction to its next, sampled: an access is chosen at random, and its
/// instruction waited for.
///
/// One instruction is waited for at a time, so that an access costs one comparison. Instructions that come round
/// seldom are waited for longer, which makes strides rarer than asked for and leaves the shares *within* an instruction
/// as they are.
///
/// ```
/// use reuse_sampler::replay::Strides;
/// use reuse_sampler::{Access, SampleGap};
///
/// let mut strides = Strides::new(SampleGap::mean(10.0)?, 1);
/// for i in 0..10_000_u64 {
///     strides.access(&Access::load(i * 24, 8).at(0x10)); // an array of structures
///     strides.access(&Access::load(i * i * 7919 % 65_521, 8).at(0x20)); // a hash table
/// }
/// let array = strides.of(0x10).unwrap();
/// assert_eq!((array.bytes, array.share), (24, 1.0));
/// assert!(strides.of(0x20).unwrap().share < 0.5);
/// # Ok::<(), reuse_sampler::Error>(())
/// ```
///
/// # References
/// Khan, Sandberg and Hagersten, *A Case for Resource Efficient Prefetching in Multicores*, ICPP 2014, section IV: a
/// load whose most frequent stride covers 70 % of its samples is taken for regular.
#[derive(Clone, Debug)]
pub struct Strides {
    pc: u64,      // waited for, while `waiting`
    address: u64, // of its last access
    waiting: bool,
    left: u64, // accesses until the next one is chosen, or patience ends; at least 1
    gaps: Gaps,
    random: Random,
    by_pc: HashMap<u64, Tally>,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    samples: u64,
    strides: BTreeMap<i64, u64>, // at most STRIDES
}

/// The most frequent stride of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stride {
    /// How often the instruction was waited for and came.
    pub samples: u64,
    /// The stride in bytes.
    pub bytes: i64,
    /// Share of the samples that had it, from 0 to 1.
    pub share: f64,
}

impl Stride {
    /// Whether the next access can be foreseen: the instruction moves, seven times out of ten by the same stride, which
    /// at least eight samples say.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        self.bytes != 0 && self.share >= 0.7 && self.samples >= 8
    }
}

impl Strides {
    /// One access in so many is chosen on average; `seed` decides which.
    #[must_use]
    pub fn new(gap: SampleGap, seed: u64) -> Self {
        let mut random = Random::new(seed, 0x7374_7269_6465);
        let mut gaps = Gaps::new(Rate::Sparse { mean: gap.accesses() }, &mut random);
        let left = gaps.next(&mut random);
        Self { pc: 0, address: 0, waiting: false, left, gaps, random, by_pc: HashMap::new() }
    }

    /// Sees an access.
    #[inline]
    pub fn access(&mut self, access: &Access) {
        if self.waiting && access.pc == self.pc {
            self.arrived(access.address);
        } else {
            self.left -= 1;
            if self.left == 0 {
                self.turn(access);
            }
        }
    }

    /// The most frequent stride of the instruction at `pc`, if it was seen to come round.
    #[must_use]
    pub fn of(&self, pc: u64) -> Option<Stride> {
        let tally = self.by_pc.get(&pc)?;
        let (&bytes, &count) = tally.strides.iter().max_by_key(|&(&bytes, &count)| (count, bytes))?;
        Some(Stride { samples: tally.samples, bytes, share: count as f64 / tally.samples as f64 })
    }

    #[cold]
    fn arrived(&mut self, address: u64) {
        let stride = address.wrapping_sub(self.address) as i64;
        let tally = self.by_pc.entry(self.pc).or_default();
        tally.samples += 1;
        if tally.strides.len() < STRIDES || tally.strides.contains_key(&stride) {
            *tally.strides.entry(stride).or_default() += 1;
        }
        self.rest();
    }

    #[cold]
    fn turn(&mut self, access: &Access) {
        if self.waiting {
            self.rest();
        } else {
            (self.pc, self.address, self.waiting, self.left) = (access.pc, access.address, true, PATIENCE);
        }
    }

    fn rest(&mut self) {
        self.waiting = false;
        self.left = self.gaps.next(&mut self.random);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_that_never_comes_back_is_given_up() {
        let mut strides = Strides::new(SampleGap::mean(1.0).unwrap(), 3);
        strides.access(&Access::load(0, 8).at(1));
        for i in 0..2 * PATIENCE {
            strides.access(&Access::load(i * 8, 8).at(2));
        }
        assert_eq!(strides.of(1), None);
        assert!(strides.of(2).is_some_and(|stride| stride.bytes == 8 && stride.is_regular()));
    }

    #[test]
    fn a_walk_back_and_one_on_the_spot() {
        let mut strides = Strides::new(SampleGap::mean(5.0).unwrap(), 3);
        for i in (0..5_000_u64).rev() {
            strides.access(&Access::load(i * 16, 8).at(1));
            strides.access(&Access::store(64, 8).at(2));
        }
        assert!(strides.of(1).is_some_and(|stride| stride.bytes == -16 && stride.is_regular()));
        assert!(strides.of(2).is_some_and(|stride| stride.bytes == 0 && !stride.is_regular()));
    }
}
