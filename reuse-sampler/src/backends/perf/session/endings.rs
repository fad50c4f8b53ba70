//! How samples, windows, threads and observation itself come to an end.

use std::io;
use std::sync::atomic::Ordering;

use super::failures::{again, failed, held, is_gone, ok_if_gone};
use super::progress::{Moment, age};
use super::thread::{State, Thread};
use super::{End, Kernel, PATIENCE, Session};
use crate::engine::tracker::Mode;
use crate::perf::chunks::age_of;
use crate::perf::kernel::{Notice, Stop, Tid};
use crate::perf::registers::{Freed, Watched};
use crate::{Clock, Outcome, ReuseDistance, SamplerError, Site, ThreadId, Window};

impl<K: Kernel> Session<K> {
    /// Ends an open sample and frees its registers. `None` if its access was never made, so that it never was one.
    pub(super) fn close(&mut self, thread: &mut Thread, slot: usize) -> Option<Watched> {
        let (watched, freed) = thread.registers.close(slot)?;
        // One that reports once is off when it has.
        let counts = &thread.counts;
        let off = |freed: &Freed| {
            self.abilities.once && counts.of(freed.event).is_some_and(|hits| hits >= freed.reports_at)
        };
        thread.aim.idle.extend(freed.iter().filter(|freed| !off(freed)).map(|freed| freed.event));
        let Some(ahead) = thread.selection.ahead.take_if(|ahead| ahead.slot == slot) else {
            return Some(watched);
        };
        if let Some(open) = ahead.ends {
            let at_least = age(open.at, watched.at, self.clocks().1);
            self.report(thread, &open, Outcome::Censored { at_least }, None);
        }
        None
    }

    /// Ends the samples whose lines were touched; those whose other chunks are still awaited only if `all`.
    pub(super) fn conclude(&mut self, thread: &mut Thread, all: bool) {
        let (clock, now) = (self.clocks().1, thread.progress.last.distance);
        for slot in thread.registers.ended() {
            let Some(&Watched { at, chunks: Some(chunks), touches: Some(touches), .. }) =
                thread.registers.sample(slot)
            else {
                continue;
            };
            let over = age(at, now, clock) > touches.distance + touches.visit();
            if !(all || self.abilities.once || !chunks.followed || over) {
                continue;
            }
            if let Some(watched) = self.close(thread, slot) {
                self.report(thread, &watched, Outcome::Reused(ReuseDistance(touches.distance)), watched.end);
            }
        }
    }

    /// Reports what became of a sample, as what became of its line.
    pub(super) fn report(
        &mut self,
        thread: &mut Thread,
        watched: &Watched,
        outcome: Outcome,
        end: Option<Site>,
    ) {
        let (mut outcome, mut weight) = (outcome, watched.weight);
        if let Some(chunks) = &watched.chunks {
            let touches = watched.touches.as_ref();
            let age = age_of(outcome);
            // A touch that the registers did not see says nothing of what they miss.
            if touches.is_some() || !matches!(outcome, Outcome::Reused(_)) {
                self.lines.learn(chunks, touches, age, self.abilities.once || chunks.followed);
            }
            let (corrected, factor) = self.lines.correct(chunks, touches, outcome);
            outcome = corrected;
            weight = (weight as f64 * factor).round() as u64;
        }
        thread.progress.report(&Watched { weight, ..*watched }, outcome, end);
    }

    /// Forgets a choice whose access has not been made: something else comes first.
    pub(super) fn forget_ahead(&mut self, thread: &mut Thread) {
        if let Some(ahead) = thread.selection.ahead {
            self.close(thread, ahead.slot);
            thread.progress.window.losses.late += 1;
        }
    }

    /// All open samples end unseen.
    pub(super) fn censor(&mut self, thread: &mut Thread) {
        self.close_all(thread, false);
    }

    pub(super) fn close_all(&mut self, thread: &mut Thread, dangling: bool) {
        self.conclude(thread, true);
        let clock = self.clocks().1;
        for slot in thread.registers.slots() {
            if let Some(watched) = self.close(thread, slot) {
                let at_least = age(watched.at, watched.seen, clock);
                let outcome = if dangling { Outcome::Dangling } else { Outcome::Censored { at_least } };
                self.report(thread, &watched, outcome, None);
            }
        }
    }

