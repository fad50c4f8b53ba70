//! How well StatCC predicts what programs do to each other: traces, or a suite of embedded programs, on the
//! reference chip and by the model.

mod args;
pub mod distances;
mod model;
pub mod played;
pub mod programs;
mod report;
pub mod sampling;
mod scatter;
pub mod statistics;
pub mod steady;
pub mod subject;
pub mod suite;
pub mod truth;

pub use args::Args;
pub use model::Model;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use self::suite::Suite;
use self::truth::Machine;
use crate::cli::{Failure, Watch, ended, interrupt_flag};

/// Traces that are needed for anything to be shared.
const LEAST: usize = 2;

/// Runs the pipeline. `out` takes the result, `messages` what else is to be said. Ctrl-C ends the suite with the groups
/// finished until then; two traces are either played or not, and Ctrl-C then ends the process.
///
/// # Errors
/// [`Failure`] with one line for the user.
pub fn run(args: &Args, out: &mut dyn Write, messages: &mut dyn Write) -> Result<u8, Failure> {
    let interrupted =
        if args.traces.is_empty() { interrupt_flag()? } else { Arc::new(AtomicBool::new(false)) };
    run_until(&interrupted, args, out, messages)
}

/// The same until `interrupted` is set.
///
/// # Errors
/// As [`run`].
pub fn run_until(
    interrupted: &Arc<AtomicBool>,
    args: &Args,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<u8, Failure> {
    if args.chip.is_exclusive() {
        return Err(Failure::usage(
            "--inclusion exclusive: StatCC has no model of a cache that holds what others do not; use corun_variability",
        ));
    }
    let machine = Machine { chip: args.chip.settings(args.common.seed)?, timing: args.chip.timing() };
    let model = Model::of(args.chip.policy());
    // Found before the run, not after.
    let folder = args.common.folder()?;
    if model.approximates(args.chip.policy()) {
        let _ = writeln!(messages, "statcc_accuracy: this replacement is predicted as {}", model.policy());
    }
    let mut incomplete = false;
    if args.traces.is_empty() {
        let watch = Watch::new(interrupted);
        let results =
            suite(args, machine, model).run(&|what| watch.show(what), &|| watch.is_interrupted())?;
        watch.clear();
        incomplete = results.incomplete;
        let json = report::suite_json(args, model, &results);
        args.common.present(
            folder.as_ref(),
            |folder| report::suite_files(folder, &results, &json),
            |out| writeln!(out, "{json}"),
            |out| report::suite_table(out, &results),
            out,
        )?;
    } else {
        let programs = args.traces.load(LEAST, args.chip.line_size())?;
        let played = played::play(&programs, &machine, model, args.windows, !args.profiles_only)?;
        let json = report::played_json(args, model, &played);
        args.common.present(
            folder.as_ref(),
            |folder| report::played_files(folder, &played, &json),
            |out| writeln!(out, "{json}"),
            |out| report::played_table(out, model, &played),
            out,
        )?;
    }
    Ok(ended(incomplete, "statcc_accuracy", "errors are of what was finished", messages))
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
