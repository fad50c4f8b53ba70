//! Everything that can be wrong with what a caller hands in.
//!
//! One enum for the crate. Each message names the value, the limit it broke and what to do about it.

use crate::PhaseId;
use crate::signature::SignatureKind;

/// What was wrong with the input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A vector without entries.
    #[error("the signature has no entries; give it at least one")]
    NoEntries,
    /// A window in which nothing was observed, or a frequency vector whose entries are all zero.
    #[error(
        "nothing was observed in this window (all {entries} entries are zero), so it has no frequencies; \
         skip the window or lengthen it"
    )]
    NothingObserved {
        /// Number of entries of the vector.
        entries: usize,
    },
    /// An entry that is NaN, infinite, or negative where only frequencies are allowed.
    #[error("entry {index} of the signature is {value}; {limit}")]
    BadEntry {
        /// Position of the entry, from 0.
        index: usize,
        /// The entry.
        value: f64,
        /// What is allowed.
        limit: &'static str,
    },
    /// A weight that is NaN, infinite or negative was added to a vector.
    #[error("a weight of {value} was added to the signature; weights must be finite and not negative")]
    BadWeight {
        /// The weight.
        value: f64,
    },
    /// Two vectors that must be equally long are not.
    #[error("the signature has {got} entries where {expected} are expected; use one builder for all windows")]
    Length {
        /// Number of entries of the vectors seen so far.
        expected: usize,
        /// Number of entries of this one.
        got: usize,
    },
    /// A frequency signature was given to something that compares raw ones, or the reverse.
    #[error("this needs a {expected} signature and was given a {got} one; choose a clusterer for that kind")]
    Kind {
        /// What the clusterer compares.
        expected: SignatureKind,
        /// What it was given.
        got: SignatureKind,
    },
    /// A parameter outside its range.
    #[error("{name} is {value}; {limit}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// The value it was given.
        value: f64,
        /// The allowed range.
        limit: &'static str,
    },
    /// More phases were founded than a [`PhaseId`](crate::PhaseId) can number.
    #[error("all {limit} phase numbers are used up; raise the threshold so that fewer phases are founded")]
    PhasesExhausted {
        /// How many numbers there are.
        limit: u32,
    },
    /// A batch of windows, or a clusterer to freeze, holds no phase.
    #[error("there is no phase yet; classify at least one window first")]
    NoPhases,
    /// A saved state that this crate cannot have written.
    #[error("the saved state is damaged: {what}; start again from an empty one")]
    SavedState {
        /// What does not fit together.
        what: &'static str,
    },
    /// There are no windows, or none was measured.
    #[error("there are no windows to work on; give at least one")]
    NoWindows,
    /// A window that does not exist.
    #[error("window {window} does not exist; there are {windows}, counted from 0")]
    NoSuchWindow {
        /// The window asked for.
        window: usize,
        /// How many there are.
        windows: usize,
    },
    /// Two sequences that must have one element per window each are not equally long.
    #[error("there are {got} {what} for {expected} windows; give one per window")]
    Windows {
        /// What there must be one of for each window.
        what: &'static str,
        /// Number of windows.
        expected: usize,
        /// Number of elements.
        got: usize,
    },
    /// A measured value that is NaN, infinite or negative.
    #[error("the value of window {window} is {value}; {limit}")]
    BadValue {
        /// The window, from 0.
        window: usize,
        /// Its value.
        value: f64,
        /// What is allowed.
        limit: &'static str,
    },
    /// More phases were asked for than there are windows.
    #[error("{clusters} phases are wanted of {windows} windows; ask for at most {windows}")]
    TooFewWindows {
        /// Phases wanted.
        clusters: usize,
        /// Windows there are.
        windows: usize,
    },
    /// An entry so large that distances would overflow.
    #[error(
        "an entry of {value} is too large for squared distances, which end at {limit}; scale the signatures down"
    )]
    TooLarge {
        /// The entry.
        value: f64,
        /// The largest magnitude.
        limit: f64,
    },
    /// A file that is not in the expected format.
    #[error("line {line}, column {column}: {what}")]
    Parse {
        /// Line, from 1.
        line: usize,
        /// Column, from 1, in characters.
        column: usize,
        /// What was expected there.
        what: &'static str,
    },
    /// Reading or writing failed.
    #[error("the file could not be read or written: {0}")]
    Read(#[from] std::io::Error),
    /// A simulation point whose phase has no weight.
    #[error(
        "phase {phase} has a simulation point but no weight; give the .weights file that belongs to the .simpoints file"
    )]
    NoWeight {
        /// The phase.
        phase: PhaseId,
    },
    /// A basic block that is empty, too long, or overlaps the one before.
    #[error(
        "the block of {bytes} bytes at {start:#x} is empty, leaves memory or overlaps another; list each block once"
    )]
    BlockTable {
        /// Its first address.
        start: u64,
        /// Its length.
        bytes: u64,
    },
    /// Every counter depends on the configuration of the machine.
    #[error(
        "no counter changes by less than {limit} between configurations (the least by {least}); \
         raise max_change or offer other counters"
    )]
    NoInvariantCounter {
        /// The smallest average percentage difference of any counter.
        least: f64,
        /// The largest allowed one.
        limit: f64,
    },
}
