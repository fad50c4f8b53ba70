//! The sampler's side of the meeting at each window boundary.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::emulator::Emulator;
use super::process::Process;
use super::processes::{LOOK, Processes};
use super::program::{self, Program};
use super::shared::futex;
use super::shared::layout::Reported;
use super::shared::message::{CodeMessage, Message, TraceMessage, WindowMessage};
use super::{CodeLocation, QemuOptions, TargetExit};
use crate::replay::{mode_of, window_from};
use crate::{
    AccessCount, Error, LineSize, ProcessRecord, Sampler, SamplerError, ThreadId, Window, WindowIndex,
    WindowPlan,
};

/// Longest sleep while nothing comes from the plugin.
const NAP: Duration = Duration::from_secs(10);
/// How long the plugin may take for its last report when it is asked to stop.
const LAST_REPORT: Duration = Duration::from_secs(5);

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The first thread waits for the initial plan.
    Loaded,
    /// The program runs.
    Running,
    /// The plugin has sent its last message.
    Complete,
    /// The process is reaped.
    Over,
}

/// The running program behind a [`QemuSampler`](super::QemuSampler).
#[derive(Debug)]
pub(super) struct Run {
    process: Process,
    line_size: LineSize,
    name: String,
    processes: Processes,
    messages: VecDeque<(usize, Message)>, // and the processes they came from
    waiting: Option<(usize, u32)>,        // process and slot of the thread whose window was returned last
    stage: Stage,
    windows: u64,
    replaced: Option<String>, // the program that the process is about to become
    code: Vec<CodeMessage>,   // by number, where fetches are reported
    accesses: u64,            // measured
    pub(super) further: u64,  // of them, beyond the first of each operand
    emulator: String,
    warnings: Vec<String>,
}

impl Run {
    /// A run whose windows are reported.
    pub(super) fn spawn(
        name: &OsStr,
        arguments: &[OsString],
        options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        Self::start(name, arguments, options, Reported::Windows)
    }

    /// What the user should know about the run.
    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(super) fn start(
        name: &OsStr,
        arguments: &[OsString],
        options: &QemuOptions,
        reported: Reported,
    ) -> Result<Self, SamplerError> {
        if options.window == 0 {
            return Err(Error::WindowLength.into());
        }
        let program = Program::find(name, options.directory.as_deref())?;
        let emulator = Emulator::find(program.architecture, options.emulator.as_ref())?;
        let process = Process::start(&emulator, &program, name, arguments, options, reported)?;
        let words = std::iter::once(name).chain(arguments.iter().map(OsString::as_os_str));
        let command: Vec<_> = words.map(OsStr::to_string_lossy).collect();
        let path = program.path.display().to_string();
        let processes = Processes::new(process.pid().as_raw() as u32, command.join(" "), &path);
        let mut run = Self {
            process,
            line_size: options.line_size,
            name: name.to_string_lossy().into_owned(),
            processes,
            messages: VecDeque::new(),
            waiting: None,
            stage: Stage::Loaded,
            windows: 0,
            replaced: None,
            code: Vec::new(),
            accesses: 0,
            further: 0,
            emulator: emulator.path.display().to_string(),
            warnings: Vec::new(),
        };
        match run.next_message(None)? {
            Some((_, Message::Hello)) => Ok(run),
            Some(_) => Err(protocol("the plugin did not introduce itself")),
            None => {
                let exit = run.process.reap()?;
                Err(SamplerError::Unsupported {
                    backend: "qemu",
                    missing: format!(
                        "{} did not load the plugin and ended with {exit}; its own message is on stderr",
                        emulator.path.display()
                    ),
                })
            }
        }
    }

