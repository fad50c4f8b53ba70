//! From the overflow that says "here" to a sample under watch.

use super::Session;
use super::failures::{again, failed, is_gone};
use super::progress::age;
use super::selection::{Ahead, Choice};
use super::thread::{State, Thread};
use crate::perf::kernel::{Change, Kernel, Operand, Operands, Resume};
use crate::perf::registers::{Coverage, Set, Watched, watches};
use crate::perf::ring::Sample;
use crate::{AccessKind, Clock, Outcome, ReuseDistance, SamplerError, Site};

/// Instructions among which one is chosen at random, from where a thread has stopped late: at most one step.
const SCATTER: u32 = 2;
/// Instructions looked at for an access, where time chooses and not a count.
const SEARCH: u32 = 32;

/// An access, or the part of one that is in a line.
#[derive(Clone, Copy, Debug)]
struct LineAccess {
    line: u64,
    address: u64,
    bytes: u64, // at least 1
    kind: AccessKind,
}

impl<K: Kernel> Session<K> {
    /// How a thread that stands still between two samples goes on.
    pub(super) fn approach(&mut self, thread: &mut Thread) -> Result<Resume, SamplerError> {
        let timed = self.clocks().0 == Clock::Time;
        let here = thread.progress.last.length;
        let mut steps = match thread.state {
            State::Approaching(steps) => steps,
            _ if timed => SEARCH,
            _ => u32::try_from(2 * self.abilities.early + 2).unwrap_or(u32::MAX),
        };
        // Before an access that hit a watchpoint a step is not reported, unless one was under way.
        let blind =
            thread.selection.hit.is_some() && !self.abilities.hit_after && thread.state == State::Running;
        while let Some(next) = thread.selection.next.filter(|_| !self.abilities.selects()) {
            if here + self.abilities.early < next && !matches!(thread.state, State::Approaching(_)) {
                self.aim(thread)?;
                break;
            }
            if blind || here < next && steps == 0 && !timed {
                self.late(thread);
                continue;
            }
            // The instruction at which a processor that stops late has stopped is as good as any, or would be if it did
            // not stop at some more readily than at others: at the ends of an emulator's blocks, behind slow ones.
            if here > next && !timed && thread.state == State::Running {
                thread.progress.window.losses.late += 1;
                let further = thread.selection.random.below(SCATTER as usize) as u64;
                thread.selection.next = Some(here + further);
                if further > 0 {
                    thread.state = State::Approaching(SCATTER);
                    return Ok(Resume::Step);
                }
                continue;
            }
            if here >= next {
                if let Some(choice) = self.look(thread)? {
                    thread.state = State::Running;
                    self.arm_ahead(thread, choice)?;
                    thread.selection.choose_beyond(here + 1, !timed);
                    continue;
                }
                if !timed || steps == 0 || thread.selection.next != Some(next) {
                    thread.state = State::Running;
                    if thread.selection.next == Some(next) {
                        thread.selection.choose_beyond(here + 1, !timed);
                    }
                    continue;
                }
            }
            steps -= 1;
            thread.state = State::Approaching(steps);
            return Ok(Resume::Step);
        }
        thread.state = State::Running;
        // The kernel steps over that access itself when asked for a step, and the thread then runs on.
        Ok(if thread.selection.hit.is_some() && !self.abilities.hit_after {
            Resume::Step
        } else {
            Resume::Run
        })
    }

    /// The chosen instruction has passed unseen: the thread is on its way to none.
    pub(super) fn late(&mut self, thread: &mut Thread) {
        thread.state = State::Running;
        thread.progress.window.losses.late += 1;
        // As far ahead as the thread may overshoot.
        let first = thread.progress.last.length + self.abilities.early + 1;
        thread.selection.choose_beyond(first, self.clocks().0 != Clock::Time);
    }

