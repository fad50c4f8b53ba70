//! Event counts of a window as a raw signature.
//!
//! What POP and other counter-based detectors compare. Nothing is normalised but, if asked, the length of the window:
//! counts per instruction compare between windows of unequal length.

use super::{Signature, SignatureKind};
use crate::Error;

/// Builds raw signatures from event counts.
///
/// ```
/// use phase_detect::signature::CounterVector;
///
/// let mut counters = CounterVector::new(2)?;
/// counters.add(0, 1_500)?; // branches
/// counters.add(1, 4_000)?; // loads
/// let window = counters.finish_per(10_000)?; // instructions
/// assert_eq!(window.values(), [0.15, 0.4]);
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # References
/// The POP detector paper, section II.C.
#[derive(Clone, Debug)]
pub struct CounterVector {
    counts: Vec<u64>,
    values: Vec<f64>,
}

impl CounterVector {
    /// A builder for `counters` counters.
    ///
    /// # Errors
    /// [`Error::NoEntries`] for none.
    pub fn new(counters: usize) -> Result<Self, Error> {
        if counters == 0 {
            return Err(Error::NoEntries);
        }
        Ok(Self { counts: vec![0; counters], values: vec![0.0; counters] })
    }

    /// Adds `events` to a counter, stopping at the largest number.
    ///
    /// # Errors
    /// [`Error::Length`] if there is no such counter.
    #[inline]
    pub fn add(&mut self, counter: usize, events: u64) -> Result<(), Error> {
        let expected = self.counts.len();
        let count = self.counts.get_mut(counter).ok_or(Error::Length { expected, got: counter + 1 })?;
        *count = count.saturating_add(events);
        Ok(())
    }

    /// Ends the window: its counts as they are.
    ///
    /// # Errors
    /// [`Error::NothingObserved`] if all counts are 0.
    pub fn finish(&mut self) -> Result<Signature, Error> {
        self.finish_per(1)
    }

    /// Ends the window: its counts divided by its length in instructions, cycles or whatever makes windows compare.
    ///
    /// # Errors
    /// [`Error::NothingObserved`] if all counts or the length are 0.
    pub fn finish_per(&mut self, length: u64) -> Result<Signature, Error> {
        let mut signature =
            Signature { kind: SignatureKind::Raw, values: Vec::with_capacity(self.counts.len()) };
        self.finish_per_into(length, &mut signature)?;
        Ok(signature)
    }

    /// As [`finish_per`](Self::finish_per), into a signature the caller keeps. On an error `signature` stays what it
    /// was.
    ///
    /// # Errors
    /// As [`finish_per`](Self::finish_per).
    pub fn finish_per_into(&mut self, length: u64, signature: &mut Signature) -> Result<(), Error> {
        let nothing = length == 0 || self.counts.iter().all(|&c| c == 0);
        for (value, count) in self.values.iter_mut().zip(&mut self.counts) {
            *value = *count as f64 / length as f64;
            *count = 0;
        }
        if nothing {
            return Err(Error::NothingObserved { entries: self.values.len() });
        }
        signature.refill_raw(&self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_rates() {
        let mut counters = CounterVector::new(3).unwrap();
        counters.add(2, 7).unwrap();
        counters.add(2, 1).unwrap();
        counters.add(0, u64::MAX).unwrap();
        counters.add(0, 1).unwrap();
        assert_eq!(counters.finish().unwrap().values(), [u64::MAX as f64, 0.0, 8.0]);
        assert!(matches!(counters.finish(), Err(Error::NothingObserved { entries: 3 })));
        counters.add(1, 5).unwrap();
        assert!(counters.finish_per(0).is_err());
        counters.add(1, 5).unwrap();
        assert_eq!(counters.finish_per(2).unwrap().values(), [0.0, 2.5, 0.0]);
        assert!(matches!(counters.add(3, 1), Err(Error::Length { expected: 3, got: 4 })));
        assert!(CounterVector::new(0).is_err());
    }
}
