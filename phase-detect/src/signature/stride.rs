//! Strides: how far one access is from the one before.
//!
//! Global strides are between successive accesses of the program, local ones between successive accesses of the same
//! instruction. Entry `k` counts strides of `k` bytes, up or down. Mixing the instruction's address into the entry
//! separates strides of different instructions.

use super::Signature;
use super::tally::Tally;
use crate::Error;
use crate::rng::mix;

/// Between which accesses a stride is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum StrideScope {
    /// Successive accesses of the same instruction.
    Local,
    /// Successive accesses of any instructions.
    Global,
}

/// What becomes of strides that are too large for the vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LargeStrides {
    /// They are left out, as in the paper. A window of nothing but large strides then has no signature.
    Ignored,
    /// They are counted together in one more entry at the end.
    Counted,
}

/// Parameters of [`StrideVector`]; checked by [`StrideVector::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StrideConfig {
    /// Local or global strides.
    pub scope: StrideScope,
    /// Entries of the vector: strides below this have entries of their own. From 1 to 2^20.
    pub entries: usize,
    /// Whether the stride is XOR-ed with the instruction's address; every stride then has an entry.
    pub with_pc: bool,
    /// What becomes of strides of `entries` bytes and more. Without effect if `with_pc`.
    pub large: LargeStrides,
    /// Instructions whose last access is remembered, for local strides: a power of two up to 2^24.
    pub instructions: usize,
}

impl Default for StrideConfig {
    /// Local strides below 100 bytes, larger ones counted together, 4096 instructions: the paper's most effective
    /// stride vector but for the last entry.
    fn default() -> Self {
        Self {
            scope: StrideScope::Local,
            entries: 100,
            with_pc: false,
            large: LargeStrides::Counted,
            instructions: 4096,
        }
    }
}

impl StrideConfig {
    fn check(&self) -> Result<(), Error> {
        if !(1..=1 << 20).contains(&self.entries) {
            return Err(Error::Parameter {
                name: "entries",
                value: self.entries as f64,
                limit: "a stride vector has 1 to 2^20 entries",
            });
        }
        if !self.instructions.is_power_of_two() || self.instructions > 1 << 24 {
            return Err(Error::Parameter {
                name: "instructions",
                value: self.instructions as f64,
                limit: "it must be a power of two up to 2^24",
            });
        }
        Ok(())
    }
}

/// Builds stride signatures from accesses.
///
/// # Formula
/// `k = |address - previous address|`; entry `k` without, `(k xor pc) mod entries` with the instruction's address.
/// The first access (of an instruction, if local) has no stride.
///
/// # Limits
/// The last accesses of instructions are kept in a direct-mapped table. Two instructions that share a place in it push
/// each other out, and the strides across such an exchange are not counted; with at least twice as many places as hot
/// instructions that is rare.
///
/// # Cost
/// One table lookup (if local) and one addition per access; nothing is allocated.
///
/// # References
/// Huffmire, Sherwood, PACT 2006, 4.1 (vector sizes 100 and 10,000); Lau, Schoenmackers, Calder, *Structures for phase
/// classification*, ISPASS 2004.
#[derive(Clone, Debug)]
pub struct StrideVector {
    config: StrideConfig,
    tally: Tally,
    // per place: instruction and the address it accessed last
    last: Vec<Option<(u64, u64)>>,
}

impl StrideVector {
    /// A builder that has seen no access.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range.
    pub fn new(config: StrideConfig) -> Result<Self, Error> {
        config.check()?;
        let extra = usize::from(config.large == LargeStrides::Counted && !config.with_pc);
        let places = match config.scope {
            StrideScope::Local => config.instructions,
            StrideScope::Global => 1,
        };
        Ok(Self { config, tally: Tally::new(config.entries + extra), last: vec![None; places] })
    }

    /// The parameters.
    pub fn config(&self) -> &StrideConfig {
        &self.config
    }

