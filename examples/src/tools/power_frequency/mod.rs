//! Time, power and energy of each phase at each frequency, and which one to run it at.
//!
//! - [`suite`]: the programs that models are fitted on, and those they are judged by;
//! - [`calibrate`]: what is measured once per machine;
//! - [`events`], [`observe`]: what a run shows on few counters;
//! - [`counted`], [`modelled`]: from a program to a [`study::Study`];
//! - `stored`: from a phase profile; [`recorded`]: from one of a run that was counted;
//! - [`live`]: the same on this machine's own counters;
//! - [mod@bench], `machine`: a machine of which nothing is known is calibrated;
//! - [`mod@apply`]: a schedule followed;
//! - [`judge`], [`accuracy`], [`unknown`]: predictions against the truth.

pub mod accuracy;
pub mod apply;
mod args;
pub mod bench;
pub mod calibrate;
pub mod counted;
pub mod events;
mod figures;
mod files;
pub mod judge;
pub mod live;
mod machine;
pub mod modelled;
pub mod observe;
mod page;
pub mod recorded;
mod report;
mod stored;
pub mod study;
pub mod suite;
pub mod unknown;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use phase_detect::{GuideConfig, PhaseId};
use powersleuth::analysis::{Analysis, Hysteresis};
use powersleuth::power::OperatingPoints;
use reuse_sampler::file::PhaseProfile;

pub use self::args::{Args, Calibrated};
use self::calibrate::Calibration;
use self::counted::{Models, Setup};
use self::live::native::can_count;
use self::modelled::TrafficModel;
use self::study::{Advice, PhaseView, Study, Used};
use super::phase_guided_cache;
use crate::cli::{Failure, INTERRUPTED, Watch, interrupt_flag};
use crate::guided::{GuidedOptions, GuidedRun};
use crate::machines::host::processor;
use crate::machines::ooo::nehalem_points;
use crate::output::OutputDir;
use crate::report::{guided_profile, letters, rank, write_profile};
use crate::target::{Backend, Target, observing};

