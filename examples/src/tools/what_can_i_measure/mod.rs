//! What can be measured on this machine, and what to change to measure more. Everything is tried, nothing is guessed.

mod find;
mod report;

pub use report::{Counters, Report, Trial, Valgrind};

use std::io::Write;

use clap::Parser;

use crate::cli::{CommandLine, Common, Failure};
use crate::output::OutputDir;

/// Shows what can be measured on this machine, and what to change to measure more.
///
/// Counters and debug registers are opened, the emulator and whichever backend would be chosen observe the program
/// `true` to its end. With --out, the report is written as what_can_i_measure.txt and what_can_i_measure.json.
#[derive(Clone, Debug, Parser)]
#[command(name = "what_can_i_measure", version)]
pub struct Args {
    #[command(flatten)]
    common: Common,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("counters, watchpoints, emulator, and what to change", ""),
        ("the same in two files, to be sent to somebody", "--out machine"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }
}

/// Writes the report to `out`.
///
/// # Errors
/// [`Failure`] with one line for the user, if the report cannot be written. That nothing can be measured is a result.
pub fn run(args: &Args, out: &mut dyn Write, _messages: &mut dyn Write) -> Result<u8, Failure> {
    let folder = args.common.folder()?;
    let report = find::report(args.common.seed);
    let json = serde_json::to_string(&report).map_err(Failure::run)?;
    let files = |folder: &OutputDir| {
        folder
            .write("what_can_i_measure.txt", |file| write!(file, "{report}"))
            .and_then(|()| folder.write("what_can_i_measure.json", |file| writeln!(file, "{json}")))
            .map_err(Failure::run)
    };
    args.common.present(
        folder.as_ref(),
        files,
        |out| writeln!(out, "{json}"),
        |out| write!(out, "{report}"),
        out,
    )?;
    Ok(0)
}
