//! SHARDS: miss ratio curves from the exact stack distances of a small, fixed set of lines.
//!
//! A line is followed if a hash of its number falls below a threshold: always or never, so that every reuse of a
//! followed line is seen. Followed are a fraction R of the lines, so that between two touches 1/R times as many lines
//! were touched as followed ones: stack distances are scaled by 1/R. R = 1 follows everything and is exact. What is
//! left out: the variant of fixed size, which lowers the threshold as lines turn up.
//!
//! Waldspurger, Park, Garthwaite and Ahmad, *Efficient MRC Construction with SHARDS*, FAST 2015: section 3 on the
//! method, section 4.3 on the adjustment.

use crate::{CacheLines, Line};

use super::{LruStack, StackHistogram};

/// Share of the lines that are followed.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct SpatialRate(f64); // in (0, 1]

/// Why a rate is none.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a share of {rate} of the lines cannot be followed: give one above 0 and at most 1")]
pub struct SpatialRateError {
    rate: f64,
}

impl SpatialRate {
    /// Follows this share of the lines.
    ///
    /// # Errors
    /// [`SpatialRateError`] unless `rate` is above 0 and at most 1.
    pub fn new(rate: f64) -> Result<Self, SpatialRateError> {
        if rate > 0.0 && rate <= 1.0 { Ok(Self(rate)) } else { Err(SpatialRateError { rate }) }
    }

    /// The share.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Largest hash of a line that is followed.
    fn threshold(self) -> u64 {
        (self.0 * u64::MAX as f64) as u64 // saturates: everything at 1
    }
}

/// The hash that decides whether a line is followed; seeds decide independently. The finalizer of `SplitMix64`, which
/// spreads neighbouring lines over all values.
#[inline]
#[must_use]
pub fn spatial_hash(line: Line, seed: u64) -> u64 {
    let mut z =
        line.0.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed.wrapping_mul(0xD1B5_4A32_D192_ED03);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Fixed-rate SHARDS over a stream of lines, with the accesses of each window apart.
///
/// # Cost
/// A hash for each access; for followed lines what [`LruStack`] costs, in memory, too.
///
/// ```
/// use reuse_sampler::reference::{Shards, SpatialRate};
/// use reuse_sampler::{CacheLines, Line};
///
/// let mut shards = Shards::new(SpatialRate::new(1.0)?, 0);
/// for i in 0..30 {
///     shards.access(Line(i % 3)); // a cyclic scan over three lines
/// }
/// let window = shards.take_window();
/// assert_eq!(window.miss_ratio(CacheLines(2), true), Some(1.0));
/// assert_eq!(window.miss_ratio(CacheLines(3), true), Some(0.1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shards {
    rate: SpatialRate,
    threshold: u64,
    seed: u64,
    stack: LruStack,
    window: StackHistogram, // of followed lines
    accesses: u64,          // of all lines, in the window
}

/// The accesses of a window: all are counted, those to followed lines have distances.
#[derive(Clone, Debug)]
pub struct ShardsWindow {
    rate: SpatialRate,
    followed: StackHistogram,
    accesses: u64,
}

impl Shards {
    /// Follows the share `rate` of the lines, chosen by `seed`.
    #[must_use]
    pub fn new(rate: SpatialRate, seed: u64) -> Self {
        Self {
            rate,
            threshold: rate.threshold(),
            seed,
            stack: LruStack::new(),
            window: StackHistogram::default(),
            accesses: 0,
        }
    }

    /// The share of the lines that are followed.
    #[must_use]
    pub const fn rate(&self) -> SpatialRate {
        self.rate
    }

    /// Accesses `line`.
    #[inline]
    pub fn access(&mut self, line: Line) {
        self.access_hashed(line, spatial_hash(line, self.seed));
        self.accesses += 1;
    }

    /// Accesses `line`, whose hash is `hash`, without counting it among all: for several rates over one stream, of
    /// which most see nothing of most accesses. [`pass`](Self::pass) counts those accesses.
    #[inline]
    pub fn access_hashed(&mut self, line: Line, hash: u64) {
        if hash <= self.threshold {
            let distance = self.stack.access(line);
            self.window.record(distance);
        }
    }

    /// Counts accesses that were made, whether or not they were handed in.
    pub const fn pass(&mut self, accesses: u64) {
        self.accesses += accesses;
    }

    /// Ends a window. What was touched before stays touched.
    pub fn take_window(&mut self) -> ShardsWindow {
        ShardsWindow {
            rate: self.rate,
            followed: std::mem::take(&mut self.window),
            accesses: std::mem::take(&mut self.accesses),
        }
    }
}

