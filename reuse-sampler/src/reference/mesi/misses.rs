//! What coherent caches are asked for.

use crate::{CacheLines, Line};

/// What private caches of one size did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MesiMisses {
    /// Size of each cache.
    pub size: CacheLines,
    /// Accesses, one for each line.
    pub accesses: u64,
    /// Misses of lines that the thread touches for the first time.
    pub cold: u64,
    /// Misses of lines that the cache had evicted.
    pub capacity: u64,
    /// Misses of lines that another thread's store had taken away, for a byte that another thread wrote since.
    pub true_sharing: u64,
    /// Misses of lines that another thread's store had taken away, for bytes that nobody else wrote since.
    pub false_sharing: u64,
    /// Stores that hit a line in state shared. They are no misses.
    pub upgrades: u64,
}

impl MesiMisses {
    pub(super) const fn new(size: CacheLines) -> Self {
        Self { size, accesses: 0, cold: 0, capacity: 0, true_sharing: 0, false_sharing: 0, upgrades: 0 }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.cold += other.cold;
        self.capacity += other.capacity;
        self.true_sharing += other.true_sharing;
        self.false_sharing += other.false_sharing;
        self.upgrades += other.upgrades;
    }

    /// Misses because another thread stored to the line.
    #[must_use]
    pub const fn coherence(&self) -> u64 {
        self.true_sharing + self.false_sharing
    }

    /// All misses.
    #[must_use]
    pub const fn misses(&self) -> u64 {
        self.cold + self.capacity + self.coherence()
    }

    /// Misses for each access; 0 where there was no access.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        self.misses() as f64 / self.accesses.max(1) as f64
    }
}

/// A line that threads take from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MesiLine {
    /// The line.
    pub line: Line,
    /// Threads that touched it.
    pub threads: usize,
    /// Misses by true sharing in caches of the largest size.
    pub true_sharing: u64,
    /// Misses by false sharing in caches of the largest size.
    pub false_sharing: u64,
    /// The instruction of the last miss by false sharing, 0 where it is not known.
    pub missed_at: u64,
    /// The instruction of the last store once several threads had touched the line, 0 where it is not known.
    pub stored_at: u64,
}
