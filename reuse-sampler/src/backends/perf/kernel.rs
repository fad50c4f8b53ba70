//! What the backend asks of the kernel, as a trait: Linux implements it, and so does a simulated machine that plays
//! programs, ring-buffer bytes, errors and races for the tests.
//!
//! The kernel is taken for what it is: any call may be interrupted, a thread may be gone when it is asked for, and
//! what a ring lost is lost.

use std::io;

use super::causes::Circumstances;
use super::ring::{Layout, Traced};
use crate::AccessKind;

/// A thread by the kernel's number.
pub type Tid = i32;

/// An open event: what calls name it by, and what the kernel calls it in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Event {
    /// For calls.
    pub handle: i32,
    /// In records and readings.
    pub id: u64,
}

/// What an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A counter of the processor or of the kernel: `perf_event_attr`'s type and config.
    Counter {
        /// `perf_event_attr.type`.
        kind: u32,
        /// `perf_event_attr.config`.
        config: u64,
        /// `perf_event_attr.config1`: latency thresholds and the like.
        config1: u64,
    },
    /// Accesses to an address, once one is set.
    Watchpoint,
}

impl Source {
    /// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_TASK_CLOCK`: nanoseconds of the thread on a processor.
    pub const TASK_CLOCK: Self = Self::Counter { kind: 1, config: 1, config1: 0 };
    /// `PERF_TYPE_HARDWARE`, `PERF_COUNT_HW_INSTRUCTIONS`.
    pub const INSTRUCTIONS: Self = Self::Counter { kind: 0, config: 1, config1: 0 };
}

/// An event by which the processor chooses accesses itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// What it counts.
    pub source: Source,
    /// What it chooses, if only loads or only stores.
    pub kind: Option<AccessKind>,
    /// Whether it has counters of its own: it chooses among all operations, also the kernel's, and its records have no
    /// counts of others.
    pub apart: bool,
}

impl Selector {
    /// How it is opened: disabled, with a period that is never over.
    pub fn opening(&self) -> Opening {
        let layout = Layout { address: true, counts: !self.apart, ..Layout::default() };
        let (period, stops, precise, everywhere) = (1 << 40, true, 2, self.apart);
        Opening { period, stops, precise, everywhere, layout, ..Opening::of(self.source) }
    }
}

/// Where an event that overflows is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Nowhere: what matters is that it overflows.
    Nowhere,
    /// In a record in the ring of its group.
    #[default]
    Ring,
    /// In a trace that the processor writes by itself in memory of so many bytes, a power of two of pages, of which parts
    /// are announced in a ring of its own.
    Trace(usize),
}

/// How the processor profiles by itself: it chooses operations, writes them to a trace, and stops nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profiler {
    /// Counts operations.
    pub source: Source,
    /// The shortest distance between two that it chooses.
    pub least: u64,
}

impl Profiler {
    /// How it is opened: one operation in so many on average.
    pub fn opening(&self, period: u64, bytes: usize) -> Opening {
        let period = period.max(self.least).max(1);
        Opening { period, output: Output::Trace(bytes), enabled: true, ..Opening::of(self.source) }
    }
}

impl Selector {
    /// The nearest period that its counters take. Instruction-based sampling leaves the low four bits out, silently when the
    /// event is opened; Linux from 6.15 on refuses them later, and less than 144 (`perf_ibs_check_period`).
    pub fn period(&self, period: u64) -> u64 {
        if self.apart { (period.saturating_add(8) & !15).max(Self::LEAST_APART) } else { period }
    }

    /// The mean of such periods where they are geometric of mean `mean`.
    pub fn gap(&self, mean: u64) -> u64 {
        let (least, geometric) = (Self::LEAST_APART as f64, mean as f64);
        if self.apart { (least + geometric * (-least / geometric).exp()).round() as u64 } else { mean }
    }

    const LEAST_APART: u64 = 144;
}

