//! Confidence intervals of miss ratios, by bootstrap over the windows that were sampled.
//!
//! The windows of a run that were profiled are a sample of all its windows. Drawing as many from them again,
//! with replacement, and combining their models anew shows how much the miss ratio depends on which they were.
//! What a model gets wrong in every window alike is no part of it.
//!
//! Where a run was not sampled by windows chosen at random, but all of it sparsely, or phase by phase, `strata` has
//! what to redraw.

mod strata;

pub use strata::{Redraw, Stratified, Stratum};

use crate::engine::random::Random;
use crate::{CacheLines, CacheModel, Error, Grouped};

/// How intervals are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    level: f64,       // in (0, 1)
    resamples: usize, // at least 100
    seed: u64,
}

impl Bootstrap {
    /// Intervals that hold the true value with probability `level`, from so many draws (1,000 are usual), which
    /// `seed` decides.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] for a level that is not between 0 and 1, or less than 100 draws.
    pub fn new(level: f64, resamples: usize, seed: u64) -> Result<Self, Error> {
        if level > 0.0 && level < 1.0 && resamples >= 100 {
            Ok(Self { level, resamples, seed })
        } else {
            Err(Error::Bootstrap { level, resamples })
        }
    }
}

/// A miss ratio and what it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Cache size.
    pub size: CacheLines,
    /// Miss ratio of the model.
    pub miss_ratio: f64,
    /// Lower end, at least 0.
    pub low: f64,
    /// Upper end, at most 1.
    pub high: f64,
}

impl<M: CacheModel> Grouped<M> {
    /// A confidence interval for the miss ratio at each of `sizes`, if the groups are windows chosen at random
    /// among those of the run, one group for each.
    ///
    /// # Formula
    /// m* = sum of w m / sum of w over n windows drawn from the n with replacement; the interval reaches from
    /// the quantiles (1 - level) / 2 to (1 + level) / 2 of m*, its distances from m widened by
    /// sqrt(n / (n - 1)) t / z, because the spread of n windows is less than that of those they are drawn from.
    ///
    /// # Limits
    /// A single window leaves everything open, from 0 to 1. With fewer than 20 or so, and where few windows
    /// carry most of the misses, the true level is lower. Errors that the model makes in all windows, and
    /// phases that no window fell into, are not covered. Neighbouring windows that are alike count as
    /// independent: choose windows apart.
    ///
    /// # Cost
    /// A curve of each window, and (windows x sizes) operations per draw.
    ///
    /// # References
    /// Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13; Hesterberg, *What Teachers
    /// Should Know About the Bootstrap*, The American Statistician 69 (2015), on the widening.
    #[must_use]
    pub fn intervals(&self, sizes: &[CacheLines], bootstrap: &Bootstrap) -> Vec<Interval> {
        let parts = self.parts();
        let n = parts.len();
        let curves: Vec<(f64, Vec<f64>)> = parts
            .iter()
            .map(|(share, model)| {
                (*share, model.curve(sizes).points.into_iter().map(|point| point.1).collect())
            })
            .collect();
        let mut drawn: Vec<Vec<f64>> = vec![Vec::with_capacity(bootstrap.resamples); sizes.len()];
        let mut random = Random::from_state(bootstrap.seed);
        let mut sums = vec![0.0; sizes.len()];
        for _ in 0..bootstrap.resamples {
            sums.fill(0.0);
            let mut weight = 0.0;
            for _ in 0..n {
                let (share, curve) = &curves[random.below(n)];
                weight += share;
                for (sum, ratio) in sums.iter_mut().zip(curve) {
                    *sum += share * ratio;
                }
            }
            for (draws, sum) in drawn.iter_mut().zip(&sums) {
                draws.push(sum / weight);
            }
        }
        let widening = widening(bootstrap.level, n);
        let points = self.curve(sizes).points.into_iter().zip(drawn);
        points
            .map(|((size, miss_ratio), mut draws)| {
                draws.sort_unstable_by(f64::total_cmp);
                let end = |probability: f64| {
                    let at = (probability * (draws.len() - 1) as f64).round() as usize;
                    miss_ratio + widening * (draws[at] - miss_ratio)
                };
                let (low, high) = if n > 1 {
                    let tail = 0.5 - 0.5 * bootstrap.level;
                    (end(tail).clamp(0.0, miss_ratio), end(1.0 - tail).clamp(miss_ratio, 1.0))
                } else {
                    (0.0, 1.0)
                };
                Interval { size, miss_ratio, low, high }
            })
            .collect()
    }
}

/// By how much quantiles of Student's distribution, of an unbiased variance, exceed the bootstrap's.
fn widening(level: f64, n: usize) -> f64 {
    if n < 2 {
        return 1.0;
    }
    let freedom = (n - 1) as f64;
    // The normal quantile z, within 5e-4 (Abramowitz and Stegun, 26.2.23), and Student's to first order
    // (26.7.5): t = z + z (z^2 + 1) / (4 freedom).
    let t = (-2.0 * ((1.0 - level) / 2.0).ln()).sqrt();
    let z = t
        - (2.515_517 + t * (0.802_853 + t * 0.010_328))
            / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
    (n as f64 / freedom).sqrt() * (1.0 + (z * z + 1.0) / (4.0 * freedom))
}

/// A number with a Poisson distribution of this mean; from 64 on, the normal one in its place, not below 0.
fn poisson(random: &mut Random, mean: f64) -> f64 {
    if mean >= 64.0 {
        let radius = (-2.0 * random.unit().ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * random.unit()).cos();
        return (mean + mean.sqrt() * normal).round().max(0.0);
    }
    // Arrivals at exponential gaps until the time is over.
    let (end, mut product, mut arrivals) = ((-mean).exp(), random.unit(), 0.0);
    while product > end {
        product *= random.unit();
        arrivals += 1.0;
    }
    arrivals
}
