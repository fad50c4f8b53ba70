//! What the command lines of all pipelines have in common.

mod chip;
mod invoke;
mod players;
mod progress;
mod size;
pub(crate) mod values;
mod watch;

use std::path::PathBuf;

use crate::output::OutputDir;

pub use chip::{ChipArgs, Replacement};
pub use invoke::{Failure, INTERRUPTED, USAGE, interrupt_flag, invoke, main, unless_closed};
pub use players::{Recorded, TraceArgs, trace_formats};
pub use progress::Progress;
pub use size::{SizeError, cache_sizes, parse_bytes};
pub use watch::Watch;

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

impl Common {
    /// The directory for reports and tables, made if need be: asked for before a run, not after.
    ///
    /// # Errors
    /// [`Failure::Usage`] if nothing can be written there.
    pub fn folder(&self) -> Result<Option<OutputDir>, Failure> {
        self.out.as_deref().map(OutputDir::prepare).transpose().map_err(Failure::usage)
    }
}
