//! How homogeneous phases are: coefficients of variation and their relatives.

use super::groups::{PhaseStatistics, statistics};
use crate::Error;

/// Mean over windows of `f` of their phase.
fn weighted<P>(phases: &[PhaseStatistics<P>], f: impl Fn(&PhaseStatistics<P>) -> f64) -> f64 {
    let windows: usize = phases.iter().map(|p| p.windows).sum();
    phases.iter().map(|p| f(p) * p.windows as f64).sum::<f64>() / windows as f64
}

/// CoV: how much a value varies within phases. Lower is better.
///
/// # Formula
/// `sum_i n_i / n * sigma_i / mean_i` over phases `i` of `n_i` windows.
///
/// # Errors
/// As [`statistics`].
///
/// # References
/// Paper I, I.5.1; Huffmire, Sherwood, PACT 2006, equation 2.
pub fn per_phase_variation<P: Clone + Ord>(labels: &[P], values: &[f64]) -> Result<f64, Error> {
    Ok(weighted(&statistics(labels, values)?, PhaseStatistics::variation))
}

/// How much a value varies over the whole program: the CoV of a single phase that holds all windows.
///
/// # Errors
/// As [`statistics`].
pub fn whole_program_variation(values: &[f64]) -> Result<f64, Error> {
    per_phase_variation(&vec![(); values.len()], values)
}

/// CCoV, the corrected CoV: as [`per_phase_variation`], but it cannot be lowered by splitting phases.
///
/// A window whose phase is that of neither neighbour could not have been exploited: by the time its phase was known,
/// it was over. Such windows are taken out of their phases and form a virtual phase that carries the variation of the
/// whole program. With every window in a phase of its own, the result is [`whole_program_variation`].
///
/// # Formula
/// `(sum_i m_i sigma_i / mean_i + m_virtual * CoV(all windows)) / n`, with `m_i` the windows of phase `i` that have a
/// neighbour of the same phase, and `sigma_i`, `mean_i` over those.
///
/// # Errors
/// As [`statistics`].
///
/// # References
/// Paper I, I.5.1.
pub fn corrected_variation<P: Clone + Ord>(labels: &[P], values: &[f64]) -> Result<f64, Error> {
    let whole = whole_program_variation(values)?;
    let alone = |i: usize| (i == 0 || labels[i - 1] != labels[i]) && labels.get(i + 1) != Some(&labels[i]);
    let corrected: Vec<Option<&P>> =
        labels.iter().enumerate().map(|(i, label)| (!alone(i)).then_some(label)).collect();
    let phases = statistics(&corrected, values)?;
    Ok(weighted(&phases, |p| if p.phase.is_some() { p.variation() } else { whole }))
}

/// Stability of phases as the POP paper reports it: the share of a phase's mean that is not variation.
///
/// # Formula
/// `1 - CoV`. The paper plots stabilities of about 90 % beside variations of about 10 % without stating the formula
/// in the sections at hand; this is the reading under which its table III is consistent.
///
/// # Errors
/// As [`statistics`].
pub fn stability<P: Clone + Ord>(labels: &[P], values: &[f64]) -> Result<f64, Error> {
    Ok(1.0 - per_phase_variation(labels, values)?)
}

/// Weighted standard deviation: as [`per_phase_variation`] without dividing by the mean, for values such as misses
/// that are close to 0 in whole phases.
///
/// # Formula
/// `sum_i n_i / n * sigma_i`
///
/// # Errors
/// As [`statistics`].
///
/// # References
/// Huffmire, Sherwood, *Wavelet-Based Phase Classification*, PACT 2006, equation 3.
pub fn weighted_standard_deviation<P: Clone + Ord>(labels: &[P], values: &[f64]) -> Result<f64, Error> {
    Ok(weighted(&statistics(labels, values)?, |p| p.standard_deviation))
}

