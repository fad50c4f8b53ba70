//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use cache_pirate::{Pace, PirateParams, Threads};
use clap::Parser;
use reuse_sampler::LineSize;
use reuse_sampler::trace::TraceFormat;

use crate::cli::values::{number, positive};
use crate::cli::{CommandLine, Common, Failure, parse_bytes, trace_formats};
use crate::machines::chip::{CacheSettings, ChipSettings, Policy, PrefetcherSettings};

/// Measures CPI, miss ratio, fetch ratio and bandwidth as a function of the cache a program has, in one run.
///
/// A co-runner, the pirate, walks lines of its own so eagerly that they stay in the shared cache; the program has the
/// rest. Points are trusted where the pirate held its lines. Without PROGRAM the simulated reference chip is used,
/// for an embedded workload or a trace; with it, or with --pid, this machine (Linux). Without hardware
/// counters, give --progress; otherwise PROGRAM runs once per size and its processor time is measured: standard
/// input should be a file, which each run reads; output is the first run's. Ctrl-C ends with what there is.
#[derive(Clone, Debug, Parser)]
#[command(name = "cache_pirate", version)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure this trace on the simulated chip; plain, .gz, .xz or .zst by its content; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["program", "pid", "workload"])]
    pub(super) trace: Option<PathBuf>,
    /// Format of the trace [default: by the file's name, as in x.din or x.lackey.gz]
    #[arg(long, value_parser = trace_formats(), requires = "trace")]
    pub(super) format: Option<TraceFormat>,
    /// Memory accesses per instruction of the trace
    #[arg(long, value_name = "M", default_value = "1", value_parser = positive, requires = "trace")]
    pub(super) mix: f64,
    /// Embedded workload to measure by default
    #[arg(long, value_name = "NAME", default_value = "key_value", conflicts_with_all = ["program", "pid"])]
    pub(super) workload: String,
    /// Sizes to measure at, in bytes left to the program, for example 256KiB,1MiB [default: sixteenths of the cache]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_bytes)]
    sizes: Vec<u64>,
    /// Instructions (or other units of work) in a measurement interval [default: simulated: whole passes of the
    /// program over at least four times the lines of the cache; native: 12 per byte of cache]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) interval: Option<f64>,
    /// Measurement cycles over all sizes [default: simulated: enough to see the whole program; native: until it ends]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) cycles: Option<u64>,
    /// Share of its time that the program may lose to the measurement: cycles are spaced so far apart [default:
    /// simulated: no limit; native: 0.05]
    #[arg(long, value_name = "SHARE", value_parser = positive)]
    overhead: Option<f64>,
    /// Mean work between two cycles, drawn at random, whatever that costs
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "overhead")]
    gap: Option<f64>,
    /// How the program's cache is limited: by a pirate; by the processor's cache allocation (cat: through resctrl, as
    /// root, whole ways only); or by allocation where there is any (auto)
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Mechanism::Pirate)]
    pub(super) mechanism: Mechanism,
    /// Threads of the pirate, or auto: as many as the program does not notice
    #[arg(long, value_name = "N", default_value = "auto", value_parser = threads)]
    pub(super) threads: Threads,
    /// Largest fetch ratio of the pirate at a trusted point
    #[arg(long, value_name = "R", default_value = "0.01", value_parser = ratio)]
    limit: f64,
    /// Size of the shared cache [default: simulated: 2MiB; native: what the kernel says]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) cache: Option<u64>,
    /// Do the paper's experiments on the simulated chip instead, scaled to a cache of --cache [128KiB]; several after
    /// commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME",
          conflicts_with_all = ["program", "pid", "trace", "workload", "sizes", "interval", "cycles", "overhead",
                                "gap", "threads", "limit", "mechanism", "policy", "prefetch", "bandwidth"])]
    pub(super) experiment: Vec<Experiment>,
    #[command(flatten)]
    chip: Chip,
    #[command(flatten)]
    pub(super) machine: Machine,
    /// The program to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM", conflicts_with = "pid")]
    pub(super) program: Vec<OsString>,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("an embedded workload on the simulated chip", ""),
        ("a recorded trace with 0.3 accesses an instruction", "--trace trace.din --mix 0.3 --json"),
        ("a program on this machine", "--out curves -- xz --keep --stdout file"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }

    fn program(&self) -> &[OsString] {
        &self.program
    }
}

/// The simulated chip.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Simulated chip")]
struct Chip {
    /// Replacement policy of the shared cache
    #[arg(long, value_enum, default_value_t = Replacement::Lru, conflicts_with_all = ["program", "pid"])]
    policy: Replacement,
    /// Give each core a stream prefetcher
    #[arg(long, conflicts_with_all = ["program", "pid"])]
    prefetch: bool,
    /// Bytes per cycle that memory delivers [default: without limit]
    #[arg(long, value_name = "B", value_parser = positive, conflicts_with_all = ["program", "pid"])]
    bandwidth: Option<f64>,
}

