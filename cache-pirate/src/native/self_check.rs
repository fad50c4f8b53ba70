//! How much of the pirate's lines came from memory, told by the time they took.
//!
//! Without counters the pirate knows only how long each stretch of its walk lasted. It learns what a line costs
//! that is where it should be (walking alone, again and again, at the size in question) and what one costs that
//! comes from memory (walking after having put its lines out of all caches); what it sees beside the target
//! lies in between.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bins per doubling of time.
const PER_OCTAVE: f64 = 16.0;
/// Time per line at which the first bin begins, in nanoseconds.
const LEAST: f64 = 1.0 / 32.0;
/// 16 doublings: up to 2 microseconds a line.
const BINS: usize = 256;
/// Share of the stretches that are believed, the quickest: the others were interrupted.
const BELIEVED: f64 = 0.9;

/// Stretches of a walk by their time per line. One thread adds, others read.
#[derive(Debug)]
pub(super) struct StretchTimes {
    bins: Vec<AtomicU64>, // lines
}

/// A copy of the counts at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot(Vec<u64>);

impl StretchTimes {
    pub(super) fn new() -> Self {
        Self { bins: (0..BINS).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn add(&self, lines: usize, nanoseconds: f64) {
        let each = (nanoseconds / lines.max(1) as f64).max(LEAST);
        let bin = ((each / LEAST).log2() * PER_OCTAVE) as usize;
        self.bins[bin.min(BINS - 1)].fetch_add(lines as u64, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot(self.bins.iter().map(|bin| bin.load(Ordering::Relaxed)).collect())
    }
}

impl Snapshot {
    pub(super) fn empty() -> Self {
        Self(vec![0; BINS])
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a + b).collect())
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self(self.0.iter().zip(&earlier.0).map(|(now, before)| now.saturating_sub(*before)).collect())
    }

    /// Mean time per line in nanoseconds, without the slowest tenth; `None` without any.
    pub(super) fn time_per_line(&self) -> Option<f64> {
        let total: u64 = self.0.iter().sum();
        let mut left = BELIEVED * total as f64;
        let (mut time, mut lines) = (0.0, 0.0);
        for (bin, &count) in self.0.iter().enumerate() {
            let taken = left.min(count as f64);
            time += taken * LEAST * ((bin as f64 + 0.5) / PER_OCTAVE).exp2();
            lines += taken;
            left -= taken;
        }
        (total > 0).then(|| time / lines)
    }
}

/// What a line costs that is there, and one that is not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LineTimes {
    /// Nanoseconds per line that the shared cache held, by the quickest walk alone.
    pub held: Option<f64>,
    /// Nanoseconds per line from memory.
    pub lost: Option<f64>,
}

impl LineTimes {
    /// Takes note of a walk alone.
    pub(super) fn walked_alone(&mut self, time: f64) {
        self.held = Some(self.held.map_or(time, |held| held.min(time)));
    }

    /// The share of lines that came from memory if they took `time` nanoseconds each.
    ///
    /// # Formula
    /// `(time - held) / (lost - held)`, within 0 and 1. Where memory's time is not known, or is hardly above
    /// the other, twice the time held is taken for it, as was seen on machines with deep prefetching.
    #[must_use]
    pub fn fetch_ratio(&self, time: f64) -> f64 {
        let Some(held) = self.held else { return 0.0 };
        let lost = self.lost.filter(|&lost| lost > 1.2 * held).unwrap_or(2.0 * held);
        ((time - held) / (lost - held)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_per_line_is_the_mean_of_the_undisturbed_nine_tenths() {
        let times = StretchTimes::new();
        for _ in 0..95 {
            times.add(1000, 2_000.0);
        }
        for _ in 0..5 {
            times.add(1000, 4e6); // interrupted
        }
        let time = times.snapshot().time_per_line().unwrap();
        assert!((time / 2.0 - 1.0).abs() < 1.0 / 16.0, "{time}"); // width of a bin
        let before = times.snapshot();
        times.add(64, 640.0);
        let time = times.snapshot().since(&before).time_per_line().unwrap();
        assert!((time / 10.0 - 1.0).abs() < 1.0 / 16.0, "{time}");
        assert_eq!(Snapshot::empty().time_per_line(), None);
    }

    #[test]
    fn fetches_lie_between_held_and_lost() {
        let mut times = LineTimes::default();
        assert_eq!(times.fetch_ratio(5.0), 0.0);
        times.walked_alone(1.2);
        times.walked_alone(1.0);
        times.walked_alone(1.1);
        assert_eq!(times.fetch_ratio(1.5), 0.5); // memory unknown: 2.0
        times.lost = Some(5.0);
        for (time, ratio) in [(0.5, 0.0), (1.0, 0.0), (3.0, 0.5), (5.0, 1.0), (9.0, 1.0)] {
            assert_eq!(times.fetch_ratio(time), ratio);
        }
        times.lost = Some(1.1); // too near to tell
        assert_eq!(times.fetch_ratio(1.5), 0.5);
    }
}
