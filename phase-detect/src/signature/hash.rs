//! From 64-bit addresses to a few vector entries: the parity of masked bits.
//!
//! Bit `b` of the entry is the parity of `address & mask_b` with random masks, a random binary projection. It is
//! linear over XOR, which has two uses: addresses that differ in any one bit fall apart whatever their alignment,
//! and the parities of all bits together are eight table lookups, one per address byte, instead of one population
//! count per bit.

use crate::Error;
use crate::rng::SplitMix64;

/// Maps addresses to `0..entries` by a seeded random binary projection.
///
/// The same seed and number of entries give the same map on every machine and in every release.
///
/// # Formula
/// `entry(a) = sum_b 2^b * (popcount(a & mask_b) mod 2)`
///
/// # Limits
/// The map is linear over XOR. Two aligned arrays of `2^n` equally frequent addresses, which real code hardly has, fall
/// on sets of entries that are either disjoint or exactly the same.
///
/// # References
/// Sembrant, Eklöv, Hagersten, *Efficient Software-based Online Phase Classification*, IISWC 2011, I.2.1 (hashing
/// blocks onto a small vector); Sherwood, Sair, Calder, *Phase Tracking and Prediction*, ISCA 2003.
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Recipe"))]
pub struct AddressHash {
    entries: usize, // a power of two in 2..=65536
    seed: u64,
    // tables[i][b]: what byte i with value b contributes to the entry
    #[cfg_attr(feature = "serde", serde(skip_serializing))]
    tables: Box<[[u16; 256]; 8]>,
}

/// What an [`AddressHash`] is made from, and all that is saved of it.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Recipe {
    entries: usize,
    seed: u64,
}

#[cfg(feature = "serde")]
impl TryFrom<Recipe> for AddressHash {
    type Error = Error;
    fn try_from(recipe: Recipe) -> Result<Self, Error> {
        Self::new(recipe.entries, recipe.seed)
    }
}

impl std::fmt::Debug for AddressHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddressHash")
            .field("entries", &self.entries)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl AddressHash {
    /// A map onto `entries` entries drawn from `seed`.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless `entries` is a power of two in 2..=65536.
    pub fn new(entries: usize, seed: u64) -> Result<Self, Error> {
        if !entries.is_power_of_two() || !(2..=1 << 16).contains(&entries) {
            return Err(Error::Parameter {
                name: "entries",
                value: entries as f64,
                limit: "it must be a power of two from 2 to 65536",
            });
        }
        let masks = masks(entries, seed);
        let mut tables = Box::new([[0; 256]; 8]);
        for (byte, table) in tables.iter_mut().enumerate() {
            for (value, slot) in table.iter_mut().enumerate() {
                *slot = parity(&masks, (value as u64) << (8 * byte));
            }
        }
        Ok(Self { entries, seed, tables })
    }

    /// Number of entries it maps onto.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The entry of `address`, below [`entries`](Self::entries).
    #[inline]
    pub fn entry(&self, address: u64) -> usize {
        let [b0, b1, b2, b3, b4, b5, b6, b7] = address.to_le_bytes();
        let t = &*self.tables;
        let low =
            t[0][usize::from(b0)] ^ t[1][usize::from(b1)] ^ t[2][usize::from(b2)] ^ t[3][usize::from(b3)];
        let high =
            t[4][usize::from(b4)] ^ t[5][usize::from(b5)] ^ t[6][usize::from(b6)] ^ t[7][usize::from(b7)];
        usize::from(low ^ high)
    }
}

/// One random mask per bit of the entry.
fn masks(entries: usize, seed: u64) -> Vec<u64> {
    let mut rng = SplitMix64::new(seed);
    (0..entries.trailing_zeros()).map(|_| rng.next_u64()).collect()
}

fn parity(masks: &[u64], address: u64) -> u16 {
    masks
        .iter()
        .enumerate()
        .fold(0, |entry, (bit, mask)| entry | (((address & mask).count_ones() as u16 & 1) << bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables must say what the definition says.
    #[test]
    fn tables_equal_the_parities() {
        fn law(address: u64, seed: u64, bits: u8) -> bool {
            let entries = 1 << (1 + bits % 16);
            let hash = AddressHash::new(entries, seed).unwrap();
            hash.entry(address) == usize::from(parity(&masks(entries, seed), address))
                && hash.entry(address) < entries
        }
        quickcheck::QuickCheck::new().tests(200).quickcheck(law as fn(u64, u64, u8) -> bool);
    }

    /// Code addresses are neither random nor aligned alike. Each entry must get its share: with 4,096 addresses on
    /// 32 entries a linear map of full rank gives exactly 128 each.
    #[test]
    fn dense_code_spreads_evenly() {
        let hash = AddressHash::new(32, 7).unwrap();
        for shift in 0..5 {
            let mut count = [0_u32; 32];
            for i in 0..4096_u64 {
                count[hash.entry(0x5555_5540_0000 + (i << shift))] += 1;
            }
            assert_eq!(count, [128; 32], "addresses {} bytes apart", 1 << shift);
        }
    }

    #[test]
    fn entries_must_be_a_power_of_two() {
        for bad in [0, 1, 3, 33, 1 << 17] {
            assert!(matches!(AddressHash::new(bad, 0), Err(Error::Parameter { name: "entries", .. })));
        }
    }
}
