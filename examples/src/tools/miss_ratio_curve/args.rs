//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use reuse_sampler::auto::AutoOptions;
use reuse_sampler::trace::{Side, TraceFormat};
use reuse_sampler::{CacheLines, Cpu, LineSize};

use super::prefetch::Prefetch;
use crate::cli::values::{line_size, sample_rate};
use crate::cli::{ByName, CommandLine, Common, Failure, cache_sizes, parse_bytes, trace_formats};
use crate::target::{Backend, ChildProcesses, SAMPLED_GAP, Scope, observing};
use crate::traces::format_of;

/// Draws the miss ratio of a cache over its size, for a recorded trace, a program or an embedded workload.
///
/// The models (statstack for LRU, statcache for random replacement) need only samples of reuse distances; the exact
/// ones simulate every access, of a program as it runs translated or under an emulator. Without --trace and PROGRAM an embedded
/// workload runs. Ctrl-C ends with the curve so far, marked as incomplete.
///
/// With --out DIR, profile.json has the samples that a data curve is modelled from, for the commands that predict from
/// profiles: each part of the run is a phase there, named A, B, ... in order of time.
#[derive(Clone, Debug, Parser)]
#[command(name = "miss_ratio_curve", version)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Read this trace; plain, .gz, .xz or .zst by its content; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["program", "workload"])]
    pub(super) trace: Option<PathBuf>,
    /// Format of the trace [default: by the file's name, as in x.din or x.lackey.gz]
    #[arg(long, value_parser = trace_formats(), requires = "trace")]
    format: Option<TraceFormat>,
    /// Unit of the sizes of a cache of objects: objects, or bytes with each object at its own size (--model
    /// exact-lru) [default: objects]
    #[arg(long, value_enum, requires = "trace")]
    unit: Option<Unit>,
    /// What computes the curve
    #[arg(long, value_enum, default_value_t = Model::Statstack)]
    pub(super) model: Model,
    /// Cache sizes, for example 32KiB,1MiB [default: powers of two from 64 lines to 512 Ki lines; with --unit bytes, from 1
    /// MiB to 8 GiB]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_bytes)]
    sizes: Vec<u64>,
    /// Parts of about equal length that the run is divided into: a model is fitted to each, and their miss ratios
    /// are averaged (1: one model for all) [default: 64, of which neighbours are merged whose samples do not show that they
    /// differ; where statcache follows the misses of one cache through the run, one for 50 samples, but 64 to 960]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    windows: Option<u64>,
    /// Share of the accesses that are sampled, above 0 and at most 1: 0.01 is one in 100, 1 is every access [default: 1;
    /// 0.01 with --hot-spots; 0.00001 where hardware counters observe PROGRAM]. The exact models always see every access
    #[arg(long, value_name = "R", value_parser = sample_rate)]
    sample_rate: Option<f64>,
    /// List the instructions that miss in a cache of this size, and what could be done about it without adding misses at any
    /// level of the hierarchy: prefetch, keep lines out of the cache, block or fuse loops
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    hot_spots: Option<u64>,
    /// With --hot-spots, the levels of the hierarchy that hints are judged at; its SIZE is one of them
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_bytes, requires = "hot_spots",
        default_value = "32KiB,1MiB,16MiB")]
    levels: Vec<u64>,
    /// The data cache, or the instruction cache of a program or of a trace that records fetches
    #[arg(long, value_enum, default_value_t = CacheSide::Data)]
    pub(super) side: CacheSide,
    /// Cache line size in bytes, a power of two [default: 64; traces of objects have lines of one object]
    #[arg(long, value_name = "BYTES", value_parser = line_size)]
    line_size: Option<LineSize>,
    /// Ways of each set, from 1 to 64 [default: fully associative]. Models take sets to be chosen at random, simulations
    /// take the lowest bits of the line's number. Where every access is read, some sets are simulated beside the model, and
    /// sizes at which they contradict it are named
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) ways: Option<u32>,
    /// Put a prefetcher in front of the cache and count the misses of the program's own accesses. What it fetches arrives at
    /// once. Needs every access in order, and --model statstack or exact-lru
    #[arg(long, value_enum, conflicts_with_all = ["ways", "hot_spots", "unit", "scope"])]
    pub(super) prefetch: Option<Prefetch>,
    /// Redraws of the samples for the 95 % intervals of modelled curves, 100 or more; 0 for no intervals
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) draws: usize,
    /// What observes PROGRAM. Exact models and the instruction side need every access (dbi, qemu)
    #[arg(long, value_enum, default_value = "exact", requires = "program")]
    pub(super) backend: Backend,
    /// A private cache for each thread, or one that all threads share [default: private for models, shared for exact ones].
    /// If private is given, misses caused by other threads' stores are counted too
    #[arg(long, value_enum)]
    scope: Option<Scope>,
    /// What to do with processes that PROGRAM starts. Exact models, --side instruction, --scope and --prefetch see the first
    /// process only with --backend qemu
    #[arg(long, value_enum, default_value = "follow", requires = "program")]
    pub(super) children: ChildProcesses,
    /// The processor that PROGRAM is shown: host, or x86-64, x86-64-v2, x86-64-v3 or x86-64-v4, with which libraries
    /// choose the same functions on every machine
    #[arg(long, value_name = "CPU", default_value = "host", requires = "program")]
    pub(super) cpu: Cpu,
    /// Embedded workload to run without a trace or a program
    #[arg(long, value_name = "NAME", default_value = "key_value", conflicts_with = "program")]
    pub(super) workload: String,
    /// The program to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    pub(super) program: Vec<OsString>,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("a recorded trace", "--trace ls.lackey --out curve"),
        ("which code of a program misses in 32 KiB", "--hot-spots 32KiB -- sort words.txt"),
        ("instruction cache of a program", "--side instruction --sizes 32KiB -- ls"),
        ("which misses threads cause each other", "--model exact-lru --scope private -- ./program"),
        ("what a next-line prefetcher leaves of the misses", "--prefetch next-line -- sort words.txt"),
        ("the cache that the threads of a program share", "--scope shared -- sort --parallel=4 words.txt"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }

    fn program(&self) -> &[OsString] {
        &self.program
    }
}

