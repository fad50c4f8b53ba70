//! The sampler itself: what is done with each record of the kernel.
//!
//! A thread stops at the end of each window and waits for its plan, and it stops where an access is chosen and where a
//! watched line is touched; in between it runs at full speed. One loop takes the kernel's notices one by one, so that
//! whatever happens in whatever order finds each thread in one of its [states](thread::State). Nothing waits for one
//! thread while another has something to say.
//!
//! # Which accesses are chosen
//! With a mean gap of m, each instruction is chosen with probability 1/m (geometric gaps between them, counted by the
//! processor), and becomes a sample if it accesses memory; of several accesses one is taken at random and stands for
//! all. So each *access* is chosen with probability 1/m whatever comes before it, which is what geometric gaps in
//! accesses are, without a counter of accesses. Instructions that do not access memory cost a stop and nothing else.

mod endings;
mod events;
mod failures;
mod profile;
mod progress;
mod records;
mod select;
mod selection;
mod thread;
mod tree;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::failures::{again, failed, is_gone, ok_if_gone, refused};
use self::thread::{State, Thread};
pub(super) use self::tree::{Origin, Tree};
use super::chunks::Lines;
use super::kernel::{Abilities, Event, Kernel, Notice, Resume, Source, Stop, Tid};
use super::registers::Coverage;
use super::spe::{ProfileLosses, Profiled};
use crate::engine::gaps::Rate;
use crate::engine::tracker::Mode;
use crate::{Clock, LineSize, Losses, SamplerError, ThreadId, Window, WindowIndex};

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
    /// Whether a random sample gives way instead of the oldest but for one.
    pub reclaim_random: bool,
    /// Mean gap in windows whose plan asks for every access.
    pub densest: f64,
    /// Counts by which overflows are put off.
    pub skid: u64,
    /// Operations between two that the processor profiles by itself; `None` for no such thing.
    pub profile_every: Option<u64>,
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
    threads: BTreeMap<Tid, Box<Thread>>, // in boxes: they are taken out and put back at every stop
    initial: Mode,
    next_window: u64,
    next_thread: u32,
    ready: VecDeque<(Tid, Window, Origin)>,
    /// The processes.
    pub tree: Tree,
    /// Where the code of the window that was returned last comes from.
    pub origin: Origin,
    waiting: Option<Tid>,
    pub over: bool,
    lines: Lines,
    counted: u64,    // nanoseconds of the program in which it was
    shortest: u64,   // period that an event is set to, as far as is known
    pub tested: u64, // instructions that were looked at
    /// Samples started; each is reported once.
    pub started: u64,
    /// Stops of threads, for the cost.
    pub stops: u64,
    /// Everything missed so far.
    pub losses: Losses,
    pub warnings: Vec<String>,
    interrupted: Arc<AtomicBool>,
    bytes: Vec<u8>,
    trace: Vec<u8>,
    /// What the processor profiled by itself and nobody has taken yet.
    pub profiled: Vec<Profiled>,
    /// What is missing among that.
    pub profile_losses: ProfileLosses,
}

