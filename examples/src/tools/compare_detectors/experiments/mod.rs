//! What is compared, one experiment a file; each gives tables that can be laid beside a paper's.

pub mod agreement;
mod counters;
mod detectors;
mod interval;
mod points;
mod profiling;
mod rate;
mod reconstruction;
mod samples;
mod verdict;
mod wavelet;

use phase_detect::Error;

use super::args::Experiment;
use super::recording::Recording;
use crate::report::Table;

/// What experiments are run with.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Samples in a window, where code is sampled.
    pub samples: u64,
    /// Threshold of leader-follower for vectors that count everything.
    pub threshold: f64,
    pub seed: u64,
}

impl Experiment {
    /// Its tables.
    pub(super) fn run(self, recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
        match self {
            Self::Detectors => detectors::run(recordings, setting),
            Self::Verdict => verdict::run(recordings, setting),
            Self::Samples => samples::run(recordings, setting),
            Self::Rate => rate::run(recordings, setting),
            Self::Profiling => profiling::run(recordings, setting),
            Self::Interval => interval::run(recordings, setting),
            Self::Wavelet => wavelet::run(recordings, setting),
            Self::Counters => counters::run(recordings, setting),
            Self::Agreement => agreement::run(recordings, setting),
            Self::Points => points::run(recordings, setting),
            // not on recordings
            Self::Threads | Self::RealThreads | Self::All => Ok(Vec::new()),
        }
    }
}

/// Mean of what is there.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

/// The middle of each of `count` equal stretches of `windows`.
pub(super) fn at_equal_distances(count: usize, windows: usize) -> impl Iterator<Item = usize> + Clone {
    (0..count).map(move |k| (2 * k + 1) * windows / (2 * count))
}
