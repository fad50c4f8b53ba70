//! Every block and every access of a program, one after the other.

#[cfg(dbi_backend)]
use std::collections::HashMap;
use std::ffi::OsStr;

#[cfg(dbi_backend)]
use super::block::{Operand, Reach};
#[cfg(dbi_backend)]
use super::cache::Block;
#[cfg(not(dbi_backend))]
use super::elsewhere::Run;
#[cfg(dbi_backend)]
use super::recording::Viewer;
#[cfg(dbi_backend)]
use super::tree::Run;
use super::{DbiOptions, TargetExit};
#[cfg(dbi_backend)]
use crate::backends::processes::Images;
use crate::replay::{Event, EventSource};
#[cfg(dbi_backend)]
use crate::{Access, AccessKind};
use crate::{CodeLocation, ProcessRecord, SamplerError, ThreadId};

/// A program that runs translated, as a stream of [events](Event): for exact simulation, or to record it once and replay
/// it often.
///
/// Blocks and accesses are those a [`DbiSampler`](super::DbiSampler) counts, each access with the program counter of its
/// instruction. Threads run in parallel and are handed out in [stretches](DbiOptions::stretch), so that how they interleave
/// is not what it was. The program waits while nobody asks for events; dropping the trace kills it.
///
/// Threads of children follow in the same way. The memory of each process is its own: addresses of the process `n` (0 is the
/// program, others are in the order of [`processes`](Self::processes)) differ by `n << 48` from what it sees. What processes
/// have in common, such as the code and data of a parent that neither has changed, is taken to be each one's.
///
/// # Cost
/// The program writes eight bytes for each block and each access; making events of them takes most of the time.
///
/// ```no_run
/// use reuse_sampler::dbi::{DbiOptions, DbiTrace};
/// use reuse_sampler::replay::{ReplayOptions, ReplaySampler};
///
/// let trace = DbiTrace::spawn("sort", ["words.txt"], &DbiOptions::default())?;
/// let sampler = ReplaySampler::new(trace, ReplayOptions::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DbiTrace {
    run: Run,
    events: Vec<Event>,
    handed_out: usize,
}

impl DbiTrace {
    /// Starts `program` (found as a shell finds it) with `arguments`. Of the options, the length of a window, the line size and
    /// the seed mean nothing here. Standard input, output and error are the caller's.
    ///
    /// # Errors
    /// As [`DbiSampler::spawn`](super::DbiSampler::spawn).
    pub fn spawn<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &DbiOptions,
    ) -> Result<Self, SamplerError> {
        Self::start(program.as_ref(), arguments, options, false)
    }

    /// The same for instruction caches: each instruction executed is a load of its bytes, made by itself, and loads and stores
    /// are left out. A repeated string instruction is fetched once. Processes that execute the same program have its code in
    /// common: their fetches are of the same lines.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    ///
    /// # Cost
    /// The program writes eight bytes for up to eight blocks.
    pub fn fetches<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &DbiOptions,
    ) -> Result<Self, SamplerError> {
        Self::start(program.as_ref(), arguments, options, true)
    }

    fn start<A: AsRef<OsStr>>(
        program: &OsStr,
        arguments: impl IntoIterator<Item = A>,
        options: &DbiOptions,
        fetches: bool,
    ) -> Result<Self, SamplerError> {
        let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
        let run = Run::trace(program, &arguments, options, fetches)?;
        Ok(Self { run, events: Vec::new(), handed_out: 0 })
    }

    /// Where the code at `address` comes from, if it belongs to a file. Known once the program has ended.
    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.run.locate(address)
    }

    /// The global variable at `address` and the offset in it, if the program or a library names it (feature `symbols`).
    /// Known when [`locate`](Self::locate) is.
    pub fn variable(&mut self, address: u64) -> Option<(String, u64)> {
        self.run.variable(address)
    }

    /// How the program ended, once all events were handed out.
    #[must_use]
    pub fn exit_status(&self) -> Option<TargetExit> {
        self.run.exit_status()
    }

    /// Operands accessed so far, what cachegrind calls data references: a read-modify-write is one (two accesses), and so is
    /// an operand that straddles lines. Complete once all events were handed out; 0 for [`fetches`](Self::fetches).
    #[must_use]
    pub fn operands(&self) -> u64 {
        self.run.operands()
    }

    /// The program and its children, and whether they ran on unobserved before their end. Their accesses count once for each
    /// line of 64 bytes. Complete after the end.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessRecord> {
        self.run.processes()
    }

    /// The place among [`processes`](Self::processes) of the one that a thread belongs to, once an event of it was handed out.
    /// Where that changes (a child executes a program), [`Event::Thread`] is repeated.
    #[must_use]
    pub fn process_of(&self, thread: ThreadId) -> Option<usize> {
        self.run.process_of(thread)
    }

    /// What the user should know about the run: parts that went unobserved. Complete after the end.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.run.warnings()
    }
}

