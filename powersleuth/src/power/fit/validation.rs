//! How well a model does on observations it was not fitted to.

use super::training::TrainingSet;
use crate::error::Error;
use crate::random::shuffle;
use crate::{Cycles, Farads};

/// Errors of predictions for observations that were left out of the fit, each observation once.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct CrossValidation {
    errors: Vec<Farads>, // predicted - measured, in the order of the observations
    measured: Vec<Farads>,
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    errors: Vec<Farads>,
    measured: Vec<Farads>,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for CrossValidation {
    type Error = Error;

    fn try_from(Saved { errors, measured }: Saved) -> Result<Self, Error> {
        let (expected, got) = (measured.len(), errors.len());
        if expected != got {
            return Err(Error::Length { what: "errors of observations", expected, got });
        }
        Ok(Self { errors, measured })
    }
}

impl CrossValidation {
    /// Predicted less measured capacitance, in the order of the observations.
    #[must_use]
    pub fn errors(&self) -> &[Farads] {
        &self.errors
    }

    /// Root of the mean squared error.
    #[must_use]
    pub fn root_mean_square(&self) -> Farads {
        let squares: f64 = self.errors.iter().map(|e| e.0 * e.0).sum();
        Farads((squares / self.errors.len() as f64).sqrt())
    }

    /// Mean of the errors' sizes, each relative to the measured capacitance. Errors of *power* are smaller, by
    /// the share of static power.
    #[must_use]
    pub fn mean_relative(&self) -> f64 {
        let sum: f64 = self.relative().sum();
        sum / self.errors.len() as f64
    }

    /// The largest of them.
    #[must_use]
    pub fn worst_relative(&self) -> f64 {
        self.relative().fold(0.0, f64::max)
    }

    fn relative(&self) -> impl Iterator<Item = f64> + '_ {
        self.errors.iter().zip(&self.measured).map(|(error, measured)| (*error / *measured).abs())
    }
}

impl TrainingSet {
    /// Leaves out one of `folds` parts of the observations at a time, fits to the rest and predicts the part.
    /// Which observation goes into which part is drawn with `seed`; with as many folds as observations each is
    /// left out alone, and the seed does not matter.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless there are 2 folds up to one for each observation; as [`fit`](Self::fit) for
    /// what remains when a fold is left out.
    pub fn cross_validate(&self, folds: usize, seed: u64) -> Result<CrossValidation, Error> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        shuffle(&mut order, seed);
        let mut group = vec![0; self.len()];
        for (place, &row) in order.iter().enumerate() {
            group[row] = place % folds.max(1);
        }
        self.validate(folds, &group)
    }

    /// The same with parts given by the caller: observation `i` belongs to part `groups[i]`. With one part per
    /// program, the error is that for a *program* the model has never seen, which intervals of one program left
    /// out at random do not show.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is a group for each observation; [`Error::OutOfRange`] unless there are at
    /// least 2 groups; as [`fit`](Self::fit) for what remains when a group is left out.
    pub fn cross_validate_groups(&self, groups: &[usize]) -> Result<CrossValidation, Error> {
        if groups.len() != self.len() {
            return Err(Error::Length { what: "groups", expected: self.len(), got: groups.len() });
        }
        let mut names: Vec<usize> = groups.to_vec();
        names.sort_unstable();
        names.dedup();
        let dense: Vec<usize> =
            groups.iter().map(|group| names.partition_point(|name| name < group)).collect();
        self.validate(names.len(), &dense)
    }

    /// Groups are numbered below `count`.
    fn validate(&self, count: usize, groups: &[usize]) -> Result<CrossValidation, Error> {
        if count < 2 || count > self.len() {
            return Err(Error::OutOfRange {
                what: "the number of folds",
                value: count as f64,
                limit: "from 2 to the number of observations",
            });
        }
        let measured: Vec<Farads> = (0..self.len()).map(|row| self.capacitance_of(row)).collect();
        let mut errors = measured.clone();
        for left_out in 0..count {
            let (test, train): (Vec<usize>, Vec<usize>) =
                (0..self.len()).partition(|&row| groups[row] == left_out);
            let model = self.fit_to(&train)?.into_capacitance();
            for row in test {
                errors[row] = model.predict(self.rates_of(row), Cycles(1.0)) - measured[row];
            }
        }
        Ok(CrossValidation { errors, measured })
    }
}
