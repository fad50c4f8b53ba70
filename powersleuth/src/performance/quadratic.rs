//! The share of memory as a quadratic form of two kinds of stall, fitted to the machine.
//!
//! [`StallBased`](super::StallBased) takes every stall to be due to memory as long as there are misses enough. On a
//! program that misses *and* stalls for other reasons, such as hits in outer caches or mispredicted branches whose
//! data comes late, that is too much; on one that fills the reorder buffer behind each miss it is too little. A second
//! counter distinguishes the two: dispatch stalls, for want of room in the reorder buffer, behind misses but hardly
//! for anything else. How much of either is memory's depends on how much of it there is: a core that hardly ever
//! stalls does so for other reasons, one that does nothing else waits for memory. Three products of the two shares say
//! so, at no further counter. The weights are fitted to a few programs that were run at two frequencies, once per
//! machine, as the power model is fitted to measured power.
//!
//! The paper has none of this; it needs no counter that the paper's models do not read.

use super::counts::{check_two, checked_latency};
use super::{Counts, PerformanceModel};
use crate::error::{Error, finite, positive};
use crate::ridge::ridge;
use crate::{Cycles, Hertz, Seconds};

/// Scales the memory cycles that five fitted weights find in two kinds of stall.
///
/// # Formula
/// With `cap = misses * latency * frequency`, execution stalls `e` and resource stalls `r`, each at most `cap`, of `c`
/// cycles: `m = w_0 e + w_1 r + w_2 e^2 / c + w_3 e r / c + w_4 r^2 / c`, at least 0 and at most `cap` and `c`.
///
/// # Accuracy and limits
/// See the front page. The weights hold for profiles taken at about the frequency of the calibration.
/// [`Counts::resource_stalls`] must be there; without it nothing is scaled, and an analysis refuses the profile
/// instead.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct QuadraticStalls {
    memory_latency: Seconds, // > 0
    weights: [f64; 5],       // finite
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    memory_latency: Seconds,
    weights: [f64; 5],
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for QuadraticStalls {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        Self::new(saved.memory_latency, saved.weights)
    }
}

/// Ridge penalty on the weights, which go together: chosen among 0.001 to 0.1 on the reference core at widths 2, 4 and 6.
const PENALTY: f64 = 1e-3;

impl QuadraticStalls {
    /// With known weights.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless the latency is finite and above 0 and the weights are finite.
    pub fn new(memory_latency: Seconds, weights: [f64; 5]) -> Result<Self, Error> {
        finite("a weight of stalls", weights)?;
        Ok(Self { memory_latency: checked_latency(memory_latency)?, weights })
    }

    /// Fitted to stretches of execution: what was counted of each at `from`, and the cycles that the same instructions
    /// took at `to`.
    ///
    /// # Formula
    /// From `c0 - c1 = m (1 - f1 / f0)` each stretch gives its `m`; the weights minimise the sum of squares of the
    /// errors of `m / c0`, with a ridge penalty of 0.001 of each column's own.
    ///
    /// # Errors
    /// [`Error::NotCounted`] without resource stalls; [`Error::OutOfRange`] unless latency, frequencies and cycles are
    /// finite and above 0; [`Error::Duplicate`] if the frequencies are equal; [`Error::TooFewObservations`] unless there
    /// are more stretches than weights.
    pub fn fit(
        memory_latency: Seconds,
        from: Hertz,
        to: Hertz,
        stretches: impl IntoIterator<Item = (Counts, Cycles)>,
    ) -> Result<Self, Error> {
        check_two(from, to)?;
        checked_latency(memory_latency)?;
        let (mut rows, mut shares) = (Vec::new(), Vec::new());
        for (counts, cycles) in stretches {
            positive("the number of cycles", cycles.0)?;
            let Some(parts) = parts(&counts, memory_latency, from) else {
                return Err(Error::NotCounted { interval: rows.len(), what: "resource stalls" });
            };
            let all = counts.cycles().0;
            rows.push(parts.map(|part| part / all).to_vec());
            shares.push((all - cycles.0) / (1.0 - to / from) / all);
        }
        if rows.len() <= 5 {
            return Err(Error::TooFewObservations { observations: rows.len(), parameters: 5 });
        }
        let mut weights = [0.0; 5];
        weights.copy_from_slice(&ridge(&rows, &shares, PENALTY));
        Self::new(memory_latency, weights)
    }
}

/// What the weights apply to, in cycles.
fn parts(counts: &Counts, latency: Seconds, at: Hertz) -> Option<[f64; 5]> {
    let [execution, resource, cap] = capped(counts, latency, at)?;
    let product = |a: f64, b: f64| (a * b / counts.cycles().0).min(cap);
    Some([
        execution,
        resource,
        product(execution, execution),
        product(execution, resource),
        product(resource, resource),
    ])
}

/// Both kinds of stall, each at most what all misses one by one would take, and that.
fn capped(counts: &Counts, latency: Seconds, at: Hertz) -> Option<[f64; 3]> {
    let cap = (latency * at).0 * counts.llc_misses();
    Some([counts.stall_cycles().0.min(cap), counts.resource_stalls()?.0.min(cap), cap])
}

impl PerformanceModel for QuadraticStalls {
    fn memory_cycles(&self, counts: &Counts, at: Hertz) -> Cycles {
        let Some(parts) = parts(counts, self.memory_latency, at) else { return Cycles(0.0) };
        let memory: f64 = self.weights.iter().zip(parts).map(|(weight, part)| weight * part).sum();
        let cap = (self.memory_latency * at).0 * counts.llc_misses();
        Cycles(memory.min(cap).min(counts.cycles().0).max(0.0))
    }

    fn missing(&self, counts: &Counts) -> Option<&'static str> {
        counts.resource_stalls().is_none().then_some("resource stalls")
    }
}