    /// The next message and the process it came from, or none once all processes have ended (or `deadline` has passed) and
    /// all messages were read.
    fn next_message(&mut self, deadline: Option<Instant>) -> Result<Option<(usize, Message)>, SamplerError> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(Some(message));
            }
            let mapping = self.process.mapping();
            let filled = &mapping.header().filled;
            let seen = filled.load(Ordering::SeqCst);
            let ended = self.process.has_ended();
            if self.processes.read(mapping, ended, &mut self.messages).map_err(protocol)? {
                continue;
            }
            if !self.processes.any_active() {
                return Ok(None);
            }
            let longest = if self.processes.children().next().is_some() { LOOK } else { NAP };
            let nap =
                deadline.map_or(longest, |at| at.saturating_duration_since(Instant::now()).min(longest));
            if nap.is_zero() {
                return Ok(None);
            }
            futex::wait(filled, seen, nap);
        }
    }

    fn window(&mut self, process: usize, mut message: WindowMessage) -> Window {
        self.processes.add(process, &mut message, self.process.mapping());
        let WindowMessage { report, instructions, seen_instructions, profiled, further, .. } = message;
        let accesses = report.accesses;
        self.accesses += accesses;
        self.further += further;
        let seen = profiled && (seen_instructions == instructions || accesses > 0);
        let whole = profiled && seen_instructions == instructions;
        let index = WindowIndex(message.index);
        let mut window = window_from(report, index, ThreadId(message.thread), self.line_size, seen);
        if seen && !whole {
            // The first blocks ran before their accesses were reported.
            let share = accesses as f64 / seen_instructions.max(1) as f64;
            window.accesses = AccessCount::Estimated((instructions as f64 * share).round() as u64);
            window.arrivals = None;
        }
        window.instructions = instructions;
        window.code = message.code;
        window.elapsed = Duration::from_nanos(message.elapsed);
        self.windows += 1;
        window
    }

    /// What was handed out next, where everything is; `None` once the program has ended.
    pub(super) fn next_trace(&mut self) -> Result<Option<TraceMessage>, SamplerError> {
        loop {
            let over = self.stage == Stage::Over;
            match if over { self.messages.pop_front() } else { self.next_message(None)? } {
                Some((_, Message::Trace(trace))) => {
                    self.windows += 1;
                    self.further += trace.further;
                    self.replaced = None;
                    return Ok(Some(trace));
                }
                Some((process, message)) => self.note(process, message)?,
                None if over => return Ok(None),
                None => self.conclude()?,
            }
        }
    }

    /// Operands per access, where accesses were measured.
    pub(super) fn operands_per_access(&self) -> Option<f64> {
        (self.accesses > 0)
            .then(|| (self.accesses - self.further.min(self.accesses)) as f64 / self.accesses as f64)
    }

    /// Address and sizes of the instructions of block `number`.
    pub(super) fn block(&self, number: u64) -> Result<(u64, &[u8]), SamplerError> {
        let known = usize::try_from(number).ok().and_then(|number| self.code.get(number));
        let code = known.ok_or_else(|| protocol("a block was executed that the plugin did not report"))?;
        Ok((code.address, &code.sizes))
    }

    /// Takes in a message that holds no measurement.
    fn note(&mut self, process: usize, message: Message) -> Result<(), SamplerError> {
        match message {
            Message::Mapped(maps) => self.processes.take_maps(process, &maps, self.process.mapping()),
            Message::Replaced(path) => {
                self.processes.leaves(process, &path);
                if process == 0 {
                    self.replaced = Some(path);
                }
            }
            Message::Executes { path, command } => self.processes.executes(process, &path, command),
            Message::Exits(status) => self.processes.exits(process, TargetExit::Code(status.into())),
            Message::Reaped { process, status } => self.processes.reaped(process, status),
            Message::Code(code) => {
                if code.number != self.code.len() as u64 || code.sizes.is_empty() {
                    return Err(protocol("a block is empty, or not numbered as it came"));
                }
                self.code.push(code);
            }
            Message::Lost { thread } => self.warnings.push(format!(
                "thread {thread} could not be halted: its last window and open samples are lost"
            )),
            Message::End => {
                self.processes.complete(process);
                if process == 0 {
                    self.stage = self.stage.max(Stage::Complete);
                }
            }
            Message::Hello => {} // after another program was executed
            Message::Window(_) | Message::Trace(_) => {
                return Err(protocol("the plugin sent windows where a trace was asked for, or the reverse"));
            }
        }
        Ok(())
    }

    /// The process has ended: reap it and record how.
    fn conclude(&mut self) -> Result<(), SamplerError> {
        let complete = self.stage == Stage::Complete;
        self.stage = Stage::Over;
        let exit = self.process.reap()?;
        self.processes.exits(0, exit);
        self.warn_of_children();
        self.warn_of_instructions(exit);
        if complete {
            return Ok(());
        }
        if let Some(path) = self.replaced.take() {
            self.warnings.push(format!(
                "the program replaced itself by {path}, which ran unobserved: give {path} as the program"
            ));
        } else if self.windows == 0 && matches!(exit, TargetExit::Code(_)) {
            return Err(SamplerError::Target {
                program: self.name.clone(),
                problem: format!(
                    "the emulator ended with {exit} before the program ran; its own message is on stderr"
                ),
            });
        } else {
            self.warnings.push(format!(
                "the program was ended by {exit}: what it did since its last window boundary is not in the \
                 windows, and samples open then are lost"
            ));
        }
        Ok(())
    }

    fn warn_of_instructions(&mut self, exit: TargetExit) {
        const SIGILL: i32 = 4;
        /// Fewer executions, as of the dynamic linker that saves the processor's state, are not worth a word, ...
        const FEW: u64 = 10_000;
        /// ... nor is less than one for so many accesses that were seen.
        const RARE: u64 = 1_000;
        let mapping = self.process.mapping();
        let unseen = mapping.header().unseen.load(Ordering::Relaxed);
        if unseen > FEW && unseen > self.processes.accesses() / RARE {
            self.warnings.push(format!(
                "{} does not report loads and stores of 80-bit floating-point numbers (x87, long double) or of the \
                 processor's state: while accesses were observed, {unseen} executions of such instructions were missed; \
                 versions before 9.1 report them",
                self.emulator
            ));
        }
        if mapping.header().unread.load(Ordering::Relaxed) != 0 {
            self.warnings.push(format!(
                "{} does not show all instructions: vector accesses in them are counted in pieces, so that there are \
                 more accesses and operands, and lower miss ratios, than the program has",
                self.emulator
            ));
        }
        if exit == TargetExit::Signal(SIGILL) {
            let (pc, bytes) = mapping.ring(0).region().last();
            let code: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            let kind = if program::is_avx512(&bytes) { ", an AVX-512 instruction," } else { "" };
            let place = self.processes.locate(pc).map_or(String::new(), |place| format!(" in {place}"));
            self.warnings.push(format!(
                "{} does not implement the instruction that begins with {}{kind} at {pc:#x}{place}, or there is none: \
                 build the program without it, or use a newer emulator",
                self.emulator,
                code.join(" ")
            ));
        }
    }

    fn warn_of_children(&mut self) {
        let header = self.process.mapping().header();
        let (forks, execs) = (header.forks.load(Ordering::Relaxed), header.execs.load(Ordering::Relaxed));
        if execs > 0 {
            let first = header.first_exec().unwrap_or_default();
            self.warnings.push(format!(
                "{execs} child process(es) ran other programs unobserved (the first: {first}): give the one \
                 of interest as the program"
            ));
        }
        if forks > execs {
            self.warnings.push(format!("{} forked child process(es) ran unobserved", forks - execs));
        }
        let unobserved = self.processes.unobserved();
        if let Some(first) = unobserved.first() {
            self.warnings.push(format!(
                "{} child process(es) went unobserved at some point (the first: {first})",
                unobserved.len()
            ));
        }
        let cut = self.processes.cut_short();
        if let Some(first) = cut.first() {
            self.warnings.push(format!(
                "{} child process(es) were ended by signals (the first: {first}): what they did since their last window \
                 boundaries is not in the windows",
                cut.len()
            ));
        }
    }

    pub(super) fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.processes.locate(address)
    }

    pub(super) fn variable(&mut self, address: u64) -> Option<(String, u64)> {
        self.processes.variable(address)
    }

    pub(super) fn processes(&self) -> Vec<ProcessRecord> {
        self.processes.records()
    }

    pub(super) fn process_id(&self) -> u32 {
        self.process.pid().as_raw().unsigned_abs()
    }

    pub(super) fn exit_status(&self) -> Option<TargetExit> {
        self.process.status()
    }
}

