//! The programs that detectors are compared on, recorded one after the other.

use std::sync::atomic::{AtomicBool, Ordering};

use phase_detect::CodeVector;
use reuse_sampler::{Children, Cpu, LineSize, WindowPlan};

use super::args::Args;
use super::experiments::agreement;
use super::recording::{Recorder, Recording, RecordingOptions};
use crate::cli::{Failure, Watch};
use crate::target::{Backend, Target, observing};
use crate::traces::Limits;

/// One recording for each program that the command line names, after an interruption of those that there are; and what
/// the user should know of how they were observed.
pub fn record(
    args: &Args,
    grid: bool,
    interrupted: &AtomicBool,
) -> Result<(Vec<Recording>, Vec<String>), Failure> {
    let watch = Watch::new(interrupted);
    let limits = Limits {
        windows: args.limit.unwrap_or(usize::MAX),
        watch: &watch,
        output_to_stderr: true,
        seed: args.common.seed,
        line_size: LineSize::B64,
    };
    let (mut recordings, mut notes) = (Vec::new(), Vec::new());
    for (source, window) in args.sources()? {
        let name = source.name();
        let options = RecordingOptions {
            window,
            stride_entries: args.stride_entries,
            seed: args.common.seed,
            embedded: source.is_embedded(),
            grid,
        };
        let mut recorder = Recorder::new(&name, options)?;
        let end = source.observe(&mut recorder, limits)?;
        match recorder.finish(watch.is_interrupted()) {
            Err(_) if watch.is_interrupted() && !recordings.is_empty() => break,
            recording => recordings.push(recording?),
        }
        notes.extend(end.notes.into_iter().map(|note| format!("{name}: {note}")));
        if watch.is_interrupted() {
            break;
        }
    }
    Ok((recordings, notes))
}

/// The code of all windows of a program, observed by whatever this machine has; of threads, the first.
pub fn code(args: &Args, interrupted: &AtomicBool) -> Result<(agreement::Program, bool), Failure> {
    let mut options = observing(Backend::Exact, Children::Ignore, Cpu::Host, true);
    options.window = args.window()?;
    options.seed = args.common.seed;
    let mut target = Target::program(args.sources.program(), &options)?;
    let mut vector = CodeVector::new(phase_detect::signature::DEFAULT_ENTRIES, args.common.seed)?;
    let mut signatures = Vec::new();
    let plan = WindowPlan::count_only();
    let mut stopped = false;
    while let Some(window) = target.sampler().next_window(&plan)? {
        if window.thread.0 == 0 {
            vector.extend(window.code_weights());
            signatures.extend(vector.finish().ok());
        }
        let enough = args.limit.is_some_and(|limit| signatures.len() >= limit);
        if !stopped && (enough || interrupted.load(Ordering::Relaxed)) {
            stopped = true;
            target.sampler().stop()?;
        }
    }
    if signatures.len() < 2 {
        let (name, window) = (target.name(), args.window()?);
        return Err(target.outcome().without_result(&format!(
            "{name} makes {} windows of {window} instructions: give shorter windows with --window",
            signatures.len()
        )));
    }
    Ok(((target.name().to_owned(), signatures), interrupted.load(Ordering::Relaxed)))
}
