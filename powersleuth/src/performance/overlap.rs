//! The share of memory from two kinds of stall, and from how far misses overlap.
//!
//! Part of each wait for memory is spent on the chip, on the way there and back, and scales with the clock. It looks like
//! the rest. But its share is that of a miss waited for alone, which a kernel that follows a list through memory shows,
//! unless misses are so many that the channel to memory is what they wait for. So there is a most that memory can have,
//! and how near a stretch comes to it is fitted: by stalls, by how many misses overlap in them, and by how busy the
//! channel is.

use super::counts::{check_two, checked_latency};
use super::{Counts, PerformanceModel};
use crate::error::{Error, finite, positive};
use crate::ridge::ridge;
use crate::{Cycles, Hertz, Seconds};

/// Scales the memory cycles that six fitted weights find in two kinds of stall.
///
/// # Formula
/// With shares of all cycles: `cap = misses * latency * frequency`, `C = min(cap, 1)`, execution stalls `E`,
/// `e = min(E, cap)`, resource stalls `r` likewise, their overlap `b = min(e, r)`, the excess of either `e'` and `r'`, the
/// use `u` of the channel (misses per second over the most that was seen), and `o = min(E / cap, 1)`, which is small where
/// many misses overlap:
/// `m = w_0 C e + w_1 C e' + w_2 u r + w_3 o e + w_4 o b + w_5 o r'`, at least 0 and at most `cap` and
/// `alone + (1 - alone) u`, where `alone` is the share of memory in a miss that is waited for alone.
///
/// # Accuracy and limits
/// See the front page. The weights hold for profiles taken at about the frequency of the calibration.
/// [`Counts::resource_stalls`] must be there; without it nothing is scaled, and an analysis refuses the profile
/// instead.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct OverlappingStalls {
    memory_latency: Seconds,  // > 0
    alone: f64,               // in [0, 1]
    misses_per_second: f64,   // > 0
    weights: [f64; FEATURES], // finite
}

const FEATURES: usize = 6;

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    memory_latency: Seconds,
    alone: f64,
    misses_per_second: f64,
    weights: [f64; FEATURES],
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for OverlappingStalls {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        Self::new(saved.memory_latency, saved.alone, saved.misses_per_second, saved.weights)
    }
}

/// Ridge penalty on the weights: chosen with the terms, by greedy search among products of stalls, caps, use of the
/// channel and pace, on the reference core at widths 2, 4 and 6 with its training kernels.
const PENALTY: f64 = 1e-3;

/// Doubt of an interval that never waits for memory, or whose two kinds of stall agree: chosen among seven forms of doubt
/// on the same cores with the programs of the suite.
const LEAST_DOUBT: f64 = 0.05;

