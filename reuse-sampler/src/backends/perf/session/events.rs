//! Opening, arming and closing a thread's events.

use std::io;

use super::Session;
use super::failures::{again, failed, is_gone, ok_if_gone};
use super::thread::Thread;
use crate::SamplerError;
use crate::engine::tracker::Mode;
use crate::perf::group::{COUNTS, Group, NEVER, longer};
use crate::perf::kernel::{Change, Event, Kernel, Opening, Source};
use crate::perf::registers::Registers;
use crate::perf::ring::Layout;

const ENOSPC: i32 = 28;
const EINVAL: i32 = 22;

impl<K: Kernel> Session<K> {
    /// Opens the events of a thread that stands still.
    pub(super) fn observe(&mut self, thread: &mut Thread) -> io::Result<()> {
        let result = self.open_all(thread);
        if result.is_err() {
            self.close_events(thread);
        }
        result
    }

    fn open_all(&mut self, thread: &mut Thread) -> io::Result<()> {
        let abilities = self.abilities;
        let tid = thread.tid;
        let code = (self.settings.code_samples > 0).then(|| self.code_period());
        let group = Group::new(&abilities, code);
        let leader = again(|| self.kernel.open(tid, &group.leader, None))?;
        thread.events.leader = Some(leader);
        let mut open = |opening: Option<Opening>, apart: bool| {
            let leader = (!apart).then_some(leader);
            opening.map(|opening| again(|| self.kernel.open(tid, &opening, leader))).transpose()
        };
        for (slot, opening) in thread.events.accesses.iter_mut().zip(group.accesses) {
            *slot = open(opening, false)?;
        }
        thread.events.gap = open(group.gap, false)?;
        for (which, selector) in abilities.selectors.into_iter().enumerate() {
            let apart = selector.is_some_and(|selector| selector.apart);
            thread.events.selectors[which] = open(group.selectors[which], apart)?;
        }
        thread.events.echo = open(group.echo, false)?;
        thread.events.code = open(group.code, false)?;
        let watch =
            Opening { period: 1, stops: !abilities.once, layout: COUNTS, ..Opening::of(Source::Watchpoint) };
        let mut registers = Vec::new();
        for _ in 0..abilities.registers {
            match again(|| self.kernel.open(tid, &watch, Some(leader))) {
                Ok(event) => registers.push(event),
                Err(error) if error.raw_os_error() == Some(ENOSPC) => break,
                Err(error) => {
                    thread.registers = Registers::new(registers);
                    return Err(error);
                }
            }
        }
        if registers.len() < abilities.registers {
            let warning = format!(
                "{} of {} debug registers are in use by something else (a debugger?)",
                abilities.registers - registers.len(),
                abilities.registers
            );
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        thread.registers = Registers::new(registers);
        self.open_counters(thread)?;
        self.open_profile(thread)?;
        let layouts = self.layouts(thread);
        thread.layouts = layouts;
        again(|| self.kernel.change(leader, Change::Enable))
    }

    /// Groups that do not fit together, or have an event that is not there, are dropped with a warning.
    fn open_counters(&mut self, thread: &mut Thread) -> io::Result<()> {
        let mut groups = std::mem::take(&mut self.settings.counters);
        let mut result = Ok(());
        groups.retain(|group| {
            let mut opened: Vec<Event> = Vec::new();
            for (name, source) in group {
                let enabled = !opened.is_empty();
                let opening = Opening { layout: COUNTS, enabled, ..Opening::of(*source) };
                match again(|| self.kernel.open(thread.tid, &opening, opened.first().copied())) {
                    Ok(event) => opened.push(event),
                    Err(error) => {
                        for event in opened.drain(..) {
                            self.kernel.close(event);
                        }
                        let gone = is_gone(&error);
                        if gone {
                            result = Err(error);
                        } else {
                            self.warnings.push(format!("{name} cannot be counted in its group: {error}"));
                        }
                        return gone;
                    }
                }
            }
            thread.events.counters.push(opened);
            true
        });
        self.settings.counters = groups;
        result
    }

    /// What the samples of each event look like.
    fn layouts(&self, thread: &Thread) -> Vec<(u64, Layout)> {
        let code = self.abilities.code_layout();
        let with = |event: Option<Event>, layout| event.map(|event| (event.id, layout));
        let mut layouts: Vec<(u64, Layout)> =
            thread.registers.events().map(|event| (event.id, COUNTS)).collect();
        layouts.extend(with(thread.events.leader, COUNTS));
        layouts.extend(with(thread.events.gap, COUNTS));
        for (event, selector) in thread.events.selectors.into_iter().zip(self.abilities.selectors) {
            layouts.extend(selector.and_then(|selector| with(event, selector.opening().layout)));
        }
        layouts.extend(with(thread.events.code, code));
        layouts
    }

    /// Sets the events for the window that begins.
    pub(super) fn begin_window(&mut self, thread: &mut Thread) -> Result<(), SamplerError> {
        let Some(leader) = thread.events.leader else { return Ok(()) };
        // What the last window was too long by, this one is short by.
        let here = thread.progress.last.length;
        while thread.progress.boundary <= here {
            thread.progress.boundary += self.settings.window;
        }
        self.overflow_in(leader, thread.progress.boundary - here)?;
        if let Some(gap) = thread.events.gap {
            let sampling = matches!(thread.selection.mode, Mode::Sample(_));
            if sampling {
                self.aim(thread)?;
            }
            self.set(gap, if sampling { Change::Enable } else { Change::Disable })?;
        }
        self.echo(thread)?;
        for which in [0, 1] {
            let Some(selector) = thread.events.selectors[which] else { continue };
            let sampling = matches!(thread.selection.mode, Mode::Sample(_));
            if sampling && !thread.selection.paced[which] {
                self.pace(thread, which)?;
            }
            self.set(selector, if sampling { Change::Enable } else { Change::Disable })?;
        }
        if !thread.events.counters.is_empty() {
            thread.turn = thread.progress.window.index.0 as usize % thread.events.counters.len();
            let group = thread.events.counters[thread.turn][0];
            thread.counted = match again(|| self.kernel.read(group)) {
                Ok(reading) => Some(reading),
                Err(error) if is_gone(&error) => None,
                Err(error) => return Err(failed("read", "counters", error)),
            };
            self.set(group, Change::Enable)?;
        }
        Ok(())
    }

    /// The period from here to the next access that is chosen.
    pub(super) fn aim(&mut self, thread: &mut Thread) -> Result<(), SamplerError> {
        let (Some(gap), Some(next)) = (thread.events.gap, thread.selection.next) else { return Ok(()) };
        if thread.aim.aimed == Some(next) {
            return Ok(());
        }
        thread.aim.aimed = Some(next);
        let left = next.saturating_sub(thread.progress.last.length).saturating_sub(self.abilities.early);
        let left = self.overflow_in(gap, left.clamp(1, NEVER))?;
        thread.aim.due = thread.progress.last.length + left;
        self.echo(thread)
    }

    /// Draws how many of what a selector counts there are to its next access.
    pub(super) fn pace(&mut self, thread: &mut Thread, which: usize) -> Result<(), SamplerError> {
        let (Some(selector), Some(pace)) =
            (thread.events.selectors[which], &mut thread.selection.paces[which])
        else {
            return Ok(());
        };
        let period = pace.next(&mut thread.selection.random).clamp(1, NEVER);
        let period = self.abilities.selectors[which].map_or(period, |selector| selector.period(period));
        thread.selection.paced[which] = true;
        self.overflow_in(selector, period).map(drop)
    }

    /// Sets an event to overflow so many counts from now, or as soon after that as the processor can: in how many.
    fn overflow_in(&mut self, event: Event, counts: u64) -> Result<u64, SamplerError> {
        let mut period = counts.max(self.shortest);
        loop {
            let put_off = period + self.settings.skid;
            let refused = match again(|| self.kernel.change(event, Change::Period(put_off))) {
                Err(error) if error.raw_os_error() == Some(EINVAL) => error,
                other => return ok_if_gone(other, "change", "an event").map(|()| period),
            };
            let Some(next) = longer(period) else { return Err(failed("change", "an event", refused)) };
            (self.shortest, period) = (next, next);
        }
    }

    /// Sets the echo of whichever of the leader and the gap event overflows next.
    fn echo(&mut self, thread: &mut Thread) -> Result<(), SamplerError> {
        let Some(echo) = thread.events.echo else { return Ok(()) };
        let here = thread.progress.last.length;
        let gap = matches!(thread.selection.mode, Mode::Sample(_)) && thread.aim.due > here;
        let next = if gap { thread.aim.due.min(thread.progress.boundary) } else { thread.progress.boundary };
        if next <= here || next == thread.aim.echoed {
            return Ok(());
        }
        thread.aim.echoed = next;
        self.overflow_in(echo, next - here + 1).map(drop)
    }

    /// Turns off the registers that watch for nothing any more.
    pub(super) fn rest(&mut self, thread: &mut Thread) {
        for event in thread.aim.idle.drain(..) {
            // A thread that is gone watches nothing either.
            let _ = again(|| self.kernel.change(event, Change::Disable));
        }
    }

    /// Reads the group whose turn it was, and stops it.
    pub(super) fn read_counters(&mut self, thread: &mut Thread) -> Result<(), SamplerError> {
        let Some(group) = thread.events.counters.get(thread.turn).cloned() else { return Ok(()) };
        let Some(before) = thread.counted.take() else { return Ok(()) };
        let after = match again(|| self.kernel.read(group[0])) {
            Ok(after) => after,
            Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(failed("read", "counters", error)),
        };
        self.set(group[0], Change::Disable)?;
        let enabled = after.enabled.saturating_sub(before.enabled);
        let running = after.running.saturating_sub(before.running);
        if running == 0 {
            thread.progress.window.losses.uncounted += enabled;
            return Ok(());
        }
        let scale = (enabled as f64 / running as f64).max(1.0);
        for (event, (name, _)) in group.iter().zip(&self.settings.counters[thread.turn]) {
            let (Some(after), Some(before)) = (after.of(*event), before.of(*event)) else { continue };
            let count = after.saturating_sub(before) as f64 * scale;
            thread.progress.window.counters.push((name.clone(), count.round() as u64));
        }
        Ok(())
    }

    pub(super) fn set(&mut self, event: Event, change: Change) -> Result<(), SamplerError> {
        ok_if_gone(again(|| self.kernel.change(event, change)), "change", "an event")
    }

    /// Closes all events of a thread; the leader of the group last.
    pub(super) fn close_events(&mut self, thread: &mut Thread) {
        for event in thread.registers.events() {
            self.kernel.close(event);
        }
        for event in thread.events.all() {
            self.kernel.close(event);
        }
        thread.registers = Registers::default();
        thread.events = super::thread::Events::default();
        thread.layouts.clear();
        thread.aim.idle.clear();
        (thread.selection.place, thread.aim.aimed, thread.aim.due, thread.aim.echoed) = (None, None, 0, 0);
    }
}
