//! Distances between accesses and sizes of caches, as types that cannot be mixed up.

/// Number of memory accesses *strictly between* two successive accesses to the same line, distinct or not:
/// in `A B B C A` the reuse distance of the last access is 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct ReuseDistance(pub u64);

/// Number of *distinct* lines accessed strictly between two successive accesses to the same line: in
/// `A B B C A` the stack distance of the last access is 2. An LRU cache of `L` lines misses when it is at
/// least `L`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct StackDistance(pub u64);

/// Size of a cache in lines. A cache of 0 lines misses every access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct CacheLines(pub u64);

impl CacheLines {
    /// The lines of `line_size` that fit `bytes`: a rest that is no whole line is not counted.
    #[must_use]
    pub const fn from_bytes(bytes: u64, line_size: crate::LineSize) -> Self {
        Self(bytes / line_size.bytes() as u64)
    }

    /// The size in bytes when a line has `line_size` bytes.
    #[must_use]
    pub const fn bytes(self, line_size: crate::LineSize) -> u64 {
        self.0.saturating_mul(line_size.bytes() as u64)
    }
}

/// What is known of an access's last touch of its line: the argument of
/// [`CacheModel::miss_probability`](crate::CacheModel::miss_probability).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reuse {
    /// The line was touched before, this many accesses ago.
    Distance(ReuseDistance),
    /// The line was never touched before: every cache misses.
    Dangling,
}