impl OverlappingStalls {
    /// With known weights; memory has the share `alone` of a miss that is waited for alone, and `misses_per_second` is
    /// what keeps the channel to memory busy.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless latency and misses are finite and above 0, the share is from 0 to 1 and the weights
    /// are finite.
    pub fn new(
        memory_latency: Seconds,
        alone: f64,
        misses_per_second: f64,
        weights: [f64; FEATURES],
    ) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&alone) {
            let (what, limit) = ("memory's share of a miss", "from 0 to 1");
            return Err(Error::OutOfRange { what, value: alone, limit });
        }
        finite("a weight of stalls", weights)?;
        positive("the number of misses per second", misses_per_second)?;
        Ok(Self { memory_latency: checked_latency(memory_latency)?, alone, misses_per_second, weights })
    }

    /// Fitted to stretches of execution: what was counted of each at `from`, and the cycles that the same instructions
    /// took at `to`.
    ///
    /// # Formula
    /// From `c0 - c1 = m (1 - f1 / f0)` each stretch gives its `m`. Of those that wait for memory at least half of the
    /// time, the one with the largest `m` per miss gives the share of a miss waited for alone, 1 without any; the
    /// largest rate of misses is the channel's. The weights minimise the sum of squares of the errors of `m / c0`, with
    /// a ridge penalty of 0.001 of each column's own.
    ///
    /// # Errors
    /// [`Error::NotCounted`] without resource stalls; [`Error::OutOfRange`] unless latency, frequencies and cycles are
    /// finite and above 0, or if nothing misses; [`Error::Duplicate`] if the frequencies are equal;
    /// [`Error::TooFewObservations`] unless there are more stretches than weights.
    pub fn fit(
        memory_latency: Seconds,
        from: Hertz,
        to: Hertz,
        stretches: impl IntoIterator<Item = (Counts, Cycles)>,
    ) -> Result<Self, Error> {
        check_two(from, to)?;
        let (mut all, mut shares) = (Vec::new(), Vec::new());
        let (mut longest, mut alone, mut rate) = (0.0, 1.0, 0.0_f64);
        for (counts, cycles) in stretches {
            positive("the number of cycles", cycles.0)?;
            if counts.resource_stalls().is_none() {
                return Err(Error::NotCounted { interval: all.len(), what: "resource stalls" });
            }
            let memory = counts.cycles() - cycles;
            let share = memory / counts.cycles() / (1.0 - to / from);
            let per_miss = share * counts.cycles().0 / counts.llc_misses();
            if share >= 0.5 && per_miss.is_finite() && per_miss > longest {
                (longest, alone) = (per_miss, share.min(1.0));
            }
            rate = rate.max(counts.llc_misses() / (counts.cycles() / from).0);
            shares.push(share);
            all.push(counts);
        }
        if all.len() <= FEATURES {
            return Err(Error::TooFewObservations { observations: all.len(), parameters: FEATURES });
        }
        let mut model = Self::new(memory_latency, alone, rate, [0.0; FEATURES])?;
        let rows: Vec<Vec<f64>> =
            all.iter().filter_map(|counts| Some(model.parts(counts, from)?.0.to_vec())).collect();
        model.weights.copy_from_slice(&ridge(&rows, &shares, PENALTY));
        Self::new(memory_latency, alone, rate, model.weights)
    }

    /// What the weights apply to, and the most that memory can have; all as shares of the cycles.
    fn parts(&self, counts: &Counts, at: Hertz) -> Option<([f64; FEATURES], f64)> {
        let cycles = counts.cycles();
        let cap = (self.memory_latency * at).0 * counts.llc_misses() / cycles.0;
        let stalls = counts.stall_cycles() / cycles;
        let (execution, resource) = (stalls.min(cap), (counts.resource_stalls()? / cycles).min(cap));
        let used = (counts.llc_misses() / (cycles / at).0 / self.misses_per_second).min(1.0);
        let capped = cap.min(1.0);
        let alone = if cap > 0.0 { (stalls / cap).min(1.0) } else { 1.0 };
        let parts = [
            capped * execution,
            capped * (execution - resource).max(0.0),
            used * resource,
            alone * execution,
            alone * execution.min(resource),
            alone * (resource - execution).max(0.0),
        ];
        Some((parts, capped.min(self.alone + (1.0 - self.alone) * used)))
    }
}

impl PerformanceModel for OverlappingStalls {
    fn memory_cycles(&self, counts: &Counts, at: Hertz) -> Cycles {
        let Some((parts, most)) = self.parts(counts, at) else { return Cycles(0.0) };
        let share: f64 = self.weights.iter().zip(parts).map(|(weight, part)| weight * part).sum();
        counts.cycles() * share.min(most).max(0.0)
    }

    /// `0.05 + m |E - R|`, with both kinds of stall as they were counted: where they disagree, one of them is not of memory.
    fn doubt(&self, counts: &Counts, at: Hertz) -> f64 {
        let cycles = counts.cycles();
        let resource = counts.resource_stalls().map_or(0.0, |stalls| stalls / cycles);
        LEAST_DOUBT
            + self.memory_cycles(counts, at) / cycles * (counts.stall_cycles() / cycles - resource).abs()
    }

    fn missing(&self, counts: &Counts) -> Option<&'static str> {
        counts.resource_stalls().is_none().then_some("resource stalls")
    }
}
