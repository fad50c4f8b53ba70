//! The command line.

use std::ffi::OsString;

use clap::Parser;
use reuse_sampler::{CacheLines, LineSize};

use super::compare::paper_sizes;
use crate::cli::{CommandLine, Common, Failure, cache_sizes, parse_bytes};
use crate::traces::{Source, SourceArgs};

/// Instructions in a window where the user does not say.
const EMBEDDED_WINDOW: u64 = 200_000;
const PROGRAM_WINDOW: u64 = 1_000_000;

/// Compares phase-guided with periodic profiling, and with SHARDS, against an exact simulation.
///
/// Each program runs once: every access goes to an exact simulation of LRU caches of twelve sizes, and what samplers
/// could have seen is kept, so that both strategies can be tried at many settings with several seeds. The settings are
/// those of the phase-guided profiling paper, scaled from its windows of 100 M instructions to the length of a window
/// here. Real programs run translated, or under qemu-user.
#[derive(Clone, Debug, Parser)]
#[command(name = "phase_guided_vs_periodic", version)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// What to do
    #[arg(long, value_enum, default_value = "compare")]
    pub(super) experiment: Experiment,
    /// Instructions in a window, accesses where a trace holds no code [default: 1000000 for programs and traces, 200000
    /// for embedded workloads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Windows to record of each program, at most
    #[arg(long, value_name = "WINDOWS", default_value_t = 20_000)]
    pub(super) limit: usize,
    /// Seeds with which each strategy is tried, counted up from --seed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Try the paper's settings only, not the trade of samples for error
    #[arg(long)]
    pub(super) brief: bool,
    /// Cache sizes to compare at [default: twelve from 1 KiB to 2 MiB; for spread nine from 32 KiB to 8 MiB]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_bytes)]
    sizes: Vec<u64>,
    /// Cache line size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    line_size: u32,
    /// For spread: accesses of each program
    #[arg(long, value_name = "N", default_value_t = 5_000_000_000)]
    pub(super) accesses: u64,
    /// For spread: repetitions
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(super) repetitions: u32,
    #[command(flatten)]
    sources: SourceArgs,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] =
        &[("embedded workloads", ""), ("a program", "--out report -- xz --keep --stdout file")];

    fn common(&self) -> &Common {
        &self.common
    }

    fn program(&self) -> &[OsString] {
        self.sources.program()
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// Phase-guided, periodic and SHARDS, as in the phase-guided profiling paper
    Compare,
    /// Hierarchical sampling over and over: how far its results scatter, as in the `StatStack` paper
    Spread,
}

impl Args {
    /// The programs, each with the length of its windows.
    pub(super) fn sources(&self) -> Result<Vec<(Source, u64)>, Failure> {
        self.sources.with_windows(
            &["phased", "multi", "same_code"],
            self.window,
            [EMBEDDED_WINDOW, PROGRAM_WINDOW],
        )
    }

    /// Line size.
    pub(super) fn line_size(&self) -> Result<LineSize, Failure> {
        LineSize::new(self.line_size).map_err(Failure::usage)
    }

    /// Cache sizes.
    pub(super) fn cache_sizes(&self) -> Result<Vec<CacheLines>, Failure> {
        let line_size = self.line_size()?;
        if !self.sizes.is_empty() {
            return cache_sizes(&self.sizes, line_size);
        }
        Ok(match self.experiment {
            Experiment::Compare => paper_sizes(),
            Experiment::Spread => (9..=17).map(|power| CacheLines(1 << power)).collect(),
        })
    }

    /// Seeds of the strategies.
    pub(super) fn seeds(&self) -> Vec<u64> {
        (0..self.seeds).map(|k| self.common.seed.wrapping_add(k)).collect()
    }
}