    /// Counts an access to `address` by the instruction at `pc`.
    #[inline]
    pub fn add(&mut self, pc: u64, address: u64) {
        let (place, owner) = match self.config.scope {
            StrideScope::Local => (mix(pc) as usize & (self.last.len() - 1), pc),
            StrideScope::Global => (0, 0),
        };
        let before = self.last[place].replace((owner, address));
        let Some((_, before)) = before.filter(|b| b.0 == owner) else {
            return;
        };
        let stride = address.abs_diff(before);
        let entries = self.config.entries as u64;
        if self.config.with_pc {
            self.tally.add(((stride ^ pc) % entries) as usize, 1.0);
        } else if stride < entries {
            self.tally.add(stride as usize, 1.0);
        } else if self.config.large == LargeStrides::Counted {
            self.tally.add(self.config.entries, 1.0);
        }
    }

    /// Ends the window: its signature. The last accesses are remembered, so that strides span windows.
    ///
    /// # Errors
    /// [`Error::NothingObserved`] if no stride was counted.
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

    /// Number of entries of the signatures built: one more than configured if large strides are counted.
    pub fn entries(&self) -> usize {
        self.tally.entries()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Against a map that remembers every instruction.
    #[test]
    fn equals_an_unlimited_map() {
        fn law(accesses: Vec<(u8, u16)>, entries: u8, local: bool, with_pc: bool, counted: bool) -> bool {
            let config = StrideConfig {
                scope: if local { StrideScope::Local } else { StrideScope::Global },
                entries: 1 + usize::from(entries),
                with_pc,
                large: if counted { LargeStrides::Counted } else { LargeStrides::Ignored },
                instructions: 1 << 16, // so many places for 8 instructions that none is shared (checked below)
            };
            let entries = config.entries;
            let mut vector = StrideVector::new(config).unwrap();
            let mut last: BTreeMap<u64, u64> = BTreeMap::new();
            let mut counts = vec![0.0; vector.entries()];
            for (pc, address) in accesses {
                let (pc, address) = (u64::from(pc % 8) * 4, u64::from(address));
                vector.add(pc, address);
                if let Some(before) = last.insert(if local { pc } else { 0 }, address) {
                    let stride = address.abs_diff(before);
                    if with_pc {
                        counts[(stride ^ pc) as usize % entries] += 1.0;
                    } else if stride < entries as u64 {
                        counts[stride as usize] += 1.0;
                    } else if counted {
                        counts[entries] += 1.0;
                    }
                }
            }
            match (vector.finish(), Signature::frequency(counts)) {
                (Ok(got), Ok(want)) => got == want,
                (got, want) => got.is_err() && want.is_err(),
            }
        }
        let mut places: Vec<u64> = (0..8).map(|pc| mix(pc * 4) & 0xffff).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 8);
        quickcheck::quickcheck(law as fn(Vec<(u8, u16)>, u8, bool, bool, bool) -> bool);
    }

    /// Two instructions in one place: neither's stride is ever taken for the other's.
    #[test]
    fn shared_places_lose_strides_but_invent_none() {
        let config = StrideConfig { instructions: 1, ..StrideConfig::default() };
        let mut vector = StrideVector::new(config).unwrap();
        for i in 0..10 {
            vector.add(1, i * 8);
            vector.add(2, 1_000_000 + i * 16);
        }
        assert!(matches!(vector.finish(), Err(Error::NothingObserved { entries: 101 })));
        vector.add(2, 1_000_000);
        assert_eq!(
            vector.finish().unwrap().values()[100],
            1.0,
            "the place is still the second's: 144 bytes back"
        );
    }

    #[test]
    fn parameters_are_checked() {
        let good = StrideConfig::default();
        for bad in [
            StrideConfig { entries: 0, ..good },
            StrideConfig { entries: 1 << 21, ..good },
            StrideConfig { instructions: 0, ..good },
            StrideConfig { instructions: 1000, ..good },
        ] {
            assert!(matches!(StrideVector::new(bad), Err(Error::Parameter { .. })), "{bad:?}");
        }
    }
}
