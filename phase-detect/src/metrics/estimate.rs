//! Measuring one window per phase instead of all: which windows, and what they say about the rest.
//!
//! The use case that phase detection is for: profile a phase once, and take the result for all its windows. Beside
//! it the usual alternative, windows at equal distances with straight lines between them.

use std::collections::{BTreeMap, BTreeSet};

use super::{check_lengths, check_values};
use crate::Error;

/// The windows a phase-guided profiler measures: each phase once, when it is predicted to come.
///
/// `predicted[w]` is what was predicted for window `w` before it ran (`None`: no prediction), `labels[w]` what it
/// turned out to be. A window is profiled if the predicted phase has been seen in at least `seen_before` windows and
/// has not been profiled yet. A wrong prediction profiles a window of another phase, which then counts for that one.
///
/// # Errors
/// [`Error::Windows`] unless there is one prediction per label, [`Error::NoWindows`] without any.
///
/// # References
/// Paper I, I.7.1.
pub fn profile_once<P: Ord>(
    labels: &[P],
    predicted: &[Option<P>],
    seen_before: usize,
) -> Result<Vec<usize>, Error> {
    check_lengths("predictions", labels.len(), predicted.len())?;
    let mut seen: BTreeMap<&P, usize> = BTreeMap::new();
    let mut profiled: BTreeSet<&P> = BTreeSet::new();
    let mut windows = Vec::new();
    for (window, (label, prediction)) in labels.iter().zip(predicted).enumerate() {
        let wanted = prediction.as_ref().filter(|p| !profiled.contains(p));
        if wanted.is_some_and(|p| seen.get(p).copied().unwrap_or(0) >= seen_before) {
            windows.push(window);
            profiled.insert(label);
        }
        *seen.entry(label).or_default() += 1;
    }
    Ok(windows)
}

/// The value of each window, taken to be that of its phase: the median over the phase's measured windows. Windows of
/// a phase that was never measured get the mean that [`estimate_from_phases`] gives.
///
/// # Errors
/// [`Error::Windows`] unless there is one value per label, [`Error::NoWindows`] if there are none or none was
/// measured, [`Error::BadValue`] for a bad value, [`Error::NoSuchWindow`] for a measured window that does not exist.
///
/// # References
/// Paper I, I.7.1, figures I.12 and I.13.
pub fn reconstruct_from_phases<P: Ord>(
    labels: &[P],
    values: &[f64],
    measured: &[usize],
) -> Result<Vec<f64>, Error> {
    let phases = phase_values(labels, values, measured)?;
    let mean = mean_of_known(labels, &phases);
    Ok(labels.iter().map(|l| phases.get(l).copied().unwrap_or(mean)).collect())
}

/// The mean over the whole program, estimated from the measured windows: the value of each measured phase, weighted
/// with its number of windows.
///
/// # Errors
/// As [`reconstruct_from_phases`].
///
/// # References
/// Paper I, I.7.1, figure I.11.
pub fn estimate_from_phases<P: Ord>(labels: &[P], values: &[f64], measured: &[usize]) -> Result<f64, Error> {
    let phases = phase_values(labels, values, measured)?;
    Ok(mean_of_known(labels, &phases))
}

/// The value of each window, on straight lines between the measured ones and level before the first and after the
/// last.
///
/// # Errors
/// [`Error::NoWindows`] if there are no values or none was measured, [`Error::BadValue`] for a bad value,
/// [`Error::NoSuchWindow`] for a measured window that does not exist.
pub fn interpolate(values: &[f64], measured: &[usize]) -> Result<Vec<f64>, Error> {
    check_values(values)?;
    check_measured(values.len(), measured)?;
    let known: BTreeSet<usize> = measured.iter().copied().collect();
    let at = |window: usize| {
        let before = known.range(..=window).next_back();
        let after = known.range(window..).next();
        match (before, after) {
            (Some(&b), Some(&a)) if a > b => {
                let part = (window - b) as f64 / (a - b) as f64;
                values[b] + part * (values[a] - values[b])
            }
            (Some(&near), _) | (None, Some(&near)) => values[near],
            (None, None) => 0.0, // excluded: at least one window was measured
        }
    };
    Ok((0..values.len()).map(at).collect())
}

fn check_measured(windows: usize, measured: &[usize]) -> Result<(), Error> {
    if windows == 0 || measured.is_empty() {
        return Err(Error::NoWindows);
    }
    match measured.iter().find(|&&m| m >= windows) {
        Some(&window) => Err(Error::NoSuchWindow { window, windows }),
        None => Ok(()),
    }
}

/// Median of the measured windows of each phase.
fn phase_values<'a, P: Ord>(
    labels: &'a [P],
    values: &[f64],
    measured: &[usize],
) -> Result<BTreeMap<&'a P, f64>, Error> {
    check_lengths("values", labels.len(), values.len())?;
    check_values(values)?;
    check_measured(labels.len(), measured)?;
    let mut samples: BTreeMap<&P, Vec<f64>> = BTreeMap::new();
    for &window in measured {
        samples.entry(&labels[window]).or_default().push(values[window]);
    }
    Ok(samples.into_iter().map(|(phase, values)| (phase, median(values))).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

fn mean_of_known<P: Ord>(labels: &[P], phases: &BTreeMap<&P, f64>) -> f64 {
    let known: Vec<f64> = labels.iter().filter_map(|l| phases.get(l).copied()).collect();
    known.iter().sum::<f64>() / known.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_predicted_phase_is_profiled_once() {
        let labels = ['a', 'a', 'a', 'b', 'b', 'a', 'b', 'b'];
        let predicted = [None, Some('a'), Some('a'), Some('a'), Some('b'), Some('b'), Some('a'), Some('b')];
        // b, foreseen for window 4 after it was seen once; a for window 2 after it was seen twice
        assert_eq!(profile_once(&labels, &predicted, 1).unwrap(), [1, 4]);
        // window 5 is predicted to be b and is a, which was profiled before; b remains wanted
        assert_eq!(profile_once(&labels, &predicted, 2).unwrap(), [2, 5, 7]);
    }

    #[test]
    fn phases_stand_for_their_windows() {
        let labels = [0, 0, 0, 1, 1, 2];
        let values = [1.0, 2.0, 9.0, 4.0, 5.0, 7.0];
        // phase 0: median of 1, 2 and 9; phase 1: 5; phase 2 unknown
        let measured = [0, 1, 2, 4];
        assert_eq!(estimate_from_phases(&labels, &values, &measured).unwrap(), (3.0 * 2.0 + 2.0 * 5.0) / 5.0);
        assert_eq!(
            reconstruct_from_phases(&labels, &values, &measured).unwrap(),
            [2.0, 2.0, 2.0, 5.0, 5.0, 3.2]
        );
    }

    #[test]
    fn straight_lines_between_measurements() {
        let values = [9.0, 1.0, 9.0, 9.0, 4.0, 9.0];
        assert_eq!(interpolate(&values, &[4, 1]).unwrap(), [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]);
        assert!(matches!(interpolate(&values, &[6]), Err(Error::NoSuchWindow { window: 6, windows: 6 })));
        assert!(matches!(interpolate(&values, &[]), Err(Error::NoWindows)));
    }
}