/// What the size of a cache of objects counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Unit {
    /// Objects, whatever their size
    Objects,
    /// Bytes
    Bytes,
}

/// The cache whose hot spots are asked for, and the levels that hints are judged at, the smallest first.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    pub size: CacheLines,
    pub levels: Vec<CacheLines>,
}

/// What is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CacheSide {
    /// Loads and stores
    Data,
    /// Instructions, each a fetch by itself
    Instruction,
}

impl From<CacheSide> for Side {
    fn from(side: CacheSide) -> Self {
        match side {
            CacheSide::Data => Self::Data,
            CacheSide::Instruction => Self::Instruction,
        }
    }
}

/// What computes the curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    /// LRU replacement, modelled from reuse distances
    Statstack,
    /// Random replacement, modelled from reuse distances
    Statcache,
    /// LRU replacement, simulated for all sizes at once
    ExactLru,
    /// Random replacement, simulated
    ExactRandom,
}

impl Model {
    /// What it is, for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Statstack => "LRU, StatStack",
            Self::Statcache => "random replacement, StatCache",
            Self::ExactLru => "LRU, exact",
            Self::ExactRandom => "random replacement, simulated",
        }
    }

    /// Whether it simulates every access.
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::ExactLru | Self::ExactRandom)
    }
}

impl Args {
    /// Parts that a model is fitted to each, if they were given.
    pub(super) fn windows(&self) -> Option<usize> {
        self.windows.map(|windows| windows as usize)
    }

    /// Share of the accesses that are sampled.
    pub fn sample_rate(&self) -> f64 {
        self.sample_rate.unwrap_or_else(|| match () {
            () if self.sampled() => 1.0 / SAMPLED_GAP,
            () if self.hot_spots.is_some() => 0.01,
            () => 1.0,
        })
    }

    /// How the program is observed, its windows and samples apart.
    pub(super) fn observing(&self) -> AutoOptions {
        observing(self.backend, self.children, self.cpu, self.common.claims_stdout())
    }

    /// Whether hardware counters observe the program.
    pub(super) fn sampled(&self) -> bool {
        !self.program.is_empty() && self.backend.samples(self.cpu)
    }

    /// Whose cache the curve is of.
    pub(super) fn scope(&self) -> Result<Scope, Failure> {
        match (self.scope, self.model) {
            (Some(Scope::Private), Model::ExactRandom) => Err(Failure::usage(
                "exact-random simulates one cache for all threads: give --scope shared, or --model exact-lru for private caches",
            )),
            (Some(Scope::Private), Model::ExactLru) if self.ways.is_some() => Err(Failure::usage(
                "private caches are simulated fully associative: leave out --ways, or give --scope shared",
            )),
            (Some(scope), _) => Ok(scope),
            (None, model) if model.is_exact() => Ok(Scope::Shared),
            (None, _) => Ok(Scope::Private),
        }
    }

