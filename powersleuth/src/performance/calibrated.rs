//! The stall-based model with two kinds of stall, and how much of each is memory's measured on the machine.
//!
//! [`StallBased`](super::StallBased) takes every stall to be due to memory as long as there are misses enough. On a
//! program that misses *and* stalls for other reasons, such as hits in outer caches or mispredicted branches
//! whose data comes late, that is too much; on one that fills the reorder buffer behind each miss it is too
//! little. A second counter distinguishes the two: dispatch stalls, for want of room in the reorder buffer, behind
//! misses but hardly for anything else. Which of the two to go by is fitted to a few programs that were run at
//! two frequencies, once per machine, as the power model is fitted to measured power.
//!
//! The paper has none of this; it needs no counter that the paper's models do not read.

use super::counts::{check_two, checked_latency};
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
pub(super) fn capped(counts: &Counts, latency: Seconds, at: Hertz) -> Option<[f64; 3]> {
    let cap = (latency * at).0 * counts.llc_misses();
    Some([counts.stall_cycles().0.min(cap), counts.resource_stalls()?.0.min(cap), cap])
}

/// Programs that were run at two frequencies, to calibrate [`CalibratedStalls`] with.
#[derive(Clone, Debug)]
pub struct StallCalibration {
    memory_latency: Seconds, // > 0
    from: Hertz,             // > 0
    to: Hertz,               // > 0, not `from`
    shares: Vec<[f64; 4]>,   // of the cycles: execution stalls, resource stalls, cap, truly memory's
}

impl StallCalibration {
    /// For profiles taken at `from`, calibrated with runs at `to`: best the two ends of the range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless latency and frequencies are finite and above 0;
    /// [`Error::Duplicate`] if the frequencies are equal.
    pub fn new(memory_latency: Seconds, from: Hertz, to: Hertz) -> Result<Self, Error> {
        check_two(from, to)?;
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
        let Some([execution, resource, cap]) = capped(counts, self.memory_latency, self.from) else {
            return Err(Error::NotCounted { interval: self.shares.len(), what: "resource stalls" });
        };
        let all = counts.cycles().0;
        let memory = (all - cycles.0) / (1.0 - self.to / self.from);
        self.shares.push([execution / all, resource / all, cap / all, memory / all]);
        Ok(())
    }

    /// The weight that reproduces the runs best.
    ///
    /// # Formula
    /// From `c0 - c1 = m (1 - f1 / f0)` each stretch gives its `m`; the weight minimises the sum of squares of
    /// `(m - w e - (1 - w) r) / c0`.
    ///
    /// # Errors
    /// [`Error::TooFewObservations`] below 2; [`Error::Dependent`] if the two kinds of stall are equal everywhere.
    pub fn fit(&self) -> Result<CalibratedStalls, Error> {
        CalibratedStalls::new(self.memory_latency, Self::best_weight(self.shares.iter())?)
    }