/// How an event is opened. All are of one thread, and closed by the kernel when the thread runs another
/// program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opening {
    /// What it counts.
    pub source: Source,
    /// Counts between two overflows; 0 counts without overflowing.
    pub period: u64,
    /// Whether the thread stops at an overflow. A watchpoint that does not stop it reports once for each time it is set.
    pub stops: bool,
    /// `precise_ip`: 0 for any skid, 2 for none.
    pub precise: u8,
    /// Whether it counts the kernel too, because its counter cannot leave it out.
    pub everywhere: bool,
    /// What its records hold.
    pub layout: Layout,
    /// Where they go.
    pub output: Output,
    /// Whether it counts from the start.
    pub enabled: bool,
}

impl Opening {
    /// The plainest: counts the program from when it is enabled on, and never overflows.
    pub fn of(source: Source) -> Self {
        Self {
            source,
            period: 0,
            stops: false,
            precise: 0,
            everywhere: false,
            layout: Layout::default(),
            output: Output::Ring,
            enabled: false,
        }
    }
}

/// A change to an open event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Count.
    Enable,
    /// Do not.
    Disable,
    /// Overflow this many counts from now, and as many after that.
    Period(u64),
    /// Watch these bytes from now on.
    Watch {
        /// Aligned to `bytes`.
        address: u64,
        /// A length that this machine can watch.
        bytes: u32,
        /// Which touch is reported, from 1: those before it are only counted.
        touch: u64,
        /// Whether the touch that was to be reported last has come. Of a watchpoint that does not stop its thread,
        /// which is off once it has reported.
        spent: bool,
    },
}

/// A group's counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time the group was enabled, in nanoseconds.
    pub enabled: u64,
    /// Time it was counting.
    pub running: u64,
    /// Counts by event id.
    pub values: Vec<(u64, u64)>,
}

impl Reading {
    /// The count of an event.
    pub fn of(&self, event: Event) -> Option<u64> {
        self.values.iter().find(|(id, _)| *id == event.id).map(|(_, value)| *value)
    }
}

/// Why a thread stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An event overflowed.
    Event,
    /// It executed one instruction.
    Step,
    /// It was asked to.
    Interrupted,
    /// A signal of its own, to be passed on.
    Signal(i32),
    /// Job control stopped it: it is to stay so until a signal continues it.
    Group,
    /// It made a thread or a process, which reports itself.
    Clone,
    /// It made a process that shares its memory, and sleeps until that ends or executes a program. Then it stops again.
    Vfork,
    /// Its process became another program. Its events are gone, and so are the other threads of the process.
    Exec,
    /// It is about to end.
    Exit,
}

/// What the kernel reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A thread that was not known stands still.
    Started(Tid),
    /// A thread stands still.
    Stopped(Tid, Stop),
    /// A thread has ended, without or after [`Stop::Exit`].
    Gone(Tid),
    /// A process that is not to be followed has begun, and was let go.
    Ignored,
    /// Nothing for a while.
    Tick,
    /// There is no thread left.
    Ended,
}

/// How a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Until something happens.
    Run,
    /// One instruction. Also the way to leave an instruction whose access hit a watchpoint before it was made.
    Step,
    /// Stay stopped by job control until a signal continues it.
    Listen,
}

/// What a process executes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// The file.
    pub file: String,
    /// The command with its arguments.
    pub command: String,
    /// Whether the file is to give it another user's privileges, which it does not have.
    pub unprivileged: bool,
}

/// Registers of a thread that stands still.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Address of the next instruction.
    pub pc: u64,
    /// The machine's integer registers in the kernel's order (`user_regs_struct`, `user_pt_regs`).
    pub words: Vec<u64>,
}

/// One access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// First byte.
    pub address: u64,
    /// How many; at least 1.
    pub bytes: u32,
    /// Load or store.
    pub kind: AccessKind,
}

/// What an instruction does to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operands {
    /// These accesses; none if it does not touch memory.
    Known(Vec<Operand>),
    /// It may touch memory, but where is not understood.
    Unknown,
}

