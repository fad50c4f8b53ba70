//! The sampler itself: what is done with each thing the kernel tells.
//!
//! A thread stops at the end of each window and waits for its plan, and it stops where an access is chosen and where a
//! watched line is touched; in between it runs at full speed. One loop takes the kernel's notices one by one, so that
//! whatever happens in whatever order finds each thread in one of six [states](thread::State). Nothing waits for one
//! thread while another has something to say.
//!
//! # Which accesses are chosen
//! With a mean gap of m, each instruction is chosen with probability 1/m (geometric gaps between them, counted by the
//! processor), and becomes a sample if it accesses memory; of several accesses one is taken at random and stands for
//! all. So each *access* is chosen with probability 1/m whatever comes before it, which is what geometric gaps in
//! accesses are, without a counter of accesses. Instructions that do not access memory cost a stop and nothing else.

mod events;
mod select;
mod thread;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::thread::{Moment, State, Thread, age, distance};
use super::kernel::{Abilities, Change, Event, Kernel, Notice, Operands, Resume, Source, Stop, Tid};
use super::registers::{Coverage, Watched};
use super::ring::{Record, Sample, records};
use crate::engine::gaps::Rate;
use crate::engine::tracker::Mode;
use crate::{
    AccessKind, Clock, LineSize, Losses, Outcome, SamplerError, Site, ThreadId, Window, WindowIndex,
};

/// Settings of a session, checked.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Instructions (or nanoseconds) in a window; at least 1.
    pub window: u64,
    /// Line size.
    pub line_size: LineSize,
    /// Seed of all choices.
    pub seed: u64,
    /// Code samples in a window; 0 for none.
    pub code_samples: u64,
    /// How much of a line is watched.
    pub coverage: Coverage,
    /// Whether a random sample gives way instead of the oldest.
    pub reclaim_random: bool,
    /// Mean gap in windows whose plan asks for every access.
    pub densest: f64,
    /// Groups of counters that take turns: names and events.
    pub counters: Vec<Vec<(String, Source)>>,
}

/// How many ticks an event may be unheard, and a stop asked for may take.
const PATIENCE: u32 = 100;

/// A target under observation.
#[derive(Debug)]
pub(super) struct Session<K: Kernel> {
    pub kernel: K,
    settings: Settings,
    abilities: Abilities,
    threads: BTreeMap<Tid, Thread>,
    initial: Mode,
    next_window: u64,
    next_thread: u32,
    ready: VecDeque<(Tid, Window)>,
    waiting: Option<Tid>,
    pub over: bool,
    tested: u64, // instructions that were looked at
    found: u64,  // accesses in them
    /// Samples started; each is reported once.
    pub started: u64,
    /// Stops of threads, for the cost.
    pub stops: u64,
    /// Everything missed so far.
    pub losses: Losses,
    pub warnings: Vec<String>,
    interrupted: Arc<AtomicBool>,
    bytes: Vec<u8>,
}

/// How a window comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Boundary,
    /// The thread has ended, or its memory is no more.
    Over,
    /// Nobody looks any more.
    Stopped,
}

impl<K: Kernel> Session<K> {
    pub fn new(kernel: K, settings: Settings, abilities: Abilities, interrupted: Arc<AtomicBool>) -> Self {
        Self {
            kernel,
            settings,
            abilities,
            threads: BTreeMap::new(),
            initial: Mode::Off,
            next_window: 0,
            next_thread: 0,
            ready: VecDeque::new(),
            waiting: None,
            over: false,
            tested: 0,
            found: 0,
            started: 0,
            stops: 0,
            losses: Losses::NONE,
            warnings: Vec::new(),
            interrupted,
            bytes: Vec::new(),
        }
    }

    /// What lengths of windows and what distances are counted in.
    pub fn clocks(&self) -> (Clock, Clock) {
        let length =
            if self.abilities.windows == Source::TASK_CLOCK { Clock::Time } else { Clock::Instructions };
        (length, if self.abilities.accesses[0].is_some() { Clock::Accesses } else { length })
    }

