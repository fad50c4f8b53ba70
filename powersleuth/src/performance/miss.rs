//! The miss-based model: the wait for the first of a cluster of misses keeps its time, all of it.

use super::counts::checked_latency;
use super::{Counts, PerformanceModel};
use crate::{Cycles, Error, Hertz, Seconds};

/// Scales one full memory latency per cluster of overlapping misses.
///
/// The interval from a miss to its data is one memory latency, whether the core still works during some of it
/// or not. A second miss that goes out `y` cycles later also comes back `y` cycles later, at any frequency: only
/// the first of a cluster has a wait that keeps its time.
///
/// # Formula
/// `m = min(cycles, leading misses * latency * frequency)`.
///
/// # Accuracy and limits
/// More accurate than [`StallBased`](super::StallBased) where the memory latency is constant. Few processors
/// count clusters; [`Counts::leading_misses`] must be there.
/// Without it nothing is scaled; an analysis refuses the profile instead.
///
/// # References
/// Thesis, Paper V, section V.2.2; Keramidas, Spiliopoulos, Kaxiras, *Interval-based models for run-time DVFS
/// orchestration in superscalar processors*, CF 2010.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct MissBased {
    memory_latency: Seconds, // > 0
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    memory_latency: Seconds,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for MissBased {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        Self::new(saved.memory_latency)
    }
}

impl MissBased {
    /// With the time that a miss of the last level of cache takes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is finite and above 0.
    pub fn new(memory_latency: Seconds) -> Result<Self, Error> {
        Ok(Self { memory_latency: checked_latency(memory_latency)? })
    }
}

impl PerformanceModel for MissBased {
    fn memory_cycles(&self, counts: &Counts, at: Hertz) -> Cycles {
        let leading = counts.leading_misses().unwrap_or(0.0);
        Cycles(counts.cycles().0.min((self.memory_latency * at).0 * leading))
    }

    fn missing(&self, counts: &Counts) -> Option<&'static str> {
        counts.leading_misses().is_none().then_some("leading misses")
    }
}