/// Runs the command until its end or Ctrl-C; writes results to `out` and remarks to `messages`. Returns the exit status.
///
/// # Errors
/// [`Failure`] if there is nothing to report.
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
    let counting = !args.program.is_empty() && !args.modelled;
    let cannot = if counting { can_count(&[]).err() } else { None };
    if let Some(reason) = cannot.as_ref().filter(|_| args.counted) {
        return Err(Failure::Run(reason.to_string()));
    }
    let points = nehalem_points()?;
    // Mistakes are found before the run, not after.
    args.goal(powersleuth::Watts(0.0))?;
    args.limits()?;
    args.applied_to()?;
    let hysteresis = args.hysteresis()?;
    let folder = args.common.folder()?;
    let watch = Watch::new(interrupted);
    if let Some(which) = args.calibrate {
        let model = match which {
            Calibrated::Here => live::bench::calibrate(args, &watch)?,
            Calibrated::Simulated => {
                watch.show("calibrating");
                let asked = args.setup(&points)?.frequencies;
                let asked: Result<Vec<_>, _> =
                    asked.into_iter().map(|frequency| points.at(frequency)).collect();
                let points = asked.and_then(OperatingPoints::new)?;
                let machine = args.simulated(points);
                machine.calibrate(args.common.seed, interrupted)?
            }
        };
        watch.clear();
        return machine::print(&model, args, folder.as_ref(), out).map(|()| 0);
    }
    if counting && cannot.is_none() {
        let (study, ending) = live::count(args, interrupted, &watch)?;
        watch.clear();
        record(&study, Some(processor()), folder.as_ref())?;
        return print(args, &study, hysteresis, folder.as_ref(), ending, interrupted, out, messages);
    }
    if let Some(path) = &args.profile {
        let study = stored::study(args, path, points, &watch)?;
        watch.clear();
        return print(args, &study, hysteresis, folder.as_ref(), (0, None), interrupted, out, messages);
    }
    let setup = args.setup(&points)?;
    if args.accuracy {
        let table =
            accuracy::judge(&args.simulated(points), &setup, args.goal(powersleuth::Watts(0.0))?, &watch)?;
        watch.clear();
        return accuracy::print(&table, args, folder.as_ref(), out).map(|()| 0);
    }
    let (mut study, ending) = if args.program.is_empty() && !args.modelled {
        let (name, workload) = args.workload()?;
        let models = if let Some(model) = args.machine_model()? {
            Models::saved(&model, &setup)?
        } else {
            let calibration = calibrate(points.clone(), &setup, &watch)?;
            Models::fitted(&calibration, &setup)?
        };
        let progress = |events| watch.show_with(|| format!("{} events", crate::report::count(events)));
        let study = counted::study(name, &workload, &points, models, &setup, interrupted, progress);
        let study = study?;
        let ending = if study.incomplete { interrupted_ending() } else { (0, None) };
        (study, ending)
    } else {
        let mut target = target(args, &setup)?;
        let options = GuidedOptions {
            guide: GuideConfig { seed: setup.seed, ..GuideConfig::default() },
            ..GuidedOptions::default()
        };
        let run = phase_guided_cache::observe(&mut target, options, interrupted)?;
        let ended = target.outcome();
        let (status, remark) =
            phase_guided_cache::ending(run.incomplete, &ended, interrupted.load(Ordering::Relaxed));
        let short = phase_guided_cache::too_short(args.window(), &run, &target);
        if run.windows.is_empty() {
            let problem = short.unwrap_or_else(|| "no window was observed".to_owned());
            return Err(if status == 0 { Failure::Run(problem) } else { Failure::Program(status, problem) });
        }
        // What was seen of the program is reported even after an interruption.
        let calibration = calibrate(points, &setup, &Watch::new(&AtomicBool::new(false)))?;
        let mut study = model(&calibration, &setup, args.window(), &run, &mut target)?;
        study.notes.extend(short);
        if let Some(folder) = &folder {
            write_profile(&observed(&run, &study, &mut target), folder)?;
        }
        (study, (status, remark))
    };
    watch.clear();
    if let Some(reason) = cannot {
        study.notes.insert(0, format!("not counted, because: {reason}"));
    }
    record(&study, None, folder.as_ref())?;
    print(args, &study, hysteresis, folder.as_ref(), ending, interrupted, out, messages)
}

/// Writes what was counted of a run.
fn record(study: &Study, processor: Option<String>, folder: Option<&OutputDir>) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    recorded::profile(study, processor)?.map_or(Ok(()), |profile| write_profile(&profile, folder))
}