/// How a window comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Boundary,
    /// The thread has ended.
    Over,
    /// Its memory is another program's.
    Replaced,
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
            tree: Tree::default(),
            origin: Origin::default(),
            waiting: None,
            over: false,
            lines: Lines::default(),
            counted: 0,
            shortest: 1,
            tested: 0,
            started: 0,
            stops: 0,
            losses: Losses::NONE,
            warnings: Vec::new(),
            interrupted,
            bytes: Vec::new(),
            trace: Vec::new(),
            profiled: Vec::new(),
            profile_losses: ProfileLosses::default(),
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
            if let Some((tid, window, origin)) = self.ready.pop_front() {
                self.waiting = Some(tid);
                self.origin = origin;
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

    /// A thread whose window was returned goes on under its next plan.
    fn go_on(&mut self, tid: Tid, mode: Mode) -> Result<(), SamplerError> {
        let Some(mut thread) = self.threads.remove(&tid) else { return Ok(()) };
        let ending = thread.state == State::Ending;
        if thread.state == State::Waiting {
            if mode == Mode::Off {
                self.censor(&mut thread);
            }
            thread.selection.adopt(mode, thread.progress.last.length);
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
                self.tree.ended(tid);
                Ok(())
            }
            Notice::Ignored => {
                self.tree.ignored += 1;
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
                self.close_books();
                Ok(())
            }
        }
    }

    fn pass(&mut self, tid: Tid, stop: Stop) -> Result<(), SamplerError> {
        let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
        let how = if stop == Stop::Group { Resume::Listen } else { Resume::Run };
        ok_if_gone(again(|| self.kernel.resume(tid, how, signal)), "continue", format_args!("thread {tid}"))
    }

    /// A thread appears.
    fn started(&mut self, tid: Tid) -> Result<(), SamplerError> {
        if self.threads.contains_key(&tid) {
            return self.pass(tid, Stop::Interrupted);
        }
        let id = ThreadId(self.next_thread);
        self.next_thread += 1;
        let process = self.process_of(tid);
        let mut thread = Box::new(Thread::new(tid, id, process, self.settings.seed, self.initial));
        thread.progress.window = Window::new(self.number(), id, self.settings.line_size);
        thread.progress.began_at = self.kernel.now();
        match self.observe(&mut thread) {
            Ok(()) => {
                thread.selection.adopt(self.initial, thread.progress.last.length);
                self.begin_window(&mut thread)?;
                self.proceed(&mut thread, Stop::Interrupted)?;
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                self.unobserved(process, &error)?;
                self.pass(tid, Stop::Interrupted)?;
            }
        }
        self.threads.insert(tid, thread);
        Ok(())
    }

    /// The number of a thread's process, which may be new.
    fn process_of(&mut self, tid: Tid) -> usize {
        let (process, parent) = self.kernel.process_of(tid);
        self.tree.number(process).unwrap_or_else(|| {
            let executed = self.kernel.executed(process);
            let number = self.tree.add(process, parent, &executed);
            // A child has its parent's.
            self.warn_of_privileges(0, executed.unprivileged && number == 0);
            number
        })
    }

    fn warn_of_privileges(&mut self, process: usize, lacks_them: bool) {
        if lacks_them {
            self.warnings.push(format!(
                "{} ran without the privileges that its file is to give it (set-user-ID): the kernel gives none to a \
                 program that another without CAP_SYS_PTRACE controls; observe as root, or ignore children",
                self.tree.name(process)
            ));
        }
    }

    /// A thread of a process cannot be observed, which is an error where it is the program's own: of a child it is reported.
    fn unobserved(&mut self, process: usize, error: &io::Error) -> Result<(), SamplerError> {
        let why = refused(&self.kernel, error);
        if process == 0 {
            return Err(why);
        }
        let from = format!("from window {} on: {why}", self.next_window);
        self.warnings.push(format!("{} ran unobserved {from}", self.tree.name(process)));
        self.tree.get_mut(process).account.record.unobserved.get_or_insert(from);
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
        thread.asleep = stop == Stop::Vfork;
        if thread.events.leader.is_none() {
            // It cannot be observed, or the kernel took it for gone when it appeared.
            return self.pass(thread.tid, stop);
        }
        self.collect(thread, true)?;
        thread.aim.unheard = false;
        thread.aim.reminded = false;
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
            Stop::Event | Stop::Step | Stop::Interrupted | Stop::Signal(_) | Stop::Clone | Stop::Vfork => {
                if thread.state == State::Listening {
                    thread.state = State::Running;
                }
                self.proceed(thread, stop)
            }
        }
    }

    /// Decides how a thread that stands still, and whose records were read, goes on.
    fn proceed(&mut self, thread: &mut Thread, stop: Stop) -> Result<(), SamplerError> {
        let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
        if thread.events.leader.is_none() {
            thread.state = State::Running;
            return self.pass(thread.tid, stop);
        }
        // Where a signal comes, its handler comes first: the access is made later, or never.
        if signal != 0 {
            self.forget_ahead(thread);
        }
        if thread.progress.last.length >= thread.progress.boundary {
            let end = thread.progress.edge.unwrap_or(thread.progress.last).length;
            thread.progress.window.losses.overshoot = end - thread.progress.boundary;
            self.finish(thread, End::Boundary)?;
            thread.owed = signal;
            thread.state = State::Waiting;
            return Ok(());
        }
        let near = thread.progress.last.length + self.abilities.early;
        if signal != 0 && !self.abilities.selects() && thread.selection.next.is_some_and(|next| next <= near)
        {
            self.late(thread);
        }
        let how = self.approach(thread)?;
        self.resume(thread, how, signal)
    }

    /// Lets a thread go on, with a signal that it is owed if it has none of its own.
    fn resume(&mut self, thread: &mut Thread, how: Resume, signal: i32) -> Result<(), SamplerError> {
        self.rest(thread);
        let owed = std::mem::take(&mut thread.owed);
        let signal = if signal == 0 { owed } else { signal };
        if self.clocks().0 == Clock::Time {
            thread.selection.hit = None; // whether it gets past the access is unknown
        }
        let tid = thread.tid;
        ok_if_gone(again(|| self.kernel.resume(tid, how, signal)), "continue", format_args!("thread {tid}"))
    }

    /// Nothing happened for a while: is somebody waiting in vain?
    fn tick(&mut self) -> Result<(), SamplerError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return self.stop();
        }
        let tids: Vec<Tid> = self.threads.keys().copied().collect();
        for tid in tids {
            let Some(mut thread) = self.threads.remove(&tid) else { continue };
            let runs = matches!(thread.state, State::Running | State::Approaching(_));
            if runs && thread.events.leader.is_some() {
                self.collect(&mut thread, false)?;
                self.rest(&mut thread);
                // Its stop is due since the last tick: it has blocked the signal that stops it.
                if thread.aim.unheard && thread.aim.reminded {
                    ok_if_gone(
                        again(|| self.kernel.interrupt(tid)),
                        "interrupt",
                        format_args!("thread {tid}"),
                    )?;
                }
                thread.aim.reminded = thread.aim.unheard;
            }
            self.threads.insert(tid, thread);
        }
        Ok(())
    }
}

impl<K: Kernel> Drop for Session<K> {
    fn drop(&mut self) {
        self.abandon();
    }
}