    /// Looks at the instruction that comes next: a choice, if it accesses memory.
    fn look(&mut self, thread: &mut Thread) -> Result<Option<Choice>, SamplerError> {
        let place = thread.selection.place.filter(|&(_, length)| length == thread.progress.last.length);
        let read = |this: &mut Self| {
            // Most instructions access nothing, which takes no registers to know.
            if let Some((pc, _)) = place {
                if !again(|| this.kernel.may_access(thread.tid, pc))? {
                    return Ok((pc, Operands::Known(Vec::new())));
                }
            }
            let registers = again(|| this.kernel.registers(thread.tid))?;
            let operands = again(|| this.kernel.operands(thread.tid, &registers))?;
            Ok((registers.pc, operands))
        };
        let (pc, operands) = match read(self) {
            Ok(found) => found,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(failed("read", "registers and code", error)),
        };
        let operands = match operands {
            Operands::Known(operands) => operands,
            Operands::Unknown => {
                thread.progress.window.losses.undecoded += 1;
                return Ok(None);
            }
        };
        let accesses = self.by_line(&operands);
        self.tested += 1;
        self.tree.look(thread.process, accesses.len() as u64);
        if accesses.is_empty() {
            return Ok(None);
        }
        let chosen = thread.selection.random.below(accesses.len());
        let LineAccess { line, address, bytes, kind } = accesses[chosen];
        let counted = self.clocks().1 == Clock::Accesses;
        let at = thread.progress.last.distance + if counted { chosen as u64 } else { 0 };
        let watched = Watched {
            line,
            at,
            seen: at,
            armed: Some(thread.progress.last.length),
            window: thread.progress.window.index,
            begin: Site { pc, kind },
            weight: thread.selection.weight * accesses.len() as u64,
            chunks: None,
            touches: None,
            end: None,
        };
        // An access that the same instruction follows up on the same line.
        if let Some(after) = accesses[chosen + 1..].iter().position(|other| other.line == line) {
            let end = Site { pc, kind: accesses[chosen + 1 + after].kind };
            let distance = ReuseDistance(if counted { after as u64 } else { 0 });
            self.touch(thread, line, at);
            self.started += 1;
            thread.progress.report(&watched, Outcome::Reused(distance), Some(end));
            let counted = self.clocks().0 != Clock::Time;
            thread.selection.choose_beyond(thread.progress.last.length + 1, counted);
            return Ok(None);
        }
        Ok(Some(Choice { address, bytes, watched }))
    }

    /// Accesses line by line.
    fn by_line(&self, operands: &[Operand]) -> Vec<LineAccess> {
        let line_size = self.settings.line_size;
        let mut accesses = Vec::new();
        for operand in operands {
            let access =
                crate::Access { address: operand.address, bytes: operand.bytes, kind: operand.kind, pc: 0 };
            for line in line_size.lines(&access) {
                let first = line.0 << line_size.shift();
                let last = first + u64::from(line_size.bytes()) - 1;
                let address = operand.address.max(first);
                let end = operand.address.saturating_add(u64::from(operand.bytes.max(1)) - 1).min(last);
                let bytes = end.saturating_sub(address) + 1;
                accesses.push(LineAccess { line: line.0, address, bytes, kind: operand.kind });
            }
        }
        accesses
    }

    /// A sample whose line is touched by an access at `at` that the sampler itself saw ends there.
    fn touch(&mut self, thread: &mut Thread, line: u64, at: u64) {
        let slot = thread.registers.watching(line);
        if let Some(watched) = slot.and_then(|slot| self.close(thread, slot)) {
            let distance = ReuseDistance(age(watched.at, at, self.clocks().1));
            self.report(thread, &watched, Outcome::Reused(distance), None);
        }
    }

    /// The chosen access is the next thing to be made: its line is watched from now on, and the first touch is its own.
    /// That spares a stop behind it.
    fn arm_ahead(&mut self, thread: &mut Thread, mut choice: Choice) -> Result<(), SamplerError> {
        // Before an access that hit a watchpoint all of them are off until it has been made.
        if thread.selection.hit.is_some() && !self.abilities.hit_after {
            choice.watched.armed = None;
            return self.arm(thread, choice);
        }
        self.conclude(thread, true);
        // One whose access has not been made yet is chosen anew, perhaps another one of its instruction.
        if let Some(ahead) = thread.selection.ahead {
            self.close(thread, ahead.slot);
        }
        let line = thread.registers.watching(choice.watched.line);
        let ends = line.and_then(|slot| self.close(thread, slot));
        match self.watch(thread, choice)? {
            Some(slot) => thread.selection.ahead = Some(Ahead { slot, ends }),
            None => self.started += 1,
        }
        Ok(())
    }