impl EventSource for DbiTrace {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        if self.handed_out == self.events.len() {
            self.events.clear();
            self.handed_out = 0;
            self.run.next_events(&mut self.events)?;
        }
        let event = self.events.get(self.handed_out).copied();
        self.handed_out += usize::from(event.is_some());
        Ok(event)
    }
}

/// Bytes of the lines that most caches have.
#[cfg(dbi_backend)]
const LINE: u64 = 64;

/// Bits of an address that a program can have.
#[cfg(dbi_backend)]
const SPACE: u32 = 48;

/// Events that wait to be handed out.
#[cfg(dbi_backend)]
#[derive(Debug)]
pub(super) struct Events {
    waiting: Vec<Event>,
    thread: ThreadId,
    processes: HashMap<ThreadId, usize>,
    mark: u64,  // of addresses of code
    space: u64, // of addresses of data
    stretch: u64,
    /// Whether they are of instructions, not of what these access.
    pub fetches: bool,
    /// Accesses that are not the first of their operands.
    pub further: u64,
    /// Those whose place or length is not known.
    pub unsure: u64,
    /// All that were seen.
    pub accesses: u64,
    /// Lines that they touched.
    pub lines: u64,
}

#[cfg(dbi_backend)]
impl Events {
    /// None yet, of threads that take turns after so many.
    pub(super) fn new(stretch: u32, fetches: bool) -> Self {
        Self {
            waiting: Vec::new(),
            thread: ThreadId(0),
            processes: HashMap::from([(ThreadId(0), 0)]),
            mark: 0,
            space: 0,
            stretch: u64::from(stretch) * 8,
            fetches,
            further: 0,
            unsure: 0,
            accesses: 0,
            lines: 0,
        }
    }

    /// Bytes of a buffer that a thread fills in one go.
    pub(super) const fn stretch(&self) -> u64 {
        self.stretch
    }

    /// What follows is of this thread of a process, which executes the program of the number `image`.
    pub(super) fn go_on(&mut self, thread: ThreadId, process: usize, image: usize) {
        self.mark = Images::mark_of(image);
        self.space = (process as u64) << SPACE;
        // A child that executes a program becomes a process of its own then.
        if thread != self.thread || self.processes.get(&thread) != Some(&process) {
            self.thread = thread;
            self.processes.insert(thread, process);
            self.waiting.push(Event::Thread(thread));
        }
    }

    /// The number of the process that a thread belongs to, if events of it were handed out.
    pub(super) fn process_of(&self, thread: ThreadId) -> Option<usize> {
        self.processes.get(&thread).copied()
    }

    /// The thread has ended.
    pub(super) fn end(&mut self, thread: ThreadId) {
        self.waiting.push(Event::Exit(thread));
    }

    /// Hands out what waits, in the place of `events`, which are none.
    pub(super) fn take(&mut self, events: &mut Vec<Event>) {
        std::mem::swap(&mut self.waiting, events);
    }
}

#[cfg(dbi_backend)]
impl Viewer for Events {
    #[inline]
    fn block(&mut self, block: &Block) {
        self.further += u64::from(block.updates);
        let (address, instructions) = (block.pc | self.mark, block.instructions);
        self.waiting.push(Event::Block { address, instructions });
        let mut pc = address;
        for &length in &block.lengths {
            self.accesses += 1;
            self.further += 1;
            self.lines += (pc % LINE + u64::from(length)).div_ceil(LINE);
            self.waiting.push(Event::Access(Access {
                address: pc,
                bytes: length.into(),
                kind: AccessKind::Load,
                pc,
            }));
            pc += u64::from(length);
        }
    }

    #[inline]
    fn access(&mut self, address: u64, operand: &Operand) {
        if self.fetches {
            return; // of a repeated string instruction
        }
        let pc = operand.pc | self.mark;
        self.unsure += u64::from(match operand.reach {
            Reach::Whole => false,
            Reach::Masked => address % LINE + u64::from(operand.bytes) > LINE,
            Reach::Scattered => true,
        });
        let lines = (address % LINE + u64::from(operand.bytes).max(1)).div_ceil(LINE);
        let address = address ^ self.space;
        for (kind, made) in [(AccessKind::Load, operand.loads), (AccessKind::Store, operand.stores)] {
            if made {
                self.accesses += 1;
                self.lines += lines;
                self.waiting.push(Event::Access(Access { address, bytes: operand.bytes, kind, pc }));
            }
        }
    }
}
