//! Windows of the translated program: where they end, what is counted in them, and who follows its accesses.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::DbiOptions;
use super::launch::launch;
use super::layout::{self, command, shared};
use super::observer::{Event, Gone, Observer};
use super::process::Process;
use super::recording::{self, buffer};
use super::region::Region;
use super::runtime::Runtime;
use super::translate::Kind;
use crate::backends::locate::Locator;
use crate::engine::tracker::{Mode, Tracker};
use crate::replay::{mode_of, window_from};
use crate::{
    CodeLocation, Error, LineSize, SamplerError, TargetExit, ThreadId, Window, WindowIndex, WindowPlan,
};

/// How long the program may take to end after it was asked to.
const GRACE: Duration = Duration::from_millis(500);

/// Bits of an address that are the program's; above them is the number of the program that the process executes.
const ADDRESS_BITS: u32 = 48;
/// Fewer masked accesses than one in so many instructions are not worth a word.
const RARE: u64 = 1_000;

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The program waits at its first instruction.
    Loaded,
    /// It runs.
    Running,
    /// It runs unobserved.
    Native,
    /// It has ended.
    Over,
}

/// How a window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Boundary,
    Exit,
    Interrupt,
    /// Another program is in the thread's place, also in `/proc`.
    Replaced,
}

/// The window in progress.
#[derive(Clone, Copy, Debug)]
struct Open {
    index: u64,
    mode: Mode,
    since: Instant,
}

/// What is followed of a thread.
#[derive(Debug)]
struct Followed {
    id: ThreadId,
    tracker: Tracker,
    open_samples: u64,
    window: Option<Open>,
    counted: HashMap<u64, u64>, // instructions in blocks that the cache has forgotten, by address
    buffer: u64,                // number of the one being written
}

impl Followed {
    fn new(seed: u64, id: ThreadId) -> Self {
        Self {
            id,
            tracker: Tracker::new(seed, u64::from(id.0)),
            open_samples: 0,
            window: None,
            counted: HashMap::new(),
            buffer: 0,
        }
    }
}

