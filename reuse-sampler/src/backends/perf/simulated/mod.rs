//! A machine that is not there: programs, processor, kernel and their accidents, for the tests.
//!
//! Its instructions lie at addresses of their own, one for each time one is executed unless a test says otherwise, so that a sample's program
//! counter says which execution it was and everything reported can be held against the whole trace.

mod calls;
mod execution;
mod limits;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::limits::{COUNTERS, Counters, Limits};
use super::kernel::{Abilities, Notice, Opening, Operand, Profiler, Selector, Source, Stop, Tid};
use crate::AccessKind;
use crate::engine::random::Random;

/// Number of the first process; none is a thread's.
pub const PROCESS: Tid = 1_000_000;
const CODE: u64 = 0x10_0000;
const ESRCH: i32 = 3;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;

/// Events that count loads and stores.
pub const LOADS: Source = Source::Counter { kind: 4, config: 0x81, config1: 0 };
pub const STORES: Source = Source::Counter { kind: 4, config: 0x82, config1: 0 };
/// An event that counts both.
pub const ACCESSES: Source = Source::Counter { kind: 4, config: 0x85, config1: 0 };
/// Loads and stores, each with its address.
pub const PRECISE_LOADS: Source = Source::Counter { kind: 4, config: 0x83, config1: 0 };
pub const PRECISE_STORES: Source = Source::Counter { kind: 4, config: 0x84, config1: 0 };
/// Operations of any kind, by counters of their own; with the address of those that access memory.
pub const OPERATIONS: Source = Source::Counter { kind: 11, config: 1 << 19, config1: 0 };

/// Selectors of loads and stores.
pub const PRECISE: [Option<Selector>; 2] = [
    Some(Selector { source: PRECISE_LOADS, kind: Some(AccessKind::Load), apart: false }),
    Some(Selector { source: PRECISE_STORES, kind: Some(AccessKind::Store), apart: false }),
];
/// A selector of operations.
pub const APART: [Option<Selector>; 2] =
    [Some(Selector { source: OPERATIONS, kind: None, apart: true }), None];

/// A processor that profiles by itself.
pub const PROFILER: Profiler =
    Profiler { source: Source::Counter { kind: 9, config: 0x6_0001_0001, config1: 0 }, least: 16 };

/// Instructions that a thread is on a core, at least.
const STRETCH: u64 = 5_000;

/// What an instruction does, by its number.
pub type Program = Arc<dyn Fn(u64) -> Vec<Operand>>;

pub fn load(address: u64) -> Operand {
    Operand { address, bytes: 8, kind: AccessKind::Load }
}

pub fn store(address: u64) -> Operand {
    Operand { address, bytes: 8, kind: AccessKind::Store }
}

/// How often things go wrong: once in so many chances, 0 for never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Calls interrupted by a signal.
    pub interrupted: usize,
    /// Records for which there is no room.
    pub lost: usize,
    /// Events throttled.
    pub throttled: usize,
    /// Process killed, per notice.
    pub killed: usize,
    /// A thread ends, per notice.
    pub exits: usize,
    /// A thread appears, per notice.
    pub clones: usize,
    /// A process appears, per notice.
    pub forks: usize,
    /// The process becomes another program, per notice.
    pub execs: usize,
    /// A signal for the program, per notice.
    pub signals: usize,
    /// Job control, per notice.
    pub groups: usize,
    /// Operations that the processor does not follow, because it follows another one.
    pub collisions: usize,
    /// Memory of a trace, in bytes; 0 for as much as is asked for.
    pub trace: usize,
    /// Threads that block the signal that stops them.
    pub blocked: usize,
    /// Ticks, per notice.
    pub ticks: usize,
    /// Largest number of instructions by which a stop is late.
    pub skid: usize,
    /// Instructions after a precise event at which its record is written, with the counts of that moment; 0 for at once.
    pub written_late: usize,
    /// Stretches of [`STRETCH`] instructions of which one is on cores whose counters are not the group's; 0 for none.
    pub elsewhere: usize,
}

struct SimEvent {
    thread: Tid,
    leader: i32,
    id: u64,
    opening: Opening,
    enabled: bool,
    count: u64,
    left: u64,
    watch: Option<(u64, u64)>, // first and last byte
    limit: u64,                // reports until it is off; 0 for no such limit
    trace: Option<SimTrace>,
}

