//! What can be wrong with a value given to this crate, or with a run.

use thiserror::Error as ThisError;

use crate::{Clock, LineSize, Scope};

/// A value that a type of the vocabulary refuses.
#[derive(Debug, Clone, PartialEq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A line size that is not a power of two, or too large.
    #[error("line size of {bytes} bytes: give a power of two from 1 to 1048576")]
    LineSize {
        /// The size asked for.
        bytes: u32,
    },
    /// A processor that there is none of.
    #[error("no processor {name:?}: give host, x86-64, x86-64-v2, x86-64-v3 or x86-64-v4")]
    Cpu {
        /// The name asked for.
        name: String,
    },
    /// A mean sampling gap that is not a number of at least one.
    #[error("a sample every {accesses} accesses: give a finite mean gap of at least 1")]
    SampleGap {
        /// The gap asked for.
        accesses: f64,
    },
    /// Parameters of hierarchical sampling that ask for more samples than a burst has accesses, or for none.
    #[error(
        "hierarchical sampling of {samples} samples in bursts of {burst} accesses: \
         give at least 1 sample and at most one per access of the burst"
    )]
    Hierarchy {
        /// Accesses in a burst.
        burst: u64,
        /// Samples asked for in a burst.
        samples: u64,
    },
    /// Settings of a bootstrap that give no interval.
    #[error(
        "intervals at level {level} from {resamples} draws: give a level between 0 and 1, and at least 100 draws"
    )]
    Bootstrap {
        /// The level asked for.
        level: f64,
        /// Number of draws asked for.
        resamples: usize,
    },
    /// A cache without sets.
    #[error("a cache of {sets} sets: give at least 1")]
    Sets {
        /// The number asked for.
        sets: usize,
    },
    /// A number of ways that makes no set.
    #[error(
        "sets of {ways} ways: give from 1 to 256 (leave the correction out for a fully associative cache)"
    )]
    Ways {
        /// The number asked for.
        ways: u32,
    },
    /// A window of no instructions or accesses.
    #[error("a window of length 0: give at least 1")]
    WindowLength,
    /// Windows are a number of instructions, and the source reports no instructions.
    #[error(
        "windows of {window} instructions, and {accesses} accesses without one: give WindowLength::Accesses, or a source \
         that reports executed blocks"
    )]
    NoInstructions {
        /// Instructions that a window was to have.
        window: u64,
        /// Accesses seen.
        accesses: u64,
    },
    /// Profiles, windows and models at different line sizes cannot be put together.
    #[error(
        "cannot put together what was observed at {left} and {right} byte lines: observe both at one line size"
    )]
    MixedLineSizes {
        /// Line size of what is added to, in bytes.
        left: u32,
        /// Line size of what is added, in bytes.
        right: u32,
    },
    /// Two profiles measured with different clocks cannot be merged.
    #[error("cannot put together distances in {left} and in {right}: record both with one clock")]
    MixedClocks {
        /// Clock of the profile merged into.
        left: Clock,
        /// Clock of the other profile.
        right: Clock,
    },
    /// Two profiles of which one is of each thread by itself and one of all threads together.
    #[error("cannot put together what was observed of {left} and of {right}: keep them apart")]
    MixedScopes {
        /// Scope of the profile merged into.
        left: Scope,
        /// Scope of the other profile or window.
        right: Scope,
    },
    /// A model for no group of windows at all.
    #[error("no group of windows has a sample: record at least one")]
    NoGroups,
    /// A group's weight that is not a non-negative number.
    #[error("a group of weight {weight}: give a finite weight of at least 0")]
    GroupWeight {
        /// The weight given.
        weight: f64,
    },
    /// A share of observed windows that is not between 0 and 1.
    #[error("{covered} of the windows were observed: give a share from 0 to 1")]
    CoveredShare {
        /// The share given.
        covered: f64,
    },
    /// A window added to two groups.
    #[error("window {index} was added before: add each window once")]
    WindowTwice {
        /// Number of the window.
        index: u64,
    },
    /// A second session of the process.
    #[error("the process records a session already: stop it first")]
    SessionRunning,
    /// A stored profile of a version this crate does not read.
    #[error("profile format version {found}: this crate reads version {known}")]
    FormatVersion {
        /// Version found in the data.
        found: u32,
        /// Newest version this crate reads.
        known: u32,
    },
    /// A stored profile that contradicts itself.
    #[error("malformed profile: {what}")]
    MalformedProfile {
        /// What is wrong, naming the value.
        what: String,
    },
}

impl Error {
    pub(crate) fn mixed_line_sizes(left: LineSize, right: LineSize) -> Self {
        Self::MixedLineSizes { left: left.bytes(), right: right.bytes() }
    }
}
