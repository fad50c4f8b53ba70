//! Signatures: one vector per window that says what the program did in it.
//!
//! Two kinds exist because two kinds of distance do. A *frequency* signature holds shares of a whole (which code ran,
//! which lines were touched) and is normalised, so that windows of different length or sample rate compare. A *raw*
//! signature holds measured quantities (counters, wavelet coefficients) whose size matters.

mod blocks;
mod branches;
mod code;
mod counters;
mod csv;
mod hash;
mod metrics;
mod stride;
mod tally;
mod working_set;

pub use blocks::{BlockTable, MappedCodeVector};
pub use branches::{BranchVector, Branches};
pub use code::{CodeVector, DEFAULT_ENTRIES, SAMPLED_ENTRIES};
pub use counters::CounterVector;
pub use csv::read_csv;
pub use hash::AddressHash;
pub use metrics::{Metric, MetricPart};
pub use stride::{LargeStrides, StrideConfig, StrideScope, StrideVector};
pub use working_set::{WorkingSet, WorkingSetForm};

use crate::Error;

/// What the entries of a [`Signature`] mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum SignatureKind {
    /// Shares of a whole: not negative, summing to 1.
    Frequency,
    /// Measured quantities: finite.
    Raw,
}

impl std::fmt::Display for SignatureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Frequency => "frequency",
            Self::Raw => "raw",
        })
    }
}

/// The vector that describes one window.
///
/// Built by one of the builders of [`signature`](crate::signature), or from ready numbers with
/// [`frequency`](Self::frequency) and [`raw`](Self::raw). Whatever exists has been checked: a clusterer only needs
/// to look at the kind and the length.
///
/// ```
/// use phase_detect::Signature;
///
/// let counts = Signature::frequency([30.0, 10.0])?;
/// assert_eq!(counts.values(), [0.75, 0.25]);
/// assert!(Signature::frequency([0.0, 0.0]).is_err());
/// assert!(Signature::raw([1.0, f64::NAN]).is_err());
/// # Ok::<(), phase_detect::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Unchecked"))]
pub struct Signature {
    kind: SignatureKind,
    // not empty; finite; if frequencies, in [0, 1] and summing to 1 within rounding
    values: Vec<f64>,
}

impl Signature {
    /// A frequency signature: `values` divided by their sum.
    ///
    /// # Formula
    /// `v_i / sum_j v_j`
    ///
    /// # Errors
    /// [`Error::NoEntries`] for an empty vector, [`Error::BadEntry`] for a NaN, infinite or negative entry,
    /// [`Error::NothingObserved`] if all entries are zero.
    pub fn frequency(values: impl Into<Vec<f64>>) -> Result<Self, Error> {
        let mut values = values.into();
        normalise(&mut values)?;
        Ok(Self { kind: SignatureKind::Frequency, values })
    }

    /// A raw signature: `values` as they are.
    ///
    /// # Errors
    /// [`Error::NoEntries`] for an empty vector, [`Error::BadEntry`] for a NaN or infinite entry.
    pub fn raw(values: impl Into<Vec<f64>>) -> Result<Self, Error> {
        let values = values.into();
        check_raw(&values)?;
        Ok(Self { kind: SignatureKind::Raw, values })
    }

    /// Frequencies or raw quantities.
    pub fn kind(&self) -> SignatureKind {
        self.kind
    }

    /// The entries.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Number of entries, at least 1.
    #[allow(clippy::len_without_is_empty)] // a signature is never empty
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Replaces the entries by `values` as they are, reusing the memory.
    pub(crate) fn refill_raw(&mut self, values: &[f64]) -> Result<(), Error> {
        check_raw(values)?;
        self.kind = SignatureKind::Raw;
        self.values.clear();
        self.values.extend_from_slice(values);
        Ok(())
    }

    /// Replaces the entries by the normalised `values`, reusing the memory.
    pub(crate) fn refill_frequency(&mut self, values: &[f64]) -> Result<(), Error> {
        // Checked before anything is overwritten: a bad window must not destroy the last good one.
        let scale = scale(values)?;
        self.kind = SignatureKind::Frequency;
        self.values.clear();
        self.values.extend_from_slice(values);
        scale.apply(&mut self.values);
        Ok(())
    }
}

fn check_raw(values: &[f64]) -> Result<(), Error> {
    if values.is_empty() {
        return Err(Error::NoEntries);
    }
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(Error::BadEntry { index, value: values[index], limit: "entries must be finite" }),
        None => Ok(()),
    }
}

/// How to bring a vector to sum 1 without overflow on the way.
struct Scale {
    largest: f64,
    sum_of_scaled: f64,
}

impl Scale {
    fn apply(&self, values: &mut [f64]) {
        for value in values {
            *value = (*value / self.largest) / self.sum_of_scaled;
        }
    }
}

fn scale(values: &[f64]) -> Result<Scale, Error> {
    if values.is_empty() {
        return Err(Error::NoEntries);
    }
    let mut largest: f64 = 0.0;
    for (index, &value) in values.iter().enumerate() {
        if !value.is_finite() || value < 0.0 {
            return Err(Error::BadEntry {
                index,
                value,
                limit: "frequencies must be finite and not negative",
            });
        }
        largest = largest.max(value);
    }
    if largest == 0.0 {
        return Err(Error::NothingObserved { entries: values.len() });
    }
    // Divided by the largest first: the sum of finite numbers may be infinite.
    let sum_of_scaled = values.iter().map(|v| v / largest).sum();
    Ok(Scale { largest, sum_of_scaled })
}

fn normalise(values: &mut [f64]) -> Result<(), Error> {
    let scale = scale(values)?;
    scale.apply(values);
    Ok(())
}

/// What a saved signature holds before it has been checked again.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Unchecked {
    kind: SignatureKind,
    values: Vec<f64>,
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for Signature {
    type Error = Error;
    fn try_from(saved: Unchecked) -> Result<Self, Error> {
        match saved.kind {
            SignatureKind::Frequency => Self::frequency(saved.values),
            SignatureKind::Raw => Self::raw(saved.values),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_sum_to_one_even_where_their_sum_overflows() {
        let s = Signature::frequency([f64::MAX, f64::MAX, 0.0, f64::MAX]).unwrap();
        // thirds, to rounding
        for (got, want) in s.values().iter().zip([1.0 / 3.0, 1.0 / 3.0, 0.0, 1.0 / 3.0]) {
            assert!((got - want).abs() < 1e-15, "{got} {want}");
        }
        let s = Signature::frequency([f64::MIN_POSITIVE, 3.0 * f64::MIN_POSITIVE]).unwrap();
        assert_eq!(s.values(), [0.25, 0.75]);
    }

    #[test]
    fn bad_vectors_are_refused() {
        assert!(matches!(Signature::frequency([]), Err(Error::NoEntries)));
        assert!(matches!(Signature::raw([]), Err(Error::NoEntries)));
        assert!(matches!(Signature::frequency([0.0; 4]), Err(Error::NothingObserved { entries: 4 })));
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(matches!(Signature::frequency([1.0, bad]), Err(Error::BadEntry { index: 1, .. })));
        }
        assert!(Signature::raw([0.0, -1.0]).is_ok());
        assert!(matches!(Signature::raw([f64::NEG_INFINITY]), Err(Error::BadEntry { index: 0, .. })));
    }
}
