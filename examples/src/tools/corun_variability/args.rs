//! The command line.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Parser;

use cachesharing::Method;
use reuse_sampler::Cpu;

use super::ground::Ground;
use super::solo::Curves;
use super::ways::PolicyName;
use crate::cli::values::{number, sample_rate};
use crate::cli::{ChipArgs, CommandLine, Common, Failure, Replacement, TraceArgs, parse_bytes};
use crate::target::{Backend, ChildProcesses};

/// Predicts how much slower a program runs beside others that share its cache, and how much that varies from run to
/// run.
///
/// The first program is the target, the others interfere and start over when they end. Programs are profiles (written by
/// `record`, curve.json of cache_pirate, profile.json of phase_guided_cache, or any cache-curve file), traces played on
/// the simulated chip, or embedded programs (names after --; the word embedded, or nothing at all, means two of
/// them). Traces and embedded programs are also run together on the chip from the same offsets, and the distribution
/// found there is printed beside the predicted one. Simultaneous multithreading, translation of addresses and several
/// memory nodes are not modelled.
#[derive(Clone, Debug, Parser)]
#[command(name = "corun_variability", version, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub(super) task: Option<Task>,
    #[command(flatten)]
    pub(super) predict: PredictArgs,
}

/// What is done, where it is named.
#[derive(Clone, Debug, clap::Subcommand)]
pub(super) enum Task {
    Record(Box<RecordArgs>),
    Predict(Box<PredictArgs>),
}

/// Predicts how much slower a program runs beside others, as without the word predict.
#[derive(Clone, Debug, clap::Args)]
pub struct PredictArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Profiles: cache-curve or phase-profile files, the target first
    #[arg(value_name = "PROFILE", conflicts_with = "files")]
    pub(super) profiles: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) traces: TraceArgs,
    /// Random start offsets: runs that the distribution is made of
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) offsets: u32,
    /// How time is cut
    #[arg(long, value_enum, default_value_t = MethodName::Phase)]
    pub(super) method: MethodName,
    /// How the cache is shared [default: age, or random where --policy is]
    #[arg(long, value_enum)]
    pub(super) sharing: Option<Model>,
    /// Slowdowns in per cent; the probability of exceeding each is printed
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "5,10,20", value_parser = percents)]
    pub(super) exceeding: Vec<f64>,
    /// Confidence of intervals and of how many offsets are needed
    #[arg(long, value_name = "P", default_value = "0.95", value_parser = confidence)]
    pub(super) confidence: f64,
    /// Threads to work on; the result does not depend on it [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    pub(super) threads: Option<NonZeroUsize>,
    /// Predict every program beside every other, too, and who should run beside whom
    #[arg(long, conflicts_with = "evaluate")]
    pub(super) schedule: bool,
    /// Divide the ways of the shared cache among all programs, too: masks, and the slowdowns they lead to
    #[arg(long, value_enum, value_name = "POLICY", conflicts_with_all = ["evaluate", "experiment"])]
    pub(super) partition: Option<PolicyName>,
    /// Tell how long predicting and simulating took in the JSON object too: without, equal seeds give equal output
    #[arg(long)]
    pub(super) timings: bool,
    /// Predict and simulate six embedded programs beside four of them, as the paper's table IV.1 does
    #[arg(long, conflicts_with_all = ["files", "profiles", "embedded"])]
    pub(super) evaluate: bool,
    /// Run this experiment on embedded programs instead
    #[arg(long, value_enum, conflicts_with_all = ["files", "profiles", "embedded", "evaluate", "schedule"])]
    pub(super) experiment: Option<Experiment>,
    #[command(flatten)]
    pub(super) files: FileArgs,
    #[command(flatten)]
    pub(super) measured: MeasureArgs,
    /// Offsets that are simulated, too, of traces and embedded programs: the first so many [default: all]
    #[arg(long, value_name = "N", help_heading = "Traces and embedded programs")]
    pub(super) simulate: Option<u32>,
    #[command(flatten)]
    pub(super) chip: ChipArgs,
    /// Embedded programs, the target first [default: paths and solver, on an eighth of the chip so that it takes seconds]
    #[arg(last = true, value_name = "NAME", conflicts_with_all = ["files", "profiles"])]
    pub(super) embedded: Vec<String>,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("record a program, then predict it beside another", "record -o a.json -- sort words.txt"),
        (
            "the same from sparse samples, in a fraction of the time",
            "record --sampled -o a.json -- sort words.txt",
        ),
        ("how much slower it runs beside the other", "predict a.json b.json --out report"),
        (
            "who should run beside whom, from recorded profiles",
            "predict --schedule a.json b.json c.json d.json",
        ),
        ("how much slower a program runs beside another", "--out report a/profile.json b/curve.json"),
        ("which of four programs should share a socket", "--schedule a.json b.json c.json d.json"),
        ("the paper's table IV.1, on embedded programs", "--evaluate --llc-size 256KiB --l1-size 4KiB"),
        ("out-of-order cores that prefetch", "--core ooo --prefetch -- paths solver"),
    ];

    fn common(&self) -> &Common {
        match &self.task {
            None => &self.predict.common,
            Some(Task::Predict(args)) => &args.common,
            Some(Task::Record(args)) => &args.common,
        }
    }

    fn program(&self) -> &[OsString] {
        match &self.task {
            Some(Task::Record(args)) => &args.program,
            _ => &[],
        }
    }

    fn is_quiet(&self) -> bool {
        match &self.task {
            Some(Task::Record(args)) => args.quiet,
            _ => self.common().quiet,
        }
    }

    fn streams(&self) -> bool {
        // What is recorded goes into -o, what is said of it elsewhere.
        matches!(self.task, Some(Task::Record(_)))
    }
}

