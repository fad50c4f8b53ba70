//! What a thread's counts and records say, read whenever it is looked at.

use std::io;

use super::failures::{again, failed, held, is_gone, ok_if_gone};
use super::progress::{Moment, age, distance};
use super::thread::Thread;
use super::{Event, Kernel, Session};
use crate::perf::chunks::Touches;
use crate::perf::kernel::{Operands, Registers};
use crate::perf::ring::{Record, Sample, records};
use crate::{AccessKind, Clock, Outcome, ReuseDistance, SamplerError, Site};

/// Nanoseconds that a thread is on a core, at least.
const AWAY: u64 = 1_000;

impl<K: Kernel> Session<K> {
    /// Reads a thread's counts and records. `still` says that it stands still, so that a count without a record means
    /// a lost one.
    pub(super) fn collect(&mut self, thread: &mut Thread, still: bool) -> Result<(), SamplerError> {
        let Some(leader) = thread.events.leader else { return Ok(()) };
        let mut away = false;
        let read = match again(|| self.kernel.read(leader)) {
            Ok(reading) => {
                let unseen = |enabled: u64, running: u64| enabled.saturating_sub(running);
                let before = thread.progress.last;
                away =
                    unseen(reading.enabled, reading.running) >= unseen(before.enabled, before.running) + AWAY;
                thread.counts = reading;
                true
            }
            Err(error) if is_gone(&error) => false,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let remedy = "the NMI watchdog holds one: set kernel.nmi_watchdog to 0; other profilers";
                return Err(held("the processor's counters", remedy));
            }
            Err(error) => return Err(failed("read", "counters", error)),
        };
        if read {
            let reading = &thread.counts;
            let count = |event: Option<Event>| event.and_then(|event| reading.of(event));
            let length = count(Some(leader)).unwrap_or(thread.progress.last.length);
            let distance = match thread.events.accesses {
                [None, _] => length,
                [first, second] => {
                    count(first).unwrap_or(thread.progress.last.distance) + count(second).unwrap_or(0)
                }
            };
            thread.progress.last =
                Moment { length, distance, running: reading.running, enabled: reading.enabled };
            thread.selection.hit = thread.selection.hit.filter(|&hit| thread.progress.last.length <= hit);
            if away {
                // Lines may have been touched there, and what came after that is no distance.
                self.forget_ahead(thread);
                self.censor(thread);
            }
            self.settle(thread);
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        ok_if_gone(again(|| self.kernel.drain(leader, &mut bytes)), "read", "the ring of events")?;
        self.records(thread, &bytes, still);
        for (event, selector) in thread.events.selectors.into_iter().zip(self.abilities.selectors) {
            // Counters of their own have rings of their own.
            let Some(event) = event.filter(|_| selector.is_some_and(|selector| selector.apart)) else {
                continue;
            };
            bytes.clear();
            ok_if_gone(again(|| self.kernel.drain(event, &mut bytes)), "read", "the ring of events")?;
            self.records(thread, &bytes, still);
        }
        self.bytes = bytes;
        self.profile(thread)?;
        self.conclude(thread, false);
        if still && read {
            for slot in thread.registers.hit_since(|event| thread.counts.of(event)) {
                if !self.abilities.once {
                    thread.selection.hit = Some(thread.progress.last.length);
                }
                if let Some(watched) = self.close(thread, slot) {
                    thread.progress.window.losses.lost_hits += 1;
                    let at_least = age(watched.at, watched.seen, self.clocks().1);
                    self.report(thread, &watched, Outcome::Censored { at_least }, None);
                }
            }
            let now = thread.progress.last.distance;
            thread.registers.confirm(now);
        }
        Ok(())
    }

    /// A sample whose line was watched ahead of its access begins once that is made.
    fn settle(&mut self, thread: &mut Thread) {
        let Some(ahead) = thread.selection.ahead else { return };
        let Some(&watched) = thread.registers.sample(ahead.slot) else { return };
        if !thread.registers.has_begun(ahead.slot, |event| thread.counts.of(event)) {
            return;
        }
        thread.selection.ahead = None;
        self.started += 1;
        // It is counted before the access where that is the processor's way, and the thread may still stand there.
        if !self.abilities.hit_after && watched.armed == Some(thread.progress.last.length) {
            thread.selection.hit = watched.armed;
        }
        if let Some(open) = ahead.ends {
            let distance = ReuseDistance(age(open.at, watched.at, self.clocks().1));
            self.report(thread, &open, Outcome::Reused(distance), None);
        }
    }

    fn records(&mut self, thread: &mut Thread, bytes: &[u8], still: bool) {
        let layouts = std::mem::take(&mut thread.layouts);
        for record in records(bytes, |id| layouts.iter().find(|(known, _)| *known == id).map(|(_, l)| *l)) {
            match record {
                Ok(Record::Sample(sample)) => self.sample(thread, &sample, still),
                Ok(Record::Lost(records)) => thread.progress.window.losses.lost_records += records,
                Ok(Record::Throttled) => thread.progress.window.losses.throttled += 1,
                Ok(Record::Unthrottled | Record::Trace(_) | Record::Other(_)) => {}
                Err(malformed) => {
                    thread.progress.window.losses.malformed += (bytes.len() - malformed.offset) as u64;
                }
            }
        }
        thread.layouts = layouts;
    }