impl Sampler for Run {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        let mode = mode_of(&plan.reuse);
        if self.stage < Stage::Over {
            let header = self.process.mapping().header();
            if self.stage == Stage::Loaded {
                self.stage = Stage::Running;
                header.start(mode);
            }
            if let Some((process, slot)) = self.waiting.take() {
                if let Some(region) = self.processes.region(process) {
                    self.process.mapping().ring(region).region().answer(slot as usize, mode);
                }
            }
        }
        loop {
            let over = self.stage == Stage::Over;
            let message = if over { self.messages.pop_front() } else { self.next_message(None)? };
            match message {
                Some((process, Message::Window(window))) => {
                    self.waiting = window.slot.map(|slot| (process, slot));
                    if process == 0 {
                        self.replaced = None;
                    }
                    return Ok(Some(self.window(process, *window)));
                }
                Some((process, message)) => self.note(process, message)?,
                None if over => return Ok(None),
                None => self.conclude()?,
            }
        }
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        if self.stage == Stage::Over {
            return Ok(());
        }
        self.waiting = None;
        if self.stage == Stage::Loaded {
            // It has not executed anything: there is nothing to report.
            self.stage = Stage::Over;
            return self.process.end(Vec::new()).map(drop);
        }
        let header = self.process.mapping().header();
        futex::set(&header.stop, 1);
        let deadline = Instant::now() + LAST_REPORT;
        let mut kept = VecDeque::new();
        while let Some(message) = self.next_message(Some(deadline))? {
            if message.1 == Message::End {
                self.processes.complete(message.0);
            }
            kept.push_back(message);
            if self.processes.incomplete() == 0 {
                break;
            }
        }
        let orphans = self.processes.children().collect();
        let exit = self.process.end(orphans)?;
        self.processes.exits(0, exit);
        while let Some(message) = self.next_message(None)? {
            kept.push_back(message);
        }
        self.messages = kept;
        self.stage = Stage::Over;
        self.warn_of_children();
        Ok(())
    }
}

fn protocol(problem: &str) -> SamplerError {
    SamplerError::Protocol { backend: "qemu", problem: problem.into() }
}
