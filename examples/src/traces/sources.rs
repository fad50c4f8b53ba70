//! Programs that are observed access by access: embedded workloads, traces, real programs.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;

use reuse_sampler::replay::EventSource;
use reuse_sampler::trace::{Side, TraceContent, TraceFormat};
use reuse_sampler::{Children, Cpu, LineSize};

use super::{TraceFile, format_of, name_of, notes_on, trace_program};
use crate::cli::{Failure, Watch, trace_formats};
use crate::target::{Backend, command_name, embedded_workload, observing};
use crate::workloads::Sink;

/// Events between two looks at the interrupt flag.
const LOOK: u64 = 1 << 16;

/// Which programs to observe, on the command line.
#[derive(Clone, Debug, clap::Args)]
pub struct SourceArgs {
    /// Embedded workloads, after commas [default: three, where nothing else is named]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    workload: Vec<String>,
    /// How many times as long the phases of embedded workloads are
    #[arg(long, value_name = "N", default_value_t = 1)]
    scale: u32,
    /// A trace, may be repeated; plain, .gz, .xz or .zst by its content; - is standard input
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Format of the traces [default: by each file's name, as in x.din or x.lackey.gz]
    #[arg(long, value_parser = trace_formats(), requires = "trace")]
    format: Option<TraceFormat>,
    /// A command, its words separated by spaces, may be repeated: several programs in one table
    #[arg(long, value_name = "COMMAND")]
    command: Vec<String>,
    /// The program to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl SourceArgs {
    /// The programs; those of `default` where none is named.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a command without words.
    fn list(&self, default: &[&str]) -> Result<Vec<Source>, Failure> {
        let mut sources: Vec<Source> =
            self.workload.iter().map(|name| Source::Workload(name.clone(), self.scale)).collect();
        sources.extend(self.trace.iter().map(|path| Source::Trace(path.clone(), self.format)));
        for command in &self.command {
            let words: Vec<OsString> = command.split_whitespace().map(OsString::from).collect();
            if words.is_empty() {
                return Err(Failure::usage("--command is empty: give a program with its arguments"));
            }
            sources.push(Source::Program(words));
        }
        if !self.program.is_empty() {
            sources.push(Source::Program(self.program.clone()));
        }
        if sources.is_empty() {
            sources = default.iter().map(|&name| Source::Workload(name.to_owned(), self.scale)).collect();
        }
        Ok(sources)
    }

    /// The same, each with the length of its windows: `window`, or the default for embedded workloads or for others.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a command without words.
    pub fn with_windows(
        &self,
        default: &[&str],
        window: Option<u64>,
        [embedded, other]: [u64; 2],
    ) -> Result<Vec<(Source, u64)>, Failure> {
        let with_window = |source: Source| {
            let default = if source.is_embedded() { embedded } else { other };
            (source, window.unwrap_or(default))
        };
        Ok(self.list(default)?.into_iter().map(with_window).collect())
    }

    /// The program after the options.
    pub fn program(&self) -> &[OsString] {
        &self.program
    }

    /// Whether the program after the options is all there is to observe.
    pub fn only_program(&self) -> bool {
        let alone = self.workload.is_empty() && self.trace.is_empty() && self.command.is_empty();
        alone && !self.program.is_empty()
    }
}

/// A program to observe.
#[derive(Clone, Debug)]
pub enum Source {
    /// An embedded workload, this many times as long.
    Workload(String, u32),
    /// A trace, in this format or the one its name ends in.
    Trace(PathBuf, Option<TraceFormat>),
    /// A command with its arguments.
    Program(Vec<OsString>),
}

/// What takes the events and counts windows.
pub trait Windows: Sink {
    /// Windows so far.
    fn windows(&self) -> usize;
}

/// How far programs are observed.
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
    /// Line size of traces that hold lines instead of addresses.
    pub line_size: LineSize,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// Whether it had enough windows or was interrupted before its end.
    pub stopped: bool,
    /// What the user should know of how it was observed.
    pub notes: Vec<String>,
}

impl Source {
    /// Name in tables.
    pub fn name(&self) -> String {
        match self {
            Self::Workload(name, _) => name.clone(),
            Self::Trace(path, _) => name_of(path),
            Self::Program(command) => command_name(command),
        }
    }

    /// Whether it is an embedded workload.
    pub const fn is_embedded(&self) -> bool {
        matches!(self, Self::Workload(..))
    }

    /// Hands every event to `sink`, until the end or a limit.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be run or read.
    pub fn observe(&self, sink: &mut impl Windows, limits: Limits<'_>) -> Result<RunEnd, Failure> {
        let name = self.name();
        match self {
            Self::Workload(workload, scale) => {
                let workload = embedded_workload(workload, limits.seed, *scale)?;
                let stopped = drive(&mut workload.events()?, &name, sink, limits)?;
                Ok(RunEnd { stopped, notes: Vec::new() })
            }
            Self::Trace(path, format) => {
                let format = format.map_or_else(|| format_of(path), Ok)?;
                let file = TraceFile::open(path, format)?;
                match file.stream.content(limits.line_size) {
                    Ok(TraceContent::Accesses(mut stream)) => {
                        let stopped = drive(&mut stream, &name, sink, limits)?;
                        Ok(RunEnd { stopped, notes: Vec::new() })
                    }
                    Ok(TraceContent::Samples(_)) => {
                        Err(Failure::Usage(format!("{name} holds samples: every access in order is needed")))
                    }
                    Err(error) => Err(Failure::Run(format!("{name}: {error}"))),
                }
            }
            Self::Program(command) => {
                let options = observing(Backend::Exact, Children::Ignore, Cpu::Host, limits.output_to_stderr);
                let mut trace = trace_program(command, Side::Data, &options)?;
                let stopped = drive(&mut trace, &name, sink, limits)?;
                Ok(RunEnd { stopped, notes: notes_on(&trace) })
            }
        }
    }
}

/// Hands events on until they end or there is enough of them; answers whether it was not their end.
fn drive(
    source: &mut impl EventSource,
    name: &str,
    sink: &mut impl Windows,
    limits: Limits<'_>,
) -> Result<bool, Failure> {
    let mut events = 0_u64;
    let stopped = source.drive(|event| {
        sink.event(event);
        events += 1;
        if events % LOOK != 0 {
            return ControlFlow::Continue(());
        }
        limits.watch.show_with(|| format!("{name}: {} windows", sink.windows()));
        if sink.windows() >= limits.windows || limits.watch.is_interrupted() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    // Ctrl-C reaches the program, too, which may then end in any way.
    match stopped {
        Err(_) if limits.watch.is_interrupted() => Ok(true),
        stopped => Ok(stopped.map_err(|error| Failure::Run(format!("{name}: {error}")))?.is_some()),
    }
}
