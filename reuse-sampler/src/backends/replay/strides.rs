//! How far apart in memory an instruction's successive accesses are: whether a prefetcher could know the next one.

use std::collections::{BTreeMap, HashMap};

use crate::engine::strides::StrideSampler;
use crate::{Access, AccessKind, SampleGap};

/// Different strides that are counted at one instruction; further ones count as irregular.
const STRIDES: usize = 16;

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
#[derive(Clone, Debug, Default)]
pub struct Strides {
    sampler: Option<StrideSampler>, // none where a backend samples
    by_pc: HashMap<u64, Tally>,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    samples: u64,
    strides: BTreeMap<i64, u64>, // at most STRIDES
}

impl Tally {
    fn add(&mut self, stride: i64) {
        self.samples += 1;
        if self.strides.len() < STRIDES || self.strides.contains_key(&stride) {
            *self.strides.entry(stride).or_default() += 1;
        }
    }
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
        Self { sampler: Some(StrideSampler::new(gap.accesses(), seed, 0)), by_pc: HashMap::new() }
    }

    /// Sees an access. Without effect on the default, which only takes what backends sample.
    #[inline]
    pub fn access(&mut self, access: &Access) {
        let store = access.kind == AccessKind::Store;
        let Some(sampler) = &mut self.sampler else { return };
        if let Some(stride) = sampler.access(access.pc, access.address, store) {
            self.add(&[(access.pc, stride)]);
        }
    }

    /// Adds strides that a backend has sampled: [`Window::strides`](crate::Window::strides).
    pub fn add(&mut self, sampled: &[(u64, i64)]) {
        for &(pc, stride) in sampled {
            self.by_pc.entry(pc).or_default().add(stride);
        }
    }

    /// The most frequent stride of the instruction at `pc`, if it was seen to come round.
    #[must_use]
    pub fn of(&self, pc: u64) -> Option<Stride> {
        let tally = self.by_pc.get(&pc)?;
        let (&bytes, &count) = tally.strides.iter().max_by_key(|&(&bytes, &count)| (count, bytes))?;
        Some(Stride { samples: tally.samples, bytes, share: count as f64 / tally.samples as f64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::strides::PATIENCE;

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