    /// Ends the window in progress and queues it.
    pub(super) fn finish(&mut self, thread: &mut Thread, end: End) -> Result<(), SamplerError> {
        let replaced = end == End::Replaced;
        if end != End::Boundary {
            self.close_all(thread, end == End::Over || replaced);
        }
        self.read_counters(thread)?;
        self.check_choice(thread)?;
        let process = self.tree.get(thread.process);
        let mix = (process.tested >= 30).then(|| process.found as f64 / process.tested as f64);
        let (next, clocks, now) = (self.number(), self.clocks(), self.kernel.now());
        let edge = thread.progress.edge.take().filter(|_| end == End::Boundary);
        let (began, end_of) = (thread.progress.began, edge.unwrap_or(thread.progress.last));
        let window =
            thread.progress.turn_over(end_of, next, clocks, (mix, thread.registers.open() as u64), now);
        self.losses.add(&window.losses);
        self.counted += end_of.running.saturating_sub(began.running);
        self.warn_of_uncounted();
        self.tree.count(thread.process, &window);
        self.ready.push_back((thread.tid, window, self.tree.origin(thread.process, !replaced)));
        Ok(())
    }

    /// Whether the processor could choose accesses: one event at a time on a core is all that it chooses for.
    fn check_choice(&mut self, thread: &Thread) -> Result<(), SamplerError> {
        let apart = self.abilities.selectors.map(|selector| selector.is_some_and(|selector| selector.apart));
        let sampled = matches!(thread.selection.mode, Mode::Sample(_));
        let events = thread.events.selectors.into_iter().zip(apart).filter(|(_, apart)| *apart && sampled);
        for event in events.filter_map(|(event, _)| event) {
            match again(|| self.kernel.read(event)) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(held(
                        "what chooses accesses (instruction-based sampling)",
                        "end other profilers",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Says what share of the program's time no counter saw.
    fn warn_of_uncounted(&mut self) {
        const WHERE: &str = "of the program's time was not counted: it ran on cores with other counters (of a hybrid \
                             processor only the large ones are observed; taskset keeps a program on them), or others \
                             held the counters";
        let share = self.losses.uncounted as f64 / (self.losses.uncounted + self.counted).max(1) as f64;
        if share >= 0.01 && self.clocks().0 != Clock::Time {
            self.warnings.retain(|warning| !warning.ends_with(WHERE));
            self.warnings.push(format!("{:.0} % {WHERE}", 100.0 * share));
        }
    }

    /// A thread has ended without a record: what is known of it is reported now.
    pub(super) fn bury(&mut self, mut thread: Box<Thread>) -> Result<(), SamplerError> {
        if thread.state != State::Ending && thread.events.leader.is_some() {
            self.collect(&mut thread, true)?;
            if thread.state == State::Waiting {
                // Killed while it waited: its window is in the queue, and what it left open ends the next one.
                self.close_all(&mut thread, true);
                if thread.progress.window.samples.is_empty() {
                    self.close_events(&mut thread);
                    return Ok(());
                }
            }
            let end = if self.interrupted.load(Ordering::Relaxed) { End::Stopped } else { End::Over };
            self.finish(&mut thread, end)?;
        }
        self.close_events(&mut thread);
        Ok(())
    }

    /// The process runs another program: all its threads but one are gone, and so is its memory.
    pub(super) fn exec(&mut self, tid: Tid, thread: Option<Box<Thread>>) -> Result<(), SamplerError> {
        let process = thread.as_ref().map_or_else(|| self.process_of(tid), |thread| thread.process);
        for other in self.threads_of(process) {
            if let Some(other) = self.threads.remove(&other) {
                self.bury(other)?;
            }
        }
        let mut thread = thread.unwrap_or_else(|| {
            self.next_thread += 1;
            let id = ThreadId(self.next_thread - 1);
            Box::new(Thread::new(tid, id, process, self.settings.seed, self.initial))
        });
        thread.asleep = false;
        let known = thread.events.leader.is_some();
        if known {
            self.collect(&mut thread, true)?;
            self.finish(&mut thread, End::Replaced)?;
            self.close_events(&mut thread);
        } else {
            thread.progress.window = Window::new(self.number(), thread.id, self.settings.line_size);
        }
        (thread.progress.last, thread.progress.began, thread.progress.boundary) =
            (Moment::default(), Moment::default(), 0);
        (thread.selection.next, thread.aim.aimed, thread.aim.unheard, thread.aim.reminded) =
            (None, None, false, false);
        (thread.progress.edge, thread.selection.ahead, thread.selection.paced) = (None, None, [false; 2]);
        let mode = thread.selection.mode;
        self.see_program(process);
        match self.observe(&mut thread) {
            Ok(()) if known => thread.state = State::Waiting,
            Ok(()) => {
                thread.selection.adopt(mode, thread.progress.last.length);
                self.begin_window(&mut thread)?;
                self.proceed(&mut thread, Stop::Interrupted)?;
            }
            Err(error) if is_gone(&error) => thread.state = State::Ending,
            Err(error) => {
                self.unobserved(process, &error)?;
                if known {
                    thread.state = State::Waiting; // its last window is to be returned
                } else {
                    self.pass(tid, Stop::Interrupted)?;
                }
            }
        }
        self.threads.insert(tid, thread);
        Ok(())
    }

    fn threads_of(&self, process: usize) -> Vec<Tid> {
        self.threads.iter().filter(|(_, thread)| thread.process == process).map(|(&tid, _)| tid).collect()
    }

    /// A process has executed a program.
    fn see_program(&mut self, process: usize) {
        let executed = self.kernel.executed(self.tree.origin(process, true).process);
        self.tree.executes(process, &executed);
        self.warn_of_privileges(process, executed.unprivileged);
    }

    /// Ends observation: the windows in progress are queued, and the target is let go, or ended if it was started.
    pub fn stop(&mut self) -> Result<(), SamplerError> {
        if self.over {
            return Ok(());
        }
        self.interrupted.store(true, Ordering::Relaxed);
        self.waiting = None;
        let tids: Vec<Tid> = self.threads.keys().copied().collect();
        for tid in tids {
            if !self.threads[&tid].state.stands() {
                ok_if_gone(again(|| self.kernel.interrupt(tid)), "interrupt", format_args!("thread {tid}"))?;
            }
        }
        let mut patience = PATIENCE;
        while patience > 0 && !self.threads.is_empty() {
            if self.threads.values().all(|thread| thread.state.stands() || thread.asleep) {
                break;
            }
            match again(|| self.kernel.wait()).map_err(|e| failed("wait for", "the program", e))? {
                Notice::Tick => patience -= 1,
                Notice::Stopped(tid, stop) => {
                    let process = self.threads.get(&tid).map(|thread| thread.process);
                    if let Some(thread) = self.threads.get_mut(&tid) {
                        // What it would go on with is the kernel's to remember now.
                        thread.state =
                            if thread.state == State::Ending { State::Ending } else { State::Halted };
                    }
                    if stop == Stop::Exec {
                        // The other threads are gone, and need not say so.
                        let others = self.threads.values_mut().filter(|other| Some(other.process) == process);
                        others.filter(|t| t.state != State::Ending).for_each(|t| t.state = State::Halted);
                    }
                }
                Notice::Gone(tid) => {
                    if let Some(thread) = self.threads.remove(&tid) {
                        self.bury(thread)?;
                    }
                }
                Notice::Started(_) | Notice::Ignored => {} // too late to observe it
                Notice::Ended => break,
            }
        }
        for (_, mut thread) in std::mem::take(&mut self.threads) {
            if thread.events.leader.is_some() && thread.state != State::Ending {
                self.collect(&mut thread, true)?;
                // The window of one that waits for its plan was returned, and the next has not begun.
                if thread.state == State::Waiting {
                    self.censor(&mut thread);
                }
                if thread.state != State::Waiting || !thread.progress.window.samples.is_empty() {
                    self.finish(&mut thread, End::Stopped)?;
                }
            }
            self.close_events(&mut thread);
        }
        self.close_books();
        Ok(())
    }

    /// Observation is over.
    pub(super) fn close_books(&mut self) {
        self.over = true;
        if self.tree.ignored > 0 {
            self.warnings.push(format!("{} child process(es) ran unobserved", self.tree.ignored));
        }
    }

    /// Closes everything that is open. The kernel then lets the target go.
    pub(super) fn abandon(&mut self) {
        for (_, mut thread) in std::mem::take(&mut self.threads) {
            self.close_events(&mut thread);
        }
    }
}
