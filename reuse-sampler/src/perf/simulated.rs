//! A machine that is not there: programs, processor, kernel and their accidents, for the tests.
//!
//! Its instructions lie at addresses of their own, one for each time one is executed, so that a sample's program
//! counter says which execution it was and everything reported can be held against the whole trace.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::kernel::{
    Abilities, Change, Event, Kernel, Notice, Opening, Operand, Operands, Reading, Registers, Resume,
    Selector, Source, Stop, Tid,
};
use super::ring::{Sample, write};
use crate::AccessKind;
use crate::engine::random::Random;

const CODE: u64 = 0x10_0000;
const ESRCH: i32 = 3;
const ENOSPC: i32 = 28;

/// Events that count loads and stores.
pub const LOADS: Source = Source::Counter { kind: 4, config: 0x81, config1: 0 };
pub const STORES: Source = Source::Counter { kind: 4, config: 0x82, config1: 0 };
/// The same, each with its address.
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
    /// The process becomes another program, per notice.
    pub execs: usize,
    /// A signal for the program, per notice.
    pub signals: usize,
    /// Job control, per notice.
    pub groups: usize,
    /// Threads that block the signal that stops them.
    pub blocked: usize,
    /// Ticks, per notice.
    pub ticks: usize,
    /// Largest number of instructions by which a stop is late.
    pub skid: usize,
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
}

