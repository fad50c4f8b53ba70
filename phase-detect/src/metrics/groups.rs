//! Mean and spread of a value within each phase.

use std::collections::BTreeMap;

use super::{check_lengths, check_values};
use crate::Error;

/// What a value does within one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PhaseStatistics<P> {
    /// The phase.
    pub phase: P,
    /// Windows that belong to it, at least 1.
    pub windows: usize,
    /// Mean of the value over them.
    pub mean: f64,
    /// Standard deviation over them (divided by `windows`, not by `windows - 1`: the wavelet paper's worked example
    /// does so, and a phase of one window then has a deviation of 0).
    pub standard_deviation: f64,
}

impl<P> PhaseStatistics<P> {
    fn new(phase: P, values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
        Self { phase, windows: values.len(), mean, standard_deviation: variance.sqrt() }
    }

    /// Coefficient of variation: standard deviation over mean, 0 where both are 0.
    pub fn variation(&self) -> f64 {
        if self.standard_deviation == 0.0 { 0.0 } else { self.standard_deviation / self.mean }
    }
}

/// Mean and deviation of `values` per phase, in the order of phases.
///
/// # Errors
/// [`Error::Windows`] unless there is one value per label, [`Error::NoWindows`] without any, [`Error::BadValue`] for a
/// negative value or one that is not finite.
pub fn statistics<P: Clone + Ord>(labels: &[P], values: &[f64]) -> Result<Vec<PhaseStatistics<P>>, Error> {
    check_lengths("values", labels.len(), values.len())?;
    check_values(values)?;
    let mut groups: BTreeMap<&P, Vec<f64>> = BTreeMap::new();
    for (label, &value) in labels.iter().zip(values) {
        groups.entry(label).or_default().push(value);
    }
    Ok(groups.into_iter().map(|(phase, values)| PhaseStatistics::new(phase.clone(), &values)).collect())
}
