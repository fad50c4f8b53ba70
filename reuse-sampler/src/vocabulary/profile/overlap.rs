//! What a profile keeps of how samples lay over each other.

use crate::engine::bins;
use crate::{ReuseDistance, ReuseOverlap};

/// Sums of one coarse bin of distances. All are integers, so that merging is associative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Sums {
    samples: u64,
    open: u64,
    weight: u64,  // of the samples
    lines: u128,  // n m, weighted
    square: u128, // n (n - 1) m m, weighted
    #[cfg_attr(feature = "serde", serde(default))]
    unweighted: u64, // the weight before windows were weighted: accesses from one sample to the next
    #[cfg_attr(feature = "serde", serde(default))]
    squared: u128, // the weight, windows weighted by the squares of their factors
}

impl Sums {
    pub(super) fn record(&mut self, overlap: &ReuseOverlap) {
        let m = u128::from(overlap.weight);
        let scaled = |sum: u64, factor: u128| u128::from(sum).saturating_mul(factor);
        let weight = overlap.samples.saturating_mul(overlap.weight);
        self.add(&Self {
            samples: overlap.samples,
            open: overlap.open,
            weight,
            lines: scaled(overlap.open, m * m),
            square: scaled(overlap.pairs, (m * m).saturating_mul(m)),
            unweighted: weight,
            squared: u128::from(weight),
        });
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.open = self.open.saturating_add(other.open);
        self.weight = self.weight.saturating_add(other.weight);
        self.lines = self.lines.saturating_add(other.lines);
        self.square = self.square.saturating_add(other.square);
        self.unweighted = self.unweighted.saturating_add(other.unweighted);
        self.squared = self.squared.saturating_add(other.squared);
    }

    /// Each sample stands for `factor` times as much.
    pub(super) fn weigh(&mut self, factor: f64) {
        self.weight = (self.weight as f64 * factor) as u64;
        self.lines = (self.lines as f64 * factor) as u128;
        self.square = (self.square as f64 * factor) as u128;
        self.squared = (self.squared as f64 * factor * factor) as u128;
    }

    /// As many samples vary as much without weights (Kish's effective number): all of them where one factor weighs all.
    fn effective(&self) -> f64 {
        let (samples, weight) = (self.samples as f64, self.weight as f64);
        let all = self.squared as f64 * self.unweighted as f64;
        if all > 0.0 { samples * (weight * weight / all).min(1.0) } else { samples }
    }

    /// The same sums had another number of open samples been counted: `draw` returns it, given the one that was.
    pub(super) fn redrawn(&self, draw: &mut impl FnMut(f64) -> f64) -> Self {
        if self.open == 0 {
            return *self;
        }
        let open = draw(self.open as f64);
        let factor = open / self.open as f64;
        let scaled = |sum: u128, factor: f64| (sum as f64 * factor).round() as u128;
        Self {
            open: open.round() as u64,
            lines: scaled(self.lines, factor),
            square: scaled(self.square, factor * factor),
            ..*self
        }
    }

    /// Of a file that was written before there were `unweighted` and `squared`: as if no window had been weighted.
    #[cfg(feature = "serde")]
    pub(super) const fn completed(self) -> Self {
        match self.unweighted {
            0 => Self { unweighted: self.weight, squared: self.weight as u128, ..self },
            _ => self,
        }
    }

    #[cfg(feature = "serde")]
    pub(super) const fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// What the sums say; `None` for a bin without samples.
    pub(super) fn estimate(&self, bin: usize) -> Option<StackEstimate> {
        let (shortest, longest) = bins::coarse_bounds(bin as u32)?;
        (self.weight > 0).then(|| {
            let (weight, samples) = (self.weight as f64, self.samples as f64);
            StackEstimate {
                shortest: ReuseDistance(shortest),
                longest: ReuseDistance(longest),
                samples: self.samples,
                effective: self.effective(),
                open: self.open,
                gap: self.unweighted as f64 / samples,
                weight: weight / samples,
                mean: self.lines as f64 / weight,
                factorial: self.square as f64 / weight,
            }
        })
    }
}

/// What overlapping samples show of the stack distances (s) of accesses with similar reuse distances.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct StackEstimate {
    /// Smallest reuse distance among them.
    pub shortest: ReuseDistance,
    /// Largest reuse distance among them: up to a quarter of an octave above.
    pub longest: ReuseDistance,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples of equal weight that would vary as much: fewer where windows represent different numbers of others.
    pub effective: f64,
    /// Number of samples counted during all of them: the estimates' precision.
    pub open: u64,
    /// Mean number of accesses from one sample to the next: a line more is counted once in so many times.
    pub gap: f64,
    /// Mean number of accesses that a sample represents: `gap`, or more where its window represents others, too.
    pub weight: f64,
    /// Unbiased estimate of the mean of s.
    pub mean: f64,
    /// Unbiased estimate of the mean of s (s - 1).
    pub factorial: f64,
}