/// Memory that the processor writes a trace in, round and round. Positions count from the beginning of the trace.
struct SimTrace {
    memory: Vec<u8>,
    head: usize,      // written up to here
    announced: usize, // told up to here; <= head
    tail: usize,      // read up to here; head - tail <= memory.len()
    truncated: bool,  // since what was told last
    collided: bool,
}

#[allow(clippy::struct_excessive_bools)] // what a thread is in, each independent of the others
struct SimThread {
    process: (Tid, Tid), // its number and that of what made it
    program: Program,
    at: u64,
    length: u64,
    loads: u64,
    stores: u64,
    running: bool,
    stepping: bool,
    off: bool,      // watchpoints, since one was hit before its access
    passing: bool,  // the kernel itself steps over that access, unless the thread stops before it
    step_due: bool, // a step was under way then
    stop_in: Option<usize>,
    blocked: bool,
    dead: bool,
    ending: bool,
    known: bool,
    owed: i32,
    listening: bool,
    generation: u64,
}

pub struct Sim {
    pub faults: Faults,
    pub abilities: Abilities,
    pub limits: Option<Limits>,
    /// A process that nobody may observe.
    pub hidden: Option<Tid>,
    /// Whether another profiler has what chooses operations.
    pub operations_taken: bool,
    random: Random,
    threads: BTreeMap<Tid, SimThread>,
    events: BTreeMap<i32, SimEvent>,
    rings: BTreeMap<i32, (Vec<u8>, u64)>,
    queue: VecDeque<Notice>,
    next_tid: Tid,
    executions: usize,
    next_event: i32,
    ticks: usize,
    clock: u64,
    away: u64,                         // of the clock, on other cores
    late: Vec<(usize, i32, u64, u64)>, // records to be written: in how many instructions, event, instruction, address
    pub available: usize,              // debug registers
    pub opened: usize,
    pub closed: usize,
    pub signals: (usize, usize), // sent and delivered
    /// Operands of every instruction executed, by thread and program.
    pub trace: BTreeMap<(Tid, u64), Vec<Vec<Operand>>>,
    pub recording: bool,
    /// Addresses of instructions, which follow one another round and round.
    pub code: u64,
    pub leaks: Arc<AtomicBool>,
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// An x86-like machine that counts accesses.
pub fn abilities() -> Abilities {
    Abilities {
        windows: Source::INSTRUCTIONS,
        accesses: [Some(LOADS), Some(STORES)],
        selectors: [None; 2],
        profiler: None,
        code: true,
        decodes: true,
        registers: 4,
        whole_line: true,
        hit_after: true,
        once: false,
        branches: false,
        echo: false,
        early: 0,
    }
}

impl Sim {
    pub fn new(seed: u64, abilities: Abilities, program: Program, length: u64) -> Self {
        let mut sim = Self {
            faults: Faults::default(),
            abilities,
            limits: None,
            hidden: None,
            operations_taken: false,
            random: Random::new(seed, 99),
            threads: BTreeMap::new(),
            events: BTreeMap::new(),
            rings: BTreeMap::new(),
            queue: VecDeque::new(),
            next_tid: 100,
            executions: 0,
            next_event: 3,
            ticks: 0,
            clock: 0,
            away: 0,
            late: Vec::new(),
            available: abilities.registers,
            opened: 0,
            closed: 0,
            signals: (0, 0),
            trace: BTreeMap::new(),
            recording: true,
            code: u64::MAX,
            leaks: Arc::new(AtomicBool::new(false)),
        };
        sim.add(program, length);
        sim
    }

    /// Another thread of the first process.
    pub fn add(&mut self, program: Program, length: u64) {
        self.add_to((PROCESS, 1), program, length);
    }

    /// The first thread of a process that another makes: its number.
    pub fn fork(&mut self, parent: Tid, program: Program, length: u64) -> Tid {
        let process = PROCESS + self.next_tid;
        self.add_to((process, parent), program, length);
        process
    }

