//! Size and shape of a cache, and how it chooses a victim.

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
        Ok(Self { sets: bytes / (ways * line), ways, line_size })
    }

    /// Number of sets.
    #[must_use]
    pub const fn sets(self) -> u64 {
        self.sets
    }

    /// Lines in each set.
    #[must_use]
    pub const fn ways(self) -> u64 {
        self.ways
    }

    /// Size of a line.
    #[must_use]
    pub const fn line_size(self) -> LineSize {
        self.line_size
    }

    /// Size in lines.
    #[must_use]
    pub const fn lines(self) -> CacheLines {
        CacheLines(self.sets * self.ways)
    }

    /// Size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.lines().bytes(self.line_size)
    }

    /// The cache with the same sets and fewer or more ways.
    ///
    /// # Errors
    /// [`ChipError::Geometry`] if `ways` is 0 or more than 64.
    pub fn with_ways(self, ways: u64) -> Result<Self, ChipError> {
        let bytes = self.sets.saturating_mul(ways).saturating_mul(u64::from(self.line_size.bytes()));
        Self::new(bytes, ways, self.line_size)
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
    /// Pseudo-LRU by a binary tree over the ways: a touch makes each node above the line point to its other half,
    /// and the victim is where the nodes point. Where the ways are not a power of two, halves without a way are
    /// passed over.
    TreePlru,
}
