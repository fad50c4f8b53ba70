//! The command line.

use std::ffi::OsString;

use clap::Parser;
use phase_detect::GuideConfig;
use phase_detect::cluster::{DEFAULT_THRESHOLD, SAMPLED_THRESHOLD};
use reuse_sampler::{CacheLines, Cpu, LineSize, ReusePlan, SampleGap};

use super::default_sizes;
use crate::cli::values::{number, sample_rate};
use crate::cli::{CommandLine, Common, Failure, cache_sizes, parse_bytes};
use crate::guided::Replacement;
use crate::machines::host::DataCaches;
use crate::target::{
    Backend, ChildProcesses, EMBEDDED_WINDOW, PROGRAM_WINDOW, SAMPLED_GAP, Scope, Target, observing,
};

/// Windows of a program below this many instructions are followed whole: they are over before sampling pays.
const LONG_WINDOW: u64 = 5_000_000;
/// Followed accesses per long window, times instructions per access (between 2 and 3 in most programs): the
/// standard error of a miss ratio of 5 % is 0.2 points in one window, less where a phase has several, and following them costs less than reporting all accesses.
const FOLLOWED: f64 = 25_000.0;

/// Shows what phases a program has, and its cache miss ratio at every moment and every cache size.
///
/// Runs PROGRAM unmodified (translated on its own processor if there are no counters), detects its phases while it runs,
/// and profiles only windows whose phase is not yet known well. Without PROGRAM an embedded workload runs. The exit status is
/// the program's own. With --json the program's output goes to standard error.
#[derive(Clone, Debug, Parser)]
#[command(name = "phase_guided_cache", version)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Instructions in a window [default: 10000000 for programs, 500000 for embedded workloads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Share of the accesses of a profiled window that are followed, above 0 and at most 1 (1: every access) [default:
    /// about 10000 in a window of a program, 0.0025 of those of 10000000 instructions; 1 for embedded workloads and
    /// for short windows; 0.00001 under hardware counters]
    #[arg(long, value_name = "R", value_parser = sample_rate)]
    sample_rate: Option<f64>,
    /// Largest mean gap between profiled windows of a phase, in windows; 1 profiles every window
    #[arg(long, value_name = "WINDOWS", default_value = "32", value_parser = gap_limit)]
    pub(super) gap_limit: f64,
    /// Windows at the beginning of the run that are all profiled, whatever their phase
    #[arg(long, value_name = "WINDOWS", default_value_t = GuideConfig::default().profile_first)]
    pub(super) profile_first: u64,
    /// Most windows after a profiled one in which open samples are still followed
    #[arg(long, value_name = "WINDOWS", default_value_t = 64)]
    pub(super) follow: u32,
    /// Cache model: statstack for LRU, statcache for random replacement
    #[arg(long, value_enum, default_value = "statstack")]
    pub(super) model: Replacement,
    /// Cache sizes to model, for example 32KiB,1MiB [default: four an octave from 1 KiB on]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_bytes)]
    sizes: Vec<u64>,
    /// Cache line size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub(super) line_size: u32,
    /// Largest distance at which a window still belongs to a phase, as a fraction of the largest possible one [default:
    /// 0.1; 0.4 under hardware counters, which sample the code]
    #[arg(long, value_name = "T")]
    threshold: Option<f64>,
    /// A private cache for each thread, or one that all threads share. shared needs every access, which takes about ten
    /// times as long
    #[arg(long, value_enum, default_value = "private")]
    pub(super) scope: Scope,
    /// What to do with processes that PROGRAM starts
    #[arg(long, value_enum, default_value = "follow", requires = "program")]
    children: ChildProcesses,
    /// The processor that PROGRAM is shown: host, or x86-64, x86-64-v2, x86-64-v3 or x86-64-v4, with which libraries
    /// choose the same functions on every machine
    #[arg(long, value_name = "CPU", default_value = "host", requires = "program")]
    pub(super) cpu: Cpu,
    /// Embedded workload to run without a program
    #[arg(long, value_name = "NAME", default_value = "phased", conflicts_with = "program")]
    workload: String,
    /// How many times as long the embedded workload's phases are
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "program")]
    scale: u32,
    /// Redraws of the profiled windows for the 95 % intervals of the curves, 100 or more; 0 for no intervals
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) draws: usize,
    /// What observes PROGRAM
    #[arg(long, value_enum, default_value = "auto", requires = "program")]
    backend: Backend,
    /// The program to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("an embedded workload", ""),
        ("a program, with a picture over time and cache size", "--out report -- xz --keep --stdout file"),
        ("the cache that all threads share", "--scope shared -- xz -T4 --keep file"),
        ("for a script: JSON into a file, output untouched", "--json -o result.json -- sort words.txt"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }

    fn program(&self) -> &[OsString] {
        &self.program
    }
}

