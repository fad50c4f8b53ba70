//! Where programs come from: embedded workloads, traces, and real programs under the emulator, which hands out every
//! access.

use std::ops::ControlFlow;
use std::path::Path;

use reuse_sampler::replay::EventSource;
use reuse_sampler::trace::{Side, TraceContent, TraceFormat};

use super::recording::{Recorder, Recording, RecordingOptions};
use crate::cli::{Failure, Watch};
use crate::target::{TargetError, command_name};
use crate::traces::{TraceFile, format_of, notes_on, trace_program};
use crate::workloads::Workload;

/// Events between two looks at the interrupt flag.
const LOOK: u64 = 1 << 16;

/// A program to record.
#[derive(Clone, Debug)]
pub enum Source {
    /// An embedded workload, this many times as long.
    Workload(String, u32),
    /// A trace, in this format or the one its name tells.
    Trace(std::path::PathBuf, Option<TraceFormat>),
    /// A command with its arguments.
    Program(Vec<std::ffi::OsString>),
}

/// How far programs are recorded.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// Windows, at most.
    pub windows: usize,
    /// Shows progress and ends the run.
    pub watch: &'a Watch<'a>,
    /// Whether a program's output goes to standard error.
    pub output_to_stderr: bool,
    /// Seed of a workload's data.
    pub seed: u64,
}

impl Source {
    /// Runs the program to its end and keeps what there is to know about it.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be run or read, or is over before it has two windows.
    pub fn record(&self, options: &RecordingOptions, limits: Limits<'_>) -> Result<Recording, Failure> {
        let recording = match self {
            Self::Workload(name, scale) => {
                let workload = Workload::by_name(name, limits.seed, *scale)
                    .ok_or_else(|| Failure::usage(TargetError::Workload { name: name.clone() }))?;
                let mut events = workload.events().map_err(Failure::run)?;
                let (recorder, stopped) = drive(&mut events, name, options, limits)?;
                recorder.finish(name.clone(), stopped, Vec::new())
            }
            Self::Trace(path, format) => trace(path, *format, options, limits)?,
            Self::Program(command) => program(command, options, limits)?,
        };
        if recording.windows.len() < 2 {
            return Err(Failure::Run(format!(
                "{} makes {} window of {}: give shorter windows with --window",
                recording.name,
                recording.windows.len(),
                options.window
            )));
        }
        Ok(recording)
    }
}

fn trace(
    path: &Path,
    format: Option<TraceFormat>,
    options: &RecordingOptions,
    limits: Limits<'_>,
) -> Result<Recording, Failure> {
    let format = format.map_or_else(|| format_of(path), Ok).map_err(Failure::usage)?;
    let name = path.display().to_string();
    let file = TraceFile::open(path, format).map_err(Failure::run)?;
    match file.stream.content(options.line_size) {
        Ok(TraceContent::Accesses(mut stream)) => {
            let (recorder, stopped) = drive(&mut stream, &name, options, limits)?;
            let mut recording = recorder.finish(name, stopped, Vec::new());
            if !recording.by_instructions {
                let note = "the trace tells no code, so that all windows are of one phase and count accesses";
                recording.notes.push(note.to_owned());
            }
            Ok(recording)
        }
        Ok(TraceContent::Samples(_)) => {
            Err(Failure::Usage(format!("{name} holds samples: the reference needs every access in order")))
        }
        Err(error) => Err(Failure::Run(format!("{name}: {error}"))),
    }
}

fn program(
    command: &[std::ffi::OsString],
    options: &RecordingOptions,
    limits: Limits<'_>,
) -> Result<Recording, Failure> {
    let name = command_name(command);
    let mut events = trace_program(command, Side::Data, limits.output_to_stderr)?;
    let (recorder, stopped) = drive(&mut events, &name, options, limits)?;
    Ok(recorder.finish(name, stopped, notes_on(&events)))
}

/// Hands events to a recorder until they end or there is enough of them; answers whether it was not their end.
fn drive(
    source: &mut impl EventSource,
    name: &str,
    options: &RecordingOptions,
    limits: Limits<'_>,
) -> Result<(Recorder, bool), Failure> {
    let mut recorder = Recorder::new(options.clone());
    let mut events = 0_u64;
    let stopped = source.drive(|event| {
        recorder.event(event);
        events += 1;
        if events % LOOK != 0 {
            return ControlFlow::Continue(());
        }
        limits.watch.tell_with(|| format!("{name}: {} windows", recorder.windows()));
        if recorder.windows() >= limits.windows || limits.watch.is_interrupted() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    // Ctrl-C reaches the program, too, which may then end in any way.
    match stopped {
        Err(_) if limits.watch.is_interrupted() => Ok((recorder, true)),
        stopped => {
            Ok((recorder, stopped.map_err(|error| Failure::Run(format!("{name}: {error}")))?.is_some()))
        }
    }
}