impl PredictArgs {
    /// How the cache is shared.
    pub(super) fn model(&self) -> Model {
        self.sharing.unwrap_or_else(|| Model::of(self.chip.policy()))
    }

    /// Whether it is left to the command what to predict.
    pub(super) fn names_nothing(&self) -> bool {
        let named = !self.profiles.is_empty() || !self.traces.is_empty() || !self.embedded.is_empty();
        !named && !self.evaluate && self.experiment.is_none()
    }
}

/// What concerns profiles.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Profiles")]
pub(super) struct FileArgs {
    /// Size of the cache that profiled programs share [default: what cache-curve files say, else --llc-size]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub cache: Option<u64>,
    /// Use points that the measurement does not vouch for, too
    #[arg(long)]
    pub untrusted: bool,
    /// Hold curves at their largest size where the cache is larger, instead of refusing them
    #[arg(long)]
    pub extrapolate: bool,
}

/// How programs are measured alone.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Traces and embedded programs")]
pub(super) struct MeasureArgs {
    /// Accesses in a window [default: a 500th of the longest program]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub window: Option<u64>,
    /// Mean relative difference of the CPI over all sizes up to which windows belong to one phase
    #[arg(long, value_name = "T", default_value = "0.05", value_parser = threshold)]
    pub phase_threshold: f64,
    /// How the programs' curves are measured
    #[arg(long, value_enum, default_value_t = Curves::Ways)]
    pub curves: Curves,
    /// Sizes at which curves are measured, at most; there are as many as ways
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub curve_sizes: u64,
    /// Predict from curves alone: do not count when programs reuse their lines (counted for --curves ways)
    #[arg(long)]
    pub no_reuse_times: bool,
    /// Estimate reuse times from reuse distances where curves are modelled: with --curves statstack, with --sampled, of
    /// profile.json. Predictions by phase become worse by it (4.0 % off instead of 2.2 % on embedded programs), those of
    /// programs taken as one phase better (5.9 % instead of 14 %)
    #[arg(long)]
    pub estimate_reuse_times: bool,
}

impl MeasureArgs {
    /// Measured on `chip`, with caches of a part of their size where none is given.
    pub fn ground(&self, chip: &ChipArgs, divisor: u64, seed: u64) -> Result<Ground, Failure> {
        let settings = chip.scaled_down(divisor, seed)?;
        if let (Curves::Statstack, Some(flag)) = (self.curves, chip.beyond_in_order()) {
            return Err(Failure::Usage(format!(
                "--curves statstack with {flag}: what it makes of reuse holds for in-order cores without; give --curves \
                 ways or --curves pirate"
            )));
        }
        // A cache stolen from, or a model, shows no reuse times.
        let reuse_times = self.curves == Curves::Ways && !self.no_reuse_times;
        let estimated = self.estimate_reuse_times && chip.policy() == Replacement::Lru;
        let (threshold, sizes) = (self.phase_threshold, self.curve_sizes);
        Ok(Ground { settings, timing: chip.timing(), window: 1, threshold, sizes, reuse_times, estimated })
    }
}