    /// Whether every access, or every instruction, of a program has to be handed out.
    pub(super) fn is_traced(&self) -> bool {
        let side = self.side == CacheSide::Instruction;
        let scope = self.scope == Some(Scope::Shared) || self.includes_coherence();
        self.model.is_exact() || side || scope || self.prefetch.is_some()
    }

    /// Whether private caches are followed together, with the misses that threads cause each other: if asked for, and all
    /// accesses are seen in order. Other backends sample each thread by itself.
    pub(super) fn includes_coherence(&self) -> bool {
        self.scope == Some(Scope::Private) && (self.program.is_empty() || self.backend.traces("").is_ok())
    }

    /// Refuses what needs every access or every fetch, which counters do not see.
    pub(super) fn refuse_counters(&self) -> Result<(), Failure> {
        if self.prefetch.is_some() && !matches!(self.model, Model::Statstack | Model::ExactLru) {
            let problem =
                format!("--prefetch is not modelled with random replacement ({})", self.model.name());
            return Err(Failure::Usage(format!("{problem}: give --model statstack or exact-lru")));
        }
        let model = self.model.name();
        let what = match () {
            () if self.model.is_exact() => &model,
            () if self.side == CacheSide::Instruction => "--side instruction",
            () if self.scope == Some(Scope::Shared) => "--scope shared",
            () if self.prefetch.is_some() => "--prefetch",
            () => return Ok(()),
        };
        self.backend.traces(what)
    }

    /// The cache whose hot spots are asked for.
    pub(super) fn hot_spots(&self, line_size: LineSize) -> Result<Option<Hierarchy>, Failure> {
        let Some(bytes) = self.hot_spots else { return Ok(None) };
        if self.model.is_exact() {
            let problem = format!("{} does not distinguish instructions", self.model.name());
            return Err(Failure::Usage(format!(
                "--hot-spots: {problem}: give --model statstack or statcache"
            )));
        }
        let size = CacheLines::from_bytes(bytes, line_size);
        let levels = [&[bytes], &self.levels[..]].concat();
        Ok(Some(Hierarchy { size, levels: cache_sizes(&levels, line_size)? }))
    }

    /// The format of the trace, where there is one.
    pub(super) fn trace_format(&self) -> Result<Option<TraceFormat>, Failure> {
        let Some(path) = &self.trace else { return Ok(None) };
        self.format.map_or_else(|| format_of(path), Ok).map(Some)
    }

    /// What sizes count, where the trace names objects.
    pub(super) fn unit(&self, format: Option<TraceFormat>) -> Result<Option<Unit>, Failure> {
        let objects = format.is_some_and(TraceFormat::names_objects);
        let needs = match self.unit {
            Some(_) if !objects => "needs a trace of objects (--format oracle-general)",
            Some(Unit::Bytes) if self.model != Model::ExactLru => "needs --model exact-lru",
            Some(Unit::Bytes) if self.ways.is_some() => "is for fully associative caches: leave out --ways",
            given => return Ok(objects.then(|| given.unwrap_or(Unit::Objects))),
        };
        Err(Failure::Usage(format!(
            "--unit {} {needs}",
            self.unit.map(|unit| unit.name()).unwrap_or_default()
        )))
    }

    /// The line size at which a trace in `format`, or whatever else runs, is observed.
    pub(super) fn line_size(&self, format: Option<TraceFormat>) -> Result<LineSize, Failure> {
        let objects = format.filter(|format| format.names_objects());
        match (objects, self.line_size) {
            (None, given) => Ok(given.unwrap_or_default()),
            (Some(_), None) => LineSize::new(1).map_err(Failure::usage),
            (Some(format), Some(_)) => Err(Failure::Usage(format!(
                "{format} traces name objects, not bytes of memory: leave out --line-size (a size is a number of objects)"
            ))),
        }
    }

    /// The cache sizes in lines, ascending.
    pub(super) fn cache_sizes(&self, line_size: LineSize) -> Result<Vec<CacheLines>, Failure> {
        if self.sizes.is_empty() {
            let octaves = if self.unit == Some(Unit::Bytes) { 20..=33 } else { 6..=19 };
            return Ok(octaves.map(|octave| CacheLines(1 << octave)).collect());
        }
        cache_sizes(&self.sizes, line_size)
    }
}