    /// The chosen access has been made: watches its line from now on.
    fn arm(&mut self, thread: &mut Thread, choice: Choice) -> Result<(), SamplerError> {
        self.conclude(thread, true);
        self.touch(thread, choice.watched.line, choice.watched.at);
        self.started += 1;
        self.watch(thread, choice).map(drop)
    }

    /// Watches the line of a choice: the slot of its sample, or `None` if there is no register and the sample is reported
    /// to be censored.
    fn watch(&mut self, thread: &mut Thread, mut choice: Choice) -> Result<Option<usize>, SamplerError> {
        let clock = self.clocks().1;
        let (coverage, whole_line) = (self.settings.coverage, self.abilities.whole_line);
        if coverage == Coverage::Line && !whole_line {
            // Code at one address is another in each program.
            let program = self.tree.get(thread.process).program as u64;
            let pc = choice.watched.begin.pc ^ program.rotate_right(16);
            let (place, registers) = ((pc, choice.address), thread.registers.count());
            let dice = &mut thread.selection.random;
            choice.watched.chunks = self.lines.choose(place, self.settings.line_size, registers, dice);
        }
        let chunks = choice.watched.chunks.as_ref();
        let mut wanted = watches(choice.address, self.settings.line_size, whole_line, coverage, chunks);
        wanted.truncate(thread.registers.count());
        if wanted.is_empty() {
            thread.progress.window.losses.no_register += 1;
            thread.progress.report(&choice.watched, Outcome::Censored { at_least: 0 }, None);
            return Ok(None);
        }
        if choice.watched.armed.is_some() {
            for watch in &mut wanted {
                // One register sees an access that several watch where it is seen by its address.
                let end = choice.address + if self.abilities.hit_after { choice.bytes } else { 1 };
                watch.own = choice.address < watch.address + u64::from(watch.bytes) && watch.address < end;
            }
        }
        let random = self.settings.reclaim_random;
        loop {
            let dice = &mut thread.selection.random;
            let reclaimed = thread.registers.give_way(wanted.len(), random, dice);
            let Some(slot) = reclaimed else { break };
            if let Some(watched) = self.close(thread, slot) {
                let at_least = age(watched.at, choice.watched.at, clock);
                self.report(thread, &watched, Outcome::Censored { at_least }, None);
            }
        }
        let counts = &thread.counts;
        let hits = |event| counts.of(event).unwrap_or(0);
        let (slot, registers) = thread.registers.open_sample(choice.watched, &wanted, hits);
        for Set { event, watch, spent } in registers {
            thread.aim.idle.retain(|idle| *idle != event);
            let touch = 1 + u64::from(watch.own);
            self.set(event, Change::Watch { address: watch.address, bytes: watch.bytes, touch, spent })?;
        }
        Ok(Some(slot))
    }

    /// An access that the processor chose and reports the address of, by selector number `which`.
    pub(super) fn precise(&mut self, thread: &mut Thread, sample: &Sample, which: usize) {
        let Some(selector) = self.abilities.selectors[which] else { return };
        // What the counters say of a thread that is gone is of no use to it; otherwise the next call fails too.
        let _ = self.pace(thread, which);
        let address = sample.address.filter(|&address| address != 0);
        let Some(address) = address.filter(|_| !sample.kernel) else {
            // Among all operations there are those that access nothing, and the kernel's.
            thread.progress.window.losses.undecoded += u64::from(!selector.apart);
            return;
        };
        // The record is written when the access has been made, and counts it. Counters of its own do not show what the
        // others show: that is known from where the thread has stopped, some instructions later.
        let at =
            if selector.apart { thread.progress.last.distance } else { Self::distance_in(thread, sample) };
        let at = at.saturating_sub(1);
        let watched = Watched {
            line: self.settings.line_size.line_of(address).0,
            at,
            seen: at,
            armed: None,
            window: thread.progress.window.index,
            begin: Site { pc: sample.ip, kind: selector.kind.unwrap_or(AccessKind::Load) },
            weight: selector.gap(thread.selection.weight),
            chunks: None,
            touches: None,
            end: None,
        };
        let _ = self.arm(thread, Choice { address, bytes: 1, watched });
    }
}
