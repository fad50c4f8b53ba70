//! Phase-guided against periodic profiling, as the CGO paper evaluates them, with SHARDS beside them and an exact
//! simulation as the reference.

mod args;
mod compare;
mod intra;
mod recording;
mod report;
mod score;
mod spread;
mod strategies;
mod thinning;

use std::io::Write;
use std::sync::atomic::AtomicBool;

pub use args::{Args, Experiment};
pub use compare::{Compared, EqualError, Plan, STRATEGIES, Setting, compare, paper_sizes};
pub use intra::Variation;
pub use recording::{RecordedWindow, Recorder, Recording, RecordingOptions, ShardsRun};
pub use score::{Score, samples_for};
pub use strategies::{Estimate, Guided, Periodic};
pub use thinning::thin;

use crate::cli::{Failure, Watch, ended, interrupt_flag};
use crate::traces::Limits;
use reuse_sampler::reference::SpatialRate;

/// Rates at which SHARDS is shown.
const RATES: [f64; 6] = [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1];

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
    let watch = Watch::new(interrupted);
    if args.experiment == Experiment::Spread {
        spread::run(args, &watch, folder.as_ref(), out)?;
    } else {
        let compared = compare_all(args, &watch)?;
        args.common.present(
            folder.as_ref(),
            |folder| report::write(&compared, args, folder),
            |out| writeln!(out, "{}", report::object(&compared, args)),
            |out| report::tables(&compared, args, folder.as_ref(), out),
            out,
        )?;
    }
    Ok(ended(watch.is_interrupted(), "phase_guided_vs_periodic", "the tables show what was run", messages))
}

fn compare_all(args: &Args, watch: &Watch<'_>) -> Result<Vec<Compared>, Failure> {
    let rates: Result<Vec<SpatialRate>, _> =
        RATES.iter().filter(|_| !args.brief).map(|&rate| SpatialRate::new(rate)).collect();
    let mut options = RecordingOptions {
        window: 1,
        line_size: args.line_size()?,
        sizes: args.cache_sizes()?,
        shards: rates.map_err(Failure::usage)?,
        seeds: args.seeds(),
    };
    let limits = Limits {
        windows: args.limit,
        watch,
        output_to_stderr: args.common.claims_stdout(),
        seed: args.common.seed,
        line_size: options.line_size,
    };
    let mut compared = Vec::new();
    for (source, window) in args.sources()? {
        if watch.is_interrupted() && !compared.is_empty() {
            break;
        }
        options.window = window;
        let recording = Recording::of(&source, &options, limits)?;
        let instructions = if recording.by_instructions { window as f64 } else { 2.5 * window as f64 };
        let plan = Plan { window: instructions, seeds: args.seeds(), sweep: !args.brief };
        compared.push(compare(&recording, &plan)?);
    }
    Ok(compared)
}
