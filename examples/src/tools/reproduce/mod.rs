//! The papers' headline figures beside ours: each is computed by a command of this package, and the command is shown.

mod studies;

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use clap::Parser;
use serde::Serialize;
use serde_json::Value;

use self::studies::{Effort, STUDIES, Study, verdicts};
use crate::cli::{CommandLine, Common, Failure, Watch, ended, interrupt_flag};
use crate::machines::host::processor;
use crate::output::OutputDir;
use crate::parallel::available;
use crate::report::Table;

/// Runs the papers' experiments on embedded programs and shows the papers' figures beside ours.
///
/// Programs, machines and lengths differ from the papers'; each row names the command that computes it. The results are
/// also written as RESULTS.md into the directory of --out, by default the current one.
#[derive(Clone, Debug, Parser)]
#[command(name = "reproduce", version)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Smaller runs: about a minute
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// All programs and repetitions: hours
    #[arg(long)]
    full: bool,
    /// A real program that phase detectors are compared on beside the embedded ones: a command, its words separated by
    /// spaces, may be repeated
    #[arg(long, value_name = "COMMAND")]
    command: Vec<String>,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("about a minute", "--quick"),
        ("writes results/RESULTS.md, with a program of yours", r#"--out results --command "sort words""#),
    ];

    fn common(&self) -> &Common {
        &self.common
    }
}

impl Args {
    /// Index into the arguments of a study, and its name.
    const fn level(&self) -> (usize, &'static str) {
        match (self.quick, self.full) {
            (true, _) => (0, "quick"),
            (_, true) => (2, "full"),
            _ => (1, "default"),
        }
    }
}

/// A figure of a paper beside ours.
#[derive(Debug, Serialize)]
struct Row {
    technique: String,
    figure: String,
    paper: String,
    ours: String,
    /// Whether the paper's claim holds: yes, no, or open; where that is asked.
    holds: Option<String>,
    command: String,
}

/// Runs the studies until the end or Ctrl-C.
///
/// # Errors
/// [`Failure`] if a study fails or the results cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, messages: &mut dyn Write) -> Result<u8, Failure> {
    let (level, name) = args.level();
    let folder = OutputDir::prepare(args.common.out.as_deref().unwrap_or(Path::new(".")))?;
    let interrupted = interrupt_flag()?;
    let watch = Watch::new(&interrupted);
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for study in STUDIES {
        if watch.is_interrupted() {
            break;
        }
        let effort = Effort { level, seed: args.common.seed, commands: &args.command };
        let command = study.command(effort);
        watch.show(command.clone());
        let found = study.run(effort).and_then(|found| rows_of(study, &command, &found));
        match found {
            Ok(found) => rows.extend(found),
            Err(_) if watch.is_interrupted() => break,
            // The other studies are worth as much as before.
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    watch.clear();
    let incomplete = watch.is_interrupted() || !failures.is_empty();
    args.common.present(
        Some(&folder),
        |folder| {
            let text = markdown(&rows, &provenance(name, args.common.seed), incomplete);
            folder.write("RESULTS.md", |file| file.write_all(text.as_bytes()))
        },
        |out| {
            let object = serde_json::json!({
                "level": name, "seed": args.common.seed, "incomplete": incomplete, "figures": rows,
            });
            writeln!(out, "{object}")
        },
        |out| {
            let header = ["technique", "figure", "paper", "ours", "holds"].map(str::to_owned).to_vec();
            let cells = |row: &Row| row.cells().map(str::to_owned).to_vec();
            let table: Vec<Vec<String>> = std::iter::once(header).chain(rows.iter().map(cells)).collect();
            write!(out, "{}", Table::from(table).text())?;
            writeln!(out, "\nThe commands: {}", folder.path().join("RESULTS.md").display())
        },
        out,
    )?;
    if watch.is_interrupted() || failures.is_empty() {
        return Ok(ended(watch.is_interrupted(), "reproduce", "the table has the figures", messages));
    }
    Err(Failure::Run(failures.join("; ")))
}

impl Row {
    fn cells(&self) -> [&str; 5] {
        [&self.technique, &self.figure, &self.paper, &self.ours, self.holds.as_deref().unwrap_or("")]
    }
}

fn rows_of(study: &Study, command: &str, found: &Value) -> Result<Vec<Row>, Failure> {
    let row = |figure: &studies::Figure| {
        let missing = || Failure::Run(format!("{command}: the JSON has no {}", figure.what));
        Ok::<_, Failure>(Row {
            technique: study.technique.to_owned(),
            figure: figure.what.to_owned(),
            paper: figure.paper.to_owned(),
            ours: (figure.ours)(found).ok_or_else(missing)?,
            holds: None,
            command: command.to_owned(),
        })
    };
    let mut rows: Vec<Row> = study.figures.iter().map(row).collect::<Result<_, _>>()?;
    if study.verdict {
        let missing = || Failure::Run(format!("{command}: the JSON has no claims"));
        rows.extend(verdicts(command, found).ok_or_else(missing)?);
    }
    Ok(rows)
}

/// By what, when and where the figures were computed.
fn provenance(level: &str, seed: u64) -> String {
    let date = Command::new("date").args(["-u", "+%F"]).output().map(|said| said.stdout).unwrap_or_default();
    let date = String::from_utf8_lossy(&date);
    let (processor, cores) = (processor(), available());
    format!("level {level}, seed {seed}, {}, {processor}, {cores} cores", date.trim())
}

fn markdown(rows: &[Row], provenance: &str, incomplete: bool) -> String {
    let mut text = format!(
        "# Results\n\nFigures of the papers, and ours by the commands below (`reproduce`: {provenance}). The papers ran \
         SPEC CPU2006 on real machines or on a simulator of theirs; ours are embedded programs, or real ones where a row says so, on the simulated machines \
         of this repository, and shorter. What compares is the size of an error, and which method wins. A claim holds (yes) if the whole \
         95 % interval over programs is on its side, and does not (no) if none of it is; else it is open.\n\n"
    );
    if incomplete {
        text += "Incomplete: studies that are missing were interrupted or failed.\n\n";
    }
    text += "| technique | figure | paper | ours | holds |\n|---|---|---|---|---|\n";
    for row in rows {
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    text += "\n```sh\n";
    let mut last = "";
    for row in rows {
        if row.command != last {
            let _ = writeln!(text, "{}", row.command);
        }
        last = &row.command;
    }
    text + "```\n"
}