/// The running program behind a [`DbiSampler`](super::DbiSampler).
#[derive(Debug)]
pub(super) struct Run {
    observer: Observer,
    stage: Stage,
    /// The window that was returned last has ended before the block at this address; its thread waits for a plan.
    between: Option<(usize, u64)>,
    length: u64,
    line_size: LineSize,
    seed: u64,
    initial: Mode,                       // of new threads
    followed: BTreeMap<usize, Followed>, // by the numbers of their blocks
    threads: u32,
    windows: u64,
    queue: VecDeque<Window>,
    images: Vec<Locator>, // one for each program that the process has executed
    masked: u64,          // executions of blocks with accesses under a mask
    instructions: u64,
    warnings: Vec<String>,
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
        let region = Arc::new(Region::new()?);
        let runtime = Runtime::new();
        let launched = launch(name, arguments, options, &region, &runtime)?;
        let process = Process::watch(launched.child, &region)?;
        let length = options.window.min(1 << 60);
        let observer = Observer::new(region, runtime, launched.base, process);
        observer.set(shared::LEFT, length);
        Ok(Self {
            observer,
            stage: Stage::Loaded,
            between: None,
            length,
            line_size: options.line_size,
            seed: options.seed,
            initial: Mode::Off,
            followed: BTreeMap::new(),
            threads: 0,
            windows: 0,
            queue: VecDeque::new(),
            images: vec![Locator::default()],
            masked: 0,
            instructions: 0,
            warnings: Vec::new(),
        })
    }

    pub(super) fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        let mode = mode_of(&plan.reuse);
        loop {
            if let Some(window) = self.queue.pop_front() {
                return Ok(Some(window));
            }
            let event = match (self.stage, self.between.take()) {
                (Stage::Over, _) => return Ok(None),
                (Stage::Loaded, _) => {
                    self.initial = mode;
                    self.follow(mode);
                    self.stage = Stage::Running;
                    self.serve()
                }
                (_, Some((thread, pc))) => {
                    self.observer.current = thread;
                    self.begin(mode);
                    self.observer.resume(pc, false)
                }
                _ => self.serve(),
            };
            let mut event = event;
            loop {
                event = match event {
                    Ok(None) => break,
                    Ok(Some(event)) => self.handle(event),
                    Err(_) => {
                        self.conclude()?;
                        break;
                    }
                };
            }
        }
    }

    fn serve(&mut self) -> Result<Option<Event>, Gone> {
        let reason = self.observer.wait()?;
        self.observer.serve(reason)
    }

    fn handle(&mut self, event: Event) -> Result<Option<Event>, Gone> {
        if let (Stage::Native, Some(pc)) = (self.stage, event.pc()) {
            // It was in a system call when the others left.
            return self.observer.leave(pc).map(|()| None);
        }
        match event {
            Event::Began { pc } => {
                self.observer.set(shared::LEFT, self.length);
                self.follow(self.initial);
                self.observer.resume(pc, false)
            }
            Event::Boundary { pc } => {
                let left = self.observer.get(shared::LEFT);
                let needed = self.block_at_exit(pc);
                if left as i64 >= needed as i64 {
                    return self.observer.resume(pc, false); // it was made to ask
                }
                let more = (needed - left).div_ceil(self.length) * self.length;
                self.observer.set(shared::LEFT, left + more);
                self.close(End::Boundary);
                self.between = Some((self.observer.current, pc));
                Ok(None)
            }
            Event::Full { pc } => {
                let full = self.take_buffer();
                let event = self.observer.resume(pc, false);
                // The thread goes on meanwhile.
                self.play(full);
                event
            }
            Event::Stale { pc } => {
                self.observer.stop_others()?;
                self.each_thread(Self::save);
                self.observer.empty_cache();
                self.observer.resume(pc, false)
            }
            Event::Exiting => {
                self.see_mappings();
                self.close(End::Exit);
                self.observer.perform(command::CALL)
            }
            Event::Executing { path } => {
                self.see_mappings();
                self.observer.execute(path)
            }
            Event::Executed { path } => {
                self.observer.unobserved.pop();
                let (id, window) = (self.own().id, self.own().window);
                self.each_thread(|run| run.close(End::Replaced));
                self.followed.clear();
                if let Err(error) = self.observer.start_anew(self.length) {
                    self.observer.unobserved.push(format!("{path}, which ran unobserved: {error}"));
                    self.stage = Stage::Native;
                } else {
                    self.images.push(Locator::default());
                    self.followed.insert(0, Followed::new(self.seed, id));
                    self.begin(window.map_or(self.initial, |open| open.mode));
                }
                Ok(None)
            }
            Event::Leaving { pc } => {
                self.run_natively(pc)?;
                Ok(None)
            }
        }
    }

    /// Lets all threads run on without us, the current one from `pc`.
    fn run_natively(&mut self, pc: u64) -> Result<(), Gone> {
        let caller = self.observer.current;
        let window = self.own().window;
        let (window, why) = (window.map_or(self.windows, |open| open.index), self.observer.leaving.clone());
        self.warnings.push(format!(
            "the program ran on natively and unobserved from window {window} on: {}",
            why.unwrap_or_default()
        ));
        self.observer.stop_others()?;
        let mut places = vec![(caller, pc)];
        for number in (0..self.observer.threads.len()).filter(|number| *number != caller) {
            self.observer.current = number;
            places.extend(self.observer.place()?.map(|pc| (number, pc)));
        }
        self.each_thread(|run| run.close(End::Interrupt));
        self.stage = Stage::Native;
        for (number, pc) in places {
            self.observer.current = number;
            self.observer.leave(pc)?;
        }
        Ok(())
    }

    /// Does `what` for each thread, as the current one.
    fn each_thread(&mut self, what: impl Fn(&mut Self)) {
        let caller = self.observer.current;
        for number in self.followed.keys().copied().collect::<Vec<_>>() {
            self.observer.current = number;
            what(self);
        }
        self.observer.current = caller;
    }

    /// The current thread begins.
    fn follow(&mut self, mode: Mode) {
        self.followed.insert(self.observer.current, Followed::new(self.seed, ThreadId(self.threads)));
        self.threads += 1;
        self.begin(mode);
    }

    /// What is followed of the current thread, which has begun.
    fn own(&mut self) -> &mut Followed {
        let (seed, id) = (self.seed, ThreadId(self.threads));
        self.followed.entry(self.observer.current).or_insert_with(|| Followed::new(seed, id))
    }

    /// Where the code of the program that is executed now comes from.
    fn image(&mut self) -> &mut Locator {
        let last = self.images.len() - 1;
        &mut self.images[last]
    }

    fn see_mappings(&mut self) {
        if let Ok(maps) = std::fs::read_to_string(format!("/proc/{}/maps", self.observer.own().tid)) {
            self.image().take(&maps, 0);
        }
    }

    /// Instructions of the block at `pc`.
    fn block_at_exit(&self, pc: u64) -> u64 {
        self.observer.cache.block(pc).map_or(1, |block| u64::from(block.instructions))
    }

    fn begin(&mut self, mode: Mode) {
        let index = self.windows;
        self.windows += 1;
        let own = self.own();
        // With nothing to follow there is nothing to see.
        let mode = if mode == Mode::Watch && own.open_samples == 0 { Mode::Off } else { mode };
        own.tracker.begin_window(index, mode);
        own.window = Some(Open { index, mode, since: Instant::now() });
        self.observer.use_kind(if mode == Mode::Off { Kind::Counting } else { Kind::Recording });
        if mode != Mode::Off {
            self.use_buffer();
        }
    }

    fn use_buffer(&mut self) {
        let (start, end) = buffer(self.own().buffer);
        let at = self.observer.address_of(0);
        self.observer.set(shared::BUFFER, at + start);
        self.observer.set(shared::BUFFER_END, at + end);
    }

    /// The words written so far; another buffer is used from now on.
    fn take_buffer(&mut self) -> (u64, u64) {
        let (start, _) = buffer(self.own().buffer);
        let end = self.observer.get(shared::BUFFER).wrapping_sub(self.observer.address_of(0));
        self.own().buffer ^= 1;
        self.use_buffer();
        (start, end)
    }

    fn play(&mut self, (start, end): (u64, u64)) {
        let shift = self.line_size.shift();
        let (blocks, block) = (self.observer.cache.blocks(), layout::block(self.observer.current));
        let words = self.observer.region.words(block + start, block + end);
        if let Some(own) = self.followed.get_mut(&self.observer.current) {
            recording::play(words, blocks, shift, &mut own.tracker);
        }
    }

    /// Takes over what the current thread has counted and recorded.
    fn save(&mut self) {
        if self.own().window.is_some_and(|open| open.mode != Mode::Off) {
            let words = self.take_buffer();
            self.play(words);
        }
        let Some(own) = self.followed.get_mut(&self.observer.current) else { return };
        for (number, block) in (0..).zip(self.observer.cache.blocks()) {
            let at = shared::COUNTS + 8 * number;
            let entered = self.observer.get(at);
            if entered > 0 {
                self.observer.set(at, 0);
                *own.counted.entry(block.pc).or_default() += entered * u64::from(block.instructions);
                self.masked += if block.masked { entered } else { 0 };
            }
        }
        for (number, instructions) in std::mem::take(&mut self.observer.own().signals.unexecuted) {
            if let Some(block) = self.observer.cache.blocks().get(number as usize) {
                let counted = own.counted.entry(block.pc).or_default();
                *counted = counted.saturating_sub(instructions);
            }
        }
    }

    /// Ends the current thread's window, if it has one, and puts it in the queue.
    fn close(&mut self, how: End) {
        let Some(Open { index, mode, since }) = self.own().window else { return };
        self.save();
        let own = self.own();
        own.window = None;
        let mut report = match how {
            End::Boundary => own.tracker.end_window(),
            End::Exit | End::Replaced => own.tracker.end_thread(),
            End::Interrupt => own.tracker.interrupt(),
        };
        own.open_samples = report.open;
        let mut code: Vec<(u64, u64)> = own.counted.drain().filter(|(_, count)| *count > 0).collect();
        code.sort_unstable();
        let id = own.id;
        if how != End::Replaced {
            let tid = self.observer.own().tid;
            self.image().see(tid, 0, &code);
        }
        let mark = (self.images.len() as u64 - 1) << ADDRESS_BITS;
        if mark != 0 {
            for (address, _) in &mut code {
                *address |= mark;
            }
            for closed in &mut report.closed {
                closed.begin.0 |= mark;
                if let Some(end) = &mut closed.end {
                    end.0 |= mark;
                }
            }
        }
        let mut window = window_from(report, WindowIndex(index), id, self.line_size, mode != Mode::Off);
        window.instructions = code.iter().map(|(_, count)| count).sum();
        window.code = code;
        window.elapsed = since.elapsed();
        self.instructions += window.instructions;
        self.queue.push_back(window);
    }

    /// The process has ended.
    fn conclude(&mut self) -> Result<(), SamplerError> {
        // What was counted is still there, however it ended.
        self.each_thread(|run| run.close(End::Exit));
        self.stage = Stage::Over;
        self.observer.process.reap()?;
        let forks = self.observer.forks;
        for program in self.observer.unobserved.drain(..) {
            self.warnings.push(format!("the program replaced itself by {program}"));
        }
        if forks > 0 {
            self.warnings.push(format!("{forks} child process(es) ran unobserved"));
        }
        if self.masked > self.instructions / RARE {
            self.warnings.push(format!(
                "{} times masked or gathered accesses were executed: each counts as one access at its first address",
                self.masked
            ));
        }
        Ok(())
    }

    pub(super) fn release(&mut self) {
        if !matches!(self.stage, Stage::Over | Stage::Native) {
            self.observer.leaving.get_or_insert_with(|| "as the caller asked".into());
            self.each_thread(|run| run.observer.ask_soon());
        }
    }

    pub(super) fn stop(&mut self) -> Result<(), SamplerError> {
        match self.stage {
            Stage::Over => return Ok(()),
            Stage::Loaded => {
                self.observer.process.signal(Signal::SIGKILL);
                self.stage = Stage::Over;
                return self.observer.process.reap();
            }
            _ => {}
        }
        if let Some((thread, _)) = self.between.take() {
            self.observer.current = thread;
            if self.own().open_samples > 0 {
                // A last window, in which nothing happens but that they are given up.
                self.begin(Mode::Watch);
            }
        }
        self.see_mappings();
        self.observer.process.signal(Signal::SIGTERM);
        self.observer.process.signal(Signal::SIGCONT);
        let deadline = Instant::now() + GRACE;
        while !self.observer.process.has_ended() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.observer.process.signal(Signal::SIGKILL);
        self.observer.process.reap()?;
        self.each_thread(|run| run.close(End::Interrupt));
        self.conclude()
    }

    pub(super) fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        let image = (address >> ADDRESS_BITS) as usize;
        self.images.get_mut(image)?.locate(address & ((1 << ADDRESS_BITS) - 1))
    }

    pub(super) fn process_id(&self) -> u32 {
        self.observer.process.pid().as_raw().unsigned_abs()
    }

    pub(super) fn exit_status(&self) -> Option<TargetExit> {
        self.observer.process.status()
    }

    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
