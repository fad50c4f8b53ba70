//! How well StatCC predicts what programs do to each other: traces, or a suite of embedded programs, on the
//! reference chip and by the model.

mod args;
pub mod distances;
mod model;
mod output;
pub mod played;
pub mod programs;
mod scatter;
pub mod sets;
pub mod statistics;
pub mod steady;
pub mod subject;
pub mod suite;
pub mod timeline;
pub mod truth;
pub mod window;

pub use args::Args;
pub use model::Model;

use std::io::{self, IsTerminal, Write};

use self::suite::Suite;
use self::truth::Machine;
use crate::cli::{Failure, unless_closed};

/// Traces that are needed for anything to be shared.
const LEAST: usize = 2;

/// Runs the pipeline. `out` takes the result, `messages` what else is to be said.
///
/// # Errors
/// [`Failure`] with one line for the user.
pub fn run(args: &Args, out: &mut dyn Write, messages: &mut dyn Write) -> Result<u8, Failure> {
    let machine = Machine { chip: args.chip.settings(args.common.seed)?, timing: args.chip.timing() };
    let model = Model::of(args.chip.policy());
    // Found before the run, not after.
    let folder = args.common.folder()?;
    if model.approximates(args.chip.policy()) {
        let _ = writeln!(messages, "statcc_accuracy: this replacement is predicted as {}", model.policy());
    }
    let json = if args.traces.is_empty() {
        let results = suite(args, machine, model).run(&tell)?;
        if let Some(folder) = &folder {
            output::suite_files(folder, &results)?;
        }
        if !args.common.json {
            unless_closed(output::suite_table(out, &results))?;
        }
        output::suite_json(args, model, &results)
    } else {
        let programs = args.traces.load(LEAST, args.chip.line_size())?;
        let played = played::play(&programs, &machine, model, args.windows, !args.profiles_only)?;
        if let Some(folder) = &folder {
            output::played_files(folder, &played)?;
        }
        if !args.common.json {
            unless_closed(output::played_table(out, model, &played))?;
        }
        output::played_json(args, model, &played)
    };
    if args.common.json {
        unless_closed(writeln!(out, "{json}").and_then(|()| out.flush()))?;
    }
    if let Some(folder) = &folder {
        folder.write("results.json", |file| writeln!(file, "{json}")).map_err(Failure::run)?;
    }
    Ok(0)
}

fn suite(args: &Args, machine: Machine, model: Model) -> Suite {
    Suite {
        machine,
        model,
        accesses: args.suite.accesses,
        windows: args.windows,
        mixes: args.suite.mixes,
        repetitions: args.suite.repetitions,
        gaps: args.suite.one_in.clone(),
        counted: !args.profiles_only,
        seed: args.common.seed,
    }
}

/// Says on a terminal what is being done.
fn tell(what: &str) {
    if io::stderr().is_terminal() {
        eprintln!("statcc_accuracy: {what} ...");
    }
}
