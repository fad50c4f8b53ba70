//! The phase of every window of a program, and the phase predicted for the next.

mod args;
mod detect;
mod input;
mod page;
mod pictures;
mod report;
mod thinned;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

pub use args::{Args, ClustererName, PredictorName};

use phase_detect::PhaseId;
use phase_detect::metrics::distinct_code;

use self::detect::{Detection, Found, Phase};
use self::input::{Ended, each_window};
use self::report::{Report, ranked};
use crate::cli::{ByName, Failure, interrupt_flag, unless_closed};
use crate::output::OutputDir;
use crate::report::{DistinctView, named_code, rows_of};
use crate::target::{Outcome, Target};

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
    // A message that nobody reads is no failure.
    let mut say = |what: &str| drop(writeln!(messages, "detect_phases: {what}"));
    let mut detection = Detection::new(args)?;
    // Found before the run, not after.
    let folder = args.common.folder()?;
    let mut lines = Lines { out, on: args.common.json, closed: false };
    let ended = each_window(args, interrupted, &mut |window| {
        let labelled = detection.take(window).map_err(|error| with_remedy(args, error))?;
        if let Some(labelled) = labelled {
            lines.write(|out| report::write_line(&labelled, out))?;
        }
        Ok(!lines.closed)
    })?;
    if detection.is_empty() {
        let problem = match &ended.outcome {
            Outcome::Unknown => "interrupted before the end of the first window",
            _ => "nothing was observed; give shorter windows with --window, or --backend dbi",
        };
        return Err(ended.outcome.without_result(problem));
    }
    let (found, late) = detection.finish().map_err(|error| with_remedy(args, error))?;
    for labelled in &found.labelled[found.labelled.len() - late..] {
        lines.write(|out| report::write_line(labelled, out))?;
    }
    conclude(args, &found, ended, folder.as_ref(), &mut lines, &mut say)
}

fn conclude(
    args: &Args,
    found: &Found,
    mut ended: Ended,
    folder: Option<&OutputDir>,
    lines: &mut Lines<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<u8, Failure> {
    let mut locate = |block: u64| match &mut ended.target {
        Some(target) => target.locate(block),
        None => Some(format!("block {block}")),
    };
    let hottest = |(&phase, known): (&PhaseId, &Phase)| {
        let (block, share) = known.blocks.hottest()?;
        Some((phase, (locate(block).unwrap_or_else(|| format!("{block:#x}")), share)))
    };
    let locations = found.phases.iter().filter_map(hottest).collect();
    let code = folder.map_or_else(BTreeMap::new, |_| {
        let code =
            |(&phase, known): (&PhaseId, &Phase)| (phase, named_code(known.blocks.blocks(), &mut locate));
        found.phases.iter().map(code).collect()
    });
    let transitions = found.transitions();
    let settled = found.phases.iter().filter(|(phase, _)| !transitions.contains_key(phase));
    let blocks: Vec<_> = settled.map(|(&phase, known)| (phase, known.blocks.blocks())).collect();
    let distinct = distinct_code(&blocks, 1)
        .into_iter()
        .filter_map(|(phase, codes)| Some((phase, DistinctView::new(codes.first()?, &mut locate))))
        .collect();
    let ranked = ranked(found, &transitions);
    let settled = &ranked[..ranked.len() - transitions.len()];
    let sizes: Vec<_> = settled.iter().map(|(phase, known)| (*phase, found.size(known))).collect();
    let rows = rows_of(&sizes, &found.centres(), |at| settled[at].1.blocks.blocks(), &mut locate);
    let mut notes = unused(args);
    notes.extend(ended.target.as_ref().map_or_else(Vec::new, Target::notes));
    if found.described > 1 {
        let every = found.described;
        notes.push(format!(
            "the code of phases is that of one in {every} windows: more were not held in memory"
        ));
    }
    let processes = ended.target.as_ref().map_or_else(Vec::new, Target::processes);
    let report =
        Report { args, found, ended: &ended, locations, code, distinct, transitions, rows, processes, notes };
    let closed = lines.closed;
    args.common.present(
        folder,
        |folder| report.write_files(folder),
        |out| if closed { Ok(()) } else { writeln!(out, "{}", report.summary()) },
        |out| report.write_table(folder, out),
        lines.out,
    )?;
    let (status, remark) = ended.outcome.verdict(ended.interrupted);
    if let Some(remark) = remark {
        say(&format!("{remark}; the phases are those of the run until then"));
    }
    Ok(status)
}

/// Options that change nothing: with the result, where a script sees them too.
fn unused(args: &Args) -> Vec<String> {
    let mut notes = Vec::new();
    if args.idle_threshold() {
        notes.push(format!("{} has no threshold: --threshold is not used", args.clusterer.name()));
    }
    if args.coverage.is_some() && args.clusterer != ClustererName::Simpoint {
        notes.push("only --clusterer simpoint has simulation points: --coverage is not used".to_owned());
    }
    notes
}

/// The library's refusal, with the flag that helps if there is one.
fn with_remedy(args: &Args, error: phase_detect::Error) -> Failure {
    match error {
        phase_detect::Error::Kind { .. } => Failure::Usage(format!(
            "{} compares other signatures than --kind says: leave --kind out",
            args.clusterer.name()
        )),
        phase_detect::Error::TooFewWindows { .. } => Failure::Usage(format!("--max-phases: {error}")),
        other => Failure::run(other),
    }
}

/// Standard output, which may be closed by whoever has seen enough.
struct Lines<'a> {
    out: &'a mut dyn Write,
    on: bool,
    closed: bool,
}

impl Lines<'_> {
    fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        if !self.on || self.closed {
            return Ok(());
        }
        let written = write(self.out);
        self.closed = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        unless_closed(written)
    }
}
