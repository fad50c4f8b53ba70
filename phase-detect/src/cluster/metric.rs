//! Distances in the form in which many centres are searched at once.

use super::distance::{percentage, sum_over};

/// A distance as the search sees it: a score that grows with nearness, and the exact value.
pub(crate) trait Metric {
    /// Whether an entry of 0 adds nothing to the score.
    const SKIPS_ZEROS: bool;
    /// The largest score still possible after a stretch of entries: `top` so far, `left` the sum of the entries to come.
    fn bound(top: f32, left: f32) -> f32;
    /// Adds the score of one entry for all lanes.
    fn add<const N: usize>(entry: f32, centres: &[f32; N], scores: &mut [f32; N]);
    /// Whether `exact` obeys the triangle's inequality, and moves by `d / n` when a window at distance `d` joins a mean as the
    /// `n`th.
    const IS_METRIC: bool;
    /// The exact distance, in the unit of the clusterer's threshold.
    fn exact(signature: &[f64], centre: &[f64]) -> f64;
}

/// Manhattan distance of frequency vectors as a fraction of the largest possible one.
///
/// For vectors that sum to 1, `sum |a - b| = 2 - 2 sum min(a, b)`, so the search only sums minima.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share;

impl Metric for Share {
    const SKIPS_ZEROS: bool = true;
    const IS_METRIC: bool = true;

    #[inline]
    fn bound(top: f32, left: f32) -> f32 {
        top + left
    }

    #[inline]
    fn add<const N: usize>(entry: f32, centres: &[f32; N], scores: &mut [f32; N]) {
        for (score, &centre) in scores.iter_mut().zip(centres) {
            // not f32::min: its care for NaN costs two more instructions, and there are none
            *score += if centre < entry { centre } else { entry };
        }
    }

    #[inline]
    fn exact(signature: &[f64], centre: &[f64]) -> f64 {
        sum_over(signature, centre, |x, y| (x - y).abs()) / 2.0
    }
}

/// Average percentage difference of non-negative vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percentage;

impl Metric for Percentage {
    const SKIPS_ZEROS: bool = false;
    const IS_METRIC: bool = false;

    #[inline]
    fn bound(top: f32, _left: f32) -> f32 {
        top
    }

    #[inline]
    fn add<const N: usize>(entry: f32, centres: &[f32; N], scores: &mut [f32; N]) {
        for (score, &centre) in scores.iter_mut().zip(centres) {
            let sum = entry + centre;
            // where the sum is 0 so is the difference, and 0 over anything is the 0 that is wanted
            let sum = if sum > f32::MIN_POSITIVE { sum } else { f32::MIN_POSITIVE };
            *score -= (entry - centre).abs() / sum;
        }
    }

    #[inline]
    fn exact(signature: &[f64], centre: &[f64]) -> f64 {
        sum_over(signature, centre, percentage) / signature.len() as f64
    }
}
