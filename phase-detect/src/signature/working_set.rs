//! Working sets: which memory a window touched, and how often.
//!
//! Addresses are reduced to granules (a cache line, a page) and hashed onto a vector. The frequency form counts every
//! access; the bit form only whether a granule of the entry was touched at all, which costs a bit instead of a
//! counter and loses how hot each part is.

use super::tally::Tally;
use super::{AddressHash, Signature};
use crate::Error;

/// What a [`WorkingSet`] keeps of each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum WorkingSetForm {
    /// How often it was touched.
    Frequency,
    /// Whether it was touched.
    Bits,
}

/// Builds working-set signatures from the addresses of accesses (or of executed code).
///
/// # Formula
/// `v_e = number of accesses with hash(address / granule) = e`, or 1 if there is any; then divided by the sum. Between
/// bit vectors of `n` touched entries each, the Manhattan distance is `|A xor B| / n`: 0 for equal sets and largest for
/// disjoint ones, as is Dhodapkar and Smith's relative distance `|A xor B| / |A or B|`.
///
/// # Limits
/// As the vector is short, most entries are touched by any window whose working set is larger than the vector: the
/// bit form then says nothing. Choose at least as many entries as granules are touched.
///
/// # Cost
/// One hash and one addition per access; nothing is allocated.
///
/// # References
/// Huffmire, Sherwood, PACT 2006, 4.1; Dhodapkar, Smith, *Managing multi-configuration hardware via dynamic working set
/// analysis*, ISCA 2002.
#[derive(Clone, Debug)]
pub struct WorkingSet {
    form: WorkingSetForm,
    granule_shift: u32, // below 64
    hash: AddressHash,
    // hash.entries() long
    tally: Tally,
}

impl WorkingSet {
    /// A builder of vectors of `entries` entries over granules of `granule` bytes, hashed with `seed`.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless `entries` is a power of two in 2..=65536 and `granule` a power of two.
    pub fn new(form: WorkingSetForm, entries: usize, granule: u64, seed: u64) -> Result<Self, Error> {
        if !granule.is_power_of_two() {
            return Err(Error::Parameter {
                name: "granule",
                value: granule as f64,
                limit: "it must be a power of two of bytes",
            });
        }
        let hash = AddressHash::new(entries, seed)?;
        Ok(Self { form, granule_shift: granule.trailing_zeros(), tally: Tally::new(hash.entries()), hash })
    }

    /// Counts an access to `address`.
    #[inline]
    pub fn add(&mut self, address: u64) {
        let entry = self.hash.entry(address >> self.granule_shift);
        match self.form {
            WorkingSetForm::Frequency => self.tally.add(entry, 1.0),
            WorkingSetForm::Bits => self.tally.mark(entry),
        }
    }

    /// Ends the window: its signature, and an empty builder for the next one.
    ///
    /// # Errors
    /// [`Error::NothingObserved`] if nothing was counted.
    pub fn finish(&mut self) -> Result<Signature, Error> {
        self.tally.finish()
    }

    /// As [`finish`](Self::finish), into a signature the caller keeps. On an error `signature` stays what it was.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_into(&mut self, signature: &mut Signature) -> Result<(), Error> {
        self.tally.finish_into(signature)
    }

    /// Number of entries of the signatures built.
    pub fn entries(&self) -> usize {
        self.tally.entries()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn equals_maps_and_sets_of_granules() {
        fn law(addresses: Vec<u16>) -> bool {
            let hash = AddressHash::new(64, 2).unwrap();
            let entry = |a: u16| hash.entry(u64::from(a) / 32);
            let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
            for &a in &addresses {
                *counts.entry(entry(a)).or_default() += 1.0;
            }
            let touched: BTreeSet<usize> = counts.keys().copied().collect();
            [WorkingSetForm::Frequency, WorkingSetForm::Bits].into_iter().all(|form| {
                let mut set = WorkingSet::new(form, 64, 32, 2).unwrap();
                for &address in &addresses {
                    set.add(u64::from(address));
                }
                let Ok(signature) = set.finish() else {
                    return addresses.is_empty();
                };
                signature.values().iter().enumerate().all(|(e, v)| {
                    let want = match form {
                        WorkingSetForm::Frequency => {
                            counts.get(&e).copied().unwrap_or(0.0) / addresses.len() as f64
                        }
                        WorkingSetForm::Bits => {
                            f64::from(u8::from(touched.contains(&e))) / touched.len() as f64
                        }
                    };
                    (v - want).abs() < 1e-12
                })
            })
        }
        quickcheck::quickcheck(law as fn(Vec<u16>) -> bool);
    }

    #[test]
    fn parameters_are_checked() {
        assert!(WorkingSet::new(WorkingSetForm::Bits, 60, 64, 0).is_err());
        assert!(WorkingSet::new(WorkingSetForm::Bits, 64, 0, 0).is_err());
        assert!(WorkingSet::new(WorkingSetForm::Bits, 64, 48, 0).is_err());
    }
}