impl Args {
    /// Instructions in a window.
    pub fn window_length(&self) -> u64 {
        self.window.unwrap_or(if self.program.is_empty() { EMBEDDED_WINDOW } else { PROGRAM_WINDOW })
    }

    /// Whether hardware counters observe the program.
    pub(super) fn sampled(&self) -> bool {
        !self.program.is_empty() && self.scope == Scope::Private && self.backend.samples(self.cpu)
    }

    /// The threshold of phases, where code is sampled or not.
    pub(super) fn threshold(&self, sampled: bool) -> f64 {
        self.threshold.unwrap_or(if sampled { SAMPLED_THRESHOLD } else { DEFAULT_THRESHOLD })
    }

    /// How reuse is observed in profiled windows.
    pub(super) fn reuse(&self, sampled: bool) -> Result<ReusePlan, Failure> {
        let window = self.window_length();
        let chosen = match () {
            () if sampled => 1.0 / SAMPLED_GAP,
            () if self.program.is_empty() || window < LONG_WINDOW => 1.0,
            () => FOLLOWED / window as f64,
        };
        let rate = self.sample_rate.unwrap_or(chosen);
        if rate >= 1.0 {
            return Ok(ReusePlan::Every);
        }
        Ok(ReusePlan::Sparse(SampleGap::mean(1.0 / rate).map_err(Failure::usage)?))
    }

    pub(super) fn target(&self, line_size: LineSize) -> Result<Target, Failure> {
        let to_stderr = self.common.claims_stdout();
        let mut options = observing(self.backend, self.children, self.cpu, to_stderr);
        options.window = self.window_length();
        options.line_size = line_size;
        options.seed = self.common.seed;
        if self.program.is_empty() {
            return Target::embedded(&self.workload, self.scale, &options).map_err(Failure::usage);
        }
        if self.scope == Scope::Shared {
            return Target::shared(&self.program, self.backend, &options);
        }
        Target::program(&self.program, &options).and_then(Target::in_accesses).map_err(Failure::run)
    }

    /// The largest cache that was asked for, or that this machine has. None is large enough where lines are replaced at
    /// random: one that was left long ago may still be there.
    pub(super) fn largest(&self, line_size: LineSize, caches: &DataCaches) -> CacheLines {
        let bytes = caches.levels.iter().map(|level| level.bytes).chain(self.sizes.iter().copied()).max();
        match (self.model, bytes) {
            (Replacement::Lru, Some(bytes)) => CacheLines::from_bytes(bytes, line_size),
            _ => CacheLines(u64::MAX),
        }
    }

    pub(super) fn cache_sizes(
        &self,
        line_size: LineSize,
        caches: &DataCaches,
    ) -> Result<Vec<CacheLines>, Failure> {
        if self.sizes.is_empty() {
            return Ok(default_sizes(line_size, caches));
        }
        cache_sizes(&self.sizes, line_size)
    }
}

fn gap_limit(text: &str) -> Result<f64, String> {
    number(text, |gap| gap >= 1.0, "give a number of windows of at least 1")
}
