//! A single reuse sample: an access that was chosen, and what became of its line.

use crate::{AccessKind, ReuseDistance};

/// Number of a window, unique over the run and over all threads. Given when the window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct WindowIndex(pub u64);

/// A thread of the target, numbered from 0 in the order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct ThreadId(pub u32);

/// What became of a chosen access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// Its line was touched again after this many accesses in between.
    Reused(ReuseDistance),
    /// Another thread stored to the line, after this many accesses of the own thread: it left the thread's private cache, and
    /// the next access to it misses whatever the size. Only where threads are followed in their order.
    Invalidated(ReuseDistance),
    /// The program ended (the thread exited) and the line had not been touched again.
    Dangling,
    /// Observation stopped first: the line was not touched during this many accesses, so the reuse distance
    /// is at least that. A window left uninstrumented, a watchpoint reclaimed, a run interrupted.
    Censored {
        /// Accesses seen since the chosen one without a touch of its line.
        at_least: u64,
    },
}

/// The instruction that made an access, and whether it was a load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Site {
    /// Address of the instruction, 0 where it is not known.
    pub pc: u64,
    /// Load or store.
    pub kind: AccessKind,
}

/// An access chosen by the sampler, with its outcome. Each sample that is started is reported exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ReuseSample {
    /// What became of it.
    pub outcome: Outcome,
    /// The window in which it was started, which may be an earlier one than the window that reports it.
    pub started_in: WindowIndex,
    /// The thread that made the access.
    pub thread: ThreadId,
    /// The chosen access.
    pub begin: Site,
    /// The access that touched the line again, for [`Outcome::Reused`].
    pub end: Option<Site>,
    /// How many accesses it stands for: the mean gap between samples when it was started, or what the backend corrects
    /// that to, 0 included.
    pub weight: u64,
}

/// Several samples with one outcome, as windows in which every access is measured report them: a list of
/// single samples would be larger than the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ReuseCount {
    /// What became of them; distances are rounded as
    /// [`ReuseProfile`](crate::ReuseProfile) rounds them.
    pub outcome: Outcome,
    /// The window in which they were started.
    pub started_in: WindowIndex,
    /// How many samples there are, each standing for one access.
    pub count: u64,
}

/// How samples of similar distance lay over others: for each of them, n samples were started during it (after
/// its first access, before its last) and were still open at its end.
///
/// Those n samples are the last touches of n different lines. Where each access is chosen with probability
/// 1/m, n m estimates without bias how many different lines were touched in between, the stack distance of
/// the access that ended the sample. Over many samples, that shows how far accesses of this distance are
/// from what distances alone let one expect.
///
/// Only samples during which accesses were chosen at one rate, each with the same probability, are counted.
/// In windows in which every access is measured, one access in 32 is followed for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ReuseOverlap {
    /// The window in which the samples were started.
    pub started_in: WindowIndex,
    /// Smallest distance they can have.
    pub shortest: ReuseDistance,
    /// Largest distance they can have: a quarter of an octave above.
    pub longest: ReuseDistance,
    /// How many accesses each sample stands for: m.
    pub weight: u64,
    /// How many samples there are.
    pub samples: u64,
    /// Sum of n over them.
    pub open: u64,
    /// Sum of n (n - 1) over them.
    pub pairs: u64,
}
