//! What can be measured on this machine, and what to change to measure more. Everything is tried, nothing is guessed.

mod find;
mod report;
mod self_check;

pub use report::{Counters, Report, Trial, Valgrind};
pub use self_check::{SelfCheck, WALK, walk};

use std::io::Write;
use std::path::PathBuf;

use clap::Parser;
use reuse_sampler::perf;

use crate::cli::{CommandLine, Common, Failure};
use crate::output::{OutputDir, OutputFile};

/// Shows what can be measured on this machine, and what to change to measure more.
///
/// Counters and debug registers are opened, the emulator and whichever backend would be chosen observe the program
/// `true` to its end. With --out, the report is written as what_can_i_measure.txt and what_can_i_measure.json.
#[derive(Clone, Debug, Parser)]
#[command(name = "what_can_i_measure", version)]
pub struct Args {
    #[command(flatten)]
    common: Common,

    /// Write all that and a self-check, as JSON, to this file, to be sent to somebody
    ///
    /// The self-check observes a program with known reuse distances with counters, or with a clock where there are none: what
    /// it found, what it had to give up, how late stops were and what they cost. The file names the kind of processor and the
    /// kernel's version, and no user, host or path.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("counters, watchpoints, emulator, and what to change", ""),
        ("the same in two files", "--out machine"),
        ("the same with a self-check of the counters, to be sent to somebody", "--report machine.json"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }
}

/// The command itself is the program that is observed.
fn checked() -> SelfCheck {
    match std::env::current_exe() {
        Ok(program) if program.file_stem().is_some_and(|name| name == "what_can_i_measure") => {
            SelfCheck::of(&perf::probe(), program.as_os_str(), &[])
        }
        other => {
            let missing = format!(
                "the self-check observes the command what_can_i_measure, which this is not: {other:?}"
            );
            SelfCheck { missing: Some(missing), ..SelfCheck::default() }
        }
    }
}

/// Writes the report to `out`.
///
/// # Errors
/// [`Failure`] with one line for the user, if the report cannot be written. That nothing can be measured is a result.
pub fn run(args: &Args, out: &mut dyn Write, _messages: &mut dyn Write) -> Result<u8, Failure> {
    let folder = args.common.folder()?;
    let file = args.report.as_deref().map(OutputFile::prepare).transpose()?;
    let mut report = find::report(args.common.seed);
    if file.is_some() {
        report.self_check = Some(checked());
    }
    let json = serde_json::to_string(&report)?;
    let files = |folder: &OutputDir| {
        folder
            .write("what_can_i_measure.txt", |file| write!(file, "{report}"))
            .and_then(|()| folder.write("what_can_i_measure.json", |file| writeln!(file, "{json}")))
    };
    if let Some(file) = file {
        let pretty = serde_json::to_string_pretty(&report)? + "\n";
        file.write(pretty.as_bytes())?;
    }
    args.common.present(
        folder.as_ref(),
        files,
        |out| writeln!(out, "{json}"),
        |out| write!(out, "{report}"),
        out,
    )?;
    Ok(0)
}
