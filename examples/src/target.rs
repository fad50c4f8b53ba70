//! What a pipeline runs: an embedded workload, or a program of the user's.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitStatus;

use reuse_sampler::auto::{self, AutoOptions, AutoSampler, Choice};
use reuse_sampler::perf;
use reuse_sampler::qemu::TargetExit;
use reuse_sampler::replay::{ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::trace::Side;
use reuse_sampler::{Children, Clock, CodeLocation, Cpu, ProcessRecord, Sampler, SamplerError, file};

use crate::cli::{Failure, INTERRUPTED};
use crate::machines::host::processor_as;
use crate::report::ProcessRow;
use crate::traces::{Merged, Traced};
use crate::workloads::{self, EventStream, Workload};

/// Length of a window in instructions where the user does not say: embedded workloads are short.
pub const EMBEDDED_WINDOW: u64 = 500_000;
/// Length of a window in instructions where the user does not say, for programs.
pub const PROGRAM_WINDOW: u64 = 10_000_000;
/// Mean gap between followed accesses under hardware counters, where each stops the program.
pub const SAMPLED_GAP: f64 = 100_000.0;

/// How a stream of events is observed as `options` say.
fn replay(options: &AutoOptions) -> ReplayOptions {
    ReplayOptions::windows_of(WindowLength::Instructions(options.window))
        .line_size(options.line_size)
        .seed(options.seed)
        .strides(options.strides)
}

/// What becomes of processes that a program starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ChildProcesses {
    /// They are observed like the program itself, each with windows of its own, and awaited
    #[default]
    Follow,
    /// They run unobserved
    Ignore,
}

impl From<ChildProcesses> for Children {
    fn from(children: ChildProcesses) -> Self {
        match children {
            ChildProcesses::Follow => Self::Follow,
            ChildProcesses::Ignore => Self::Ignore,
        }
    }
}

/// What observes a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// Hardware counters where instructions and accesses can be counted, else as exact
    #[default]
    Auto,
    /// Every block and access: translation, or the emulator where that cannot be
    Exact,
    /// The emulator qemu-user: exact, several times slower than the program alone
    Qemu,
    /// Translated on its own processor (x86-64 Linux): exact, nothing to install
    Dbi,
    /// Hardware counters, at nearly the program's own speed: sparse samples of code and reuse
    Perf,
}

impl Backend {
    /// Whether it sees code and reuse of a program that is shown `cpu` in sparse samples here, not block by block and access by
    /// access.
    pub fn samples(self, cpu: Cpu) -> bool {
        match self {
            Self::Auto => cpu == Cpu::Host && perf::probe().has_counters(),
            Self::Exact | Self::Qemu | Self::Dbi => false,
            Self::Perf => true,
        }
    }

    /// Refuses what needs every access of the program, which counters do not see.
    ///
    /// # Errors
    /// [`Failure::Usage`], naming `what`.
    pub fn traces(self, what: &str) -> Result<(), Failure> {
        if self == Self::Perf {
            return Err(Failure::Usage(format!(
                "{what} needs every access of the program: give --backend dbi or --backend qemu"
            )));
        }
        Ok(())
    }
}

impl From<Backend> for Choice {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Auto => Self::Best,
            Backend::Exact => Self::Exact,
            Backend::Qemu => Self::Qemu,
            Backend::Dbi => Self::Dbi,
            Backend::Perf => Self::Counters,
        }
    }
}

/// Settings to observe a program with, its windows and samples apart.
pub fn observing(
    backend: Backend,
    children: impl Into<Children>,
    cpu: Cpu,
    output_to_stderr: bool,
) -> AutoOptions {
    let mut options = AutoOptions::default();
    options.backend = backend.into();
    options.children = children.into();
    options.cpu = cpu;
    options.output_to_stderr = output_to_stderr;
    options
}

/// Whose cache a curve is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Scope {
    /// One for each thread
    #[default]
    Private,
    /// One for all threads of the program, whose accesses are interleaved as they were observed
    Shared,
}

impl Scope {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        self.in_files().name()
    }

    /// The same in a profile.
    pub const fn in_files(self) -> file::Scope {
        match self {
            Self::Private => file::Scope::Private,
            Self::Shared => file::Scope::Shared,
        }
    }
}

/// A location as text, and whether that is a name: more than file and offset.
pub fn named(location: &CodeLocation) -> (String, bool) {
    (location.to_string(), location.symbol.is_some() || location.line.is_some())
}

/// A target under observation.
pub struct Target {
    name: String,
    cpu: Cpu,
    kind: Kind,
}

