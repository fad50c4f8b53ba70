//! Every block and every access of a program, one after the other.

use std::ffi::OsStr;

#[cfg(not(qemu_plugin))]
use super::elsewhere::Stretches;
#[cfg(qemu_plugin)]
use super::stretches::Stretches;
use super::{CodeLocation, QemuOptions, Run, TargetExit};
use crate::replay::{Event, EventSource};
use crate::{ProcessRecord, SamplerError, ThreadId};

/// A program that runs under the emulator, as a stream of [events](Event): for exact simulation, or to
/// record it once and replay it often.
///
/// Blocks and accesses are those a [`QemuSampler`](super::QemuSampler) counts, each access with the program counter of
/// its instruction; addresses keep 48 bits. Threads run in parallel and are reported in stretches of
/// [up to 8192 events](QemuOptions::stretch), so that how they interleave is not what it was. When a thread ends the process, or a signal
/// does, up to a stretch of each other thread is lost. The program waits while nobody asks for events; dropping
/// the trace kills it.
///
/// [`fetches`](Self::fetches) reports the instructions themselves instead, for instruction caches.
///
/// # Cost
/// The events pass through shared memory, eight bytes each, program counters included (they cost 4 %): on a run of
/// `sort`, 55 million events for each second of CPU time of both processes together, eight times what the emulator alone
/// takes.
///
/// ```no_run
/// use reuse_sampler::qemu::{QemuOptions, QemuTrace};
/// use reuse_sampler::replay::{ReplayOptions, ReplaySampler};
///
/// let trace = QemuTrace::spawn("sort", ["words.txt"], &QemuOptions::default())?;
/// let sampler = ReplaySampler::new(trace, ReplayOptions::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct QemuTrace {
    run: Run,
    stretches: Stretches,
}

impl QemuTrace {
    /// Starts `program` (found as a shell finds it) with `arguments`. Of the options, the length of a window, the line
    /// size and the seed mean nothing here. Standard input, output and error are the caller's.
    ///
    /// # Errors
    /// As [`QemuSampler::spawn`](super::QemuSampler::spawn).
    pub fn spawn<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        Self::start(program.as_ref(), arguments, options, false)
    }

    /// The same for instruction caches: each instruction executed is a load of its bytes, made by itself, and loads and
    /// stores are left out. This is what [`Side::Instruction`](crate::trace::Side) makes of a trace that records
    /// fetches. A block that a signal leaves half way is reported whole. An iteration of a repeated string instruction is
    /// fetched again.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    ///
    /// # Cost
    /// Less than loads and stores: only blocks pass through shared memory.
    pub fn fetches<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        Self::start(program.as_ref(), arguments, options, true)
    }

    fn start<A: AsRef<OsStr>>(
        program: &OsStr,
        arguments: impl IntoIterator<Item = A>,
        options: &QemuOptions,
        fetches: bool,
    ) -> Result<Self, SamplerError> {
        let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
        let (run, stretches) = Stretches::start(program, &arguments, options, fetches)?;
        Ok(Self { run, stretches })
    }

    /// Where the code at `address` comes from, if it belongs to a file. Known once the program has ended, unless a signal
    /// ended it.
    ///
    /// # Cost
    /// As [`QemuSampler::locate`](super::QemuSampler::locate).
    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.run.locate(address)
    }

    /// The global variable at `address` and the offset in it, if the program or a library names it (feature `symbols`).
    /// Known when [`locate`](Self::locate) is.
    pub fn variable(&mut self, address: u64) -> Option<(String, u64)> {
        self.run.variable(address)
    }

    /// How the program ended, once all events were returned.
    #[must_use]
    pub fn exit_status(&self) -> Option<TargetExit> {
        self.run.exit_status()
    }

    /// Operands accessed so far, what cachegrind calls data references: a read-modify-write is one (two accesses), and so is
    /// an operand that straddles lines. Complete once all events were handed out; 0 for [`fetches`](Self::fetches).
    #[must_use]
    pub fn operands(&self) -> u64 {
        self.stretches.operands(&self.run)
    }

    /// The program, and whether it ran on unobserved before its end. Complete after the end.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessRecord> {
        self.run.processes()
    }

    /// The place among [`processes`](Self::processes) of the one that a thread belongs to: the first, as no other is observed.
    #[must_use]
    #[allow(clippy::unused_self)] // as of the traces that see others
    pub const fn process_of(&self, _: ThreadId) -> Option<usize> {
        Some(0)
    }

    /// What the user should know about the run: parts that went unobserved. Complete after the end.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.run.warnings()
    }
}

impl EventSource for QemuTrace {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        self.stretches.next_event(&mut self.run)
    }
}
