//! Branch vectors: BRV from all sampled branches, CBRV from the conditional ones.
//!
//! Every basic block ends in a branch, so sampled branches are sampled blocks. Conditional branches alone say more
//! per sample: an unconditional one can be inferred from its neighbours.

use super::{CodeVector, Signature};
use crate::Error;

/// Which branches a [`BranchVector`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Branches {
    /// All: BRV.
    All,
    /// Conditional ones only: CBRV.
    Conditional,
}

/// Builds branch signatures from sampled branches.
///
/// # Formula
/// As [`CodeVector`], with weight 1 for each branch that is counted.
///
/// # Cost
/// As [`CodeVector`].
///
/// # References
/// Sembrant, Eklöv, Hagersten, *Efficient Software-based Online Phase Classification*, IISWC 2011, I.2.3 and I.2.4.
#[derive(Clone, Debug)]
pub struct BranchVector {
    counted: Branches,
    code: CodeVector,
}

impl BranchVector {
    /// A builder of vectors of `entries` entries, hashed with `seed`.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless `entries` is a power of two in 2..=65536.
    pub fn new(counted: Branches, entries: usize, seed: u64) -> Result<Self, Error> {
        Ok(Self { counted, code: CodeVector::new(entries, seed)? })
    }

    /// Counts a sampled branch at `address`, if it is of the kind that is counted.
    #[inline]
    pub fn add(&mut self, address: u64, conditional: bool) {
        if conditional || self.counted == Branches::All {
            self.code.add(address, 1.0);
        }
    }

    /// Ends the window: its signature, and an empty builder for the next one.
    ///
    /// # Errors
    /// [`Error::NothingObserved`] if no branch was counted.
    pub fn finish(&mut self) -> Result<Signature, Error> {
        self.code.finish()
    }

    /// As [`finish`](Self::finish), into a signature the caller keeps. On an error `signature` stays what it was.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_into(&mut self, signature: &mut Signature) -> Result<(), Error> {
        self.code.finish_into(signature)
    }

    /// Number of entries of the signatures built.
    pub fn entries(&self) -> usize {
        self.code.entries()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditional_vectors_leave_the_others_out() {
        let branches = [(0x10, true), (0x20, false), (0x10, true), (0x30, false), (0x47, true)];
        for (counted, weight) in [(Branches::All, 1.0), (Branches::Conditional, 0.0)] {
            let mut vector = BranchVector::new(counted, 32, 3).unwrap();
            let mut code = CodeVector::new(32, 3).unwrap();
            for (address, conditional) in branches {
                vector.add(address, conditional);
                code.add(address, if conditional { 1.0 } else { weight });
            }
            assert_eq!(vector.finish().unwrap(), code.finish().unwrap());
            vector.add(0x20, false);
            assert_eq!(vector.finish().is_err(), counted == Branches::Conditional);
        }
    }
}