impl ShardsWindow {
    /// Accesses to followed lines: the samples.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.followed.accesses()
    }

    /// Miss ratio of an LRU cache of `size` lines, cold misses included. With `adjusted`, as many accesses are taken to
    /// be followed as should be on average, and those missing (or too many) are given to the shortest distance, which
    /// always hits: a hot line that happens to be followed or not then changes nothing else. Without, `None` if no
    /// access was followed; with it, if there was none at all.
    #[must_use]
    pub fn miss_ratio(&self, size: CacheLines, adjusted: bool) -> Option<f64> {
        let rate = self.rate.get();
        // A distance d stands for d / R, which is at least L where d is at least R L.
        let scaled = CacheLines((size.0 as f64 * rate).ceil() as u64);
        let misses = self.followed.misses(&[scaled])[0] as f64;
        let all = if adjusted { self.accesses as f64 * rate } else { self.samples() as f64 };
        (all > 0.0).then(|| (misses / all).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::super::ExactLru;
    use super::*;

    fn shards(rate: f64, seed: u64, lines: &[Line]) -> ShardsWindow {
        let mut shards = Shards::new(SpatialRate::new(rate).unwrap(), seed);
        for &line in lines {
            shards.access(line);
        }
        shards.take_window()
    }

    quickcheck! {
        fn following_everything_is_exact(lines: Vec<u8>, seed: u64, size: u8) -> bool {
            let lines: Vec<Line> = lines.into_iter().map(|line| Line(u64::from(line))).collect();
            let mut exact = ExactLru::new();
            for &line in &lines {
                exact.access(line);
            }
            let size = CacheLines(u64::from(size));
            let misses = exact.total().misses(&[size])[0] as f64;
            let expected = (!lines.is_empty()).then(|| misses / lines.len() as f64);
            let window = shards(1.0, seed, &lines);
            [true, false].iter().all(|&adjusted| window.miss_ratio(size, adjusted) == expected)
        }

        fn a_window_handed_in_by_hash_is_the_same(lines: Vec<u16>, seed: u64) -> bool {
            let lines: Vec<Line> = lines.into_iter().map(|line| Line(u64::from(line))).collect();
            let mut by_hash = Shards::new(SpatialRate(0.3), seed);
            for &line in &lines {
                by_hash.access_hashed(line, spatial_hash(line, seed));
            }
            by_hash.pass(lines.len() as u64);
            let (a, b) = (by_hash.take_window(), shards(0.3, seed, &lines));
            (a.samples(), a.accesses) == (b.samples(), b.accesses)
                && a.miss_ratio(CacheLines(5), true) == b.miss_ratio(CacheLines(5), true)
        }
    }

    /// Random lines, evenly likely: LRU of L of N lines misses with probability 1 - L / N.
    #[test]
    fn a_tenth_of_the_lines_gives_the_curve() {
        let mut state = 7_u64;
        let lines: Vec<Line> = (0..400_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                Line(state >> 33 & 0xFFF)
            })
            .collect();
        for adjusted in [true, false] {
            for size in [256_u64, 1024, 3072] {
                // 40,000 followed accesses to 410 lines; four standard errors of both are below 0.06.
                let found = shards(0.1, 3, &lines).miss_ratio(CacheLines(size), adjusted).unwrap();
                let expected = 1.0 - size as f64 / 4096.0;
                assert!((found - expected).abs() < 0.06, "{size}: {found} {expected}");
            }
        }
    }

    /// One line makes nine of ten accesses. Followed or not, only the adjusted curve is near 0.1.
    #[test]
    fn the_adjustment_takes_hot_lines_out() {
        let lines: Vec<Line> =
            (0..500_000_u64).map(|i| if i % 10 == 0 { Line(1 + i / 10) } else { Line(0) }).collect();
        for seed in 0..20 {
            let window = shards(0.05, seed, &lines);
            let adjusted = window.miss_ratio(CacheLines(1 << 30), true).unwrap();
            // 2,500 of 50,000 cold lines are followed: five standard errors are a tenth.
            assert!((adjusted - 0.1).abs() < 0.01, "{seed}: {adjusted}");
            let plain = window.miss_ratio(CacheLines(1 << 30), false).unwrap();
            assert!((plain - 0.1).abs() > 0.05 || plain < 0.02, "{seed}: {plain}");
        }
    }

    #[test]
    fn a_share_is_above_nothing_and_at_most_everything() {
        for rate in [0.0, -0.1, 1.5, f64::NAN] {
            assert!(SpatialRate::new(rate).unwrap_err().to_string().contains("above 0 and at most 1"));
        }
        let mut nothing = Shards::new(SpatialRate(0.5), 0);
        assert_eq!(nothing.take_window().miss_ratio(CacheLines(1), true), None);
    }
}