/// Mean relative difference between the value of a window and the mean of its phase: what a runtime system gets wrong
/// that decides by phase.
///
/// # Formula
/// `(1/n) sum_w |v_w - mean(phase of w)| / v_w`, leaving out windows of value 0.
///
/// # Errors
/// As [`statistics`].
///
/// # References
/// Paper II, II.4.1, figure II.3.
pub fn per_phase_error<P: Clone + Ord>(labels: &[P], values: &[f64]) -> Result<f64, Error> {
    let phases = statistics(labels, values)?;
    let means: Vec<f64> = labels
        .iter()
        .filter_map(|label| phases.binary_search_by(|p| p.phase.cmp(label)).ok())
        .map(|found| phases[found].mean)
        .collect();
    super::mean_relative_error(values, &means)
}

/// As [`per_phase_error`] with the mean of the whole program: what a system gets wrong that decides once.
///
/// # Errors
/// As [`statistics`].
pub fn whole_program_error(values: &[f64]) -> Result<f64, Error> {
    per_phase_error(&vec![(); values.len()], values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 4.2 of the wavelet paper: a phase of 218 windows with one miss in all of them has a mean of 0.0045872,
    /// a deviation of 0.067573 and a variation of 14.7308 (five digits printed).
    #[test]
    fn the_wavelet_papers_example() {
        let mut misses = [0.0; 218];
        misses[100] = 1.0;
        let phase = statistics(&[0; 218], &misses).unwrap()[0];
        assert!((phase.mean - 0.004_587_2).abs() < 5e-8);
        assert!((phase.standard_deviation - 0.067_573).abs() < 5e-7);
        assert!((phase.variation() - 14.7308).abs() < 2e-4);
        assert!((weighted_standard_deviation(&[0; 218], &misses).unwrap() - 0.067_573).abs() < 5e-7);
    }

    #[test]
    fn closed_forms() {
        // phase 0: 1 and 3 (mean 2, deviation 1); phase 1: 4 and 4
        let (labels, values) = ([0, 0, 1, 1], [1.0, 3.0, 4.0, 4.0]);
        assert_eq!(per_phase_variation(&labels, &values).unwrap(), 0.25);
        assert_eq!(weighted_standard_deviation(&labels, &values).unwrap(), 0.5);
        assert_eq!(stability(&labels, &values).unwrap(), 0.75);
        // |1-2|/1 and |3-2|/3 and twice 0
        assert!((per_phase_error(&labels, &values).unwrap() - (1.0 + 1.0 / 3.0) / 4.0).abs() < 1e-15);
        // mean 3: 2, 0, 1/4, 1/4
        assert!((whole_program_error(&values).unwrap() - 2.5 / 4.0).abs() < 1e-15);
        // all values 0: nothing varies
        assert_eq!(per_phase_variation(&labels, &[0.0; 4]).unwrap(), 0.0);
    }

    /// Three windows of phase 0, one lone window of phase 1, two of phase 0: the lone one carries the CoV of all.
    #[test]
    fn a_lone_window_carries_the_variation_of_the_program() {
        let (labels, values) = ([0, 0, 0, 1, 0, 0], [1.0, 1.0, 1.0, 5.0, 1.0, 1.0]);
        let whole = whole_program_variation(&values).unwrap();
        assert_eq!(per_phase_variation(&labels, &values).unwrap(), 0.0);
        assert!((corrected_variation(&labels, &values).unwrap() - whole / 6.0).abs() < 1e-15);
    }

    /// The two ends the paper names: every window on its own, and one phase for all, both give the program's CoV.
    #[test]
    fn extremes_of_the_corrected_variation() {
        fn law(values: Vec<u8>) -> bool {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            if values.is_empty() {
                return corrected_variation(&[] as &[u8], &values).is_err();
            }
            let whole = whole_program_variation(&values).unwrap();
            let own: Vec<usize> = (0..values.len()).collect();
            let close = |a: f64| (a - whole).abs() <= 1e-12 * (1.0 + whole);
            close(corrected_variation(&own, &values).unwrap())
                && close(corrected_variation(&vec![0; values.len()], &values).unwrap())
        }
        quickcheck::quickcheck(law as fn(Vec<u8>) -> bool);
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(matches!(per_phase_variation(&[0, 1], &[1.0]), Err(Error::Windows { .. })));
        assert!(matches!(per_phase_variation::<u8>(&[], &[]), Err(Error::NoWindows)));
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                corrected_variation(&[0, 0], &[1.0, bad]),
                Err(Error::BadValue { window: 1, .. })
            ));
        }
    }
}
