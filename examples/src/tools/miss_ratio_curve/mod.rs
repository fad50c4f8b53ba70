//! One miss-ratio curve: of a trace, a program or an embedded workload, modelled or exact.

mod args;
mod bursts;
mod coherence;
mod measure;
mod prefetch;
mod report;
mod sets;
mod source;
mod spots;
mod stored;
mod threads;

pub use args::{Args, Model};

use std::io::Write;
use std::sync::atomic::AtomicBool;

use self::coherence::Coherence;
use self::report::Report;
use self::source::{Run, Settings};
use crate::cli::{ByName, Failure, interrupt_flag};
use crate::report::write_profile;

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
    let settings = Settings::new(args)?;
    // Found before the run, not after.
    let folder = args.common.folder()?;
    // A message that nobody reads is no failure.
    let mut say = |what: &str| drop(writeln!(messages, "miss_ratio_curve: {what}"));
    let mut notes = Vec::new();
    let mut note = |what: String| {
        say(&what);
        notes.push(what);
    };
    if args.model.is_exact() && args.sample_rate() < 1.0 {
        note(format!("{} sees every access: --sample-rate is not used", args.model.name()));
    }
    if args.model == Model::Statcache && args.ways.is_some() {
        let what =
            "random replacement misses as often in sets chosen at random as in one: --ways changes nothing";
        note(what.to_owned());
    }
    let run = settings.run(interrupted)?;
    let unstored = stored::without(args, settings.scope);
    unstored.iter().filter(|_| folder.is_some()).cloned().for_each(&mut note);
    run.notes.iter().cloned().chain(on_threads(&run)).for_each(&mut note);
    let report = Report { args, settings: &settings, run: &run, notes: &notes };
    args.common.present(
        folder.as_ref(),
        |folder| {
            report.write_files(folder)?;
            match unstored {
                None => write_profile(&stored::profile(&run, settings.line_size), folder),
                Some(_) => Ok(()),
            }
        },
        |out| report.write_json(out),
        |out| report.write_table(out),
        out,
    )?;
    let (status, remark) = run.outcome.verdict(run.interrupted);
    if let Some(remark) = remark {
        say(&format!("{remark}; the curve shows the run until then"));
    }
    Ok(status)
}

/// What the curve of several threads leaves out.
fn on_threads(run: &Run) -> Option<String> {
    // Every process has a thread.
    let threads = run.measured.threads;
    if threads <= run.processes.len().max(1) {
        return None;
    }
    match &run.measured.coherence {
        None => Some(format!(
            "there were {threads} threads: the curve is that of a private cache for each, without what others invalidate \
             (--scope private counts that); --scope shared gives the cache that all share"
        )),
        Some(Coherence { stretch: Some(stretch), .. }) => Some(format!(
            "{threads} threads are interleaved in stretches of up to {stretch} events: lines that pass between them more \
             often than that miss more often than shown"
        )),
        Some(_) => None,
    }
}
