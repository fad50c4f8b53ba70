//! What the command lines of all pipelines have in common.

mod chip;
mod invoke;
mod players;
mod size;

use std::path::PathBuf;

pub use chip::{ChipArgs, Replacement};
pub use invoke::{Failure, INTERRUPTED, USAGE, interrupt_flag, invoke, main, unless_closed};
pub use players::{Recorded, TraceArgs};
pub use size::{SizeError, cache_sizes, parse_bytes};

/// Options every pipeline takes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Common {
    /// Print one machine-readable JSON object on standard output instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write reports and tables into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seed of every random choice: the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}
