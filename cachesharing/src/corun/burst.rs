//! Bursts: within a window, misses come in bursts, and only the mean speed is known.
//!
//! A program is slower than on average in a burst, and faster in between, so that lines are reused later and earlier than
//! its mean speed says. How much is bounded by how alike the windows of a phase are: bursts that last as long as it takes
//! to reuse a line make their means differ.

use crate::CacheCurve;

/// By so much the times may differ that lines are reused after.
const FACTOR: f64 = 1.5;
/// Windows; fewer do not show how alike they are.
const FEWEST: usize = 4;
/// A program that is slower and faster by (FACTOR - 1) in turns of p accesses lags behind by up to a quarter of
/// (FACTOR - 1) p. Means of windows of w accesses, which begin anywhere in a turn, deviate by 0.8 times that over w. For a
/// reuse after t to fall into the slow half p is at least 2 t: it is late by (FACTOR - 1) t, at most 2.5 deviations of w.
const PER_DEVIATION: f64 = 2.5;

/// How far reuses may be late or early in the windows of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Burst {
    most: f64, // accesses, >= 0
}

impl Burst {
    /// In windows of these works with the curve of their phase, of which some have curves of their `own`.
    pub(super) fn of(windows: &[(f64, &CacheCurve)], own: &[&CacheCurve], cache: f64) -> Self {
        let longest = windows.iter().map(|(work, curve)| work * curve.mix()).fold(0.0, f64::max);
        let part = if own.len() < FEWEST {
            FACTOR - 1.0
        } else {
            let at = |part: f64| deviation(own.iter().map(|curve| curve.cpi(part * cache)));
            (PER_DEVIATION * [0.25, 0.5, 0.75, 1.0].map(at).into_iter().fold(0.0, f64::max)).min(FACTOR - 1.0)
        };
        Self { most: part * longest }
    }

    /// Accesses by which a reuse after so many may be late.
    pub(super) fn late(self, after: f64) -> f64 {
        ((FACTOR - 1.0) * after).min(self.most)
    }

    /// Accesses by which it may be early.
    pub(super) fn early(self, after: f64) -> f64 {
        ((1.0 - FACTOR.recip()) * after).min(self.most)
    }
}

/// Standard deviation over mean.
fn deviation(of: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = of.len() as f64;
    let mean = of.clone().sum::<f64>() / count;
    (of.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt() / mean
}
