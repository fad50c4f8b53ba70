//! The main job: phases of a program, and its miss ratio at every moment and every cache size.

mod args;
mod report;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use phase_detect::GuideConfig;
use reuse_sampler::file::PhaseProfile;
use reuse_sampler::{Bootstrap, CacheLines, LineSize, Sampler};

pub use args::Args;

use crate::cli::{Failure, INTERRUPTED, Watch, interrupt_flag};
use crate::guided::{GuidedOptions, GuidedRun, Progress, RunCurves, run_guided};
use crate::machines::host::DataCaches;
use crate::report::{Subject, stored_profile};
use crate::target::{Outcome, Target};

/// Runs the pipeline: results go to `out`, remarks to `messages`. Answers the exit status: the program's own, or that
/// of an interrupted run.
///
/// # Errors
/// [`Failure`] if there is nothing to report.
pub fn run(args: &Args, out: &mut dyn Write, messages: &mut dyn Write) -> Result<u8, Failure> {
    // Found before the run, not after.
    let folder = args.common.folder()?;
    observed(args, &*interrupt_flag()?, folder.is_some(), messages, |subject| {
        args.common.present(
            folder.as_ref(),
            |folder| report::write(subject, folder),
            |out| writeln!(out, "{}", report::object(subject)),
            |out| report::table(subject, folder.as_ref(), out),
            out,
        )
    })
}

/// Runs the program as [`run`] does, and returns its status with what `profile.json` would hold: nothing where no window
/// was observed.
pub(super) fn record(
    args: &Args,
    interrupted: &AtomicBool,
    messages: &mut dyn Write,
) -> Result<(u8, Option<PhaseProfile>), Failure> {
    let mut stored = None;
    let status = observed(args, interrupted, true, messages, |subject| {
        stored = Some(stored_profile(subject)?);
        Ok(())
    })?;
    Ok((status, stored))
}

