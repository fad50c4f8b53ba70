//! From fully associative caches to those that divide their lines into sets.
//!
//! In a cache of S sets, an access misses under LRU if A or more of the different lines touched since its own line
//! share the set of that line: however recent they are, they push it out. If lines fall into sets at random, the
//! number T of different lines that it takes until A are in one set has a negative binomial distribution, and the
//! set-associative cache is a mixture of fully associative ones: one of size T, drawn anew for each access.

use crate::{CacheLines, CacheModel, Error, Evaluator, LineSize, MissRatioCurve, Reuse, Scope};

/// Sizes that stand for the distribution of T, each for the same share of it.
const STRATA: u32 = 128;

/// Most ways that can be asked for. More are a fully associative cache for all purposes.
const MAX_WAYS: u32 = 256;

/// An LRU model for caches of so many ways, made of one for fully associative caches.
///
/// The caller supplies a model of *LRU* replacement: StatStack, a [`Grouped`](crate::Grouped) of them, or anything
/// that answers from stack distances. Random replacement needs no correction: a line that survives each miss with
/// probability 1 - 1/L does so whether the victim is drawn from the whole cache or from a set that is.
///
/// # Formula
/// With L lines in sets of A, a line falls into a given set with probability p = min(1, A/L). An access of stack
/// distance s misses if at least A of s lines do:
///
/// P(miss | s) = P(Bin(s, p) >= A) = P(T <= s), with T negative binomial: the trials until the A-th success.
///
/// Averaged over all accesses that is the expectation of m(T), m being the fully associative miss ratio: the mean of
/// m at the middles of 128 strata of T of equal probability, so that a step of m is met within 1/256 of its height.
///
/// # Limits
/// Sets are taken to be chosen at random. Processors take the lowest bits of the line's number, which spreads
/// neighbouring lines *better* than chance, and lines a power of two apart worse.
///
/// # Cost
/// 128 questions to the model per size, and some 10 µs per size to find them.
///
/// # References
/// Smith, *A Comparative Study of Set Associative Memory Mapping Algorithms and Their Use for Cache and Main
/// Memory*, IEEE TSE SE-4 (1978); Hill and Smith, *Evaluating Associativity in CPU Caches*, IEEE ToC 38 (1989),
/// section V.
///
/// ```
/// use reuse_sampler::{CacheLines, CacheModel, Evaluator, LineSize, ReuseDistance, SetAssociative};
///
/// /// A loop over 1,000 lines.
/// struct Loop;
/// impl CacheModel for Loop {
///     fn line_size(&self) -> LineSize {
///         LineSize::B64
///     }
///     fn at(&self, size: CacheLines) -> Evaluator<'_> {
///         Evaluator::step(ReuseDistance(size.0))
///     }
///     fn miss_ratio(&self, size: CacheLines) -> f64 {
///         if size.0 < 1_000 { 1.0 } else { 0.0 }
///     }
/// }
///
/// let eight_ways = SetAssociative::new(Loop, 8)?;
/// let misses = eight_ways.miss_ratio(CacheLines(1_024)); // it fits, but not all sets hold what falls into them
/// assert!(misses > 0.4 && misses < 0.6);
/// # Ok::<(), reuse_sampler::Error>(())
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "Saved<M>", bound(deserialize = "M: CacheModel + serde::Deserialize<'de>"))
)]
pub struct SetAssociative<M> {
    model: M,
    ways: u32, // in [1, MAX_WAYS]
}

/// A model as it is read: its ways are not yet known to make a set.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved<M> {
    model: M,
    ways: u32,
}

#[cfg(feature = "serde")]
impl<M: CacheModel> TryFrom<Saved<M>> for SetAssociative<M> {
    type Error = Error;

    fn try_from(saved: Saved<M>) -> Result<Self, Error> {
        Self::new(saved.model, saved.ways)
    }
}

impl<M: CacheModel> SetAssociative<M> {
    /// Caches of `ways` lines in each set, from a model of fully associative ones. A size that is no multiple of
    /// `ways` has a fraction of a set; one below `ways` is a single set.
    ///
    /// # Errors
    /// [`Error::Ways`] unless there are 1 to 256 ways.
    pub fn new(model: M, ways: u32) -> Result<Self, Error> {
        if (1..=MAX_WAYS).contains(&ways) { Ok(Self { model, ways }) } else { Err(Error::Ways { ways }) }
    }

    /// The model of fully associative caches.
    #[must_use]
    pub const fn fully_associative(&self) -> &M {
        &self.model
    }

    /// The fully associative sizes that a cache of `size` is a mixture of, ascending, in equal parts.
    fn sizes(&self, size: CacheLines) -> Vec<CacheLines> {
        let ways = u64::from(self.ways);
        if size.0 <= ways {
            return vec![size];
        }
        let conflict = Conflict { ways: self.ways, chance: ways as f64 / size.0 as f64 };
        let mut low = ways - 1; // P(T <= low) = 0
        let stratum = |k: u32| {
            let middle = (f64::from(k) + 0.5) / f64::from(STRATA);
            let mut high = low.saturating_mul(2).max(ways);
            // A stratum beyond the largest number of lines stands there.
            while high < u64::MAX && conflict.probability(high) < middle {
                high = high.saturating_mul(2);
            }
            while high - low > 1 {
                let between = low + (high - low) / 2;
                if conflict.probability(between) < middle {
                    low = between;
                } else {
                    high = between;
                }
            }
            CacheLines(high)
        };
        (0..STRATA).map(stratum).collect()
    }
}

