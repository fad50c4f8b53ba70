//! The stall-based model: the cycles in which nothing executes for want of memory keep their time.

use super::counts::checked_latency;
use super::{Counts, PerformanceModel};
use crate::{Cycles, Error, Hertz, Seconds};

/// Scales the stall cycles that memory causes, found as the smaller of two numbers that can be counted.
///
/// Processors count the cycles in which nothing executes, but not for what reason. There can be no more of
/// them due to memory than there are stalls, nor more than if every miss were waited for in full and alone.
///
/// # Formula
/// `m = min(stalls, misses * latency * frequency)`.
///
/// # Accuracy and limits
/// - While the reorder buffer fills up behind a miss the core still executes: this part of the wait is left
///   out, so memory-bound programs are predicted too slow at lower frequencies and too fast at higher ones.
/// - Where misses are few but overlap with other stalls, the smaller of the two may still be too large.
/// - The further the two frequencies are apart, the larger either error.
///
/// # References
/// Thesis, Paper V, sections V.2.2 (equations V.1 to V.3) and V.4.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct StallBased {
    memory_latency: Option<Seconds>, // > 0
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    memory_latency: Option<Seconds>,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for StallBased {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        saved.memory_latency.map_or_else(|| Ok(Self::exact_stalls()), Self::new)
    }
}

impl StallBased {
    /// With the time that a miss of the last level of cache takes, on an otherwise idle memory.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is finite and above 0.
    pub fn new(memory_latency: Seconds) -> Result<Self, Error> {
        Ok(Self { memory_latency: Some(checked_latency(memory_latency)?) })
    }

    /// For processors whose [`Counts::stall_cycles`] are those due to memory and no others: takes them as they
    /// are.
    #[must_use]
    pub const fn exact_stalls() -> Self {
        Self { memory_latency: None }
    }
}

impl PerformanceModel for StallBased {
    fn memory_cycles(&self, counts: &Counts, at: Hertz) -> Cycles {
        let stalls = counts.stall_cycles();
        match self.memory_latency {
            None => stalls,
            Some(latency) => Cycles(stalls.0.min((latency * at).0 * counts.llc_misses())),
        }
    }
}
