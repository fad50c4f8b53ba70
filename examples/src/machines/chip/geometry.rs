//! Size and shape of a cache, which set a line belongs in, and how a victim is chosen.

use std::fmt;

use reuse_sampler::{CacheLines, LineSize};

use super::ChipError;

/// Most ways a cache can have: the accessed bits of a set are one machine word.
pub const MAX_WAYS: u64 = 64;

/// Size in bytes, ways and line size of a cache. The number of sets need not be a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    sets: u64, // >= 1
    ways: u64, // in [1, MAX_WAYS]
    line_size: LineSize,
    index: Index,
}

/// Which set of a cache a line belongs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, clap::ValueEnum)]
pub enum Index {
    /// Its number modulo the number of sets
    #[default]
    Modulo,
    /// A hash of its whole number, as in caches made of slices
    ///
    /// The shared caches of server and desktop processors have it: strides that are multiples of the number of sets,
    /// and nodes aligned to several lines, use all sets.
    ///
    /// # Formula
    /// Of S sets, line x belongs in `(x mod S + floor(S frac(floor(x / S) phi))) mod S`, with phi the golden ratio in
    /// 64 bits (Knuth, *The Art of Computer Programming* 3, section 6.4): each aligned run of S lines goes once around
    /// the sets, from a place of its own.
    Hashed,
}

impl Index {
    /// The set of a line, of `sets` sets (at least 1).
    ///
    /// # Cost
    /// A mask where the sets are a power of two and the index is modulo, else up to two divisions.
    #[inline]
    pub const fn set(self, line: u64, sets: u64) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 / 1.618..., odd
        let (run, place) = if sets.is_power_of_two() {
            (line >> sets.trailing_zeros(), line & (sets - 1))
        } else {
            (line / sets, line % sets)
        };
        match self {
            Self::Modulo => place,
            Self::Hashed => {
                let turned = (run.wrapping_mul(GOLDEN) as u128 * sets as u128) >> 64;
                // Both below the number of sets, of which a cache has far fewer than 2^63.
                let set = place + turned as u64;
                if set < sets { set } else { set - sets }
            }
        }
    }
}

impl Geometry {
    /// A cache of `bytes` bytes in `ways` ways.
    ///
    /// # Errors
    /// [`ChipError::Geometry`] unless there are 1 to 64 ways and `bytes` is a positive multiple of `ways`
    /// lines.
    pub fn new(bytes: u64, ways: u64, line_size: LineSize) -> Result<Self, ChipError> {
        let line = u64::from(line_size.bytes());
        if ways == 0 || ways > MAX_WAYS || bytes == 0 || bytes % (ways * line) != 0 {
            return Err(ChipError::Geometry { bytes, ways, line_bytes: line_size.bytes() });
        }
        Ok(Self { sets: bytes / (ways * line), ways, line_size, index: Index::Modulo })
    }

    /// Number of sets.
    pub const fn sets(self) -> u64 {
        self.sets
    }

    /// Lines in each set.
    pub const fn ways(self) -> u64 {
        self.ways
    }

    /// Size of a line.
    pub const fn line_size(self) -> LineSize {
        self.line_size
    }

    /// Size in lines.
    pub const fn lines(self) -> CacheLines {
        CacheLines(self.sets * self.ways)
    }

    /// Size in bytes.
    pub const fn bytes(self) -> u64 {
        self.lines().bytes(self.line_size)
    }

    /// Which set a line belongs in.
    pub const fn index(self) -> Index {
        self.index
    }

    /// The same cache with lines in other sets.
    pub const fn with_index(mut self, index: Index) -> Self {
        self.index = index;
        self
    }

    /// The cache with the same sets and fewer or more ways.
    ///
    /// # Errors
    /// [`ChipError::Geometry`] if `ways` is 0 or more than 64.
    pub fn with_ways(self, ways: u64) -> Result<Self, ChipError> {
        let bytes = self.sets.saturating_mul(ways).saturating_mul(u64::from(self.line_size.bytes()));
        Ok(Self::new(bytes, ways, self.line_size)?.with_index(self.index))
    }

    /// The cache with the same ways and a part of its sets.
    ///
    /// # Errors
    /// [`ChipError::Geometry`] unless that leaves a whole number of sets, at least one.
    pub fn with_fewer_sets(self, divisor: u64) -> Result<Self, ChipError> {
        // A rest of a set is no whole number of sets, which is refused.
        let bytes = self.bytes().checked_div(divisor).unwrap_or(0);
        Ok(Self::new(bytes, self.ways, self.line_size)?.with_index(self.index))
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} ways of {} sets", self.bytes(), self.ways, self.sets)
    }
}

/// Which line of a full set gives way to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Policy {
    /// The line touched longest ago.
    #[default]
    Lru,
    /// The line that came in first.
    Fifo,
    /// Any line, with equal probability, from a seeded generator.
    Random {
        /// Seed of the generator.
        seed: u64,
    },
    /// The first line whose accessed bit is unset. A touch sets the line's bit; when that leaves none unset,
    /// all *other* bits are cleared (Cache Pirating paper, section III.3.2).
    Nehalem,
    /// As [`Nehalem`](Self::Nehalem), but *all* bits are cleared, the touched line's too: the worst that a
    /// co-runner holding the rest of the cache can do to a program's share.
    NehalemWorstCase,
    /// Static re-reference interval prediction with two bits: lines that come in are expected to be used late, lines
    /// that were touched soon, so that a scan displaces itself (Jaleel et al., *High Performance Cache Replacement
    /// Using Re-Reference Interval Prediction*, ISCA 2010, section 4.1, hit priority).
    Srrip,
    /// Pseudo-LRU by a binary tree over the ways: a touch makes each node above the line point to its other half,
    /// and the victim is where the nodes point. Where the ways are not a power of two, halves without a way are
    /// passed over.
    TreePlru,
}
