//! Runs an unmodified x86-64 Linux program on its own processor, translated block by block, and samples it exactly.
//!
//! Nothing need be installed and no hardware counter is used. The page `docs/dbi.md` of the repository explains the
//! design.
//!
//! ```no_run
//! use reuse_sampler::dbi::{DbiOptions, DbiSampler};
//! use reuse_sampler::{Sampler, WindowPlan};
//!
//! let mut sampler = DbiSampler::spawn("sort", ["words.txt"], &DbiOptions::windows_of(10_000_000))?;
//! while let Some(window) = sampler.next_window(&WindowPlan::count_only())? {
//!     println!("window {}: {} blocks", window.index.0, window.code.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the numbers are
//! - **Windows** end before the block that would take them beyond their length; what one is short by, the next is
//!   longer by. A block ends with a jump, call, return, system call or `cpuid`, before a repeated string instruction, or after
//!   64 instructions, whatever is observed.
//! - **Instructions** are those executed. A repeated string instruction (`rep movsb`) counts once.
//! - **Accesses** are those the program's instructions make, whole: a 32-byte load is one access, or one a line if it
//!   straddles lines. A repeated string instruction makes one per element. A locked read-modify-write is one store; an
//!   unlocked one is a load and a store. A vector access under a mask counts whole, and one at a vector of indices as one at
//!   the first of them: [`warnings`](DbiSampler::warnings) say so where other lines may have been touched by more than one
//!   access in 1,000.
//! - **Threads** have windows and samples of their own; distances count the thread's own accesses. A plan applies to the
//!   thread whose window was returned last: it waits for the plan while others run on. A new thread begins under the
//!   first plan.
//! - **Elapsed time** is that of the translated run.
//!
//! - **Operands** ([`operands_per_access`](DbiSampler::operands_per_access)) agree with cachegrind's data references to
//!   0.07 % on openssl, git, sqlite3, xz, gzip, sort, perl, python3 and SSE and AVX2 kernels (`tests/dbi/operands.rs`).
//! - **Fetches** ([`DbiTrace::fetches`]): on these programs instructions agree with cachegrind's to 0.08 %, and the misses of an
//!   instruction cache of 32 KiB and 8 ways to 0.002 per 100 instructions (`tests/dbi/fetches.rs`).
//!
//! # Processes
//! Processes that the program forks and programs that they execute are observed like the program itself, unless
//! [`children`](DbiOptions::children) says otherwise. Each thread of each process has windows of its own; numbers of threads
//! and windows are unique over the tree. Code addresses have the number of the executed file in their bits 48 to 63 (0: the
//! program that was started). [`processes`](DbiSampler::processes) lists them with their instructions, accesses and ends. A
//! child that shares its parent's memory until it executes another program (`vfork`) is counted with its parent until then.
//! The run ends when all have ended. A child begins with no open samples.
//!
//! # What is not observed
//! Programs with more rights than their user (set-id) or not of x86-64. A program that installs a system call filter, has
//! more than 128 threads at once or uses an instruction that is not translated runs on natively from that point: the windows
//! before it are returned, and the warnings say why and from which window.

#[cfg(dbi_backend)]
mod arrivals;
#[cfg(dbi_backend)]
mod assemble;
#[cfg(dbi_backend)]
mod block;
#[cfg(dbi_backend)]
mod cache;
#[cfg(dbi_backend)]
mod chain;
#[cfg(dbi_backend)]
mod children;
#[cfg(dbi_backend)]
mod cpuid;
#[cfg(not(dbi_backend))]
mod elsewhere;
#[cfg(dbi_backend)]
mod execute;
#[cfg(dbi_backend)]
mod executions;
#[cfg(dbi_backend)]
mod exits;
#[cfg(dbi_backend)]
mod flags;
#[cfg(dbi_backend)]
mod guard;
#[cfg(dbi_backend)]
mod interrupted;
#[cfg(dbi_backend)]
mod launch;
#[cfg(dbi_backend)]
mod layout;
#[cfg(dbi_backend)]
mod limits;
#[cfg(dbi_backend)]
mod memory;
#[cfg(dbi_backend)]
mod observer;
mod options;
#[cfg(dbi_backend)]
mod process;
#[cfg(dbi_backend)]
mod recording;
#[cfg(dbi_backend)]
mod region;
#[cfg(dbi_backend)]
mod runs;
#[cfg(dbi_backend)]
mod runtime;
#[cfg(dbi_backend)]
mod signals;
#[cfg(dbi_backend)]
mod strings;
#[cfg(dbi_backend)]
mod system_calls;
#[cfg(dbi_backend)]
mod threads;
mod trace;
#[cfg(dbi_backend)]
mod translate;
#[cfg(dbi_backend)]
mod tree;
#[cfg(dbi_backend)]
mod windows;

use std::ffi::OsStr;

#[cfg(not(dbi_backend))]
use elsewhere::Run;
#[cfg(dbi_backend)]
use tree::Run;

pub use options::DbiOptions;
pub use trace::DbiTrace;

use crate::{CodeLocation, ProcessRecord, Sampler, SamplerError, TargetExit, Window, WindowPlan};

/// A program that runs translated, one window at a time.
#[derive(Debug)]
pub struct DbiSampler {
    run: Run,
}

impl DbiSampler {
    /// Starts `program` (found as a shell finds it) with `arguments`. It waits before its first instruction until
    /// [`next_window`](Sampler::next_window) gives the initial plan. Standard input, output and error are the caller's.
    ///
    /// # Errors
    /// [`SamplerError::Target`] if the program cannot be run, [`SamplerError::Unsupported`] on a machine that is not
    /// x86-64 Linux, [`SamplerError::Value`] for a window of length 0, [`SamplerError::Io`] if the system refuses.
    pub fn spawn<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &DbiOptions,
    ) -> Result<Self, SamplerError> {
        let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
        Ok(Self { run: Run::spawn(program.as_ref(), &arguments, options)? })
    }

    /// Where the code at `address` comes from, if it was seen in a window and belongs to a file. Also after the
    /// program's end.
    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.run.locate(address)
    }

    /// Number of the program's process.
    pub fn process_id(&self) -> u32 {
        self.run.process_id()
    }

    /// Operands per access in the windows whose accesses were seen; `None` before the first. An operand is what cachegrind
    /// calls a data reference: a read-modify-write is one (two accesses), and so is one that straddles lines.
    pub fn operands_per_access(&self) -> Option<f64> {
        self.run.operands_per_access()
    }

    /// The program and the processes it has started, directly or not, in the order in which they began; the program comes
    /// first. Complete after the end.
    pub fn processes(&self) -> Vec<ProcessRecord> {
        self.run.processes()
    }

    /// How the program ended, after [`next_window`](Sampler::next_window) has returned `None` or
    /// [`stop`](Sampler::stop) was called.
    pub fn exit_status(&self) -> Option<TargetExit> {
        self.run.exit_status()
    }

    /// What the user should know about the run: parts that went unobserved. Complete after the end.
    pub fn warnings(&self) -> &[String] {
        self.run.warnings()
    }

    /// Lets the program run on natively from its next block. The window in progress is returned by the next call of
    /// [`next_window`](Sampler::next_window), and then `None` once the program has ended.
    pub fn release(&mut self) {
        self.run.release();
    }
}

impl Sampler for DbiSampler {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        self.run.next_window(plan)
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        self.run.stop()
    }
}