    fn best_weight<'a>(rows: impl Iterator<Item = &'a [f64; 4]>) -> Result<f64, Error> {
        let (mut count, mut squares, mut along) = (0, 0.0, 0.0);
        for [execution, resource, _, memory] in rows {
            let difference = execution - resource;
            count += 1;
            squares += difference.powi(2);
            along += difference * (memory - resource);
        }
        if count < 2 {
            return Err(Error::TooFewObservations { observations: count, parameters: 1 });
        }
        // A thousandth of the cycles apart, on average, is no difference.
        if squares <= 1e-6 * count as f64 {
            return Err(Error::Dependent { event: "resource stalls".to_owned() });
        }
        Ok(along / squares)
    }

    /// How far predicted slowdowns are off on programs that the weight was not fitted to: each group of stretches
    /// is predicted by a weight fitted to the others. Stretch number `i` belongs to `groups[i]`; give each program
    /// a group of its own.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is a group for each stretch; as [`fit`](Self::fit) for what remains when a
    /// group is left out.
    pub fn cross_validate(&self, groups: &[usize]) -> Result<SlowdownErrors, Error> {
        if groups.len() != self.shares.len() {
            let (expected, got) = (self.shares.len(), groups.len());
            return Err(Error::Length { what: "groups", expected, got });
        }
        let mut names = groups.to_vec();
        names.sort_unstable();
        names.dedup();
        let rows = || self.shares.iter().zip(groups);
        let mut errors = Vec::with_capacity(groups.len());
        for name in names {
            let weight = Self::best_weight(rows().filter(|(_, group)| **group != name).map(|(row, _)| row))?;
            for ([execution, resource, cap, memory], _) in rows().filter(|(_, group)| **group == name) {
                let predicted = (resource + weight * (execution - resource)).min(*cap).clamp(0.0, 1.0);
                errors.push(self.scaling_share(*memory) - self.scaling_share(predicted));
            }
        }
        errors.sort_by(f64::total_cmp);
        Ok(SlowdownErrors { errors })
    }

    fn scaling_share(&self, memory: f64) -> f64 {
        scaling_share(self.from, self.to, memory)
    }
}

/// Share of the time at the higher of two frequencies that scales with the clock, if memory has the share `memory` of the
/// cycles of a profile at `from`.
fn scaling_share(from: Hertz, to: Hertz, memory: f64) -> f64 {
    let scaling = (1.0 - memory) / from.0.max(to.0);
    scaling / (scaling + memory / from.0)
}

/// Errors of predicted slowdowns on programs that the model was not fitted to.
///
/// An error is that of the share of time that scales with the clock, true less predicted: by so much times
/// `f_fast / f - 1` a program slows down more at `f` than predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowdownErrors {
    errors: Vec<f64>, // ascending, never empty
}

impl SlowdownErrors {
    /// Of any model, from `runs` that it was not fitted to: cycles at `from`, and at `to` as measured and as predicted,
    /// each with the model's [doubt](PerformanceModel::doubt), in units of which the errors then are.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless frequencies, cycles and doubts are finite and above 0; [`Error::Duplicate`] if the
    /// frequencies are equal; [`Error::Empty`] without runs.
    pub fn of(
        from: Hertz,
        to: Hertz,
        runs: impl IntoIterator<Item = ([Cycles; 3], f64)>,
    ) -> Result<Self, Error> {
        check_two(from, to)?;
        let mut errors = Vec::new();
        for ([all, measured, predicted], doubt) in runs {
            positive("the doubt of an interval", doubt)?;
            for cycles in [all, measured, predicted] {
                positive("the number of cycles", cycles.0)?;
            }
            let memory = |other: Cycles| ((all - other) / all / (1.0 - to / from)).clamp(0.0, 1.0);
            let share = |other| scaling_share(from, to, memory(other));
            errors.push((share(measured) - share(predicted)) / doubt);
        }
        if errors.is_empty() {
            return Err(Error::Empty { what: "runs of programs left out" });
        }
        errors.sort_by(f64::total_cmp);
        Ok(Self { errors })
    }

    /// In no order that matters.
    pub(crate) fn into_errors(self) -> Vec<f64> {
        self.errors
    }

    /// The error that the share `coverage` of the stretches stays below, at least 0: a margin for
    /// [`Goal::with_margin`](crate::analysis::Goal::with_margin).
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless `coverage` is above 0 and at most 1.
    pub fn margin(&self, coverage: f64) -> Result<f64, Error> {
        if !(coverage > 0.0 && coverage <= 1.0) {
            let limit = "above 0 and at most 1";
            return Err(Error::OutOfRange { what: "the coverage of the margin", value: coverage, limit });
        }
        let place = (coverage * self.errors.len() as f64).ceil() as usize;
        Ok(self.errors[place.clamp(1, self.errors.len()) - 1].max(0.0))
    }
}
