//! Fully associative caches with random replacement, up to 64 of them in one pass.
//!
//! Each line carries a mask of the caches that hold it: where it is in all of them, which is the common case,
//! an access costs one comparison whatever their number.

use crate::{CacheLines, Line};
use thiserror::Error;

use super::LineIds;
use crate::engine::random::Random;

/// Sizes and seeds that cannot be simulated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RandomCachesError {
    /// Too many caches for one pass, or none.
    #[error("{sizes} sizes with {seeds} seeds each: give from 1 to 64 combinations")]
    Combinations {
        /// Sizes asked for.
        sizes: usize,
        /// Seeds asked for.
        seeds: usize,
    },
    /// A size that makes no cache, or one too large to simulate.
    #[error("a cache of {lines} lines: give from 1 to 2^31")]
    Size {
        /// The size asked for.
        lines: u64,
    },
}

#[derive(Clone, Debug)]
struct Cache {
    held: Vec<u32>, // line numbers, at most `size` of them
    size: usize,
    random: Random, // a sequence of its own for every size and seed
    misses: u64,
}

/// Random-replacement caches of several sizes, each simulated with several seeds.
///
/// Empty places are filled before anything is replaced.
///
/// ```
/// use reuse_sampler::reference::ExactRandom;
/// use reuse_sampler::{CacheLines, Line};
///
/// let mut caches = ExactRandom::new(&[CacheLines(1), CacheLines(4)], &[1, 2, 3])?;
/// for i in 0..30 {
///     caches.access(Line(i % 3));
/// }
/// assert_eq!(caches.take_window().misses(), [30.0, 3.0]); // averages over the seeds
/// # Ok::<(), reuse_sampler::reference::RandomCachesError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExactRandom {
    ids: LineIds,
    holders: Vec<u64>,  // by line number: bit k set where caches[k] holds the line
    all: u64,           // the mask of all caches
    caches: Vec<Cache>, // by size, then by seed
    seeds: usize,
    accesses: u64, // in this window
}

/// The misses of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomWindow {
    misses: Vec<Vec<u64>>, // by size, then by seed
    accesses: u64,
}

impl RandomWindow {
    /// Accesses in the window.
    #[must_use]
    pub const fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Misses at each size, averaged over the seeds.
    #[must_use]
    pub fn misses(&self) -> Vec<f64> {
        self.misses.iter().map(|runs| runs.iter().sum::<u64>() as f64 / runs.len() as f64).collect()
    }

    /// Misses at each size with each seed.
    #[must_use]
    pub fn runs(&self) -> &[Vec<u64>] {
        &self.misses
    }
}

impl ExactRandom {
    /// Empty caches of each of `sizes`, for each of `seeds`.
    ///
    /// # Errors
    /// [`RandomCachesError`] if there are more than 64 combinations, none, or a size is not from 1 to 2^31.
    pub fn new(sizes: &[CacheLines], seeds: &[u64]) -> Result<Self, RandomCachesError> {
        let combinations = sizes.len().saturating_mul(seeds.len());
        if combinations == 0 || combinations > 64 {
            return Err(RandomCachesError::Combinations { sizes: sizes.len(), seeds: seeds.len() });
        }
        let mut caches = Vec::new();
        for &CacheLines(lines) in sizes {
            if lines == 0 || lines > 1 << 31 {
                return Err(RandomCachesError::Size { lines });
            }
            caches.extend(seeds.iter().map(|seed| Cache {
                held: Vec::new(),
                size: lines as usize,
                random: Random::from_state(seed.wrapping_add(lines << 32)),
                misses: 0,
            }));
        }
        let all = u64::MAX >> (64 - combinations);
        Ok(Self { ids: LineIds::new(), holders: Vec::new(), all, caches, seeds: seeds.len(), accesses: 0 })
    }

    /// Accesses `line` in every cache.
    #[inline]
    pub fn access(&mut self, line: Line) {
        self.accesses += 1;
        let (id, first) = self.ids.id(line);
        if first {
            self.holders.push(0);
        }
        let missing = self.all & !self.holders[id as usize];
        if missing != 0 {
            self.fetch(id, missing);
        }
    }

