//! Windows of the translated program: where they end, what is counted in them, and who follows its accesses.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::DbiOptions;
use super::launch::launch;
use super::layout::{command, shared};
use super::observer::{Event, Observer};
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

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The program waits at its first instruction.
    Loaded,
    /// It runs.
    Running,
    /// The window that was returned last has ended before the block at this address; it waits.
    Between(u64),
    /// It is about to run on natively from here once its last window was returned.
    Leaving(u64),
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
}

/// The window in progress.
#[derive(Clone, Copy, Debug)]
struct Open {
    index: u64,
    mode: Mode,
    since: Instant,
}

/// The running program behind a [`DbiSampler`](super::DbiSampler).
#[derive(Debug)]
pub(super) struct Run {
    observer: Observer,
    stage: Stage,
    length: u64,
    line_size: LineSize,
    tracker: Tracker,
    open_samples: u64,
    window: Option<Open>,
    windows: u64,
    counted: HashMap<u64, u64>, // instructions in blocks that the cache has forgotten, by address
    buffer: u64,                // number of the one being written
    queue: VecDeque<Window>,
    locator: Locator,
    masked: bool,
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
            length,
            line_size: options.line_size,
            tracker: Tracker::new(options.seed, 0),
            open_samples: 0,
            window: None,
            windows: 0,
            counted: HashMap::new(),
            buffer: 0,
            queue: VecDeque::new(),
            locator: Locator::default(),
            masked: false,
            warnings: Vec::new(),
        })
    }

    pub(super) fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        let mode = mode_of(&plan.reuse);
        loop {
            if let Some(window) = self.queue.pop_front() {
                return Ok(Some(window));
            }
            let event = match self.stage {
                Stage::Over => return Ok(None),
                Stage::Loaded => {
                    self.begin(mode);
                    self.observer.wait().and_then(|reason| {
                        self.stage = Stage::Running;
                        self.observer.serve(reason)
                    })
                }
                Stage::Between(pc) => {
                    self.begin(mode);
                    self.stage = Stage::Running;
                    self.observer.resume(pc, false)
                }
                Stage::Leaving(pc) => {
                    self.stage = Stage::Native;
                    self.observer.leave(pc).map(|()| None)
                }
                Stage::Running | Stage::Native => {
                    self.observer.wait().and_then(|reason| self.observer.serve(reason))
                }
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

    fn handle(&mut self, event: Event) -> Result<Option<Event>, super::observer::Gone> {
        match event {
            Event::Boundary { pc } => {
                let left = self.observer.get(shared::LEFT);
                let needed = self.block_at_exit(pc);
                if left as i64 >= needed as i64 {
                    return self.observer.resume(pc, false); // it was made to ask
                }
                let more = (needed - left).div_ceil(self.length) * self.length;
                self.observer.set(shared::LEFT, left + more);
                self.close(End::Boundary);
                self.stage = Stage::Between(pc);
                Ok(None)
            }
            Event::Full { pc } => {
                let full = self.take_buffer();
                let event = self.observer.resume(pc, false);
                // The program goes on meanwhile.
                self.play(full);
                event
            }
            Event::Stale { pc } => {
                self.forget();
                self.observer.resume(pc, false)
            }
            Event::Exiting => {
                let pid = self.observer.process.pid();
                if let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) {
                    self.locator.take(&maps, 0);
                }
                self.close(End::Exit);
                self.observer.perform(command::CALL)
            }
            Event::Leaving { pc } => {
                let window = self.window.map_or(self.windows, |open| open.index);
                let why = self.observer.leaving.take().unwrap_or_default();
                self.warnings.push(format!(
                    "the program ran on natively and unobserved from window {window} on: {why}"
                ));
                self.close(End::Interrupt);
                self.stage = Stage::Leaving(pc);
                Ok(None)
            }
        }
    }

    /// Instructions of the block at `pc`.
    fn block_at_exit(&self, pc: u64) -> u64 {
        self.observer.cache.block(pc).map_or(1, |block| u64::from(block.instructions))
    }

    fn begin(&mut self, mode: Mode) {
        // With nothing to follow there is nothing to see.
        let mode = if mode == Mode::Watch && self.open_samples == 0 { Mode::Off } else { mode };
        let index = self.windows;
        self.windows += 1;
        self.tracker.begin_window(index, mode);
        self.window = Some(Open { index, mode, since: Instant::now() });
        self.observer.kind = if mode == Mode::Off { Kind::Counting } else { Kind::Recording };
        self.observer.use_kind(self.observer.kind);
        if self.observer.kind == Kind::Recording {
            self.use_buffer();
        }
    }

    fn use_buffer(&self) {
        let (start, end) = buffer(self.buffer);
        self.observer.set(shared::BUFFER, self.observer.base + start);
        self.observer.set(shared::BUFFER_END, self.observer.base + end);
    }

    /// The words written so far; another buffer is used from now on.
    fn take_buffer(&mut self) -> (u64, u64) {
        let (start, _) = buffer(self.buffer);
        let end = self.observer.get(shared::BUFFER).wrapping_sub(self.observer.base);
        self.buffer ^= 1;
        self.use_buffer();
        (start, end)
    }

    fn play(&mut self, (start, end): (u64, u64)) {
        let shift = self.line_size.shift();
        let blocks = self.observer.cache.blocks();
        recording::play(self.observer.region.words(start, end), blocks, shift, &mut self.tracker);
    }

    /// Adds what was counted of all blocks to `counted`.
    fn collect(&mut self) {
        for (number, block) in (0..).zip(self.observer.cache.blocks()) {
            let at = shared::COUNTS + 8 * number;
            let entered = self.observer.get(at);
            if entered > 0 {
                self.observer.set(at, 0);
                *self.counted.entry(block.pc).or_default() += entered * u64::from(block.instructions);
                self.masked |= block.masked;
            }
        }
        for (number, instructions) in std::mem::take(&mut self.observer.signals.unexecuted) {
            if let Some(block) = self.observer.cache.blocks().get(number as usize) {
                let counted = self.counted.entry(block.pc).or_default();
                *counted = counted.saturating_sub(instructions);
            }
        }
    }

    /// Empties the cache.
    fn forget(&mut self) {
        if self.observer.kind == Kind::Recording {
            let words = self.take_buffer();
            self.play(words);
        }
        self.collect();
        self.observer.cache.clear();
    }

    /// Ends the window in progress and puts it in the queue.
    fn close(&mut self, how: End) {
        let Some(Open { index, mode, since }) = self.window.take() else { return };
        if mode != Mode::Off {
            let words = self.take_buffer();
            self.play(words);
        }
        let report = match how {
            End::Boundary => self.tracker.end_window(),
            End::Exit => self.tracker.end_thread(),
            End::Interrupt => self.tracker.interrupt(),
        };
        self.open_samples = report.open;
        self.collect();
        let mut code: Vec<(u64, u64)> = self.counted.drain().filter(|(_, count)| *count > 0).collect();
        code.sort_unstable();
        let mut window =
            window_from(report, WindowIndex(index), ThreadId(0), self.line_size, mode != Mode::Off);
        window.instructions = code.iter().map(|(_, count)| count).sum();
        window.code = code;
        window.elapsed = since.elapsed();
        self.locator.see(self.observer.process.pid().as_raw(), 0, &window.code);
        self.queue.push_back(window);
    }

    /// The process has ended.
    fn conclude(&mut self) -> Result<(), SamplerError> {
        // What was counted is still there, however it ended.
        self.close(End::Exit);
        self.stage = Stage::Over;
        self.observer.process.reap()?;
        let (forks, executed) = (self.observer.forks, self.observer.executed);
        if executed > 0 {
            let path = self.observer.first_executed.take().unwrap_or_default();
            self.warnings.push(format!(
                "the program replaced itself by {path}, which ran unobserved: give {path} as the program"
            ));
        }
        if forks > 0 {
            self.warnings.push(format!("{forks} child process(es) ran unobserved"));
        }
        if self.masked {
            self.warnings.push(
                "masked or gathered accesses were executed: each counts as one access at its first address"
                    .into(),
            );
        }
        Ok(())
    }

    pub(super) fn release(&mut self) {
        if !matches!(self.stage, Stage::Over | Stage::Native | Stage::Leaving(_)) {
            self.observer.leaving.get_or_insert_with(|| "as the caller asked".into());
            self.observer.ask_soon();
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
        if matches!(self.stage, Stage::Between(_)) && self.open_samples > 0 {
            // A last window, in which nothing happens but that they are given up.
            self.begin(Mode::Watch);
        }
        self.close(End::Interrupt);
        self.observer.process.signal(Signal::SIGTERM);
        self.observer.process.signal(Signal::SIGCONT);
        let deadline = Instant::now() + GRACE;
        while !self.observer.process.has_ended() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.observer.process.signal(Signal::SIGKILL);
        self.conclude()
    }

    pub(super) fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.locator.locate(address)
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
