//! The program and the processes that it starts: who is served next, and what becomes of each.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::DbiOptions;
use super::block::Purpose;
use super::children::News;
use super::cpuid;
use super::launch::launch;
use super::observer::{Event as Asked, Gone, NAP, Observer};
use super::process::{Process, exit_of};
use super::region::{self, Region};
use super::runtime::Runtime;
use super::trace::Events;
use super::windows::{Common, End, STRETCH, Step, Watched};
use crate::backends::blind::blind;
use crate::backends::processes::{Account, Images};
use crate::engine::tracker::Mode;
use crate::replay::{Event, mode_of};
use crate::{
    Children, CodeLocation, Error, ProcessRecord, SamplerError, TargetExit, ThreadId, Window, WindowPlan,
};

/// How long the processes may take to end after they were asked to.
const GRACE: Duration = Duration::from_millis(500);
/// Instructions in the longest window.
const LONGEST: u64 = 1 << 60;
/// Fewer accesses that are not sure than one in so many are not worth a word.
const RARE: u64 = 1_000;

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The program waits at its first instruction.
    Loaded,
    /// It runs.
    Running,
    /// All processes have ended.
    Over,
}

/// The running program behind a [`DbiSampler`](super::DbiSampler).
#[derive(Debug)]
pub(super) struct Run {
    common: Common,
    accounts: Vec<Account>, // of all processes, in the order in which they began
    live: Vec<Watched>,
    current: usize, // the one that is served, among those that live
    stage: Stage,
    /// The window that was returned last has ended before the block at this address or, without one, before the first of
    /// another program; its thread, of the process with this number, waits for a plan.
    between: Option<(usize, usize, Option<u64>)>,
    pid: u32,
    exit: Option<TargetExit>,
    released: bool,
}

impl Run {
    pub(super) fn spawn(
        name: &OsStr,
        arguments: &[OsString],
        options: &DbiOptions,
    ) -> Result<Self, SamplerError> {
        if options.window == 0 {
            return Err(Error::WindowLength.into());
        }
        Self::start(name, arguments, options, None)
    }

    /// The same with events instead of windows.
    pub(super) fn trace(
        name: &OsStr,
        arguments: &[OsString],
        options: &DbiOptions,
        fetches: bool,
    ) -> Result<Self, SamplerError> {
        Self::start(name, arguments, options, Some(Events::new(options.stretch, fetches)))
    }

    fn start(
        name: &OsStr,
        arguments: &[OsString],
        options: &DbiOptions,
        trace: Option<Events>,
    ) -> Result<Self, SamplerError> {
        if let Some(why) = blind() {
            return Err(SamplerError::Unsupported { backend: "dbi", missing: why.into() });
        }
        cpuid::can_show(options.cpu)?;
        let region = Arc::new(Region::new()?);
        let runtime = Runtime::new();
        let launched = launch(name, arguments, options, &region, &runtime)?;
        let process = Process::watch(launched.child, &region)?;
        let pid = process.pid().as_raw().unsigned_abs();
        let mut observer = Observer::new(region, runtime, launched.base, process);
        observer.follows = options.children == Children::Follow;
        let fetches = trace.as_ref().is_some_and(|events| events.fetches);
        observer.cache.purpose = Purpose { fetches, cpu: options.cpu };
        let mut common = Common {
            length: if trace.is_some() { LONGEST } else { options.window.min(LONGEST) },
            line_size: options.line_size,
            seed: options.seed,
            strides: options.strides,
            initial: Mode::Off,
            threads: 0,
            windows: 0,
            queue: VecDeque::new(),
            images: Images::default(),
            unsure: 0,
            instructions: 0,
            accesses: 0,
            further: 0,
            warnings: Vec::new(),
            trace,
            children: 0,
        };
        let mut account = Account::new(ProcessRecord::new(pid, std::process::id(), String::new()));
        observer.set_left(common.length.min(STRETCH));
        let mut watched = Watched::new(observer, 0, 0);
        watched.see_program(&name.to_string_lossy(), &mut common, &mut account);
        Ok(Self {
            common,
            accounts: vec![account],
            live: vec![watched],
            current: 0,
            stage: Stage::Loaded,
            between: None,
            pid,
            exit: None,
            released: false,
        })
    }

