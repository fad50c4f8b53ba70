//! Performance as a function of available cache: on the simulated chip, or of a real program on this machine.

mod args;
mod experiments;
mod figure;
mod input;
mod native;
mod report;
mod simulated;
mod watched;

pub use args::{Args, Replacement};

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cache_pirate::resctrl::{Confined, ResctrlFiles, UNMONITORED_WALKS};
use cache_pirate::{CacheCurve, Evidence, Measurements, PirateError, Testbed};

use self::report::Report;
use crate::cli::{Failure, INTERRUPTED, Watch, interrupt_flag};
use crate::report::bytes;
use crate::target::Outcome;

/// A curve and where it comes from.
#[derive(Debug)]
struct Measured {
    source: String,
    machine: Option<String>, // the processor, if it is a real one
    curve: CacheCurve,
    run: Option<Measurements>, // one run for all sizes; none where each size had its own
    mechanism: &'static str,
    work: &'static str,
    time: &'static str,
    notes: Vec<String>,
    ended: Outcome, // of the program's first run
}

impl Measured {
    /// Pirate threads.
    fn threads(&self) -> usize {
        self.run.as_ref().and_then(|run| run.intervals.first()).map_or(1, |interval| interval.threads)
    }
}

/// How a testbed limits the target's cache: as on the command line.
const MECHANISMS: [&str; 2] = ["pirate", "cat"];

fn mechanism(testbed: &(impl Testbed + ?Sized)) -> &'static str {
    MECHANISMS[usize::from(testbed.evidence() == Evidence::Confined)]
}

/// What the reader of a curve by allocation should know.
fn confined_remarks<T: Testbed<Error: From<PirateError>>, F: ResctrlFiles>(
    testbed: &Confined<T, F>,
) -> Vec<String> {
    let partition = testbed.partition();
    let mut remarks =
        vec![format!("confined by cache allocation, in steps of {}", bytes(partition.way_bytes()))];
    remarks.push(
        "these are the ways that an allocation gives: where the replacement policy has one state for all ways of a set, \
         a cache of this size can miss much less or more"
            .to_owned(),
    );
    if !partition.counts_occupancy() {
        remarks.push(format!(
            "the kernel does not count the program's lines: those in ways it lost are taken to be gone after \
             {UNMONITORED_WALKS} sweeps"
        ));
    }
    if let Some(size) = partition.sizes().find(|&size| partition.shared_with_hardware(size) > 0) {
        remarks.push(format!("from {} on, devices may use some of the program's ways", bytes(size)));
    }
    remarks
}

/// Why there is no curve.
fn nothing(watch: &Watch<'_>, error: &PirateError, ended: &Outcome) -> Failure {
    if watch.is_interrupted() {
        return Failure::run("interrupted before anything was measured");
    }
    ended.without_result(&error.to_string())
}

/// Shows how far a run has come.
fn show_progress(watch: &Watch<'_>, runs: u64) {
    watch.show_with(|| format!("{runs} intervals and warm-ups"));
}

/// Runs the command until its end or Ctrl-C; writes the result to `out` and remarks to `messages`.
///
/// # Errors
/// [`Failure`] with one line for the user.
pub fn run(args: &Args, out: &mut dyn Write, messages: &mut dyn Write) -> Result<u8, Failure> {
    run_until(&interrupt_flag()?, args, out, messages)
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
    // Found before the run, not after.
    let folder = args.common.folder()?;
    let watch = Watch::new(interrupted);
    if !args.experiment.is_empty() {
        let results = experiments::run(args, &watch)?;
        watch.clear();
        args.common.present(
            folder.as_ref(),
            |folder| folder.write("experiments.json", |out| results.write_json(out)),
            |out| results.write_json(out),
            |out| results.write_tables(out),
            out,
        )?;
        return Ok(if results.incomplete { INTERRUPTED } else { 0 });
    }
    let measured = if args.is_native() {
        native::native(args, interrupted, &watch)
    } else {
        simulated::simulate(args, &watch)
    };
    watch.clear();
    let measured = measured?;
    let incomplete = watch.is_interrupted();
    let report = Report { measured: &measured, incomplete, seed: args.common.seed };
    args.common.present(
        folder.as_ref(),
        |folder| report.write_files(folder),
        |out| report.write_json(out),
        |out| report.write_table(out),
        out,
    )?;
    let (status, remark) = measured.ended.verdict(incomplete);
    if let Some(remark) = remark {
        let _ = writeln!(messages, "cache_pirate: {remark}; the curve shows what was measured until then");
    }
    Ok(status)
}
