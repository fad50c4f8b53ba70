//! What the command lines of all pipelines have in common.

mod chip;
mod invoke;
mod players;
mod progress;
mod size;
pub(crate) mod values;
mod watch;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::output::OutputDir;

pub use chip::{ChipArgs, Replacement};
pub use invoke::{Failure, INTERRUPTED, USAGE, command, ended, interrupt_flag, invoke, main, unless_closed};
pub(crate) use players::record;
pub use players::{TraceArgs, trace_formats};
pub use size::{cache_sizes, parse_bytes};
pub use values::ByName;
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
    /// Write the table, or with --json the JSON, into this file instead of standard output
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print no progress and no remarks on standard error, only errors (and the result, where a program owns standard output)
    #[arg(short, long)]
    pub quiet: bool,
    /// Seed of every random choice: the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// The command line of a command.
pub trait CommandLine: clap::Parser {
    /// Command lines of real use, for the help: what each shows, and its arguments.
    const EXAMPLES: &'static [(&'static str, &'static str)];

    /// The options that all commands share.
    fn common(&self) -> &Common;

    /// The program to run and its arguments; empty where there is none.
    fn program(&self) -> &[OsString] {
        &[]
    }

    /// Whether `--quiet` was given.
    fn is_quiet(&self) -> bool {
        self.common().quiet
    }

    /// Whether the command writes `-o` itself, because its output may not fit into memory.
    fn streams(&self) -> bool {
        false
    }
}

impl Common {
    /// The directory for reports and tables, created if necessary. Call it before the run, so that a mistake costs
    /// no time.
    ///
    /// # Errors
    /// [`Failure::Usage`] if nothing can be written there.
    pub fn folder(&self) -> Result<Option<OutputDir>, Failure> {
        self.out.as_deref().map(OutputDir::prepare).transpose()
    }

    /// Whether a program's standard output goes to standard error, because JSON occupies standard output.
    pub fn claims_stdout(&self) -> bool {
        self.json && self.output.is_none()
    }

    /// Writes the files into the directory, then prints the JSON or the table. If the files cannot be written, the
    /// result is printed nevertheless.
    ///
    /// # Errors
    /// [`Failure::Run`] if either fails.
    pub fn present(
        &self,
        folder: Option<&OutputDir>,
        files: impl FnOnce(&OutputDir) -> Result<(), Failure>,
        json: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        table: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let write = |folder| files(folder).and_then(|()| folder.publish());
        let written = folder.map_or(Ok(()), write);
        let printed = if self.json { json(out) } else { table(out) };
        unless_closed(printed.and_then(|()| out.flush()))?;
        written.map_err(|failure| {
            Failure::Run(format!(
                "{failure}; the files of this run are not written, its result is printed above"
            ))
        })
    }
}