    /// The next window; see [`Sampler::next_window`](crate::Sampler::next_window).
    pub fn next_window(&mut self, mode: Mode) -> Result<Option<Window>, SamplerError> {
        let mode = self.possible(mode);
        if self.next_window == 0 {
            self.initial = mode;
        }
        if let Some(tid) = self.waiting.take() {
            self.go_on(tid, mode)?;
        }
        loop {
            if let Some((tid, window)) = self.ready.pop_front() {
                self.waiting = Some(tid);
                return Ok(Some(window));
            }
            if self.over {
                return Ok(None);
            }
            if self.interrupted.load(Ordering::Relaxed) {
                self.stop()?;
                continue;
            }
            let notice = again(|| self.kernel.wait()).map_err(|e| failed("wait for", "the program", e))?;
            self.take(notice)?;
        }
    }

    /// Not every access can be seen.
    fn possible(&mut self, mode: Mode) -> Mode {
        if mode != Mode::Every {
            return mode;
        }
        let warning = format!(
            "not every access can be observed by counters: one in {} is sampled instead",
            self.settings.densest
        );
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
        Mode::Sample(Rate::Sparse { mean: self.settings.densest })
    }

    /// A thread whose window was told goes on under its next plan.
    fn go_on(&mut self, tid: Tid, mode: Mode) -> Result<(), SamplerError> {
        let Some(mut thread) = self.threads.remove(&tid) else { return Ok(()) };
        let ending = thread.state == State::Ending;
        if thread.state == State::Waiting {
            if mode == Mode::Off {
                self.censor(&mut thread);
            }
            thread.adopt(mode);
            self.begin_window(&mut thread)?;
            self.proceed(&mut thread, Stop::Interrupted)?;
        } else if ending {
            self.resume(&mut thread, Resume::Run, 0)?;
        }
        self.threads.insert(tid, thread);
        Ok(())
    }

    /// Deals with one notice.
    fn take(&mut self, notice: Notice) -> Result<(), SamplerError> {
        match notice {
            Notice::Started(tid) => self.started(tid),
            Notice::Stopped(tid, stop) => {
                self.stops += 1;
                let Some(mut thread) = self.threads.remove(&tid) else {
                    // Of a thread that was given up, or an exec that took another thread's number.
                    return if stop == Stop::Exec { self.exec(tid, None) } else { self.pass(tid, stop) };
                };
                if stop == Stop::Exec {
                    return self.exec(tid, Some(thread));
                }
                let result = self.stopped(&mut thread, stop);
                self.threads.insert(tid, thread);
                result
            }
            Notice::Gone(tid) => {
                if let Some(thread) = self.threads.remove(&tid) {
                    self.bury(thread)?;
                }
                Ok(())
            }
            Notice::Tick => self.tick(),
            Notice::Ended => {
                let left: Vec<Tid> = self.threads.keys().copied().collect();
                for tid in left {
                    if let Some(thread) = self.threads.remove(&tid) {
                        self.bury(thread)?;
                    }
                }
                self.over = true;
                Ok(())
            }
        }
    }

    fn pass(&mut self, tid: Tid, stop: Stop) -> Result<(), SamplerError> {
        let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
        let how = if stop == Stop::Group { Resume::Listen } else { Resume::Run };
        ok_if_gone(again(|| self.kernel.resume(tid, how, signal)), "continue", tid)
    }

