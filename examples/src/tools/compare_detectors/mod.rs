//! All phase detectors and all signatures on the same windows, and the papers' experiments.

mod args;
mod code;
mod detectors;
mod experiments;
mod parallel;
mod recording;
mod source;
mod threaded;

use std::io::Write;
use std::sync::atomic::AtomicBool;

pub use args::{Args, Experiment};
use serde_json::json;

use self::experiments::Setting;
use crate::cli::{Failure, ended, interrupt_flag};
use crate::output::OutputDir;
use crate::report::STYLE;
use crate::report::Table;

/// Runs the command until its end or Ctrl-C; writes the result to `out` and remarks to `messages`.
///
/// # Errors
/// [`Failure`] with one line for the user.
pub fn run(args: &Args, out: &mut dyn Write, messages: &mut dyn Write) -> Result<u8, Failure> {
    run_until(&*interrupt_flag()?, args, out, messages)
}

/// The same until `interrupted` is set. Returns the exit status.
///
/// # Errors
/// As [`run`].
pub fn run_until(
    interrupted: &AtomicBool,
    args: &Args,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<u8, Failure> {
    // Found before the run, not after.
    let folder = args.common.folder()?;
    let setting = Setting { samples: args.samples, threshold: args.threshold, seed: args.common.seed };
    if !(0.0..=1.0).contains(&args.threshold) {
        return Err(Failure::Usage(format!(
            "--threshold {}: it is a fraction of the largest possible distance, from 0 to 1",
            args.threshold
        )));
    }
    let window = args.window()?;
    let asked: Vec<Experiment> = Experiment::EACH.into_iter().filter(|&e| args.asks_for(e)).collect();
    let mut tables = Vec::new();
    let mut incomplete = false;
    if args.asks_for(Experiment::Threads) {
        let (threads, whole) = parallel::run(window, args.common.seed, interrupted)?;
        tables.extend(threads);
        incomplete |= !whole;
    }
    if args.experiment.contains(&Experiment::RealThreads) {
        let (threads, whole) = threaded::run(window, args.limit, args.common.seed, interrupted)?;
        tables.extend(threads);
        incomplete |= !whole;
    }
    // A program's code needs no trace of its accesses.
    let code_only = args.sources.only_program() && asked == [Experiment::Agreement];
    if code_only {
        let (program, interrupted) = source::code(args, interrupted)?;
        incomplete |= interrupted;
        tables.push(experiments::agreement::of(&[program], setting)?);
    }
    // Wavelets of all sizes are recorded in a run of their own: they take long, and nothing else needs them.
    for grid in [false, true] {
        let wanted: Vec<Experiment> =
            asked.iter().copied().filter(|&e| (e == Experiment::Wavelet) == grid).collect();
        // What was interrupted is over.
        if wanted.is_empty() || incomplete || code_only {
            continue;
        }
        let (recordings, notes) = source::record(args, grid, interrupted)?;
        for note in notes {
            let _ = writeln!(messages, "compare_detectors: {note}");
        }
        incomplete |= recordings.iter().any(|recording| recording.incomplete);
        for experiment in wanted {
            tables.extend(experiment.run(&recordings, setting)?);
        }
    }
    args.common.present(
        folder.as_ref(),
        |folder| write_files(&tables, incomplete, folder),
        |out| {
            let tables: Vec<_> = tables.iter().map(Table::json).collect();
            let seed = args.common.seed;
            let object = json!({"seed": seed, "window": window, "incomplete": incomplete, "tables": tables});
            writeln!(out, "{object}")
        },
        |out| tables.iter().try_for_each(|table| writeln!(out, "{}", table.text())),
        out,
    )?;
    Ok(ended(incomplete, "compare_detectors", "the tables show the windows", messages))
}

fn write_files(tables: &[Table], incomplete: bool, folder: &OutputDir) -> Result<(), Failure> {
    for (number, table) in tables.iter().enumerate() {
        let name = format!("{:02}_{}", number + 1, table.name);
        let write = |extension: &str, text: &str| {
            folder.write(&format!("{name}.{extension}"), |out| out.write_all(text.as_bytes()))
        };
        write("csv", &table.csv())?;
        if let Some(picture) = &table.picture {
            write("svg", picture)?;
        }
    }
    let state = if incomplete { "<p class=\"incomplete\">Interrupted: incomplete.</p>" } else { "" };
    let sections: String = tables.iter().map(Table::html).collect();
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Phase detectors compared</title><style>\n{STYLE}\nmain {{ max-width: 1500px; }}</style></head><body><main>\n\
         <h1>Phase detectors compared</h1>\n{state}\n{sections}</main></body></html>\n"
    );
    folder.write("report.html", |out| out.write_all(page.as_bytes()))
}
