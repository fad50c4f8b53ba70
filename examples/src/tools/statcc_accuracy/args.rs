//! The command line.

use clap::Parser;

use crate::cli::values::number;
use crate::cli::{ChipArgs, CommandLine, Common, TraceArgs};

/// Predicts what programs do to each other in a shared cache from profiles of each alone (StatCC), and simulates the
/// same on the reference chip.
///
/// With two or more --trace, those are played alone and together, each starting over when it ends, until the
/// slowest has ended once. Without, ten embedded programs are chosen as the StatCC paper chose its own, and all
/// their pairs, some mixes of four, errors of the CPI model and sampled profiles are evaluated as the paper
/// does: its tables 2 and 3 and its figure 10. The prediction follows the programs through time, window by
/// window. Replacement other than LRU is predicted by the nearest model: random for FIFO, LRU for Nehalem.
#[derive(Clone, Debug, Parser)]
#[command(name = "statcc_accuracy", version)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) traces: TraceArgs,
    /// Windows that each program is profiled in (1: it is taken to behave the same throughout)
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(super) windows: u64,
    /// Predict from profiles alone, as the paper does, without the misses that were counted of each program alone
    #[arg(long)]
    pub(super) profiles_only: bool,
    #[command(flatten)]
    pub(super) suite: SuiteArgs,
    #[command(flatten)]
    pub(super) chip: ChipArgs,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "two recorded programs, predicted and simulated",
            "--trace a.din --trace b.din --mix 0.35,0.4 --json",
        ),
        ("embedded programs on the paper's chip", "--inclusion inclusive --out accuracy"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }
}

/// How long the embedded programs run, and how much is made of them.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Embedded programs")]
pub(super) struct SuiteArgs {
    /// Memory accesses of each embedded program; a run is over when the first has made them
    #[arg(long, value_name = "N", default_value_t = 10_000_000, conflicts_with = "files",
          value_parser = clap::value_parser!(u64).range(100_000..=2_000_000_000))]
    pub accesses: u64,
    /// Mixes of four that are drawn
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "files")]
    pub mixes: u32,
    /// Times that each program is sampled at each rate (0 leaves sampling out)
    #[arg(long, value_name = "N", default_value_t = 32, conflicts_with = "files")]
    pub repetitions: u32,
    /// Sample rates, as accesses to a sample on average
    #[arg(long, value_name = "ACCESSES,...", value_delimiter = ',', default_value = "100,1000",
          value_parser = gap, conflicts_with = "files")]
    pub one_in: Vec<f64>,
}

fn gap(text: &str) -> Result<f64, String> {
    number(text, |gap| gap >= 1.0, "give a finite number, 1 or more")
}
