//! How far off a performance model is on programs that it was not fitted to.

use super::counts::check_two;
use crate::error::{Error, positive};
use crate::{Cycles, Hertz};

/// Share of the time at the higher of two frequencies that scales with the clock, if memory has the share `memory`
/// of the cycles of a profile at `from`.
fn scaling_share(from: Hertz, to: Hertz, memory: f64) -> f64 {
    let scaling = (1.0 - memory) / from.0.max(to.0);
    scaling / (scaling + memory / from.0)
}

/// Errors of predicted slowdowns on programs that the model was not fitted to.
///
/// An error is that of the share of time that scales with the clock, true less predicted: by so much times
/// `f_fast / f - 1` a program slows down more at `f` than predicted.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct SlowdownErrors {
    errors: Vec<f64>, // ascending, never empty
}

/// Errors as they are read: not yet known to be numbers in order.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    errors: Vec<f64>,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for SlowdownErrors {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let mut errors = saved.errors;
        crate::error::finite("an error of a slowdown", errors.iter().copied())?;
        if errors.is_empty() {
            return Err(Error::Empty { what: "errors of slowdowns" });
        }
        errors.sort_by(f64::total_cmp);
        Ok(Self { errors })
    }
}

impl SlowdownErrors {
    /// Of any model, from `runs` that it was not fitted to: cycles at `from`, and at `to` as measured and as predicted,
    /// each with the model's [doubt](super::PerformanceModel::doubt), in units of which the errors then are.
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