    /// A thread appears.
    fn started(&mut self, tid: Tid) -> Result<(), SamplerError> {
        if self.threads.contains_key(&tid) {
            return self.pass(tid, Stop::Interrupted);
        }
        let id = ThreadId(self.next_thread);
        self.next_thread += 1;
        let mut thread = Thread::new(tid, id, self.settings.seed, self.initial);
        thread.window = Window::new(self.number(), id);
        thread.began_at = self.kernel.now();
        match self.observe(&mut thread) {
            Ok(()) => {
                thread.adopt(self.initial);
                self.begin_window(&mut thread)?;
                self.proceed(&mut thread, Stop::Interrupted)?;
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(refused(error, tid)),
        }
        self.threads.insert(tid, thread);
        Ok(())
    }

    fn number(&mut self) -> WindowIndex {
        self.next_window += 1;
        WindowIndex(self.next_window - 1)
    }

    /// A thread stands still.
    fn stopped(&mut self, thread: &mut Thread, stop: Stop) -> Result<(), SamplerError> {
        if matches!(thread.state, State::Waiting | State::Ending) && stop != Stop::Exit {
            return Ok(()); // it stands still already
        }
        self.collect(thread, true)?;
        thread.unheard = false;
        thread.reminded = false;
        match stop {
            Stop::Exit => {
                let end = if self.interrupted.load(Ordering::Relaxed) { End::Stopped } else { End::Over };
                self.finish(thread, end)?;
                self.close_events(thread);
                thread.state = State::Ending;
                Ok(())
            }
            Stop::Group => {
                thread.state = State::Listening;
                self.resume(thread, Resume::Listen, 0)
            }
            // Handled by the caller.
            Stop::Exec => Ok(()),
            Stop::Event | Stop::Step | Stop::Interrupted | Stop::Signal(_) | Stop::Clone => {
                if thread.state == State::Listening {
                    thread.state = State::Running;
                }
                if thread.events.leader.is_none() {
                    // The kernel took it for gone when it appeared.
                    return self.pass(thread.tid, stop);
                }
                self.proceed(thread, stop)
            }
        }
    }

    /// Decides how a thread that stands still, and whose records were read, goes on.
    fn proceed(&mut self, thread: &mut Thread, stop: Stop) -> Result<(), SamplerError> {
        let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
        if thread.events.leader.is_none() {
            return Ok(());
        }
        // An instruction on its way is let finish, so that its sample begins.
        if let State::Making(choice) = thread.state {
            if signal == 0 && !self.was_made(thread, &choice, stop)? {
                return self.resume(thread, Resume::Step, 0);
            }
            thread.state = State::Running;
            // Where a signal comes, its handler comes first: the access is made later, or never.
            if signal == 0 {
                self.arm(thread, &choice)?;
            }
        }
        if thread.last.length >= thread.boundary {
            thread.window.losses.overshoot = thread.last.length - thread.boundary;
            self.finish(thread, End::Boundary)?;
            thread.owed = signal;
            thread.state = State::Waiting;
            return Ok(());
        }
        if signal != 0 && thread.next.is_some_and(|next| next <= thread.last.length + self.abilities.early) {
            self.late(thread);
        }
        let how = self.approach(thread)?;
        self.resume(thread, how, signal)
    }

    /// Lets a thread go on, with a signal that it is owed if it has none of its own.
    fn resume(&mut self, thread: &mut Thread, how: Resume, signal: i32) -> Result<(), SamplerError> {
        let owed = std::mem::take(&mut thread.owed);
        let signal = if signal == 0 { owed } else { signal };
        thread.hit = false;
        ok_if_gone(again(|| self.kernel.resume(thread.tid, how, signal)), "continue", thread.tid)
    }

    /// Reads a thread's counts and records. `still` says that it stands still, so that a count without a record means
    /// a lost one.
    fn collect(&mut self, thread: &mut Thread, still: bool) -> Result<(), SamplerError> {
        let Some(leader) = thread.events.leader else { return Ok(()) };
        let reading = match again(|| self.kernel.read(leader)) {
            Ok(reading) => {
                thread.counts.clone_from(&reading);
                Some(reading)
            }
            Err(error) if is_gone(&error) => None,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(SamplerError::Unsupported {
                    backend: "perf",
                    missing: "the processor's counters, which something else holds (the NMI watchdog holds one: set \
                              kernel.nmi_watchdog to 0; other profilers)"
                        .into(),
                });
            }
            Err(error) => return Err(failed("read", "counters", error)),
        };
        if let Some(reading) = &reading {
            let count = |event: Option<Event>| event.and_then(|event| reading.of(event));
            let length = count(Some(leader)).unwrap_or(thread.last.length);
            let distance = match thread.events.accesses {
                [None, _] => length,
                [first, second] => count(first).unwrap_or(thread.last.distance) + count(second).unwrap_or(0),
            };
            thread.last = Moment { length, distance, running: reading.running, enabled: reading.enabled };
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let drained = again(|| self.kernel.drain(leader, &mut bytes));
        if let Err(error) = drained
            && !is_gone(&error)
        {
            return Err(failed("read", "the ring of events", error));
        }
        self.records(thread, &bytes, still);
        self.bytes = bytes;
        if let (true, Some(reading)) = (still, reading) {
            for slot in thread.registers.hit_since(|event| reading.of(event)) {
                if let Some(watched) = self.close(thread, slot) {
                    thread.window.losses.lost_hits += 1;
                    let at_least = age(watched.at, watched.seen, self.clocks().1);
                    thread.report(&watched, Outcome::Censored { at_least }, None);
                }
            }
            let now = thread.last.distance;
            thread.registers.confirm(now);
        }
        Ok(())
    }

    fn records(&mut self, thread: &mut Thread, bytes: &[u8], still: bool) {
        let layouts = self.layouts(thread);
        for record in records(bytes, |id| layouts.iter().find(|(known, _)| *known == id).map(|(_, l)| *l)) {
            match record {
                Ok(Record::Sample(sample)) => self.sample(thread, &sample, still),
                Ok(Record::Lost(records)) => thread.window.losses.lost_records += records,
                Ok(Record::Throttled) => thread.window.losses.throttled += 1,
                Ok(Record::Unthrottled | Record::Other(_)) => {}
                Err(malformed) => thread.window.losses.malformed += (bytes.len() - malformed.offset) as u64,
            }
        }
    }

    fn sample(&mut self, thread: &mut Thread, sample: &Sample, still: bool) {
        let is = |event: Option<Event>| event.is_some_and(|event| event.id == sample.event);
        if is(thread.events.code) {
            self.code(thread, sample);
        } else if thread.registers.has(sample.event) {
            (thread.unheard, thread.hit) = (true, true);
            let hits = sample.counts.iter().find(|(id, _)| *id == sample.event).map_or(0, |(_, hits)| *hits);
            if let Some(slot) = thread.registers.watched_by(sample.event, hits)
                && let Some(watched) = self.close(thread, slot)
            {
                let clock = self.clocks().1;
                let now = Self::distance_in(thread, sample);
                let distance = distance(watched.at, now, self.abilities.hit_after, clock);
                // After the access the record shows the next instruction: which one it was cannot be told.
                let end =
                    (still && !self.abilities.hit_after).then(|| self.site_of(thread, sample.ip)).flatten();
                thread.report(&watched, Outcome::Reused(distance), end);
            }
        } else if is(thread.events.gap) || is(thread.events.leader) {
            thread.unheard = true;
            if self.abilities.precise.is_some() && is(thread.events.gap) {
                if still {
                    self.precise(thread, sample);
                } else {
                    // Its line may be touched before it is watched.
                    self.late(thread);
                }
            }
        }
    }

    /// What an instruction that is about to touch its line again is, if the thread still stands before it.
    fn site_of(&mut self, thread: &Thread, ip: u64) -> Option<Site> {
        let registers = again(|| self.kernel.registers(thread.tid)).ok().filter(|r| r.pc == ip)?;
        let Operands::Known(operands) = again(|| self.kernel.operands(thread.tid, &registers)).ok()? else {
            return None;
        };
        let store = operands.iter().all(|operand| operand.kind == AccessKind::Store);
        let kind = if store { AccessKind::Store } else { AccessKind::Load };
        (!operands.is_empty()).then_some(Site { pc: ip, kind })
    }

    /// The clock of distances as a record shows it.
    fn distance_in(thread: &Thread, sample: &Sample) -> u64 {
        let count = |event: Option<Event>| {
            event.and_then(|e| sample.counts.iter().find(|(id, _)| *id == e.id)).map(|(_, count)| *count)
        };
        match thread.events.accesses {
            [None, _] => count(thread.events.leader).unwrap_or(thread.last.length),
            [first, second] => count(first).unwrap_or(thread.last.distance) + count(second).unwrap_or(0),
        }
    }

    /// Where the thread was, by weight of the instructions (or nanoseconds) the record stands for.
    fn code(&self, thread: &mut Thread, sample: &Sample) {
        let period = self.code_period();
        if sample.branches.is_empty() {
            *thread.code.entry(sample.ip).or_default() += period;
            return;
        }
        let share = (period / sample.branches.len() as u64).max(1);
        for (from, _) in &sample.branches {
            *thread.code.entry(*from).or_default() += share;
        }
    }

    fn code_period(&self) -> u64 {
        (self.settings.window / self.settings.code_samples.max(1)).max(1)
    }

    /// Ends an open sample and frees its registers.
    fn close(&mut self, thread: &mut Thread, slot: usize) -> Option<Watched> {
        let (watched, freed) = thread.registers.close(slot)?;
        for event in freed {
            // A thread that is gone watches nothing either.
            let _ = again(|| self.kernel.change(event, Change::Disable));
        }
        Some(watched)
    }

    /// All open samples end unseen.
    fn censor(&mut self, thread: &mut Thread) {
        self.close_all(thread, false);
    }

    fn close_all(&mut self, thread: &mut Thread, dangling: bool) {
        let clock = self.clocks().1;
        for slot in thread.registers.slots() {
            if let Some(watched) = self.close(thread, slot) {
                let at_least = age(watched.at, watched.seen, clock);
                let outcome = if dangling { Outcome::Dangling } else { Outcome::Censored { at_least } };
                thread.report(&watched, outcome, None);
            }
        }
    }

    /// Ends the window in progress and queues it.
    fn finish(&mut self, thread: &mut Thread, end: End) -> Result<(), SamplerError> {
        if end != End::Boundary {
            self.close_all(thread, end == End::Over);
        }
        self.read_counters(thread)?;
        let mix = (self.tested >= 30).then(|| self.found as f64 / self.tested as f64);
        let (next, clocks, now) = (self.number(), self.clocks(), self.kernel.now());
        let window = thread.turn_over(next, clocks, mix, now);
        self.losses.add(&window.losses);
        self.ready.push_back((thread.tid, window));
        Ok(())
    }

    /// A thread has ended without having told: what is known of it is told now.
    fn bury(&mut self, mut thread: Thread) -> Result<(), SamplerError> {
        if thread.state != State::Ending && thread.events.leader.is_some() {
            self.collect(&mut thread, true)?;
            if thread.state == State::Waiting {
                // Killed while it waited: its window is in the queue, and what it left open ends the next one.
                self.close_all(&mut thread, true);
                if thread.window.samples.is_empty() {
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
    fn exec(&mut self, tid: Tid, thread: Option<Thread>) -> Result<(), SamplerError> {
        let others: Vec<Tid> = self.threads.keys().copied().collect();
        for other in others {
            if let Some(other) = self.threads.remove(&other) {
                self.bury(other)?;
            }
        }
        let mut thread = thread.unwrap_or_else(|| {
            self.next_thread += 1;
            Thread::new(tid, ThreadId(self.next_thread - 1), self.settings.seed, self.initial)
        });
        let known = thread.events.leader.is_some();
        if known {
            self.collect(&mut thread, true)?;
            self.finish(&mut thread, End::Over)?;
            self.close_events(&mut thread);
        } else {
            thread.window = Window::new(self.number(), thread.id);
        }
        (thread.last, thread.began, thread.boundary) = (Moment::default(), Moment::default(), 0);
        (thread.next, thread.aimed, thread.unheard, thread.reminded) = (None, None, false, false);
        let mode = thread.mode;
        match self.observe(&mut thread) {
            Ok(()) if known => thread.state = State::Waiting,
            Ok(()) => {
                thread.adopt(mode);
                self.begin_window(&mut thread)?;
                self.proceed(&mut thread, Stop::Interrupted)?;
            }
            Err(error) if is_gone(&error) => thread.state = State::Ending,
            Err(error) => return Err(refused(error, tid)),
        }
        self.threads.insert(tid, thread);
        Ok(())
    }

    /// Nothing happened for a while: is somebody waiting in vain?
    fn tick(&mut self) -> Result<(), SamplerError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return self.stop();
        }
        let tids: Vec<Tid> = self.threads.keys().copied().collect();
        for tid in tids {
            let Some(mut thread) = self.threads.remove(&tid) else { continue };
            let runs = matches!(thread.state, State::Running | State::Approaching(_) | State::Making(_));
            if runs && thread.events.leader.is_some() {
                self.collect(&mut thread, false)?;
                // Its stop is due since the last tick: it has blocked the signal that stops it.
                if thread.unheard && thread.reminded {
                    ok_if_gone(again(|| self.kernel.interrupt(tid)), "interrupt", tid)?;
                }
                thread.reminded = thread.unheard;
            }
            self.threads.insert(tid, thread);
        }
        Ok(())
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
                ok_if_gone(again(|| self.kernel.interrupt(tid)), "interrupt", tid)?;
            }
        }
        let mut patience = PATIENCE;
        while patience > 0 && !self.threads.is_empty() {
            if self.threads.values().all(|thread| thread.state.stands()) {
                break;
            }
            match again(|| self.kernel.wait()).map_err(|e| failed("wait for", "the program", e))? {
                Notice::Tick => patience -= 1,
                Notice::Stopped(tid, stop) => {
                    if let Some(thread) = self.threads.get_mut(&tid) {
                        // What it would go on with is the kernel's to remember now.
                        thread.state =
                            if thread.state == State::Ending { State::Ending } else { State::Halted };
                    }
                    if stop == Stop::Exec {
                        // The other threads are gone, and need not say so.
                        for other in self.threads.values_mut().filter(|t| t.state != State::Ending) {
                            other.state = State::Halted;
                        }
                    }
                }
                Notice::Gone(tid) => {
                    if let Some(thread) = self.threads.remove(&tid) {
                        self.bury(thread)?;
                    }
                }
                Notice::Started(_) => {} // too late to observe it
                Notice::Ended => break,
            }
        }
        for (_, mut thread) in std::mem::take(&mut self.threads) {
            if thread.events.leader.is_some() && thread.state != State::Ending {
                self.collect(&mut thread, true)?;
                // The window of one that waits for its plan was told, and the next has not begun.
                if thread.state == State::Waiting {
                    self.censor(&mut thread);
                }
                if thread.state != State::Waiting || !thread.window.samples.is_empty() {
                    self.finish(&mut thread, End::Stopped)?;
                }
            }
            self.close_events(&mut thread);
        }
        self.over = true;
        Ok(())
    }

    /// Closes everything that is open. The kernel then lets the target go.
    fn abandon(&mut self) {
        for (_, mut thread) in std::mem::take(&mut self.threads) {
            self.close_events(&mut thread);
        }
    }
}

impl<K: Kernel> Drop for Session<K> {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Calls again what a signal interrupted.
fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// `ESRCH`: the thread has ended, which it may at any moment.
fn is_gone(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.raw_os_error() == Some(ESRCH)
}

fn ok_if_gone(result: io::Result<()>, operation: &'static str, tid: Tid) -> Result<(), SamplerError> {
    match result {
        Err(error) if is_gone(&error) => Ok(()),
        other => {
            other.map_err(|source| SamplerError::Io { operation, object: format!("thread {tid}"), source })
        }
    }
}

fn failed(operation: &'static str, object: &str, source: io::Error) -> SamplerError {
    SamplerError::Io { operation, object: object.to_owned(), source }
}

/// Why no event could be opened.
fn refused(source: io::Error, tid: Tid) -> SamplerError {
    const E2BIG: i32 = 7;
    const EINVAL: i32 = 22;
    let missing = match source.raw_os_error() {
        Some(E2BIG | EINVAL) => "events that stop a thread, which Linux has from version 5.13 on".to_owned(),
        _ if source.kind() == io::ErrorKind::NotFound => {
            "hardware counters, which this machine does not have (virtual machines mostly do not)".to_owned()
        }
        _ if source.kind() == io::ErrorKind::PermissionDenied => {
            "permission to observe events: set kernel.perf_event_paranoid to 2 or lower".to_owned()
        }
        _ => {
            return SamplerError::Io {
                operation: "open events of",
                object: format!("thread {tid} (each takes some ten file descriptors: ulimit -n)"),
                source,
            };
        }
    };
    SamplerError::Unsupported { backend: "perf", missing }
}
