//! MBBV: sampled instruction pointers mapped to their basic blocks.
//!
//! All instructions of a block are executed equally often, so a sample anywhere in it is a sample of the block.
//! Counting blocks needs fewer samples than counting instructions, at the price of knowing where blocks begin.

use super::{CodeVector, Signature};
use crate::Error;

/// Where the basic blocks of a program are.
///
/// # Cost
/// A lookup is a binary search over the blocks; it allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>"))]
pub struct BlockTable {
    // first address of each block, ascending
    starts: Vec<u64>,
    // first address after it; at most the next start
    ends: Vec<u64>,
}

impl BlockTable {
    /// A table from `(start, bytes)` of each block, in any order.
    ///
    /// # Errors
    /// [`Error::BlockTable`] if a block is empty, reaches beyond the end of memory, or overlaps another.
    pub fn new(blocks: impl IntoIterator<Item = (u64, u64)>) -> Result<Self, Error> {
        let mut blocks: Vec<(u64, u64)> = blocks.into_iter().collect();
        blocks.sort_unstable();
        let mut table =
            Self { starts: Vec::with_capacity(blocks.len()), ends: Vec::with_capacity(blocks.len()) };
        for (start, bytes) in blocks {
            let end = start.checked_add(bytes);
            let clear = table.ends.last().is_none_or(|&last| last <= start);
            match end {
                Some(end) if bytes > 0 && clear => {
                    table.starts.push(start);
                    table.ends.push(end);
                }
                _ => return Err(Error::BlockTable { start, bytes }),
            }
        }
        Ok(table)
    }

    /// Start of the block that holds `address`, if there is one.
    #[inline]
    pub fn block_of(&self, address: u64) -> Option<u64> {
        let after = self.starts.partition_point(|&start| start <= address);
        let index = after.checked_sub(1)?;
        (address < self.ends[index]).then(|| self.starts[index])
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }
}

impl TryFrom<Vec<(u64, u64)>> for BlockTable {
    type Error = Error;
    fn try_from(blocks: Vec<(u64, u64)>) -> Result<Self, Error> {
        Self::new(blocks)
    }
}

impl From<BlockTable> for Vec<(u64, u64)> {
    fn from(table: BlockTable) -> Self {
        table.starts.iter().zip(&table.ends).map(|(&start, &end)| (start, end - start)).collect()
    }
}

/// Builds mapped basic block vectors from sampled instruction pointers.
///
/// A sample outside all known blocks (generated code, a library that was not analysed) is counted at its own address,
/// as an EIPV would, and in [`unmapped`](Self::unmapped).
///
/// # References
/// Sembrant, Eklöv, Hagersten, *Efficient Software-based Online Phase Classification*, IISWC 2011, I.2.2.
#[derive(Clone, Debug)]
pub struct MappedCodeVector {
    table: BlockTable,
    code: CodeVector,
    unmapped: u64,
}

impl MappedCodeVector {
    /// A builder of vectors of `entries` entries, hashed with `seed`, for the blocks of `table`.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless `entries` is a power of two in 2..=65536.
    pub fn new(table: BlockTable, entries: usize, seed: u64) -> Result<Self, Error> {
        Ok(Self { table, code: CodeVector::new(entries, seed)?, unmapped: 0 })
    }

    /// Counts a sampled instruction pointer.
    #[inline]
    pub fn add(&mut self, address: u64) {
        let block = self.table.block_of(address);
        self.unmapped += u64::from(block.is_none());
        self.code.add(block.unwrap_or(address), 1.0);
    }

    /// Samples outside all blocks since the builder was made.
    pub fn unmapped(&self) -> u64 {
        self.unmapped
    }

    /// Ends the window: its signature, and an empty builder for the next one.
    ///
    /// # Errors
    /// [`Error::NothingObserved`] if no sample was counted.
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

    /// Against a search through all blocks.
    #[test]
    fn lookups_equal_a_linear_search() {
        fn law(gaps: Vec<(u8, u8)>, addresses: Vec<u16>) -> bool {
            let mut at = 0_u64;
            let mut blocks: Vec<(u64, u64)> = gaps
                .iter()
                .map(|&(gap, bytes)| {
                    let start = at + u64::from(gap);
                    at = start + u64::from(bytes) + 1;
                    (start, at - start)
                })
                .collect();
            blocks.reverse();
            let table = BlockTable::new(blocks.clone()).unwrap();
            addresses.iter().map(|&a| u64::from(a)).all(|a| {
                let want = blocks.iter().find(|(s, b)| (*s..s + b).contains(&a)).map(|block| block.0);
                table.block_of(a) == want
            })
        }
        quickcheck::quickcheck(law as fn(Vec<(u8, u8)>, Vec<u16>) -> bool);
    }

    #[test]
    fn impossible_tables_are_refused() {
        for blocks in [vec![(0, 0)], vec![(0, 10), (9, 2)], vec![(5, 1), (5, 2)], vec![(u64::MAX, 2)]] {
            assert!(matches!(BlockTable::new(blocks), Err(Error::BlockTable { .. })));
        }
        assert!(BlockTable::new([]).unwrap().is_empty());
    }

    /// Samples anywhere in a block count as the block; others count as themselves.
    #[test]
    fn samples_count_as_their_blocks() {
        let table = BlockTable::new([(0x100, 0x20), (0x120, 0x10)]).unwrap();
        let mut mapped = MappedCodeVector::new(table, 64, 5).unwrap();
        let mut code = CodeVector::new(64, 5).unwrap();
        for (sample, block) in [(0x100, 0x100), (0x11f, 0x100), (0x12a, 0x120), (0x130, 0x130), (0x99, 0x99)]
        {
            mapped.add(sample);
            code.add(block, 1.0);
        }
        assert_eq!(mapped.unmapped(), 2);
        assert_eq!(mapped.finish().unwrap(), code.finish().unwrap());
        assert!(mapped.finish().is_err());
    }
}
