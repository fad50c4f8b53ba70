//! Vectors of executed code: EIPV, BBV, BRV and CBRV.
//!
//! They differ only in what is fed in.
//!
//! | vector | address | weight |
//! |---|---|---|
//! | BBV, basic block vector | every executed block | executions times instructions of the block |
//! | EIPV, extended instruction pointer vector | sampled instruction pointers | 1 |
//! | BRV, branch vector | sampled branches, conditional or not | 1 |
//! | CBRV, conditional branch vector | sampled conditional branches | 1 |
//!
//! MBBV maps sampled instruction pointers to their blocks first: [`MappedCodeVector`](super::MappedCodeVector).

use super::tally::Tally;
use super::{AddressHash, Signature};
use crate::Error;

/// Entries for code vectors that count every block: there is no sampling noise that fewer entries would average out, and
/// with more of them fewer blocks share one.
pub const DEFAULT_ENTRIES: usize = 128;

/// Entries for code vectors of a few hundred samples: what ScarPhase uses.
pub const SAMPLED_ENTRIES: usize = 32;

/// Builds the code signature of one window after another from `(address, weight)` pairs.
///
/// The caller supplies addresses of blocks, branches or sampled instructions and a weight for each (executions times
/// instructions of a block; 1 for a sample). The builder hashes the address into an entry and adds the weight.
///
/// ```
/// use phase_detect::CodeVector;
///
/// let mut code = CodeVector::new(32, 1)?;
/// code.add(0x401000, 120.0);
/// code.add(0x401040, 40.0);
/// let window = code.finish()?;
/// assert_eq!(window.len(), 32);
/// assert!(code.finish().is_err()); // nothing was added since
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # Formula
/// `v_e = sum of w_i with hash(a_i) = e`, then divided by the sum of all weights.
///
/// # Cost
/// [`add`](Self::add) is eight table lookups and one addition and allocates nothing;
/// [`finish`](Self::finish) allocates the signature, [`finish_into`](Self::finish_into) nothing.
///
/// # References
/// Sembrant, Eklöv, Hagersten, *Efficient Software-based Online Phase Classification*, IISWC 2011, I.2.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "AddressHash", into = "AddressHash"))]
pub struct CodeVector {
    hash: AddressHash,
    // hash.entries() long
    tally: Tally,
    // the first weight that was refused, reported when the window ends
    bad_weight: Option<f64>,
}

impl From<AddressHash> for CodeVector {
    fn from(hash: AddressHash) -> Self {
        let tally = Tally::new(hash.entries());
        Self { hash, tally, bad_weight: None }
    }
}

impl From<CodeVector> for AddressHash {
    fn from(builder: CodeVector) -> Self {
        builder.hash
    }
}

impl CodeVector {
    /// A builder of vectors of `entries` entries, hashed with `seed`.
    ///
    /// Signatures compare only if they were built with the same entries and seed.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless `entries` is a power of two in 2..=65536.
    pub fn new(entries: usize, seed: u64) -> Result<Self, Error> {
        AddressHash::new(entries, seed).map(Self::from)
    }

    /// Counts `weight` executions (or instructions, or samples) at `address`.
    ///
    /// A weight that is negative, NaN or infinite makes the next [`finish`](Self::finish) fail: this call is too hot
    /// to return a result.
    #[inline]
    pub fn add(&mut self, address: u64, weight: f64) {
        if (0.0..f64::INFINITY).contains(&weight) {
            self.tally.add(self.hash.entry(address), weight);
        } else {
            self.bad_weight.get_or_insert(weight);
        }
    }

    /// Counts all pairs.
    pub fn extend(&mut self, pairs: impl IntoIterator<Item = (u64, f64)>) {
        for (address, weight) in pairs {
            self.add(address, weight);
        }
    }

    /// Ends the window: its signature, and an empty builder for the next one.
    ///
    /// # Errors
    /// [`Error::NothingObserved`] if no positive weight was added, [`Error::BadWeight`] if a bad one was. The builder
    /// is empty afterwards either way.
    pub fn finish(&mut self) -> Result<Signature, Error> {
        match self.bad_weight {
            Some(value) => {
                self.clear();
                Err(Error::BadWeight { value })
            }
            None => self.tally.finish(),
        }
    }

    /// As [`finish`](Self::finish), into a signature the caller keeps: nothing is allocated if it is long enough.
    /// On an error `signature` stays what it was.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_into(&mut self, signature: &mut Signature) -> Result<(), Error> {
        match self.bad_weight {
            Some(value) => {
                self.clear();
                Err(Error::BadWeight { value })
            }
            None => self.tally.finish_into(signature),
        }
    }

    /// Forgets the window that was begun.
    pub fn clear(&mut self) {
        self.tally.clear();
        self.bad_weight = None;
    }

    /// Number of entries of the signatures built.
    pub fn entries(&self) -> usize {
        self.tally.entries()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain sum over the pairs, entry by entry.
    #[test]
    fn equals_a_sum_over_pairs() {
        fn law(pairs: Vec<(u64, u16)>, seed: u64) -> bool {
            let total: f64 = pairs.iter().map(|p| f64::from(p.1)).sum();
            let hash = AddressHash::new(16, seed).unwrap();
            let mut code = CodeVector::from(hash.clone());
            code.extend(pairs.iter().map(|&(a, w)| (a, f64::from(w))));
            match code.finish() {
                Err(_) => total == 0.0,
                Ok(signature) => (0..16).all(|entry| {
                    let sum: f64 =
                        pairs.iter().filter(|p| hash.entry(p.0) == entry).map(|p| f64::from(p.1)).sum();
                    // a few roundings of numbers up to 1
                    (signature.values()[entry] - sum / total).abs() < 1e-12
                }),
            }
        }
        quickcheck::quickcheck(law as fn(Vec<(u64, u16)>, u64) -> bool);
    }

    #[test]
    fn a_bad_weight_is_reported_once_and_keeps_the_last_signature() {
        let mut code = CodeVector::new(32, 0).unwrap();
        code.add(1, 1.0);
        let mut signature = code.finish().unwrap();
        let before = signature.clone();
        for bad in [f64::NAN, -1.0, f64::INFINITY] {
            code.add(1, 2.0);
            code.add(2, bad);
            assert!(matches!(code.finish_into(&mut signature), Err(Error::BadWeight { .. })));
            assert!(matches!(code.finish_into(&mut signature), Err(Error::NothingObserved { entries: 32 })));
            assert_eq!(signature, before);
        }
        code.add(1, 5.0);
        assert_eq!(code.finish().unwrap(), before);
    }
}
