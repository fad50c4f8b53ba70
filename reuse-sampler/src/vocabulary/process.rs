//! A process of the observed tree.

use crate::{AccessCount, TargetExit};

/// What becomes of the processes that a program starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Children {
    /// They are observed like the program itself, each with windows of its own, and awaited.
    #[default]
    Follow,
    /// They run unobserved, and so does what the program executes in its own place.
    Ignore,
}

/// A process of the observed tree: the program that was started, or a process that it or one of its descendants forked.
///
/// A process that executes another program stays one process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessRecord {
    /// Its number.
    pub pid: u32,
    /// Number of the process that forked it; of the observer for the program that was started.
    pub parent: u32,
    /// Its command, with arguments, as last executed. A forked child has its parent's until it executes another one.
    pub command: String,
    /// Instructions executed in the windows returned so far.
    pub instructions: u64,
    /// Memory accesses in these windows: estimated by its other windows where some were not measured.
    pub accesses: AccessCount,
    /// How it ended, once that is known.
    pub exit: Option<TargetExit>,
    /// Why it runs unobserved from some moment on, if it does.
    pub unobserved: Option<String>,
}

impl ProcessRecord {
    /// A process that has executed nothing yet.
    #[must_use]
    pub const fn new(pid: u32, parent: u32, command: String) -> Self {
        let accesses = AccessCount::Unknown;
        Self { pid, parent, command, instructions: 0, accesses, exit: None, unobserved: None }
    }
}