    pub(super) fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        let mode = mode_of(&plan.reuse);
        loop {
            if let Some(window) = self.common.queue.pop_front() {
                return Ok(Some(window));
            }
            if self.stage == Stage::Over {
                return Ok(None);
            }
            self.advance(mode)?;
        }
    }

    /// Events that come next, in the place of those in `events`; none once all processes have ended.
    pub(super) fn next_events(&mut self, events: &mut Vec<Event>) -> Result<(), SamplerError> {
        loop {
            if let Some(trace) = &mut self.common.trace {
                trace.take(events);
            }
            if !events.is_empty() || self.stage == Stage::Over {
                return Ok(());
            }
            self.advance(Mode::Every)?;
        }
    }

    /// Serves one request, and what it leads to.
    fn advance(&mut self, mode: Mode) -> Result<(), SamplerError> {
        let mut event = match (self.stage, self.between.take()) {
            (Stage::Over, _) => return Ok(()),
            (Stage::Loaded, _) => {
                self.common.initial = mode;
                self.live[0].follow(mode, &mut self.common);
                self.stage = Stage::Running;
                self.serve()
            }
            (_, Some(place)) => self.go_on(place, mode),
            _ => self.serve(),
        };
        while let Ok(Some(happened)) = event {
            event = self.handle(happened);
        }
        if event.is_err() {
            return self.ended();
        }
        self.take_news();
        Ok(())
    }

    /// The thread that waited for a plan goes on.
    fn go_on(
        &mut self,
        (process, thread, pc): (usize, usize, Option<u64>),
        mode: Mode,
    ) -> Result<Option<Asked>, Gone> {
        let Some(current) = self.live.iter().position(|watched| watched.number == process) else {
            return Ok(None);
        };
        self.current = current;
        let watched = &mut self.live[current];
        watched.observer.current = thread;
        watched.begin(mode, &mut self.common);
        pc.map_or(Ok(None), |pc| watched.observer.resume(pc, false))
    }

    /// Serves the next request of any process, which becomes the current one.
    fn serve(&mut self) -> Result<Option<Asked>, Gone> {
        loop {
            let region = Arc::clone(&self.live[self.current].observer.region);
            let rung = region.bell().load(Ordering::SeqCst);
            let (first, count) = (self.current + 1, self.live.len());
            for number in first..first + count {
                self.current = number % count;
                let observer = &mut self.live[self.current].observer;
                let ended = observer.process.has_ended();
                if let Some(reason) = observer.next() {
                    return observer.serve(reason);
                }
                if ended {
                    return Err(Gone);
                }
            }
            region::sleep(region.bell(), rung, NAP);
        }
    }

    fn handle(&mut self, event: Asked) -> Result<Option<Asked>, Gone> {
        let watched = &mut self.live[self.current];
        let number = watched.number;
        match watched.handle(event, &mut self.common, &mut self.accounts[number])? {
            Step::On => Ok(None),
            Step::Next(event) => Ok(Some(event)),
            Step::Waits(pc) => {
                self.between = Some((number, watched.observer.current, pc));
                Ok(None)
            }
            Step::Executes(mut child, path) => {
                let parent = self.accounts[number].record.pid;
                let pid = child.observer.process.pid().as_raw().unsigned_abs();
                let mut account = Account::new(ProcessRecord::new(pid, parent, String::new()));
                child.see_program(&path, &mut self.common, &mut account);
                self.between = child.waits().then_some((self.accounts.len(), 0, None));
                self.add(*child, account);
                Ok(None)
            }
        }
    }

    fn add(&mut self, mut watched: Watched, account: Account) {
        watched.number = self.accounts.len();
        if self.released {
            watched.observer.leaving.get_or_insert_with(|| "as the caller asked".into());
        }
        self.accounts.push(account);
        self.live.push(watched);
    }

    /// Takes note of children.
    fn take_news(&mut self) {
        for current in 0..self.live.len() {
            for news in std::mem::take(&mut self.live[current].observer.news) {
                let watched = &mut self.live[current];
                let number = watched.number;
                match news {
                    News::Apart(block) => {
                        watched.forget(block, &mut self.common, &mut self.accounts[number]);
                    }
                    News::Forked(observer) => {
                        let (record, image) = (&self.accounts[number].record, watched.image);
                        let pid = observer.process.pid().as_raw().unsigned_abs();
                        let account =
                            Account::new(ProcessRecord::new(pid, record.pid, record.command.clone()));
                        self.add(Watched::new(*observer, 0, image), account);
                    }
                    News::Reaped { pid, status } => {
                        let mut all = self.accounts.iter_mut().skip(1).rev();
                        if let Some(child) = all.find(|child| child.record.pid == pid) {
                            child.record.exit = Some(exit_of(ExitStatus::from_raw(status)));
                        }
                    }
                }
            }
        }
    }

    /// The current process has ended, or a thread of it that was a process of its own.
    fn ended(&mut self) -> Result<(), SamplerError> {
        let watched = &mut self.live[self.current];
        let account = &mut self.accounts[watched.number];
        if !watched.observer.process.has_ended() {
            watched.close(End::Exit, &mut self.common, account);
            watched.observer.own().ends = true;
            watched.observer.own().tid = 0;
            return Ok(());
        }
        self.take_news();
        self.conclude(self.current, End::Exit)?;
        if self.live.is_empty() {
            self.over();
        }
        Ok(())
    }

    /// A process has ended. What was counted is still there, however it did.
    fn conclude(&mut self, current: usize, how: End) -> Result<(), SamplerError> {
        let mut watched = self.live.remove(current);
        self.current = 0;
        let account = &mut self.accounts[watched.number];
        watched.each_thread(|watched| watched.close(how, &mut self.common, account));
        let observer = &mut watched.observer;
        let who = if watched.number == 0 { "the program" } else { "a child process" };
        for program in observer.unobserved.drain(..) {
            self.common.warnings.push(format!("{who} replaced itself by {program}"));
        }
        self.common.children += observer.forks;
        if !watched.began && self.stage != Stage::Loaded {
            self.common.children += 1;
            account
                .record
                .unobserved
                .get_or_insert_with(|| "it ended, or ran on, before it could be observed".into());
        }
        observer.process.reap()?;
        self.common.images.ended(watched.image, account.record.pid);
        if watched.number == 0 {
            self.exit = observer.process.status();
            account.record.exit = self.exit;
        }
        Ok(())
    }

    /// All processes have ended.
    fn over(&mut self) {
        self.stage = Stage::Over;
        let common = &mut self.common;
        if common.children > 0 {
            common.warnings.push(format!("{} child process(es) ran unobserved", common.children));
        }
        let (unsure, accesses) = match &common.trace {
            Some(events) => (events.unsure, events.accesses),
            None => (common.unsure, common.accesses),
        };
        if unsure > accesses / RARE {
            common.warnings.push(format!(
                "{unsure} of {accesses} accesses are of vector instructions with a mask or indices: each counts as one \
                 whole access at its first address"
            ));
        }
    }

    pub(super) fn release(&mut self) {
        self.released = true;
        for watched in self.live.iter_mut().filter(|watched| !watched.native) {
            watched.observer.leaving.get_or_insert_with(|| "as the caller asked".into());
            watched.each_thread(|watched| watched.observer.ask_soon());
        }
    }

    pub(super) fn stop(&mut self) -> Result<(), SamplerError> {
        if self.stage == Stage::Over {
            return Ok(());
        }
        self.take_news();
        if self.stage == Stage::Loaded {
            self.live[0].observer.process.signal(Signal::SIGKILL);
            self.conclude(0, End::Interrupt)?;
            self.stage = Stage::Over;
            return Ok(());
        }
        if let Some((process, thread, _)) = self.between.take() {
            if let Some(watched) = self.live.iter_mut().find(|watched| watched.number == process) {
                watched.observer.current = thread;
                if watched.has_open_samples() {
                    // A last window, in which nothing happens but that they are given up.
                    watched.begin(Mode::Watch, &mut self.common);
                }
            }
        }
        for watched in &mut self.live {
            watched.see_mappings(&mut self.common);
            watched.observer.process.signal(Signal::SIGTERM);
            watched.observer.process.signal(Signal::SIGCONT);
        }
        let deadline = Instant::now() + GRACE;
        let alive = |watched: &Watched| !watched.observer.process.has_ended();
        while self.live.iter().any(alive) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        while !self.live.is_empty() {
            self.live[0].observer.process.signal(Signal::SIGKILL);
            self.live[0].observer.process.reap()?;
            self.conclude(0, End::Interrupt)?;
        }
        self.over();
        Ok(())
    }

    pub(super) fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.common.images.locate(address)
    }

    pub(super) fn variable(&mut self, address: u64) -> Option<(String, u64)> {
        self.common.images.get(0)?.variable(address)
    }

    /// Operands of the accesses that were made events.
    pub(super) fn operands(&self) -> u64 {
        self.common.trace.as_ref().map_or(0, |events| events.accesses - events.further)
    }

    /// The process of a thread whose accesses were made events.
    pub(super) fn process_of(&self, thread: ThreadId) -> Option<usize> {
        self.common.trace.as_ref()?.process_of(thread)
    }

    pub(super) const fn process_id(&self) -> u32 {
        self.pid
    }

    pub(super) fn operands_per_access(&self) -> Option<f64> {
        let Common { accesses, further, .. } = self.common;
        (accesses > 0).then(|| (accesses - further.min(accesses)) as f64 / accesses as f64)
    }

    pub(super) fn processes(&self) -> Vec<ProcessRecord> {
        self.accounts.iter().map(Account::record).collect()
    }

    pub(super) const fn exit_status(&self) -> Option<TargetExit> {
        self.exit
    }

    pub(super) fn warnings(&self) -> &[String] {
        &self.common.warnings
    }
}