impl Abilities {
    /// Whether the processor chooses accesses itself.
    pub fn selects(&self) -> bool {
        self.selectors[0].is_some()
    }

    /// What records of code samples hold.
    pub fn code_layout(&self) -> Layout {
        Layout { branches: self.branches, user_ip: true, ..Layout::default() }
    }
}

/// The kernel and the machine, as far as the backend needs them.
pub trait Kernel {
    /// Waits for the next thing to happen.
    fn wait(&mut self) -> io::Result<Notice>;
    /// Opens an event of a thread that stands still, in the group of `leader`, or as the leader of a new group whose
    /// records go to a ring of its own.
    fn open(&mut self, thread: Tid, opening: &Opening, leader: Option<Event>) -> io::Result<Event>;
    /// Closes an event.
    fn close(&mut self, event: Event);
    /// Changes an event.
    fn change(&mut self, event: Event, change: Change) -> io::Result<()>;
    /// Reads the group of a leader. An event that the kernel could not schedule answers `UnexpectedEof`.
    fn read(&mut self, leader: Event) -> io::Result<Reading>;
    /// Appends what has come into the ring of a leader, and makes room there.
    fn drain(&mut self, leader: Event, bytes: &mut Vec<u8>) -> io::Result<()>;
    /// Appends a part of a leader's trace that its ring has announced, and makes room there and before it.
    fn drain_trace(&mut self, leader: Event, part: &Traced, bytes: &mut Vec<u8>) -> io::Result<()>;
    /// Lets a thread go on, with a signal if not 0.
    fn resume(&mut self, thread: Tid, how: Resume, signal: i32) -> io::Result<()>;
    /// The process that a known thread belongs to, and the one that made that, by their numbers.
    fn process_of(&mut self, thread: Tid) -> (Tid, Tid);
    /// What a process executes now.
    fn executed(&mut self, process: Tid) -> Executed;
    /// Asks a running thread to stand still.
    fn interrupt(&mut self, thread: Tid) -> io::Result<()>;
    /// Registers of a thread that stands still.
    fn registers(&mut self, thread: Tid) -> io::Result<Registers>;
    /// Whether the instruction at `pc`, where the thread stands, may access memory; cheaper than its operands.
    fn may_access(&mut self, thread: Tid, pc: u64) -> io::Result<bool>;
    /// What the instruction at the thread's program counter does.
    fn operands(&mut self, thread: Tid, registers: &Registers) -> io::Result<Operands>;
    /// What decides what a refusal of its own means.
    fn circumstances(&self, error: &io::Error) -> Circumstances;
    /// Nanoseconds since some moment.
    fn now(&mut self) -> u64;
}

/// What the machine can do, found by the probe.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // independent facts, each with its name
pub struct Abilities {
    /// What ends windows: instructions, or the thread's time.
    pub windows: Source,
    /// What distances are counted in, if not in the unit of windows: two events whose counts add up (loads and
    /// stores), or one.
    pub accesses: [Option<Source>; 2],
    /// Events that choose accesses and report their addresses, if there are any: of loads and stores, or one of both.
    pub selectors: [Option<Selector>; 2],
    /// How the processor profiles by itself, if it does.
    pub profiler: Option<Profiler>,
    /// Whether code samples can be taken.
    pub code: bool,
    /// Whether instructions are understood, so that an access can be chosen by a count.
    pub decodes: bool,
    /// Debug registers.
    pub registers: usize,
    /// Whether a watchpoint covers a line of this many bytes.
    pub whole_line: bool,
    /// Whether a watchpoint reports after its access, as on x86, or before.
    pub hit_after: bool,
    /// Whether watchpoints report once without stopping the thread, and can be set again.
    pub once: bool,
    /// Whether branch records come with code samples.
    pub branches: bool,
    /// Whether an overflow is noticed only when another event is about to overflow.
    pub echo: bool,
    /// How many counts early an overflow must come that single steps then complete.
    pub early: u64,
}