/// Measures a program alone, and writes what is needed to predict it beside others into a phase profile.
///
/// Every access of PROGRAM is observed (in about a hundred times its own time), or with --sampled a sparse sample of them
/// (about ten times). Traces and embedded programs are played. All are measured on the simulated chip: curves by window
/// and phase, reuse times, and the chip itself go into the profile, in sections of their own. Curves that cache_pirate
/// measured with hardware counters are taken as they are. Several runs, and profiles recorded before, become one: their
/// sequence.
#[derive(Clone, Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools)] // one for each flag
pub(super) struct RecordArgs {
    #[arg(skip)]
    pub common: Common,
    /// Write the profile into this file
    #[arg(short = 'o', value_name = "FILE")]
    pub output: PathBuf,
    /// Print what was recorded as one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Print no progress and no remarks on standard error, only errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Keep curves by phase only: files of a twentieth of the size, from which the phase methods predict the same, with wider
    /// ranges, and the window methods as if every window did what its phase does
    #[arg(long)]
    pub phases_only: bool,
    /// Name of the program [default: what is run]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Begin with this profile, which may be the one that is written: its runs come first
    #[arg(long = "merge", value_name = "PROFILE")]
    pub merged: Vec<PathBuf>,
    #[command(flatten)]
    pub traces: TraceArgs,
    /// An embedded program: store, solver, paths, mixed, sorter or joiner
    #[arg(long, value_name = "NAME", conflicts_with_all = ["files", "program"])]
    pub embedded: Option<String>,
    /// Curves of cache_pirate (curve.json), measured with hardware counters or not
    #[arg(long, value_name = "CURVES", conflicts_with_all = ["files", "program", "embedded"])]
    pub measured_curves: Option<PathBuf>,
    /// Instructions in a window of PROGRAM
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub instructions: u64,
    /// Take sparse samples of PROGRAM and model its curves and reuse times, at a fraction of the time
    #[arg(long, requires = "program")]
    pub sampled: bool,
    /// Share of the accesses of a profiled window that are followed with --sampled [default: 0.01; 0.00001 under hardware
    /// counters]
    #[arg(long, value_name = "R", value_parser = sample_rate, requires = "sampled")]
    pub sample_rate: Option<f64>,
    /// What observes PROGRAM
    #[arg(long, value_enum, default_value = "auto", requires = "program")]
    pub backend: Backend,
    /// What to do with processes that PROGRAM starts. With --backend qemu, only --sampled sees them
    #[arg(long, value_enum, default_value = "follow", requires = "program")]
    pub children: ChildProcesses,
    /// The processor that PROGRAM is shown: host, or x86-64, x86-64-v2, x86-64-v3 or x86-64-v4, with which libraries
    /// choose the same functions on every machine
    #[arg(long, value_name = "CPU", default_value = "host", requires = "program")]
    pub cpu: Cpu,
    #[command(flatten)]
    pub measured: MeasureArgs,
    #[command(flatten)]
    pub chip: ChipArgs,
    /// Threads to work on; the result does not depend on it [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Seed of every random choice: the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// The program to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM", conflicts_with = "files")]
    pub program: Vec<OsString>,
}

/// How time is cut: the names of the methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MethodName {
    /// Every window for itself
    Window,
    /// Adjacent windows of one phase as one
    Dynamic,
    /// Every window as its phase, each set of phases solved once
    Phase,
    /// Every program as its average, as if it had no phases
    Oblivious,
}

impl MethodName {
    /// All of them, in the order of the paper's tables.
    pub(super) const ALL: [Self; 4] = [Self::Window, Self::Dynamic, Self::Phase, Self::Oblivious];

    /// The method.
    pub(super) const fn method(self) -> Method {
        match self {
            Self::Window => Method::Window,
            Self::Dynamic => Method::DynamicWindow,
            Self::Phase => Method::Phase,
            Self::Oblivious => Method::Oblivious,
        }
    }
}

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// Single windows: programs that do the same throughout, in pairs and groups of four, in the shared cache, a quarter
    /// and a sixteenth of it
    Windows,
    /// Streams drawn at random by --seed, in groups of two to eight: whether ranges hold what happens after each start,
    /// and how far predictions without a flag are off, of cachesharing and of StatCC
    Cliffs,
}

/// How the cache is shared: the names of the models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    /// LRU: one eviction age for all, what programs hold followed from window to window
    Age,
    /// LRU: one eviction age for all, settled as soon as a window begins
    Settled,
    /// LRU: sticky and volatile parts
    Lru,
    /// Random replacement
    Random,
}

impl Model {
    /// The nearest to a replacement policy.
    pub(super) const fn of(policy: Replacement) -> Self {
        match policy {
            Replacement::Random => Self::Random,
            _ => Self::Age,
        }
    }
}

fn percents(text: &str) -> Result<f64, String> {
    number(text, |value| value > -100.0, "give a number of per cent, for example 10")
}

fn confidence(text: &str) -> Result<f64, String> {
    number(text, |value| value > 0.0 && value < 1.0, "give a number between 0 and 1, for example 0.95")
}

fn threshold(text: &str) -> Result<f64, String> {
    number(text, |value| (0.0..=2.0).contains(&value), "give a number from 0 to 2, for example 0.05 for 5 %")
}