    fn fetch(&mut self, id: u32, mut missing: u64) {
        self.holders[id as usize] = self.all;
        while missing != 0 {
            let k = missing.trailing_zeros() as usize;
            missing &= missing - 1;
            let cache = &mut self.caches[k];
            cache.misses += 1;
            if cache.held.len() < cache.size {
                cache.held.push(id);
            } else {
                let victim = &mut cache.held[cache.random.below(cache.size)];
                self.holders[*victim as usize] &= !(1 << k);
                *victim = id;
            }
        }
    }

    /// Ends a window and returns its misses. The caches keep their lines.
    pub fn take_window(&mut self) -> RandomWindow {
        let misses: Vec<u64> =
            self.caches.iter_mut().map(|cache| std::mem::take(&mut cache.misses)).collect();
        let misses = misses.chunks(self.seeds).map(<[u64]>::to_vec).collect();
        RandomWindow { misses, accesses: std::mem::take(&mut self.accesses) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cyclic scan over N lines in a cache of L < N: between two touches of a line come (N - 1) m misses,
    /// each of which spares it with probability 1 - 1/L; in the long run m = 1 - (1 - 1/L)^((N-1) m).
    #[test]
    fn cyclic_scan_agrees_with_its_equation() {
        let (lines, size) = (400_u64, 300_u64);
        let mut caches = ExactRandom::new(&[CacheLines(size)], &[1, 2, 3, 4]).unwrap();
        for i in 0..lines * 100 {
            caches.access(Line(i % lines));
        }
        caches.take_window();
        for i in 0..lines * 1000 {
            caches.access(Line(i % lines));
        }
        let window = caches.take_window();
        let measured = window.misses()[0] / window.accesses() as f64;
        let mut expected: f64 = 1.0;
        for _ in 0..1000 {
            expected = 1.0 - (1.0 - 1.0 / size as f64).powf((lines - 1) as f64 * expected);
        }
        // The equation replaces the number of misses in between by its mean: about 1 % off at this size.
        assert!((measured - expected).abs() < 0.015, "{measured} against {expected}");
    }

    /// Uniformly random accesses to N lines hit with probability L / N whatever the policy.
    #[test]
    fn uniform_accesses_hit_in_proportion_to_the_size() {
        let mut random = Random::from_state(7);
        let sizes = [CacheLines(1), CacheLines(250), CacheLines(999)];
        let mut caches = ExactRandom::new(&sizes, &[1, 2]).unwrap();
        for _ in 0..20_000 {
            caches.access(Line(random.below(1000) as u64));
        }
        caches.take_window();
        for _ in 0..200_000 {
            caches.access(Line(random.below(1000) as u64));
        }
        let window = caches.take_window();
        for (size, misses) in sizes.iter().zip(window.misses()) {
            let expected = 1.0 - size.0 as f64 / 1000.0;
            let measured = misses / window.accesses() as f64;
            // Four standard deviations of 200,000 Bernoulli draws (both seeds see the same ones).
            assert!((measured - expected).abs() < 0.005, "{size:?}: {measured} against {expected}");
        }
    }

    #[test]
    fn impossible_combinations_are_refused() {
        let refused = |sizes: &[u64], seeds: &[u64]| {
            let sizes: Vec<_> = sizes.iter().map(|&lines| CacheLines(lines)).collect();
            ExactRandom::new(&sizes, seeds).unwrap_err()
        };
        assert_eq!(refused(&[], &[1]), RandomCachesError::Combinations { sizes: 0, seeds: 1 });
        assert_eq!(refused(&[1; 13], &[0; 5]), RandomCachesError::Combinations { sizes: 13, seeds: 5 });
        assert_eq!(refused(&[0], &[1]), RandomCachesError::Size { lines: 0 });
        assert_eq!(refused(&[1 << 32], &[1]), RandomCachesError::Size { lines: 1 << 32 });
    }
}
