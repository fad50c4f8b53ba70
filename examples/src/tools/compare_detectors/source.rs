//! The programs that detectors are compared on: embedded workloads, a trace, a program under the emulator.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use phase_detect::CodeVector;
use reuse_sampler::replay::EventSource;
use reuse_sampler::trace::{Side, TraceContent, TraceFormat};
use reuse_sampler::{LineSize, WindowPlan};

use super::args::Args;
use super::experiments::agreement;
use super::recording::{Recorder, Recording, RecordingOptions};
use crate::cli::{Failure, Watch};
use crate::target::{Backend, ChildProcesses, Target, TargetOptions, command_name};
use crate::traces::{TraceFile, notes_on, trace_program};
use crate::workloads::{NAMES, Sink, Workload};

/// Events between two looks at the interrupt flag.
const LOOK: u64 = 1 << 16;

/// One recording for each program that the command line names, and what the user should know of how it was observed.
pub fn record(
    args: &Args,
    grid: bool,
    interrupted: &AtomicBool,
) -> Result<(Vec<Recording>, Vec<String>), Failure> {
    let options = RecordingOptions {
        window: args.window(),
        stride_entries: args.stride_entries,
        seed: args.common.seed,
        grid,
    };
    let run = Run { options, limit: args.limit, watch: Watch::new(interrupted) };
    if let Some(path) = &args.trace {
        Ok((vec![run.trace(path, args.trace_format()?)?], Vec::new()))
    } else if args.program.is_empty() {
        Ok((run.workloads(args)?, Vec::new()))
    } else {
        let (recording, notes) = run.program(&args.program)?;
        Ok((vec![recording], notes))
    }
}

/// The code of all windows of a program, observed by whatever this machine has; of threads, the first.
pub fn code(args: &Args, interrupted: &AtomicBool) -> Result<(agreement::Program, bool), Failure> {
    let options = TargetOptions {
        window: args.window(),
        line_size: LineSize::B64,
        seed: args.common.seed,
        output_to_stderr: true,
        backend: Backend::Exact,
        children: ChildProcesses::Ignore,
    };
    let mut target = Target::program(&args.program, options).map_err(Failure::run)?;
    let mut vector =
        CodeVector::new(phase_detect::signature::DEFAULT_ENTRIES, args.common.seed).map_err(Failure::run)?;
    let mut signatures = Vec::new();
    let plan = WindowPlan::count_only();
    let mut stopped = false;
    while let Some(window) = target.sampler().next_window(&plan).map_err(Failure::run)? {
        if window.thread.0 == 0 {
            vector.extend(window.code.iter().map(|&(address, instructions)| (address, instructions as f64)));
            signatures.extend(vector.finish().ok());
        }
        let enough = args.limit.is_some_and(|limit| signatures.len() >= limit);
        if !stopped && (enough || interrupted.load(Ordering::Relaxed)) {
            stopped = true;
            target.sampler().stop().map_err(Failure::run)?;
        }
    }
    if signatures.len() < 2 {
        let (name, window) = (target.name(), args.window());
        return Err(Failure::Run(format!(
            "{name} makes {} windows of {window} instructions: give shorter windows with --window",
            signatures.len()
        )));
    }
    Ok(((target.name().to_owned(), signatures), interrupted.load(Ordering::Relaxed)))
}

struct Run<'a> {
    options: RecordingOptions,
    limit: Option<usize>,
    watch: Watch<'a>,
}

impl Run<'_> {
    /// Those of the command line; after an interruption, those that there are.
    fn workloads(&self, args: &Args) -> Result<Vec<Recording>, Failure> {
        let mut recordings = Vec::new();
        for name in &args.workload {
            match self.workload(name, args) {
                Err(_) if self.watch.is_interrupted() && !recordings.is_empty() => break,
                recording => recordings.push(recording?),
            }
        }
        Ok(recordings)
    }

    fn workload(&self, name: &str, args: &Args) -> Result<Recording, Failure> {
        let workload = Workload::by_name(name, args.common.seed, args.scale).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            Failure::Usage(format!("no embedded workload {name:?}; there are {}", names.join(", ")))
        })?;
        self.drive(name, &mut workload.events().map_err(Failure::run)?)
    }

    fn trace(&self, path: &Path, format: TraceFormat) -> Result<Recording, Failure> {
        let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
        let trace = TraceFile::open(path, format).map_err(Failure::run)?;
        match trace.stream.content(LineSize::B64) {
            Ok(TraceContent::Accesses(mut stream)) => self.drive(&name, &mut stream),
            Ok(TraceContent::Samples(_)) => {
                Err(Failure::Usage(format!("{name} holds samples: detectors need every access in order")))
            }
            Err(error) => Err(Failure::Run(format!("{name}: {error}"))),
        }
    }

    /// Runs a program under the emulator, which tells every access with its instruction; the program's output goes to
    /// standard error.
    fn program(&self, command: &[OsString]) -> Result<(Recording, Vec<String>), Failure> {
        let mut trace = trace_program(command, Side::Data, true)?;
        let recording = self.drive(&command_name(command), &mut trace)?;
        Ok((recording, notes_on(&trace)))
    }

    fn drive(&self, name: &str, source: &mut impl EventSource) -> Result<Recording, Failure> {
        let mut recorder = Recorder::new(name, self.options)?;
        let mut events = 0_u64;
        let stopped = source.drive(|event| {
            recorder.event(event);
            events += 1;
            if events % LOOK != 0 {
                return ControlFlow::Continue(());
            }
            self.watch.tell_with(|| format!("{name}: {} windows", recorder.windows()));
            let enough = self.limit.is_some_and(|limit| recorder.windows() >= limit);
            if enough || self.watch.is_interrupted() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        // Ctrl-C reaches the program, too, which may then end in any way.
        let interrupted = self.watch.is_interrupted();
        if let (Err(error), false) = (&stopped, interrupted) {
            return Err(Failure::Run(format!("{name}: {error}")));
        }
        recorder.finish(interrupted)
    }
}
