//! STAB: how long an adaptive system must measure before it knows its baseline.

use super::groups::statistics;
use crate::Error;

/// Instructions STAB is normalised to, so that it does not depend on how long a program runs.
const NORMAL_INSTRUCTIONS: f64 = 100e9;

/// The statistical time spent analysing a baseline.
///
/// To know the mean of each phase within an error at a confidence, some windows of it must be measured: the more, the
/// more the phase varies. All those windows together, in instructions, are STAB. It rewards short windows, few phases
/// and stable phases alike. Lower is better.
///
/// In the paper's form a phase that does not vary costs nothing, and one of a single window cannot vary: splitting phases
/// lowers STAB to 0. With [`fewest`](Self::fewest) at 2 every phase has to be measured twice, the least that says anything
/// of its variation; then a phase more is worth its price only where it makes others steadier.
///
/// ```
/// use phase_detect::metrics::Stab;
///
/// // one phase, 20 % variation, windows of 10 M instructions
/// let values: Vec<f64> = (0..100).map(|w| if w % 2 == 0 { 0.8 } else { 1.2 }).collect();
/// let stab = Stab::default().of(&[0; 100], &values, 10e6)?;
/// assert!((stab - (1.96_f64 * 0.2 / 0.05).powi(2) * 10e6 / 100e9).abs() < 1e-12);
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # Formula
/// `interval * sum_i max(fewest, (Z * CoV_i / error)^2) / 100e9`
///
/// # References
/// The POP detector paper, section IV.B; `fewest` is ours.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stab {
    /// Z value of the confidence: 1.96 for 95 %.
    pub z: f64,
    /// Tolerated relative error of the mean: 0.05 for 5 %.
    pub error: f64,
    /// Windows of each phase to be measured at least; 0 in the paper's form. Not negative, finite.
    pub fewest: f64,
}

impl Default for Stab {
    /// 95 % confidence, 5 % error: the paper's STAB 95,5.
    fn default() -> Self {
        Self { z: 1.96, error: 0.05, fewest: 0.0 }
    }
}

impl Stab {
    /// STAB as a fraction of 100 billion instructions, from the phase and a value (IPC or CPI) of each window of
    /// `interval` instructions.
    ///
    /// # Errors
    /// As [`statistics`](super::statistics); [`Error::Parameter`] if z, the error or the interval is not positive
    /// and finite, or the fewest windows are negative or not finite.
    pub fn of<P: Clone + Ord>(&self, labels: &[P], values: &[f64], interval: f64) -> Result<f64, Error> {
        positive("interval", interval)?;
        let windows: f64 = self.baseline(labels, values)?;
        Ok(windows * interval / NORMAL_INSTRUCTIONS)
    }

    /// Windows to be measured in all phases together.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn baseline<P: Clone + Ord>(&self, labels: &[P], values: &[f64]) -> Result<f64, Error> {
        if !(0.0..f64::INFINITY).contains(&self.fewest) {
            let limit = "it must be finite and not negative";
            return Err(Error::Parameter { name: "fewest", value: self.fewest, limit });
        }
        let phases = statistics(labels, values)?;
        let windows = |variation| Ok(baseline_windows(self.z, self.error, variation)?.max(self.fewest));
        phases.iter().map(|p| windows(p.variation())).sum()
    }
}

/// Windows to be measured to know the mean of a phase of the given variation (not rounded).
///
/// # Formula
/// `(z * variation / error)^2`
///
/// # Errors
/// [`Error::Parameter`] if `z` or `error` is not positive and finite, or the variation is negative or not finite.
pub fn baseline_windows(z: f64, error: f64, variation: f64) -> Result<f64, Error> {
    positive("z", z)?;
    positive("error", error)?;
    if !(0.0..f64::INFINITY).contains(&variation) {
        return Err(Error::Parameter {
            name: "variation",
            value: variation,
            limit: "it must be finite and not negative",
        });
    }
    Ok((z * variation / error).powi(2))
}

fn positive(name: &'static str, value: f64) -> Result<(), Error> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(Error::Parameter { name, value, limit: "it must be positive and finite" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values 1 - v and 1 + v in turn vary by exactly v.
    fn varying(v: f64) -> Vec<f64> {
        (0..10).map(|w| if w % 2 == 0 { 1.0 - v } else { 1.0 + v }).collect()
    }

    /// The paper: omnetpp has one phase and needs 50 windows of 100 M instructions, which is a STAB of 5 %.
    #[test]
    fn one_phase_of_fifty_windows_is_five_per_cent() {
        let stab = Stab::default();
        let variation = 50_f64.sqrt() * stab.error / stab.z;
        let values = varying(variation);
        assert!((stab.baseline(&[0; 10], &values).unwrap() - 50.0).abs() < 1e-9);
        assert!((stab.of(&[0; 10], &values, 100e6).unwrap() - 0.05).abs() < 1e-12);
    }

    /// The paper: three times the variation in windows a tenth as long costs 90 instructions where 100 were spent.
    #[test]
    fn shorter_windows_may_vary_more() {
        let stab = Stab::default();
        let long = stab.of(&[0; 10], &varying(0.1), 100e6).unwrap();
        let short = stab.of(&[0; 10], &varying(0.3), 10e6).unwrap();
        assert!((short / long - 0.9).abs() < 1e-9);
    }

    /// Steady phases cost nothing in the paper's form, however many; with a floor, their number counts.
    #[test]
    fn with_a_floor_phases_are_paid_for() {
        let floor = Stab { fewest: 2.0, ..Stab::default() };
        let each: Vec<u32> = (0..10).collect();
        assert_eq!(Stab::default().baseline(&each, &varying(0.5)).unwrap(), 0.0);
        assert_eq!(floor.baseline(&each, &varying(0.5)).unwrap(), 20.0);
        let (one, plain) =
            (floor.baseline(&[0; 10], &varying(0.5)), Stab::default().baseline(&[0; 10], &varying(0.5)));
        assert_eq!(one.unwrap(), plain.unwrap());
    }

    #[test]
    fn parameters_are_checked() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Stab::default().of(&[0], &[1.0], bad).is_err());
            assert!(Stab { z: bad, ..Stab::default() }.of(&[0], &[1.0], 1.0).is_err());
            assert!(Stab { error: bad, ..Stab::default() }.of(&[0], &[1.0], 1.0).is_err());
            assert!(bad == 0.0 || Stab { fewest: bad, ..Stab::default() }.of(&[0], &[1.0], 1.0).is_err());
        }
    }
}
