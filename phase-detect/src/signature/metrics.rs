//! A second part of a signature: measured metrics beside the code.
//!
//! The same code may behave differently on other data. Whoever measures CPI or misses anyway can let them separate such
//! windows apart. The price is that phases are no longer independent of the machine.
//!
//! A frequency signature must stay one, so that thresholds keep their meaning. Each metric therefore becomes a pair
//! of entries, its share of a full scale and the rest of it: two windows whose metrics differ by the whole scale are
//! then as far apart as two that share no code.

use super::{Signature, SignatureKind};
use crate::Error;

/// A metric that takes part in signatures.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Metric {
    /// The value that counts as the largest; what lies above is cut off. Positive and finite.
    pub full_scale: f64,
}

/// Appends metrics to code signatures.
///
/// ```
/// use phase_detect::signature::{Metric, MetricPart, Signature};
///
/// let cpi = MetricPart::new(vec![Metric { full_scale: 4.0 }], 0.5)?;
/// let code = Signature::frequency([1.0, 3.0])?;
/// let both = cpi.append(&code, &[1.0])?; // a CPI of 1, a quarter of the scale
/// assert_eq!(both.values(), [0.125, 0.375, 0.125, 0.375]);
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # Formula
/// With weight `w` and `m` metrics `x_j` of full scale `f_j`: entries `(1 - w) v_i` of the code, then for each metric
/// `(w / m) s_j` and `(w / m) (1 - s_j)` with `s_j = min(x_j / f_j, 1)`. The distance of two such signatures is
/// `(1 - w)` times that of their code plus `w` times the mean of `|s_j - s'_j|` (as fractions of the largest
/// possible).
///
/// # References
/// The published ScarPhase library weighs a user vector against the code vector in this way (`1 - w` and `w`).
#[derive(Clone, Debug, PartialEq)]
pub struct MetricPart {
    metrics: Vec<Metric>, // not empty
    weight: f64,          // in 0..=1
}

impl MetricPart {
    /// Metrics that make up the share `weight` of a signature.
    ///
    /// # Errors
    /// [`Error::NoEntries`] without metrics, [`Error::Parameter`] for a weight outside 0..=1 or a full scale that is
    /// not positive and finite.
    pub fn new(metrics: Vec<Metric>, weight: f64) -> Result<Self, Error> {
        if metrics.is_empty() {
            return Err(Error::NoEntries);
        }
        if !(0.0..=1.0).contains(&weight) {
            return Err(Error::Parameter {
                name: "weight",
                value: weight,
                limit: "it is the share of the metrics in the signature, from 0 to 1",
            });
        }
        if let Some(bad) = metrics.iter().find(|m| !(m.full_scale > 0.0 && m.full_scale.is_finite())) {
            return Err(Error::Parameter {
                name: "full_scale",
                value: bad.full_scale,
                limit: "it must be positive and finite",
            });
        }
        Ok(Self { metrics, weight })
    }

    /// `code` with the window's metrics appended.
    ///
    /// # Errors
    /// [`Error::Kind`] for a raw signature, [`Error::Length`] unless there is one value per metric,
    /// [`Error::BadEntry`] for a value that is negative or not finite.
    pub fn append(&self, code: &Signature, values: &[f64]) -> Result<Signature, Error> {
        let mut both = Signature {
            kind: SignatureKind::Frequency,
            values: Vec::with_capacity(code.len() + 2 * values.len()),
        };
        self.append_into(code, values, &mut both)?;
        Ok(both)
    }

    /// As [`append`](Self::append), into a signature the caller keeps. On an error `both` stays what it was.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn append_into(&self, code: &Signature, values: &[f64], both: &mut Signature) -> Result<(), Error> {
        crate::cluster::check_kind(SignatureKind::Frequency, code)?;
        if values.len() != self.metrics.len() {
            return Err(Error::Length { expected: self.metrics.len(), got: values.len() });
        }
        if let Some(index) = values.iter().position(|v| !(0.0..f64::INFINITY).contains(v)) {
            return Err(Error::BadEntry {
                index,
                value: values[index],
                limit: "metrics must be finite and not negative",
            });
        }
        both.kind = SignatureKind::Frequency;
        both.values.clear();
        both.values.extend(code.values.iter().map(|v| (1.0 - self.weight) * v));
        let each = self.weight / self.metrics.len() as f64;
        for (metric, value) in self.metrics.iter().zip(values) {
            let share = (value / metric.full_scale).min(1.0);
            both.values.push(each * share);
            both.values.push(each * (1.0 - share));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distance;

    /// The stated distance, and that the result is a frequency signature.
    #[test]
    fn distances_add_up_as_stated() {
        fn law(a: (u8, u8, u8, u8), b: (u8, u8, u8, u8), weight: u8) -> bool {
            let weight = f64::from(weight) / 255.0;
            let scales = [100.0, 300.0];
            let part =
                MetricPart::new(scales.map(|full_scale| Metric { full_scale }).to_vec(), weight).unwrap();
            let make = |t: (u8, u8, u8, u8)| {
                let code = Signature::frequency([f64::from(t.0) + 1.0, f64::from(t.1)]).unwrap();
                let metrics = [f64::from(t.2), f64::from(t.3)];
                (part.append(&code, &metrics).unwrap(), code, metrics)
            };
            let ((x, code_x, m), (y, code_y, n)) = (make(a), make(b));
            let half =
                |p: &Signature, q: &Signature| Distance::Manhattan.between(p.values(), q.values()) / 2.0;
            let metric = |j: usize| ((m[j] / scales[j]).min(1.0) - (n[j] / scales[j]).min(1.0)).abs();
            let want = (1.0 - weight) * half(&code_x, &code_y) + weight * (metric(0) + metric(1)) / 2.0;
            let sum: f64 = x.values().iter().sum();
            (half(&x, &y) - want).abs() < 1e-12 && (sum - 1.0).abs() < 1e-12
        }
        type Window = (u8, u8, u8, u8);
        quickcheck::quickcheck(law as fn(Window, Window, u8) -> bool);
    }

    #[test]
    fn bad_input_is_refused() {
        let metric = |full_scale| vec![Metric { full_scale }];
        assert!(matches!(MetricPart::new(vec![], 0.5), Err(Error::NoEntries)));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                MetricPart::new(metric(bad), 0.5),
                Err(Error::Parameter { name: "full_scale", .. })
            ));
        }
        assert!(matches!(MetricPart::new(metric(1.0), 1.5), Err(Error::Parameter { name: "weight", .. })));
        let part = MetricPart::new(metric(1.0), 0.5).unwrap();
        let code = Signature::frequency([1.0]).unwrap();
        assert!(matches!(part.append(&code, &[]), Err(Error::Length { expected: 1, got: 0 })));
        assert!(matches!(part.append(&code, &[f64::NAN]), Err(Error::BadEntry { index: 0, .. })));
        let raw = Signature::raw([1.0]).unwrap();
        assert!(matches!(part.append(&raw, &[1.0]), Err(Error::Kind { .. })));
    }
}