#[allow(clippy::struct_excessive_bools)] // what a thread is in, each independent of the others
struct SimThread {
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
    random: Random,
    threads: BTreeMap<Tid, SimThread>,
    events: BTreeMap<i32, SimEvent>,
    rings: BTreeMap<i32, (Vec<u8>, u64)>,
    queue: VecDeque<Notice>,
    next_tid: Tid,
    next_event: i32,
    ticks: usize,
    clock: u64,
    pub available: usize, // debug registers
    pub opened: usize,
    pub closed: usize,
    pub signals: (usize, usize), // sent and delivered
    /// Operands of every instruction executed, by thread and program.
    pub trace: BTreeMap<(Tid, u64), Vec<Vec<Operand>>>,
    pub recording: bool,
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
            random: Random::new(seed, 99),
            threads: BTreeMap::new(),
            events: BTreeMap::new(),
            rings: BTreeMap::new(),
            queue: VecDeque::new(),
            next_tid: 100,
            next_event: 3,
            ticks: 0,
            clock: 0,
            available: abilities.registers,
            opened: 0,
            closed: 0,
            signals: (0, 0),
            trace: BTreeMap::new(),
            recording: true,
            leaks: Arc::new(AtomicBool::new(false)),
        };
        sim.add(program, length);
        sim
    }

    pub fn add(&mut self, program: Program, length: u64) {
        let tid = self.next_tid;
        self.next_tid += 1;
        let blocked = self.chance(self.faults.blocked);
        self.threads.insert(
            tid,
            SimThread {
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

    fn overflow(&mut self, handle: i32, ip: u64, address: u64) {
        let Some(event) = self.events.get(&handle) else { return };
        let (leader, id, layout, stops, tid) =
            (event.leader, event.id, event.opening.layout, event.opening.stops, event.thread);
        let branches = if layout.branches { vec![(ip, ip + 64), (ip + 4, ip + 32)] } else { Vec::new() };
        let counts = if layout.counts { self.group(leader) } else { Vec::new() };
        let sample = Sample {
            event: id,
            ip,
            exact: true,
            kernel: false,
            user_ip: layout.user_ip.then_some(ip),
            address: layout.address.then_some(address),
            counts,
            branches,
        };
        let lost = self.chance(self.faults.lost);
        let throttled = self.chance(self.faults.throttled);
        let ring = self.rings.entry(leader).or_default();
        if lost || ring.0.len() > 60_000 {
            ring.1 += 1;
        } else {
            if ring.1 > 0 {
                write::lost(&mut ring.0, std::mem::take(&mut ring.1));
            }
            if throttled {
                write::throttled(&mut ring.0);
            }
            write::sample(&mut ring.0, &sample, layout);
        }
        if stops {
            let skid = if self.faults.skid > 0 { self.random.below(self.faults.skid + 1) } else { 0 };
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.stop_in = Some(thread.stop_in.map_or(skid, |already| already.min(skid)));
            }
        }
    }

    /// Watchpoints of `tid` that the operands touch.
    fn hits(&self, tid: Tid, operands: &[Operand]) -> Vec<(i32, u64)> {
        let mut hits = Vec::new();
        for (&handle, event) in &self.events {
            let Some((first, last)) = event.watch.filter(|_| event.thread == tid && event.enabled) else {
                continue;
            };
            let touching = |o: &&Operand| o.address <= last && o.address + u64::from(o.bytes) > first;
            if let Some(operand) = operands.iter().find(touching) {
                hits.push((handle, operand.address));
            }
        }
        hits
    }

    /// Counts touches. Whether one of them is to stop the thread.
    fn hit(&mut self, hits: &[(i32, u64)], ip: u64) -> bool {
        let mut stops = false;
        for &(handle, address) in hits {
            let Some(event) = self.events.get_mut(&handle) else { continue };
            event.count += 1;
            event.left -= 1;
            if event.left > 0 {
                continue;
            }
            event.left = event.opening.period;
            if event.limit > 0 {
                event.limit -= 1;
                event.enabled = event.limit > 0;
            }
            stops |= event.opening.stops;
            self.overflow(handle, ip, address);
        }
        stops
    }

    /// One instruction of a running thread.
    fn execute(&mut self, tid: Tid) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let operands = (thread.program)(thread.at);
        let (pc, off) = (CODE + 4 * thread.at, thread.off);
        let hits = self.hits(tid, &operands);
        let after = self.abilities.hit_after;
        if !after && !off && !hits.is_empty() && self.hit(&hits, pc) {
            if let Some(thread) = self.threads.get_mut(&tid) {
                (thread.off, thread.step_due, thread.passing) = (true, thread.stepping, true);
                thread.stop_in = Some(0);
            }
            return;
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.at += 1;
        let loads = operands.iter().filter(|o| o.kind == AccessKind::Load).count() as u64;
        thread.loads += loads;
        thread.stores += operands.len() as u64 - loads;
        let generation = thread.generation;
        if self.recording {
            self.trace.entry((tid, generation)).or_default().push(operands.clone());
        }
        self.clock += 1;
        let mut overflows = Vec::new();
        for (&handle, event) in self.events.iter_mut().filter(|(_, e)| e.thread == tid && e.enabled) {
            let step = match event.opening.source {
                Source::INSTRUCTIONS | OPERATIONS => 1,
                LOADS | PRECISE_LOADS => loads,
                STORES | PRECISE_STORES => operands.len() as u64 - loads,
                _ => 0,
            };
            event.count += step;
            if event.opening.period > 0 && event.watch.is_none() && step > 0 {
                event.left = event.left.saturating_sub(step);
                if event.left == 0 {
                    event.left = event.opening.period;
                    overflows.push(handle);
                }
            }
        }
        for handle in overflows {
            let (precise, source) = self
                .events
                .get(&handle)
                .map_or((false, OPERATIONS), |event| (event.opening.precise > 0, event.opening.source));
            let chosen = |o: &&Operand| match source {
                PRECISE_LOADS => o.kind == AccessKind::Load,
                PRECISE_STORES => o.kind == AccessKind::Store,
                _ => true,
            };
            let address = operands.iter().rev().find(chosen).map_or(0, |operand| operand.address);
            self.overflow(handle, if precise { pc } else { pc + 4 }, address);
        }
        if after {
            self.hit(&hits, pc + 4);
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if thread.stepping {
            thread.stepping = false;
            // With its watchpoints off, a step puts them on again and is kept quiet.
            if !thread.off || thread.step_due {
                thread.running = false;
                thread.stop_in = None;
                self.queue.push_back(Notice::Stopped(tid, Stop::Step));
            }
            thread.off = false;
            thread.step_due = false;
        } else if std::mem::take(&mut thread.passing) {
            thread.off = false;
        }
    }

    fn run(&mut self, tid: Tid) {
        for _ in 0..500 {
            let Some(thread) = self.threads.get_mut(&tid) else { return };
            if !thread.running {
                return;
            }
            if thread.stop_in == Some(0) && !thread.blocked {
                (thread.stop_in, thread.running, thread.stepping) = (None, false, false);
                self.queue.push_back(Notice::Stopped(tid, Stop::Event));
                return;
            }
            if thread.at >= thread.length {
                (thread.running, thread.ending) = (false, true);
                self.queue.push_back(Notice::Stopped(tid, Stop::Exit));
                return;
            }
            thread.stop_in = thread.stop_in.map(|left| left.saturating_sub(1));
            self.execute(tid);
        }
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
            let (program, length) = (Arc::clone(&self.threads[&tid].program), self.threads[&tid].length);
            self.add(program, length / 2 + 1);
        } else if self.chance(self.faults.execs) {
            self.queue.retain(|notice| !matches!(notice, Notice::Stopped(..) | Notice::Started(_)));
            for (&other, thread) in &mut self.threads {
                if other != tid {
                    (thread.dead, thread.running) = (true, false);
                }
            }
            self.threads.retain(|&other, _| other == tid);
            if let Some(thread) = self.threads.get_mut(&tid) {
                (thread.running, thread.stepping, thread.off, thread.stop_in) = (false, false, false, None);
                (thread.at, thread.loads, thread.stores) = (0, 0, 0);
                thread.length = thread.length / 2 + 1;
                thread.generation += 1;
            }
            for event in self.events.values_mut() {
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

impl Kernel for Sim {
    fn wait(&mut self) -> io::Result<Notice> {
        self.maybe_interrupted()?;
        for _ in 0..10_000 {
            if self.chance(self.faults.ticks) {
                return Ok(Notice::Tick);
            }
            if let Some(notice) = self.queue.pop_front() {
                self.ticks = 0;
                match notice {
                    Notice::Gone(tid) => {
                        self.threads.remove(&tid);
                    }
                    Notice::Started(tid) => {
                        let Some(thread) = self.threads.get_mut(&tid) else { continue };
                        thread.known = true;
                    }
                    Notice::Stopped(tid, _) if self.alive(tid).is_err() => continue,
                    _ => {}
                }
                return Ok(notice);
            }
            if self.threads.is_empty() {
                return Ok(Notice::Ended);
            }
            self.accident();
            let running = self.running();
            if running.is_empty() {
                // A stopped job is continued some time.
                let listening: Vec<Tid> =
                    self.threads.iter().filter(|(_, t)| t.listening).map(|(&tid, _)| tid).collect();
                for tid in listening {
                    if let Some(thread) = self.threads.get_mut(&tid) {
                        thread.listening = false;
                        self.queue.push_back(Notice::Stopped(tid, Stop::Interrupted));
                    }
                }
                if self.queue.is_empty() {
                    self.ticks += 1;
                    assert!(self.ticks < 1000, "nothing can happen any more: {:?}", self.threads.keys());
                    return Ok(Notice::Tick);
                }
                continue;
            }
            let tid = running[self.random.below(running.len())];
            self.run(tid);
        }
        Ok(Notice::Tick)
    }

    fn open(&mut self, thread: Tid, opening: &Opening, leader: Option<Event>) -> io::Result<Event> {
        self.maybe_interrupted()?;
        self.alive(thread)?;
        assert!(!self.threads[&thread].running, "events are opened of threads that stand still");
        if opening.source == Source::Watchpoint {
            let used = self.events.values().filter(|e| e.thread == thread && e.watch.is_some()).count();
            if used >= self.available {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
        }
        let handle = self.next_event;
        self.next_event += 1;
        self.opened += 1;
        let id = handle as u64 + 1000;
        let watch = (opening.source == Source::Watchpoint).then_some((1, 0));
        let event = SimEvent {
            thread,
            leader: leader.map_or(handle, |leader| leader.handle),
            id,
            opening: *opening,
            enabled: opening.enabled,
            count: 0,
            left: opening.period,
            watch,
            limit: 0,
        };
        self.events.insert(handle, event);
        Ok(Event { handle, id })
    }

    fn close(&mut self, event: Event) {
        assert!(self.events.remove(&event.handle).is_some(), "closed twice");
        self.closed += 1;
    }

    fn change(&mut self, event: Event, change: Change) -> io::Result<()> {
        self.maybe_interrupted()?;
        let Some(found) = self.events.get_mut(&event.handle) else { panic!("{event:?} is not open") };
        match change {
            Change::Enable => found.enabled = true,
            Change::Disable => found.enabled = false,
            Change::Period(period) => {
                assert!(period > 0);
                (found.opening.period, found.left) = (period, period);
            }
            Change::Watch { address, bytes, touch, spent } => {
                assert!(address % u64::from(bytes) == 0 && touch > 0);
                found.watch = Some((address, address + u64::from(bytes) - 1));
                (found.opening.period, found.left) = (touch, touch);
                found.enabled = true;
                if !found.opening.stops {
                    found.limit += u64::from(spent);
                    assert_eq!(found.limit, 1, "it reports more often than once, or never");
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, leader: Event) -> io::Result<Reading> {
        self.maybe_interrupted()?;
        assert!(self.events.contains_key(&leader.handle), "{leader:?} is not open");
        Ok(Reading { enabled: self.clock, running: self.clock, values: self.group(leader.handle) })
    }

    fn drain(&mut self, leader: Event, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.maybe_interrupted()?;
        if let Some((ring, lost)) = self.rings.get_mut(&leader.handle) {
            bytes.append(ring);
            if *lost > 0 {
                write::lost(bytes, std::mem::take(lost));
            }
        }
        Ok(())
    }

    fn resume(&mut self, tid: Tid, how: Resume, signal: i32) -> io::Result<()> {
        self.maybe_interrupted()?;
        self.alive(tid)?;
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        assert!(!thread.running && thread.known, "{tid} goes on twice");
        if signal != 0 {
            assert_eq!(signal, thread.owed, "the program gets a signal that nobody sent");
            thread.owed = 0;
            self.signals.1 += 1;
        }
        assert_eq!(thread.owed, 0, "a signal was swallowed");
        if thread.ending {
            self.queue.push_back(Notice::Gone(tid));
            return Ok(());
        }
        if how == Resume::Listen {
            thread.listening = true;
            return Ok(());
        }
        thread.running = true;
        thread.passing = false;
        thread.stepping = how == Resume::Step;
        Ok(())
    }

    fn interrupt(&mut self, tid: Tid) -> io::Result<()> {
        self.maybe_interrupted()?;
        self.alive(tid)?;
        if let Some(thread) = self.threads.get_mut(&tid)
            && thread.running
        {
            (thread.running, thread.stepping) = (false, false);
            self.queue.push_back(Notice::Stopped(tid, Stop::Interrupted));
        }
        Ok(())
    }

    fn registers(&mut self, tid: Tid) -> io::Result<Registers> {
        self.maybe_interrupted()?;
        self.alive(tid)?;
        assert!(!self.threads[&tid].running);
        Ok(Registers { pc: CODE + 4 * self.threads[&tid].at, words: Vec::new() })
    }

    fn operands(&mut self, tid: Tid, _: &Registers) -> io::Result<Operands> {
        self.maybe_interrupted()?;
        self.alive(tid)?;
        let thread = &self.threads[&tid];
        Ok(Operands::Known((thread.program)(thread.at)))
    }

    fn now(&mut self) -> u64 {
        self.clock
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
