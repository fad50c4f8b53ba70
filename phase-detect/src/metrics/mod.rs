//! How good a classification or a prediction is.
//!
//! The functions take one label and one measured value per window. A label is anything ordered: a
//! [`PhaseId`](crate::PhaseId), a `(thread, phase)` pair, or an `Option<PhaseId>` where some windows were left
//! unclassified (`None` then acts as one junk phase, as in Paper I, I.6). Values are a performance metric per window, such as CPI, a
//! miss ratio or a number of misses: finite and not negative.
//!
//! # References
//! Paper I: Sembrant, Eklöv, Hagersten, *Efficient Software-based Online Phase Classification*, IISWC 2011. Paper II:
//! Sembrant, Black-Schaffer, Hagersten, *Phase Behavior in Serial and Parallel Applications*, IISWC 2012.

mod agreement;
mod averages;
mod coverage;
mod distinct;
mod estimate;
mod families;
mod groups;
mod prediction;
mod similarity;
mod stab;
mod totals;
mod transition;
mod variation;

pub use agreement::adjusted_rand_index;
pub use averages::{geometric_mean, mean_relative_error};
pub use coverage::{mean_run_length, phases_for_coverage};
pub use distinct::{DistinctCode, distinct_code};
pub use estimate::{estimate_from_phases, interpolate, profile_once, reconstruct_from_phases};
pub use families::families;
pub use groups::{PhaseStatistics, statistics};
pub use prediction::{PredictionScore, score_predictor};
pub use similarity::SimilarityMatrix;
pub use stab::{Stab, baseline_windows};
pub use totals::CodeTotals;
pub use transition::{Transition, TransitionConfig, transitions};
pub use variation::{
    corrected_variation, per_phase_error, per_phase_variation, stability, weighted_standard_deviation,
    whole_program_error, whole_program_variation,
};

use std::collections::BTreeMap;

use crate::Error;

/// Refuses two sequences that should have one element per window each and do not, and empty ones.
fn check_lengths(what: &'static str, expected: usize, got: usize) -> Result<(), Error> {
    if expected != got {
        return Err(Error::Windows { what, expected, got });
    }
    if expected == 0 {
        return Err(Error::NoWindows);
    }
    Ok(())
}

/// Refuses what is no share.
fn check_share(share: f64) -> Result<(), Error> {
    if (0.0..=1.0).contains(&share) {
        return Ok(());
    }
    Err(Error::Parameter { name: "share", value: share, limit: "it is a share of the windows, from 0 to 1" })
}

/// Refuses signatures of different lengths.
fn check_centres<P>(centres: &BTreeMap<P, Vec<f64>>) -> Result<(), Error> {
    let mut lengths = centres.values().map(Vec::len);
    let expected = lengths.next().unwrap_or(0);
    match lengths.find(|&length| length != expected) {
        Some(got) => Err(Error::Length { expected, got }),
        None => Ok(()),
    }
}

/// Refuses values that are not finite or negative.
fn check_values(values: &[f64]) -> Result<(), Error> {
    match values.iter().position(|v| !(0.0..f64::INFINITY).contains(v)) {
        None => Ok(()),
        Some(window) => Err(Error::BadValue {
            window,
            value: values[window],
            limit: "values per window must be finite and not negative",
        }),
    }
}
