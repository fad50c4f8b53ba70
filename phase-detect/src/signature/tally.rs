//! What all builders of frequency signatures share: entries that are counted up and normalised at the end of a window.

use super::{Signature, SignatureKind};
use crate::Error;

#[derive(Clone, Debug)]
pub(super) struct Tally {
    // not negative; may add up to infinity, which `finish` reports
    weights: Vec<f64>,
}

impl Tally {
    pub(super) fn new(entries: usize) -> Self {
        Self { weights: vec![0.0; entries] }
    }

    pub(super) fn entries(&self) -> usize {
        self.weights.len()
    }

    /// Adds to an entry below `entries`.
    #[inline]
    pub(super) fn add(&mut self, entry: usize, weight: f64) {
        self.weights[entry] += weight;
    }

    /// Sets an entry below `entries` to 1.
    #[inline]
    pub(super) fn mark(&mut self, entry: usize) {
        self.weights[entry] = 1.0;
    }

    pub(super) fn finish(&mut self) -> Result<Signature, Error> {
        let mut signature =
            Signature { kind: SignatureKind::Frequency, values: Vec::with_capacity(self.weights.len()) };
        self.finish_into(&mut signature)?;
        Ok(signature)
    }

    pub(super) fn finish_into(&mut self, signature: &mut Signature) -> Result<(), Error> {
        let result = signature.refill_frequency(&self.weights);
        self.clear();
        result
    }

    pub(super) fn clear(&mut self) {
        self.weights.fill(0.0);
    }
}
