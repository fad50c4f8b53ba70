//! The interface of everything that runs a program and samples it.

use thiserror::Error as ThisError;

use crate::{Error, Window, WindowPlan};

/// Runs the target until its next window ends and returns that window.
///
/// The plan applies to the thread whose window was returned last; that thread waits for it while others run
/// on. On the first call it is the initial plan, which every new thread starts under. That is all phase
/// guidance needs: classify the window just returned, predict the thread's next phase, and ask in the plan
/// for what is not known of that phase yet.
///
/// Every sample that was started is reported exactly once. What is still open when a thread ends comes as
/// dangling with the thread's last window. After `Ok(None)` the target has ended and everything was reported.
pub trait Sampler {
    /// Runs on under `plan` until some thread's window is complete.
    ///
    /// # Errors
    /// [`SamplerError`] if the target cannot be run or observed any further. What was returned before stays
    /// valid; samples open at that moment are lost with the run.
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError>;

    /// Ends observation now (the user interrupts). A program that was started for this run is ended too. The
    /// windows in progress are returned by the following calls of [`next_window`](Self::next_window), with
    /// their open samples as censored, and then `None`.
    ///
    /// # Errors
    /// [`SamplerError`] if the target can no longer be reached.
    fn stop(&mut self) -> Result<(), SamplerError>;
}

impl<S: Sampler + ?Sized> Sampler for Box<S> {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        (**self).next_window(plan)
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        (**self).stop()
    }
}

/// Why a target could not be started or observed any further.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum SamplerError {
    /// A parameter was refused.
    #[error(transparent)]
    Value(#[from] Error),
    /// An operating-system call failed.
    #[error("{operation} {object}: {source}")]
    Io {
        /// What was being done, for example "open".
        operation: &'static str,
        /// To what.
        object: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A trace could not be parsed.
    #[error("{format} trace, line {line}: {problem}: {content:?}")]
    Trace {
        /// Name of the trace format.
        format: &'static str,
        /// Line number, from 1.
        line: u64,
        /// What is wrong with it.
        problem: &'static str,
        /// The line itself, shortened.
        content: String,
    },
    /// The same, where the place in the line is known.
    #[error("{format} trace, line {line}, column {column}: {problem}: {content:?}")]
    TraceToken {
        /// Name of the trace format.
        format: &'static str,
        /// Line number, from 1.
        line: u64,
        /// The byte in it at which reading stopped, from 1.
        column: u64,
        /// What is wrong with it.
        problem: &'static str,
        /// What was being read there, shortened.
        content: String,
    },
    /// A binary trace could not be parsed.
    #[error("{format} trace, byte {offset}: {problem}")]
    BinaryTrace {
        /// Name of the trace format.
        format: &'static str,
        /// Where reading stopped, in bytes from the beginning (of the decompressed data).
        offset: u64,
        /// What is wrong there.
        problem: &'static str,
    },
    /// A trace without a single memory access.
    #[error("{format} trace: no memory access in it")]
    EmptyTrace {
        /// Name of the trace format.
        format: &'static str,
    },
    /// The instruction side of a trace that has none.
    #[error("{format} traces record no instruction fetches: give a din or lackey trace")]
    NoFetches {
        /// Name of the trace format.
        format: &'static str,
    },
    /// The program to run cannot be run.
    #[error("cannot run {program:?}: {problem}")]
    Target {
        /// The program as the caller named it.
        program: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// This machine lacks what the backend needs.
    #[error("{backend} backend: {missing}")]
    Unsupported {
        /// Name of the backend.
        backend: &'static str,
        /// What is missing and how to get it.
        missing: String,
    },
    /// The backend's other half sent something unexpected.
    #[error("{backend} backend: {problem}")]
    Protocol {
        /// Name of the backend.
        backend: &'static str,
        /// What was wrong.
        problem: String,
    },
}