/// The machine at hand.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "This machine")]
pub(super) struct Machine {
    /// Measure this running process
    #[arg(long, value_name = "PID")]
    pub pid: Option<i32>,
    /// What the program's work is counted in: instructions, cpu-time, io (bytes read and written), or `file:PATH` (a
    /// counter of 8 bytes that the program keeps there) [default: instructions if they can be counted]
    #[arg(long, value_name = "WHAT", value_parser = work)]
    pub progress: Option<Work>,
    /// Processor for the program
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Processors for the pirate [default: other cores that share the last-level cache]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub pirate_cpus: Vec<usize>,
    /// Let the pirate take turns with the program on one processor, once every so many milliseconds (needs the
    /// right to run in real time): for machines on which no other core shares the cache
    #[arg(long, value_name = "MS", value_parser = positive)]
    pub time_sliced: Option<f64>,
    /// Suspend by the cgroup freezer below this folder instead of signals
    #[arg(long, value_name = "DIR")]
    pub freezer: Option<PathBuf>,
    /// Largest round trip of a line between two cores that share a cache, in nanoseconds; 0 leaves the probe out
    #[arg(long, value_name = "NS", default_value_t = 250.0)]
    pub shared_below: f64,
}

/// Share of a real program's time that may be lost by default: the paper's average is 0.055.
const NATIVE_OVERHEAD: f64 = 0.05;

/// What a native program's work is counted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Instructions,
    CpuTime,
    Io,
    File(PathBuf),
}

/// How the program's cache is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mechanism {
    /// A co-runner walks the rest
    Pirate,
    /// The processor keeps the program to its ways
    Cat,
    /// Cat where there is any
    Auto,
}

/// The Cache Pirating paper's experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Experiment {
    /// Figure 5: an array read at random and in order
    Patterns,
    /// Figures 7 and 8: curves of all kernels beside true caches
    Kernels,
    /// Figure 9: how much one and two threads can steal
    Threads,
    /// Table 2: what one run for all sizes costs, and what it gets wrong
    OneRun,
    /// Figures 3, 10 and 11: fetches, misses, CPI and bandwidth with and without prefetching
    Prefetch,
    /// Section III.6: the Stressmark of Xu et al.
    Stressmark,
    /// Curves of all kernels on chips with what processors after 2017 have: other inclusion, sets, pages and policies
    Machines,
    /// The same on chips that differ in several of these at once
    Combined,
    /// All of these
    All,
}

/// Replacement policies on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Replacement {
    /// Least recently used
    Lru,
    /// Accessed bits, as in Intel's Nehalem
    Nehalem,
    /// Random
    Random,
}

impl Args {
    /// Whether an experiment is asked for.
    pub(super) fn asks_for(&self, experiment: Experiment) -> bool {
        self.experiment.iter().any(|&asked| asked == experiment || asked == Experiment::All)
    }

    /// Whether a real program is to be measured.
    pub(super) fn is_native(&self) -> bool {
        !self.program.is_empty() || self.machine.pid.is_some()
    }

    /// The chip: the reference one, with a private cache in proportion where the shared one is small.
    pub(super) fn chip(&self) -> Result<ChipSettings, Failure> {
        let line_size = LineSize::B64;
        let bytes = self.cache.unwrap_or(2 << 20);
        let settings = || {
            let mut settings = ChipSettings::paper()?;
            let policy = match self.chip.policy {
                Replacement::Lru => Policy::Lru,
                Replacement::Nehalem => Policy::Nehalem,
                Replacement::Random => Policy::Random { seed: self.common.seed },
            };
            settings.shared = CacheSettings::lru(bytes, 16, line_size)?.with_policy(policy);
            let private = (bytes / 64).min(32 << 10) / 512 * 512;
            settings.l1 = CacheSettings::lru(private.max(512), 8, line_size)?;
            settings.prefetcher = self.chip.prefetch.then(PrefetcherSettings::default);
            settings.lines_per_cycle = self.chip.bandwidth.map(|bytes| bytes / f64::from(line_size.bytes()));
            Ok(settings)
        };
        settings().map_err(|error: crate::machines::chip::ChipError| Failure::usage(error))
    }

    /// The measurement, but for what depends on the target.
    pub(super) fn params(&self) -> PirateParams {
        PirateParams {
            sizes: (!self.sizes.is_empty()).then(|| self.sizes.clone()),
            interval: self.interval,
            threads: self.threads,
            fetch_ratio_limit: self.limit,
            pace: match (self.gap, self.overhead.or(self.is_native().then_some(NATIVE_OVERHEAD))) {
                (Some(mean_gap), _) => Pace::Sampling { mean_gap, seed: self.common.seed },
                (None, Some(overhead)) => Pace::Budget { overhead, seed: self.common.seed },
                (None, None) => Pace::Continuous,
            },
            cycles: self.cycles,
            ..PirateParams::default()
        }
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    number(text, |value| value > 0.0 && value <= 1.0, "give a number above 0 and up to 1")
}

fn threads(text: &str) -> Result<Threads, String> {
    match (text, text.parse::<usize>()) {
        ("auto", _) => Ok(Threads::Auto),
        (_, Ok(threads @ 1..=62)) => Ok(Threads::Fixed(threads)),
        _ => Err("give a number from 1 to 62, or auto".to_owned()),
    }
}

fn work(text: &str) -> Result<Work, String> {
    match text {
        "instructions" => Ok(Work::Instructions),
        "cpu-time" => Ok(Work::CpuTime),
        "io" => Ok(Work::Io),
        _ => match text.strip_prefix("file:") {
            Some(path) if !path.is_empty() => Ok(Work::File(path.into())),
            _ => Err("give instructions, cpu-time, io or file:PATH".to_owned()),
        },
    }
}
