//! Confidence intervals of miss ratios, by bootstrap over the samples or the windows of each part of a run.

mod strata;

pub use strata::{Redraw, Stratified, Stratum};

use crate::engine::random::Random;
use crate::{CacheLines, Error};

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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Interval {
    /// Cache size.
    pub size: CacheLines,
    /// Miss ratio of the model.
    pub miss_ratio: f64,
    /// Lower end, at least 0.
    pub low: f64,
    /// Upper end, at most 1.
    pub high: f64,
    /// How far either end would reach if all accesses had been measured: what the model itself gets wrong. The ends reach
    /// as far as this and what the samples leave open together, in squares.
    pub model_error: f64,
}

/// The quantile of a standard normal variable that leaves (1 - `level`) / 2 above it, within 5e-4.
///
/// # References
/// Abramowitz and Stegun, *Handbook of Mathematical Functions*, 26.2.23.
fn quantile(level: f64) -> f64 {
    let t = (-2.0 * ((1.0 - level) / 2.0).ln()).sqrt();
    let quantile = t
        - (2.515_517 + t * (0.802_853 + t * 0.010_328))
            / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
    quantile.max(0.0)
}

/// By how much quantiles of Student's distribution with the unbiased variance of `n` windows exceed the bootstrap's:
/// the spread of n windows is less than that of those they are drawn from (Hesterberg, *What Teachers Should Know About
/// the Bootstrap*, The American Statistician 69, 2015).
fn widening(level: f64, n: usize) -> f64 {
    if n < 2 {
        return 1.0;
    }
    let freedom = (n - 1) as f64;
    let z = quantile(level);
    // Student's quantile to first order (Abramowitz and Stegun, 26.7.5).
    (n as f64 / freedom).sqrt() * (1.0 + (z * z + 1.0) / (4.0 * freedom))
}

/// How far below and above `share` the true share may lie, if `share` of `n` samples miss: Wilson's interval, and where
/// all samples are alike the exact one of the binomial distribution.
fn of_counts(share: f64, n: f64, level: f64) -> (f64, f64) {
    if n.is_infinite() {
        return (0.0, 0.0);
    }
    let z2 = quantile(level).powi(2);
    let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = (z2 * (share * (1.0 - share) / n + z2 / (4.0 * n * n))).sqrt() / (1.0 + z2 / n);
    let unseen = 1.0 - (0.5 - 0.5 * level).powf(1.0 / n);
    let alike = |all: bool| if all { unseen } else { 0.0 };
    ((share - middle + half).max(alike(share >= 1.0)), (middle + half - share).max(alike(share <= 0.0)))
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