impl<M: CacheModel> CacheModel for SetAssociative<M> {
    fn line_size(&self) -> LineSize {
        self.model.line_size()
    }

    fn scope(&self) -> Scope {
        self.model.scope()
    }

    fn at(&self, size: CacheLines) -> Evaluator<'_> {
        let sizes = self.sizes(size);
        let share = 1.0 / sizes.len() as f64;
        let parts: Vec<_> = sizes.into_iter().map(|size| self.model.at(size)).collect();
        Evaluator::function(move |distance| {
            let misses: f64 = parts.iter().map(|at| at.miss_probability(Reuse::Distance(distance))).sum();
            (misses * share).min(1.0)
        })
    }

    fn miss_ratio(&self, size: CacheLines) -> f64 {
        mean(&self.model.curve(&self.sizes(size)))
    }

    /// That of the model of fully associative caches: what sets add is not known.
    fn standard_error(&self, size: CacheLines) -> f64 {
        self.model.standard_error(size)
    }

    fn curve(&self, sizes: &[CacheLines]) -> MissRatioCurve {
        let points = sizes.iter().map(|&size| (size, self.miss_ratio(size))).collect();
        MissRatioCurve::new(self.line_size(), self.scope(), points)
    }
}

fn mean(curve: &MissRatioCurve) -> f64 {
    let sum: f64 = curve.points.iter().map(|point| point.1).sum();
    sum / curve.points.len() as f64
}

/// Lines that fall into one set by chance.
struct Conflict {
    ways: u32,   // >= 1
    chance: f64, // in (0, 1)
}

impl Conflict {
    /// P(Bin(lines, chance) >= ways).
    fn probability(&self, lines: u64) -> f64 {
        let n = lines as f64;
        let odds = self.chance / (1.0 - self.chance);
        // The terms of fewer, from none on; the first is e^-700 at the least where it matters.
        let mut term = (n * (-self.chance).ln_1p()).exp();
        let mut fewer = 0.0;
        for k in 0..self.ways {
            fewer += term;
            term *= odds * (n - f64::from(k)) / (f64::from(k) + 1.0);
            if term <= 0.0 {
                break; // no more lines than that
            }
        }
        (1.0 - fewer).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReuseDistance;

    /// All accesses have this stack distance.
    #[derive(Debug)]
    struct At(u64);

    impl CacheModel for At {
        fn line_size(&self) -> LineSize {
            LineSize::B64
        }
        fn at(&self, size: CacheLines) -> Evaluator<'_> {
            Evaluator::step(ReuseDistance(size.0))
        }
        fn miss_ratio(&self, size: CacheLines) -> f64 {
            f64::from(u8::from(self.0 >= size.0))
        }
    }

    /// Throws `lines` lines into `sets` sets many times and counts how often `ways` hit the first.
    fn thrown(lines: u64, sets: u64, ways: u32) -> f64 {
        let mut state = 7_u64;
        let rounds = 40_000;
        let mut full = 0;
        for _ in 0..rounds {
            let mut here = 0;
            for _ in 0..lines {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                here += u32::from((state >> 33) % sets == 0);
            }
            full += u32::from(here >= ways);
        }
        f64::from(full) / f64::from(rounds)
    }

    #[test]
    fn agrees_with_lines_thrown_into_sets() {
        for (ways, sets) in [(1, 16), (4, 16), (8, 16), (16, 4)] {
            let size = CacheLines(u64::from(ways) * sets);
            for lines in [size.0 / 2, size.0 - 1, size.0, size.0 * 3 / 2] {
                let model = SetAssociative::new(At(lines), ways).unwrap();
                let expected = thrown(lines, sets, ways);
                // Half a stratum, and three standard deviations of 40,000 throws.
                let found = model.miss_ratio(size);
                assert!(
                    (found - expected).abs() < 1.0 / 256.0 + 0.0075,
                    "{ways} {lines}: {found} {expected}"
                );
                let single = model.at(size).miss_probability(Reuse::Distance(ReuseDistance(lines)));
                assert_eq!(single, found);
            }
        }
    }

    #[test]
    fn a_single_set_is_fully_associative() {
        let model = SetAssociative::new(At(8), 8).unwrap();
        assert_eq!((model.miss_ratio(CacheLines(8)), model.miss_ratio(CacheLines(0))), (1.0, 1.0));
        let model = SetAssociative::new(At(7), 8).unwrap();
        assert_eq!((model.miss_ratio(CacheLines(8)), model.miss_ratio(CacheLines(7))), (0.0, 1.0));
    }

    #[test]
    fn the_mean_size_of_the_mixture_is_that_of_the_cache() {
        // E[T] = A / p = L; the middles of strata leave out the ends of the tails, one percent of a direct-mapped
        // cache's.
        for (ways, size, within) in [(1, 64, 0.015), (4, 4096, 0.01), (16, 1 << 20, 0.01), (256, 4096, 0.01)]
        {
            let model = SetAssociative::new(At(0), ways).unwrap();
            let sizes = model.sizes(CacheLines(size));
            let mean = sizes.iter().map(|size| size.0 as f64).sum::<f64>() / sizes.len() as f64;
            assert!((mean / size as f64 - 1.0).abs() < within, "{ways} {size}: {mean}");
            assert!(sizes.is_sorted());
        }
    }

    #[test]
    fn no_way_and_too_many_are_refused() {
        for ways in [0, 257] {
            assert_eq!(SetAssociative::new(At(1), ways).unwrap_err(), Error::Ways { ways });
        }
    }
}