    fn sample(&mut self, thread: &mut Thread, sample: &Sample, still: bool) {
        let is = |event: Option<Event>| event.is_some_and(|event| event.id == sample.event);
        if is(thread.events.code) {
            self.code(thread, sample);
        } else if thread.registers.has(sample.event) {
            if !self.abilities.once {
                let length =
                    Self::count_in(sample, thread.events.leader).unwrap_or(thread.progress.last.length);
                (thread.aim.unheard, thread.selection.hit) = (true, Some(length));
            }
            let hits = sample.counts.iter().find(|(id, _)| *id == sample.event).map_or(0, |(_, hits)| *hits);
            let Some((slot, address)) = thread.registers.watched_by(sample.event, hits) else { return };
            if self.is_own(thread, slot, sample) {
                thread.registers.excuse(sample.event);
                return;
            }
            self.touched(thread, slot, address, sample, still);
        } else if is(thread.events.gap) || is(thread.events.leader) {
            thread.aim.unheard = true;
            // As long as the count is the same, no instruction has been executed.
            let length = Self::count_in(sample, thread.events.leader);
            let counted = self.clocks().0 == Clock::Instructions && !sample.kernel;
            thread.selection.place = length.filter(|_| counted).map(|length| (sample.ip, length));
            if is(thread.events.leader) {
                Self::note_edge(thread, sample);
            }
        } else if let Some(which) = thread.events.selectors.iter().position(|event| is(*event)) {
            thread.aim.unheard = true;
            if still {
                self.precise(thread, sample, which);
            } else {
                // Its line may be touched before it is watched.
                thread.progress.window.losses.late += 1;
                let _ = self.pace(thread, which);
            }
        }
    }

    /// A touch of the line of the sample in `slot`, at `address`, ends it, or belongs to the visit that did.
    fn touched(&mut self, thread: &mut Thread, slot: usize, address: u64, sample: &Sample, still: bool) {
        let after = self.abilities.hit_after;
        let Some(watched) = thread.registers.sample(slot) else { return };
        let (at, chunks, ended) = (watched.at, watched.chunks, watched.touches.is_some());
        let distance = distance(at, Self::distance_in(thread, sample), after, self.clocks().1);
        // After the access the record shows the next instruction: which one it was is unknown.
        let end = (still && !after && !ended).then(|| self.site_of(thread, sample.ip)).flatten();
        if let Some(chunks) = chunks {
            // It is over when the touches that belong to this one have been reported.
            if let Some(watched) = thread.registers.sample_mut(slot) {
                if let Some(touches) = &mut watched.touches {
                    touches.later(&chunks, address, distance.0);
                } else {
                    watched.touches = Some(Touches::first(&chunks, address, distance.0));
                    watched.end = end;
                }
            }
        } else if let Some(watched) = self.close(thread, slot) {
            self.report(thread, &watched, Outcome::Reused(distance), end);
        }
    }

    /// Whether a touch is the sample's own access, which a register had not been expected to see.
    fn is_own(&self, thread: &Thread, slot: usize, sample: &Sample) -> bool {
        let armed = thread.registers.sample(slot).and_then(|watched| watched.armed);
        let (Some(armed), Some(now)) = (armed, Self::count_in(sample, thread.events.leader)) else {
            return false;
        };
        self.clocks().0 != Clock::Time && now <= armed + u64::from(self.abilities.hit_after)
    }

    /// The window is over where the record says, however much later the thread stops.
    fn note_edge(thread: &mut Thread, sample: &Sample) {
        let Some(length) = Self::count_in(sample, thread.events.leader) else { return };
        if thread.progress.edge.is_none() && length >= thread.progress.boundary {
            thread.progress.edge =
                Some(Moment { length, distance: Self::distance_in(thread, sample), ..thread.progress.last });
        }
    }

    /// What the instruction at `ip`, which touches a line again, is.
    fn site_of(&mut self, thread: &Thread, ip: u64) -> Option<Site> {
        let registers = again(|| self.kernel.registers(thread.tid)).ok()?;
        let registers = Registers { pc: ip, ..registers };
        let Operands::Known(operands) = again(|| self.kernel.operands(thread.tid, &registers)).ok()? else {
            return None;
        };
        let store = operands.iter().all(|operand| operand.kind == AccessKind::Store);
        let kind = if store { AccessKind::Store } else { AccessKind::Load };
        (!operands.is_empty()).then_some(Site { pc: ip, kind })
    }

    /// The clock of distances as a record shows it.
    pub(super) fn distance_in(thread: &Thread, sample: &Sample) -> u64 {
        let count = |event| Self::count_in(sample, event);
        match thread.events.accesses {
            [None, _] => count(thread.events.leader).unwrap_or(thread.progress.last.length),
            [first, second] => {
                count(first).unwrap_or(thread.progress.last.distance) + count(second).unwrap_or(0)
            }
        }
    }

    /// An event's count in a record.
    fn count_in(sample: &Sample, event: Option<Event>) -> Option<u64> {
        let id = event?.id;
        sample.counts.iter().find(|(event, _)| *event == id).map(|(_, count)| *count)
    }

    /// Where the thread was, by weight of the instructions (or nanoseconds) the record stands for.
    fn code(&self, thread: &mut Thread, sample: &Sample) {
        let period = self.code_period();
        if sample.branches.is_empty() {
            // Where the processor notices late, the kernel is interrupted, on its way from or to the program.
            match sample.user_ip.or((!sample.kernel).then_some(sample.ip)) {
                Some(ip) => *thread.progress.code.entry(ip).or_default() += period,
                None => thread.progress.window.losses.in_kernel += 1,
            }
            return;
        }
        let share = (period / sample.branches.len() as u64).max(1);
        for (from, _) in &sample.branches {
            *thread.progress.code.entry(*from).or_default() += share;
        }
    }

    pub(super) fn code_period(&self) -> u64 {
        (self.settings.window / self.settings.code_samples.max(1)).max(1)
    }
}