/// Prints what to do about it, and does it if asked.
#[expect(clippy::too_many_arguments)] // what a run has found, and where to say it
fn print(
    args: &Args,
    study: &Study,
    hysteresis: Option<Hysteresis>,
    folder: Option<&OutputDir>,
    (status, remark): (u8, Option<String>),
    interrupted: &AtomicBool,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<u8, Failure> {
    let drawn = study.predicted.program_costs()[study.predicted.fastest().0].power();
    let advice = Advice::give(study, args.goal(drawn)?, args.limits()?.as_ref(), hysteresis)?;
    let applied = args.applied_to()?;
    let applied =
        applied.map(|(files, dwell)| apply::apply(study, &advice.schedule, &files, dwell, interrupted));
    let report = report::Report {
        applied: applied.transpose()?,
        study,
        advice: &advice,
        objective: args.objective_name(),
        limits: args.limits_in_words(),
        seed: args.common.seed,
    };
    args.common.present(
        folder,
        |folder| report.write(folder),
        |out| writeln!(out, "{}", report.object()),
        |out| report.write_table(folder, out),
        out,
    )?;
    if let Some(remark) = remark {
        // Whoever closed standard error does not want to know.
        let _ = writeln!(messages, "power_frequency: {remark}");
    }
    Ok(status)
}

fn interrupted_ending() -> (u8, Option<String>) {
    (INTERRUPTED, Some("interrupted; the report shows the run until then".to_owned()))
}

/// What is run where nothing counts its cycles.
fn target(args: &Args, setup: &Setup) -> Result<Target, Failure> {
    let to_stderr = args.common.claims_stdout();
    let mut options = observing(Backend::Exact, args.children, args.cpu, to_stderr);
    options.window = args.window();
    options.seed = setup.seed;
    if args.program.is_empty() {
        let (name, workload) = args.workload()?;
        return Target::workload(name, &workload, &options).map_err(Failure::usage);
    }
    Target::program(&args.program, &options).map_err(Failure::run)
}

fn calibrate(points: OperatingPoints, setup: &Setup, watch: &Watch<'_>) -> Result<Calibration, Failure> {
    watch.show("calibrating on the training programs");
    let frequencies = counted::calibrated_at(&points, setup.profiled_at);
    Calibration::run(setup.core, points, frequencies, setup.seed, watch.flag()).map_err(Failure::run)
}

/// A study of what was guided through.
fn model(
    calibration: &Calibration,
    setup: &Setup,
    window: u64,
    run: &GuidedRun,
    target: &mut Target,
) -> Result<Study, Failure> {
    let mut notes = target.notes();
    let model = TrafficModel::fit(calibration, setup.seed)?;
    let (predicted, code) = model.predict(run, &setup.frequencies)?;
    let threads = run.threads();
    if threads > 1 {
        notes.push(in_turn(threads));
    }
    let views = Study::views(&predicted, &code, |address| target.locate(address))?;
    let (program, incomplete) = (target.name().to_owned(), run.incomplete);
    let study = modelled_study(program, &model, setup, window, predicted, views, notes, incomplete);
    Ok(Study { processes: target.processes(), ..study })
}

/// What was observed, with phases named as in the report; those that it leaves out follow.
fn observed(run: &GuidedRun, study: &Study, target: &mut Target) -> PhaseProfile {
    let others = study.views.len();
    let name = |phase: PhaseId| match study.rank(phase) {
        Some(rank) => study.views[rank].name.clone(),
        None => letters(others + phase.index()),
    };
    let mut profile = guided_profile(run, &study.program, name, |address| target.locate(address));
    profile.machine = target.machine();
    profile.phases.sort_by_key(|phase| rank(&phase.phase));
    profile
}

fn in_turn(threads: usize) -> String {
    format!(
        "{threads} threads, those of children included: times are those of one core that runs them in turn"
    )
}

/// A study whose cycles nobody counted.
#[expect(clippy::too_many_arguments)] // the fields that differ
fn modelled_study(
    program: String,
    model: &TrafficModel,
    setup: &Setup,
    interval: u64,
    predicted: Analysis<PhaseId>,
    views: Vec<PhaseView>,
    notes: Vec<String>,
    incomplete: bool,
) -> Study {
    let basis = "Modelled, not measured: nothing counted cycles here. What misses each cache comes from the reuse of \
                 the program's data (StatStack); what that costs in time and power, from a simulated out-of-order core \
                 with 32 KiB, 256 KiB and 2 MiB of cache. On programs whose truth is known, the effect of the clock is \
                 within a tenth and time itself within a factor of three, or more where misses wait for each other.";
    Study {
        program,
        basis: basis.to_owned(),
        source: "reuse",
        modelled: true,
        interval,
        profiled_at: model.frequency(),
        predicted,
        truth: None,
        margin: None,
        views,
        models: Used {
            performance: "misses modelled from reuse",
            power: calibrate::machine_name(&setup.core),
            errors: Vec::new(),
        },
        notes,
        processes: Vec::new(),
        incomplete,
        counted: None,
    }
}
