//! What the kernel answers.

use std::io;

use super::{EACCES, EINVAL, ENOSPC, OPERATIONS, Sim, SimEvent, SimTrace};
use crate::perf::causes::Circumstances;
use crate::perf::kernel::{
    Change, Event, Executed, Kernel, Notice, Opening, Operands, Output, Reading, Registers, Resume, Source,
    Stop, Tid,
};
use crate::perf::ring::{Traced, write};

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
        if self.hidden == Some(self.threads[&thread].process.0) {
            return Err(io::Error::from_raw_os_error(EACCES));
        }
        if opening.source == Source::Watchpoint {
            let used = self.events.values().filter(|e| e.thread == thread && e.watch.is_some()).count();
            if used >= self.available {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
        }
        if let Some(limits) = self.limits {
            let of = leader.map(|leader| leader.handle);
            let held =
                self.events.values().filter(|event| of == Some(event.leader)).map(|event| event.opening);
            let group: Vec<Opening> = held.chain([*opening]).collect();
            if !limits.opens(opening) || !limits.hold(&group) {
                return Err(io::Error::from_raw_os_error(EINVAL));
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
            trace: match opening.output {
                Output::Trace(bytes) => {
                    let bytes = if self.faults.trace > 0 { self.faults.trace } else { bytes };
                    let memory = vec![0; bytes];
                    let (head, announced, tail) = (0, 0, 0);
                    Some(SimTrace { memory, head, announced, tail, truncated: false, collided: false })
                }
                _ => None,
            },
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
                let period = match self.limits {
                    Some(limits) => limits.period(&found.opening, period),
                    None => Some(period),
                };
                let period = period.ok_or_else(|| io::Error::from_raw_os_error(EINVAL))?;
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
        let of = |event: &&SimEvent| event.leader == leader.handle;
        let group: Vec<Opening> = self.events.values().filter(of).map(|event| event.opening).collect();
        // A pinned group for which there is no room is in error from the first time on that it is to be counted.
        let taken = self.operations_taken && group[0].source == OPERATIONS;
        if taken || self.limits.is_some_and(|limits| !limits.count(&group)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let running = self.clock - self.away;
        Ok(Reading { enabled: self.clock, running, values: self.group(leader.handle) })
    }

    fn drain(&mut self, leader: Event, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.maybe_interrupted()?;
        self.announce(leader.handle);
        if let Some((ring, lost)) = self.rings.get_mut(&leader.handle) {
            bytes.append(ring);
            if *lost > 0 {
                write::lost(bytes, std::mem::take(lost));
            }
        }
        Ok(())
    }

    fn drain_trace(&mut self, leader: Event, part: &Traced, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.maybe_interrupted()?;
        let trace = self.events.get_mut(&leader.handle).and_then(|event| event.trace.as_mut());
        let trace = trace.expect("only what has a trace announces one");
        let (from, to) = (part.offset as usize, (part.offset + part.bytes) as usize);
        assert!(trace.tail <= from && to <= trace.announced, "{part:?} was not announced");
        bytes.extend((from..to).map(|at| trace.memory[at % trace.memory.len()]));
        trace.tail = to;
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

    fn process_of(&mut self, tid: Tid) -> (Tid, Tid) {
        self.threads[&tid].process
    }

    fn executed(&mut self, process: Tid) -> Executed {
        let (file, command) = (format!("program {}", self.executions), format!("{process}"));
        Executed { file, command, unprivileged: false }
    }

    fn interrupt(&mut self, tid: Tid) -> io::Result<()> {
        self.maybe_interrupted()?;
        self.alive(tid)?;
        if let Some(thread) = self.threads.get_mut(&tid).filter(|thread| thread.running) {
            (thread.running, thread.stepping) = (false, false);
            self.queue.push_back(Notice::Stopped(tid, Stop::Interrupted));
        }
        Ok(())
    }

    fn registers(&mut self, tid: Tid) -> io::Result<Registers> {
        self.maybe_interrupted()?;
        self.alive(tid)?;
        assert!(!self.threads[&tid].running);
        Ok(Registers { pc: self.pc(tid), words: Vec::new() })
    }

    fn may_access(&mut self, tid: Tid, pc: u64) -> io::Result<bool> {
        self.maybe_interrupted()?;
        self.alive(tid)?;
        let thread = &self.threads[&tid];
        assert_eq!(pc, self.pc(tid), "the thread stands elsewhere");
        Ok(!(thread.program)(thread.at).is_empty())
    }

    fn operands(&mut self, tid: Tid, _: &Registers) -> io::Result<Operands> {
        self.maybe_interrupted()?;
        self.alive(tid)?;
        let thread = &self.threads[&tid];
        Ok(Operands::Known((thread.program)(thread.at)))
    }

    fn circumstances(&self, _: &io::Error) -> Circumstances {
        Circumstances { linux: self.limits.map(|limits| limits.linux), ..Circumstances::default() }
    }

    fn now(&mut self) -> u64 {
        self.clock
    }
}
