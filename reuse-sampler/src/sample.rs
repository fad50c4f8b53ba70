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
    /// How many accesses it stands for: the mean gap between samples when it was started.
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