/// Runs the program and hands what it has shown to `present`.
fn observed(
    args: &Args,
    interrupted: &AtomicBool,
    named: bool,
    messages: &mut dyn Write,
    present: impl FnOnce(&Subject<'_>) -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let line_size = LineSize::new(args.line_size).map_err(Failure::usage)?;
    let caches = DataCaches::of_this_machine();
    let sizes = args.cache_sizes(line_size, &caches)?;
    let options = options(args, line_size, &caches)?;

    let mut target = args.target(line_size)?;
    let run = observe(&mut target, options, interrupted)?;
    let ended = target.outcome();
    let (status, remark) = ending(run.incomplete, &ended, interrupted.load(Ordering::Relaxed));
    // One window is reported like many; the status is the program's own either way.
    let short = too_short(args.window_length(), &run, &target);
    if run.windows.is_empty() {
        let problem = short.unwrap_or_else(|| "no window was observed".to_owned());
        if status == 0 {
            return Err(Failure::Run(problem));
        }
        let _ = writeln!(messages, "phase_guided_cache: {problem}");
        return Ok(status);
    }
    let mut curves = RunCurves::fit(&run, args.model, &sizes);
    if args.draws > 0 {
        let bootstrap =
            Bootstrap::new(report::LEVEL, args.draws, args.common.seed).map_err(Failure::usage)?;
        curves.add_intervals(&run, args.model, &bootstrap)?;
    }
    let mut subject = Subject::new(
        target.name().to_owned(),
        args.model.title().to_owned(),
        &run,
        &curves,
        &caches,
        |address| target.locate(address),
    );
    if named {
        subject.name_code(|address| target.locate(address));
    }
    subject.machine = target.machine();
    subject.scope = args.scope;
    subject.notes = target.notes();
    subject.processes = target.processes();
    let threads = run.threads();
    if threads > subject.processes.len().max(1) {
        subject.notes.push(format!(
            "there were {threads} threads: miss ratios are those of a private cache for each, without what others \
             invalidate; --scope shared gives the cache that all share"
        ));
    }
    subject.operands = target.operands(run.accesses());
    present(&subject)?;
    if let Some(remark) = remark.or(short) {
        // Whoever closed standard error does not want to know.
        let _ = writeln!(messages, "phase_guided_cache: {remark}");
    }
    Ok(status)
}

fn options(args: &Args, line_size: LineSize, caches: &DataCaches) -> Result<GuidedOptions, Failure> {
    let sampled = args.sampled();
    Ok(GuidedOptions {
        reuse: args.reuse(sampled)?,
        guide: GuideConfig {
            profile_first: args.profile_first,
            gap_limit: args.gap_limit,
            follow: args.follow,
            seed: args.common.seed,
            ..GuideConfig::default()
        },
        threshold: args.threshold(sampled),
        line_size,
        largest: args.largest(line_size, caches),
        scope: args.scope.in_files(),
        ..GuidedOptions::default()
    })
}

/// Runs `target` guided by its phases until its end or until `interrupted` is set.
pub(super) fn observe(
    target: &mut Target,
    options: GuidedOptions,
    interrupted: &AtomicBool,
) -> Result<GuidedRun, Failure> {
    let watch = Watch::new(interrupted);
    let show = |progress: &Progress| {
        watch.show_with(|| {
            format!(
                "{} windows, {} profiled, {} phases, {} instructions",
                progress.windows,
                progress.profiled,
                progress.phases,
                crate::report::count(progress.instructions)
            )
        });
        watch.is_interrupted()
    };
    let sampler: &mut dyn Sampler = target.sampler();
    let run = run_guided(sampler, options, show);
    watch.clear();
    let mut run = run?;
    run.incomplete |= interrupted.load(Ordering::Relaxed) || target.ended_early();
    Ok(run)
}

/// What to say of a program that ends within its first window, which shows no phases.
pub(super) fn too_short(window: u64, run: &GuidedRun, target: &Target) -> Option<String> {
    let ended = &target.outcome();
    if run.windows.len() > 1 || run.incomplete && !matches!(ended, Outcome::Signalled(_)) {
        return None;
    }
    let instructions = run.instructions();
    let how = match ended {
        Outcome::Signalled(signal) => format!("was killed by {signal}"),
        Outcome::Exited(code) if *code != 0 => format!("exited with status {code}"),
        Outcome::Exited(_) | Outcome::Unknown => "ended".to_owned(),
    };
    let problem = if instructions == 0 {
        format!(
            "the program {how} within its first window of {window} instructions, and nothing was observed: give \
             shorter windows with --window"
        )
    } else {
        let remedy = (instructions / 50).max(1_000);
        format!(
            "the program {how} after {instructions} instructions, within its first window of {window}: \
             give shorter windows, for example --window {remedy}"
        )
    };
    Some(target.notes().into_iter().fold(problem, |problem, note| format!("{problem}; {note}")))
}

/// The exit status, and a remark on it. The program's own status is passed on, also where it ran on unobserved, which its
/// notes say; else a run that is incomplete never counts as a success. How the program ended means nothing once it was
/// asked to end.
pub(super) fn ending(incomplete: bool, ended: &Outcome, interrupted: bool) -> (u8, Option<String>) {
    match ended {
        _ if interrupted => {
            (INTERRUPTED, Some("interrupted; the report shows the run until then".to_owned()))
        }
        Outcome::Signalled(signal) => {
            let remark = format!("the program was killed by {signal}; the report shows the run until then");
            (signal.shell_status(), Some(remark))
        }
        Outcome::Exited(code) => (u8::try_from(code & 0xFF).unwrap_or(1), None),
        Outcome::Unknown if incomplete => {
            (INTERRUPTED, Some("the run is incomplete; the report shows it until then".to_owned()))
        }
        Outcome::Unknown => (0, None),
    }
}

/// From 1 KiB to twice the largest cache, at least 64 MiB and at most 1 GiB, four sizes an octave.
pub(super) fn default_sizes(line_size: LineSize, caches: &DataCaches) -> Vec<CacheLines> {
    let largest = caches.levels.iter().map(|level| level.bytes).max().unwrap_or(0);
    let last = (2 * largest).next_power_of_two().clamp(64 << 20, 1 << 30);
    let line = u64::from(line_size.bytes());
    let octaves = (last.max(1024) / 1024).ilog2();
    let mut sizes: Vec<CacheLines> = (0..=4 * octaves)
        .map(|k| CacheLines(((1024.0 * 2_f64.powf(f64::from(k) / 4.0)) / line as f64).round() as u64))
        .filter(|size| size.0 > 0)
        .collect();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_asked_to_end_says_so_however_the_program_took_it() {
        let run = GuidedRun {
            windows: Vec::new(),
            phases: Vec::new(),
            centres: std::collections::BTreeMap::new(),
            line_size: LineSize::B64,
            incomplete: true,
            predictions: (0, 0),
        };
        for ended in [Outcome::Unknown, Outcome::Exited(0), Outcome::Exited(1)] {
            let (status, remark) = ending(run.incomplete, &ended, true);
            assert_eq!(status, INTERRUPTED);
            assert!(remark.is_some_and(|remark| remark.starts_with("interrupted")));
        }
        assert_eq!(ending(run.incomplete, &Outcome::Exited(7), false), (7, None));
        assert_eq!(ending(false, &Outcome::Exited(0), false), (0, None));
    }
}
