//! The stall-based model with two kinds of stall, and how much of each is memory's measured on the machine.
//!
//! [`StallBased`](super::StallBased) takes every stall to be due to memory as long as there are misses enough. On a
//! program that misses *and* stalls for other reasons, such as hits in outer caches or mispredicted branches
//! whose data comes late, that is too much; on one that fills the reorder buffer behind each miss it is too
//! little. A second counter tells the two apart: dispatch stalls, for want of room in the reorder buffer, behind
//! misses but hardly for anything else. Which of the two to go by is fitted to a few programs that were run at
//! two frequencies, once per machine, as the power model is fitted to measured power.
//!
//! The paper has none of this; it needs no counter that the paper's models do not read.

use super::counts::checked_latency;
use super::{Counts, PerformanceModel};
use crate::error::{Error, positive};
use crate::{Cycles, Hertz, Seconds};

/// Scales a calibrated mixture of two kinds of stall.
///
/// # Formula
/// With `cap = misses * latency * frequency` and the weight `w` of execution stalls:
/// `m = w min(execution stalls, cap) + (1 - w) min(resource stalls, cap)`, at least 0 and at most `cap` and all
/// cycles. Where both reach the cap, memory is all there is.
///
/// # Accuracy and limits
/// On the reference core about half of the stall-based model's error: see the front page. The weight holds for
/// profiles taken at about the frequency of the calibration. [`Counts::resource_stalls`] must be there; without it
/// nothing is scaled, and an analysis refuses the profile instead.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct CalibratedStalls {
    memory_latency: Seconds, // > 0
    weight: f64,             // finite
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    memory_latency: Seconds,
    weight: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for CalibratedStalls {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        Self::new(saved.memory_latency, saved.weight)
    }
}

impl CalibratedStalls {
    /// With a known weight of execution stalls against resource stalls; [`StallCalibration`] finds it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless the latency is finite and above 0 and the weight is finite.
    pub fn new(memory_latency: Seconds, weight: f64) -> Result<Self, Error> {
        if !weight.is_finite() {
            return Err(Error::OutOfRange { what: "the weight of stalls", value: weight, limit: "finite" });
        }
        Ok(Self { memory_latency: checked_latency(memory_latency)?, weight })
    }

    /// Weight of execution stalls; that of resource stalls is what is left to 1.
    #[must_use]
    pub const fn weight(&self) -> f64 {
        self.weight
    }
}

impl PerformanceModel for CalibratedStalls {
    fn memory_cycles(&self, counts: &Counts, at: Hertz) -> Cycles {
        let Some([execution, resource, cap]) = capped(counts, self.memory_latency, at) else {
            return Cycles(0.0);
        };
        let memory = resource + self.weight * (execution - resource);
        Cycles(memory.min(cap).min(counts.cycles().0).max(0.0))
    }

    fn missing(&self, counts: &Counts) -> Option<&'static str> {
        counts.resource_stalls().is_none().then_some("resource stalls")
    }
}

/// Both kinds of stall, each at most what all misses one by one would take, and that.
fn capped(counts: &Counts, latency: Seconds, at: Hertz) -> Option<[f64; 3]> {
    let cap = (latency * at).0 * counts.llc_misses();
    Some([counts.stall_cycles().0.min(cap), counts.resource_stalls()?.0.min(cap), cap])
}

/// Programs that were run at two frequencies, to calibrate [`CalibratedStalls`] with.
#[derive(Clone, Debug)]
pub struct StallCalibration {
    memory_latency: Seconds, // > 0
    from: Hertz,             // > 0
    to: Hertz,               // > 0, not `from`
    shares: Vec<[f64; 3]>,   // of the cycles: execution stalls, resource stalls, truly memory's
}

impl StallCalibration {
    /// For profiles taken at `from`, calibrated with runs at `to`: best the two ends of the range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless latency and frequencies are finite and above 0;
    /// [`Error::Duplicate`] if the frequencies are equal.
    pub fn new(memory_latency: Seconds, from: Hertz, to: Hertz) -> Result<Self, Error> {
        positive("the frequency in hertz", from.0)?;
        positive("the frequency in hertz", to.0)?;
        if from == to {
            return Err(Error::Duplicate { what: "frequency", which: from.to_string() });
        }
        Ok(Self { memory_latency: checked_latency(memory_latency)?, from, to, shares: Vec::new() })
    }

    /// Adds a stretch of execution: what was counted at the one frequency, and the cycles that the same
    /// instructions took at the other.
    ///
    /// # Errors
    /// [`Error::NotCounted`] without resource stalls; [`Error::OutOfRange`] unless the cycles are finite and above
    /// 0.
    pub fn push(&mut self, counts: &Counts, cycles: Cycles) -> Result<(), Error> {
        positive("the number of cycles", cycles.0)?;
        let Some([execution, resource, _]) = capped(counts, self.memory_latency, self.from) else {
            return Err(Error::NotCounted { interval: self.shares.len(), what: "resource stalls" });
        };
        let all = counts.cycles().0;
        let memory = (all - cycles.0) / (1.0 - self.to / self.from);
        self.shares.push([execution / all, resource / all, memory / all]);
        Ok(())
    }

    /// The weight that reproduces the runs best.
    ///
    /// # Formula
    /// From `c0 - c1 = m (1 - f1 / f0)` each stretch tells its `m`; the weight minimises the sum of squares of
    /// `(m - w e - (1 - w) r) / c0`.
    ///
    /// # Errors
    /// [`Error::TooFewObservations`] below 2; [`Error::Dependent`] if the two kinds of stall are equal everywhere.
    pub fn fit(&self) -> Result<CalibratedStalls, Error> {
        if self.shares.len() < 2 {
            return Err(Error::TooFewObservations { observations: self.shares.len(), parameters: 1 });
        }
        let difference = |[execution, resource, _]: &[f64; 3]| execution - resource;
        let squares: f64 = self.shares.iter().map(|row| difference(row).powi(2)).sum();
        // A thousandth of the cycles apart, on average, is no difference.
        if squares <= 1e-6 * self.shares.len() as f64 {
            return Err(Error::Dependent { event: "resource stalls".to_owned() });
        }
        let along: f64 = self.shares.iter().map(|row| difference(row) * (row[2] - row[1])).sum();
        CalibratedStalls::new(self.memory_latency, along / squares)
    }
}