enum Kind {
    Embedded(Box<ReplaySampler<EventStream>>),
    Program(Box<AutoSampler>),
    /// Every access of a program, its threads as one.
    Shared(Box<ReplaySampler<Merged<Traced>>>, Traced),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How the target ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has not ended, or cannot say.
    Unknown,
    /// It exited with this status.
    Exited(i32),
    /// It was killed by a signal.
    Signalled(Signal),
}

impl From<Option<TargetExit>> for Outcome {
    fn from(exit: Option<TargetExit>) -> Self {
        match exit {
            None => Self::Unknown,
            Some(TargetExit::Code(code)) => Self::Exited(code),
            Some(TargetExit::Signal(signal)) => Self::Signalled(Signal(signal)),
        }
    }
}

impl From<ExitStatus> for Outcome {
    fn from(status: ExitStatus) -> Self {
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
            return Self::Signalled(Signal(signal));
        }
        status.code().map_or(Self::Unknown, Self::Exited)
    }
}

impl Outcome {
    /// Why there is no result, which `problem` says: with the program's own status if that is not 0.
    pub fn without_result(&self, problem: &str) -> Failure {
        match self {
            Self::Signalled(signal) => Failure::Program(
                signal.shell_status(),
                format!("the program was killed by {signal}: {problem}"),
            ),
            Self::Exited(code) if code & 0xff != 0 => Failure::Program(
                (code & 0xff) as u8,
                format!("the program exited with status {code}: {problem}"),
            ),
            _ => Failure::run(problem),
        }
    }

    /// The exit status of what observed the target until then, which is the program's own where there is one, and what
    /// made the run incomplete.
    pub fn verdict(&self, interrupted: bool) -> (u8, Option<String>) {
        match self {
            Self::Signalled(signal) => {
                (signal.shell_status(), Some(format!("the program was killed by {signal}")))
            }
            _ if interrupted => (INTERRUPTED, Some("interrupted".to_owned())),
            Self::Exited(code) => (u8::try_from(code & 0xff).unwrap_or(1), None),
            Self::Unknown => (0, None),
        }
    }
}

/// Whether a program that ended so, the first of `processes`, was killed or ran on unobserved.
pub fn ended_early(outcome: &Outcome, processes: &[ProcessRecord]) -> bool {
    matches!(outcome, Outcome::Signalled(_))
        || processes.first().is_some_and(|program| program.unobserved.is_some())
}

/// A command as a person would write it.
pub fn command_name(command: &[OsString]) -> String {
    let line = command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    line.replace(char::is_control, " ")
}

/// A signal by number and, where it has one, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal(pub i32);

impl Signal {
    /// The exit status a shell gives to a command killed by this signal.
    pub fn shell_status(&self) -> u8 {
        u8::try_from(128 + self.0).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match signal_hook::low_level::signal_name(self.0) {
            Some(name) => write!(f, "{name} (signal {})", self.0),
            None => write!(f, "signal {}", self.0),
        }
    }
}

/// The embedded workload of a name.
///
/// # Errors
/// [`Failure::Usage`] with the names there are.
pub fn embedded_workload(name: &str, seed: u64, scale: u32) -> Result<Workload, Failure> {
    let names = || workloads::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let unknown = || Failure::Usage(format!("no embedded workload {name:?}; there are {}", names()));
    Workload::by_name(name, seed, scale).ok_or_else(unknown)
}

/// The program of a command, and its arguments.
///
/// # Errors
/// [`Failure::Usage`] for a command without words.
pub fn words<T>(command: &[T]) -> Result<(&T, &[T]), Failure> {
    command.split_first().ok_or_else(|| Failure::usage("no program to run"))
}

impl Target {
    /// An embedded workload by name, `scale` times as long.
    ///
    /// # Errors
    /// [`Failure`] if there is none of that name, or no thread for it.
    pub fn embedded(name: &str, scale: u32, options: &AutoOptions) -> Result<Self, Failure> {
        Self::workload(name, &embedded_workload(name, options.seed, scale)?, options)
    }

    /// An embedded workload, called `name`.
    ///
    /// # Errors
    /// [`Failure`] if there is no thread for it.
    pub fn workload(name: &str, workload: &Workload, options: &AutoOptions) -> Result<Self, Failure> {
        let events = workload.events()?;
        let sampler = ReplaySampler::new(events, replay(options)).map_err(SamplerError::from)?;
        Ok(Self {
            name: format!("{name} (embedded)"),
            cpu: Cpu::Host,
            kind: Kind::Embedded(Box::new(sampler)),
        })
    }

