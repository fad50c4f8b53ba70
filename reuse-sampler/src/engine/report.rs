//! What a tracker reports of a window.

use super::overlap::Overlap;

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Its line was touched again after this many other accesses.
    Reused(u64),
    /// Another thread stored to its line after this many accesses of the own thread.
    Invalidated(u64),
    /// Its line was not touched again before the thread ended.
    Dangling,
    /// Its line was not touched during this many accesses, then observation stopped.
    Censored(u64),
}

/// A single sample with its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// What became of it.
    pub fate: Fate,
    /// The window it was started in.
    pub window: u64,
    /// Accesses it stands for.
    pub weight: u64,
    /// Instruction that started it, and whether by a store.
    pub begin: (u64, bool),
    /// Instruction that touched the line again, and whether by a store; only if reused.
    pub end: Option<(u64, bool)>,
}

/// Samples of one fate (distances rounded to the middle of their bin) that were started in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// What became of them.
    pub fate: Fate,
    /// The window they were started in.
    pub window: u64,
    /// How many they are.
    pub samples: u64,
}

/// Backward distances of the accesses of a window, with the number of accesses at each.
pub type Backward = Vec<(Fate, u64)>;

/// What is known of a window when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Accesses shown to the tracker in this window.
    pub accesses: u64,
    /// Samples that ended in this window.
    pub closed: Vec<Closed>,
    /// The same for samples of windows in which every access is one.
    pub counts: Vec<Count>,
    /// Backward distances of loads and of stores, if every access was measured.
    pub arrivals: Option<[Backward; 2]>,
    /// Samples still open.
    pub open: u64,
    /// Accesses that invalidated samples stand for whose line the thread has touched again.
    pub refetched: u64,
    /// How samples that ended in this window lay over each other.
    pub overlaps: Vec<Overlap>,
    /// Instructions, and the bytes from one access to the next, if strides are sampled.
    pub strides: Vec<(u64, i64)>,
}