    fn add_to(&mut self, process: (Tid, Tid), program: Program, length: u64) {
        let tid = self.next_tid;
        self.next_tid += 1;
        let blocked = self.chance(self.faults.blocked);
        self.threads.insert(
            tid,
            SimThread {
                process,
                program,
                at: 0,
                length,
                loads: 0,
                stores: 0,
                running: false,
                stepping: false,
                off: false,
                passing: false,
                step_due: false,
                stop_in: None,
                blocked,
                dead: false,
                ending: false,
                known: false,
                owed: 0,
                listening: false,
                generation: 0,
            },
        );
        self.queue.push_back(Notice::Started(tid));
    }

    fn pc(&self, tid: Tid) -> u64 {
        CODE + 4 * (self.threads[&tid].at % self.code)
    }

    fn chance(&mut self, one_in: usize) -> bool {
        one_in > 0 && self.random.below(one_in) == 0
    }

    fn maybe_interrupted(&mut self) -> io::Result<()> {
        if self.chance(self.faults.interrupted) { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }

    fn alive(&self, tid: Tid) -> io::Result<()> {
        match self.threads.get(&tid) {
            Some(thread) if !thread.dead => Ok(()),
            _ => Err(io::Error::from_raw_os_error(ESRCH)),
        }
    }

    fn group(&self, leader: i32) -> Vec<(u64, u64)> {
        self.events
            .values()
            .filter(|event| event.leader == leader)
            .map(|event| (event.id, event.count))
            .collect()
    }

    fn running(&self) -> Vec<Tid> {
        self.threads.iter().filter(|(_, t)| t.running && !t.dead).map(|(&tid, _)| tid).collect()
    }

    fn accident(&mut self) {
        let running = self.running();
        if running.is_empty() {
            return;
        }
        let tid = running[self.random.below(running.len())];
        if self.chance(self.faults.killed) {
            for (&tid, thread) in &mut self.threads {
                (thread.dead, thread.running) = (true, false);
                self.queue.push_back(Notice::Gone(tid));
            }
        } else if self.chance(self.faults.exits) {
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.length = thread.at;
            }
        } else if self.chance(self.faults.clones) && self.threads.len() < 6 {
            let thread = &self.threads[&tid];
            let (process, program, length) = (thread.process, Arc::clone(&thread.program), thread.length);
            self.add_to(process, program, length / 2 + 1);
        } else if self.chance(self.faults.forks) && self.threads.len() < 6 {
            let thread = &self.threads[&tid];
            let (parent, program, length) = (thread.process.0, Arc::clone(&thread.program), thread.length);
            self.fork(parent, program, length / 2 + 1);
        } else if self.chance(self.faults.execs) {
            let process = self.threads[&tid].process;
            let gone: Vec<Tid> =
                self.threads.iter().filter(|(_, t)| t.process == process).map(|(&other, _)| other).collect();
            self.queue.retain(
                |notice| !matches!(notice, Notice::Stopped(of, _) | Notice::Started(of) if gone.contains(of)),
            );
            self.threads.retain(|other, _| *other == tid || !gone.contains(other));
            self.executions += 1;
            if let Some(thread) = self.threads.get_mut(&tid) {
                (thread.running, thread.stepping, thread.off, thread.stop_in) = (false, false, false, None);
                (thread.at, thread.loads, thread.stores) = (0, 0, 0);
                thread.length = thread.length / 2 + 1;
                thread.generation += 1;
            }
            for event in self.events.values_mut().filter(|event| gone.contains(&event.thread)) {
                (event.enabled, event.thread) = (false, 0);
            }
            self.queue.push_back(Notice::Stopped(tid, Stop::Exec));
        } else if self.chance(self.faults.signals) {
            if let Some(thread) = self.threads.get_mut(&tid) {
                (thread.running, thread.stepping, thread.owed) = (false, false, 10);
                self.signals.0 += 1;
                self.queue.push_back(Notice::Stopped(tid, Stop::Signal(10)));
            }
        } else if self.chance(self.faults.groups) {
            if let Some(thread) = self.threads.get_mut(&tid) {
                (thread.running, thread.stepping) = (false, false);
                self.queue.push_back(Notice::Stopped(tid, Stop::Group));
            }
        }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.leaks.store(!self.events.is_empty() || self.opened != self.closed, Ordering::SeqCst);
    }
}

/// Which execution of an instruction a program counter stands for.
pub fn execution(pc: u64) -> usize {
    ((pc - CODE) / 4) as usize
}