    /// A program with its arguments, observed as the options say.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be run, or the machine has nothing to observe it with.
    pub fn program(command: &[OsString], options: &AutoOptions) -> Result<Self, Failure> {
        let (program, arguments) = words(command)?;
        let sampler = auto::spawn(program, arguments, options)?;
        let name = command_name(command);
        Ok(Self { name, cpu: options.cpu, kind: Kind::Program(Box::new(sampler)) })
    }

    /// A program with its arguments whose threads share one cache: every access is handed out, and windows, distances and
    /// samples are those of all its processes together.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be run, or what was asked for to observe it does not hand out every access.
    pub fn shared(command: &[OsString], backend: Backend, options: &AutoOptions) -> Result<Self, Failure> {
        backend.traces("--scope shared")?;
        let traced = Traced::spawn(command, Side::Data, options)?;
        let sampler = ReplaySampler::new(Merged(traced.clone()), replay(options))?;
        let kind = Kind::Shared(Box::new(sampler), traced);
        Ok(Self { name: command_name(command), cpu: options.cpu, kind })
    }

    /// The same if its distances are in accesses, as cache models want them.
    ///
    /// # Errors
    /// [`Failure`] where they are in something else.
    pub fn in_accesses(self) -> Result<Self, Failure> {
        match self.distances() {
            Clock::Accesses => Ok(self),
            clock => Err(Failure::Run(format!(
                "perf: memory accesses cannot be counted here, only {clock}, and cache models want distances in \
                 accesses: give --backend qemu (the example what_can_i_measure shows what is missing)"
            ))),
        }
    }

    /// What runs, as a person would write it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The processor that it runs on; an embedded workload has none.
    pub fn machine(&self) -> Option<String> {
        let is_program = !matches!(self.kind, Kind::Embedded(_));
        is_program.then(|| processor_as(self.cpu))
    }

    /// What the distances of its samples are counted in.
    pub fn distances(&self) -> Clock {
        match &self.kind {
            Kind::Embedded(_) | Kind::Shared(..) => Clock::Accesses,
            Kind::Program(sampler) => sampler.distances(),
        }
    }

    /// The sampler that observes it.
    pub fn sampler(&mut self) -> &mut dyn Sampler {
        match &mut self.kind {
            Kind::Embedded(sampler) => sampler.as_mut(),
            Kind::Program(sampler) => sampler.as_mut(),
            Kind::Shared(sampler, _) => sampler.as_mut(),
        }
    }

    /// The code at an address: a symbol, a source line, or file and offset.
    pub fn locate(&mut self, address: u64) -> Option<String> {
        self.place(address).map(|(code, _)| code)
    }

    /// The same, and whether it has a name: more than file and offset.
    pub fn place(&mut self, address: u64) -> Option<(String, bool)> {
        match &mut self.kind {
            Kind::Embedded(_) => Some((workloads::locate(address)?, true)),
            Kind::Program(sampler) => sampler.locate(address).map(|location| named(&location)),
            Kind::Shared(_, traced) => traced.place(address),
        }
    }

    /// How it ended, once the sampler has returned its last window.
    pub fn outcome(&self) -> Outcome {
        match &self.kind {
            Kind::Embedded(_) => Outcome::Exited(0),
            Kind::Program(sampler) => sampler.exit_status().into(),
            Kind::Shared(_, traced) => traced.outcome(),
        }
    }

    /// Whether it was killed, or ran on unobserved: what was observed is not all of it.
    pub fn ended_early(&self) -> bool {
        match &self.kind {
            Kind::Embedded(_) => false,
            Kind::Program(sampler) => ended_early(&self.outcome(), &sampler.processes()),
            Kind::Shared(_, traced) => traced.ended_early(),
        }
    }

    /// What the user should know about this run.
    pub fn notes(&self) -> Vec<String> {
        match &self.kind {
            Kind::Embedded(_) => Vec::new(),
            Kind::Program(sampler) => sampler.warnings().to_vec(),
            Kind::Shared(_, traced) => traced.notes(),
        }
    }

    /// The processes of a program, where what observes it follows them.
    pub fn processes(&self) -> Vec<ProcessRow> {
        match &self.kind {
            Kind::Embedded(_) => Vec::new(),
            Kind::Shared(_, traced) => traced.processes(),
            Kind::Program(sampler) => sampler.processes().into_iter().map(ProcessRow::from).collect(),
        }
    }

    /// Operands in `accesses` accesses of the target, where operands are counted: what cachegrind calls data references.
    pub fn operands(&self, accesses: u64) -> Option<u64> {
        match &self.kind {
            Kind::Embedded(_) => None,
            Kind::Program(sampler) => {
                sampler.operands_per_access().map(|ratio| (accesses as f64 * ratio).round() as u64)
            }
            Kind::Shared(_, traced) => traced.operands(),
        }
    }
}
