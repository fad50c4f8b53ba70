//! How much slower a program runs beside others, and how much that varies: predicted from each program alone, and
//! where programs can be played, beside what happens on the chip.

mod args;
mod bench;
mod certainty;
mod cliffs;
mod courses;
mod embedded;
mod evaluation;
mod figures;
mod files;
mod ground;
mod object;
mod observe;
mod page;
mod predict;
mod profiles;
mod record;
mod reference;
mod returns;
mod reuse;
mod schedule;
mod single;
mod solo;
pub(super) mod stored;
mod streams;
mod tables;
mod ways;

pub use args::{Args, MethodName, Model};
pub use solo::Curves;

use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use cachesharing::{CoSchedule, Offsets, Program, SharedCache, SlowdownDistribution, TrajectoryBin};

use self::args::{Experiment, PredictArgs, Task};
use self::ground::Ground;
use self::predict::{Answer, Question};
use crate::cli::{Failure, Watch, ended, interrupt_flag};
use crate::machines::testbed::programs::Recorded;
use crate::parallel::available;
use crate::report::bytes;

/// What happened on the chip.
struct Truth {
    slowdowns: Vec<f64>, // of the first runs
    distribution: SlowdownDistribution,
    seconds: f64,            // for all of them
    fastest: reference::Run, // the run that is predicted to be the fastest
    slowest: reference::Run, // and the slowest
    alone: f64,              // cycles
}

/// Everything that is reported.
struct Findings {
    programs: Vec<Program<u64>>,
    cache: SharedCache,
    line: f64, // bytes
    model: Model,
    offsets: Offsets,
    answer: Answer,
    schedule: Option<CoSchedule>,
    ways: Option<ways::Ways>,
    truth: Option<Truth>,
    notes: Vec<String>,
    interrupted: bool,
}

/// Runs the pipeline until its end or Ctrl-C. `out` takes the result, `messages` what else is to be said.
///
/// # Errors
/// [`Failure`] with one line for the user.
pub fn run(args: &Args, out: &mut dyn Write, messages: &mut dyn Write) -> Result<u8, Failure> {
    run_until(&interrupt_flag()?, args, out, messages)
}

/// The same until `interrupted` is set: the runs simulated so far are then reported.
///
/// # Errors
/// As [`run`].
pub fn run_until(
    interrupted: &Arc<AtomicBool>,
    args: &Args,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<u8, Failure> {
    let watch = Watch::new(interrupted);
    match &args.task {
        Some(Task::Record(args)) => record::record(args, &watch, out, messages),
        Some(Task::Predict(args)) => predict_until(&watch, args, out, messages),
        None => predict_until(&watch, &args.predict, out, messages),
    }
}

fn predict_until(
    watch: &Watch<'_>,
    args: &PredictArgs,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<u8, Failure> {
    // Found before the run, not after.
    let folder = args.common.folder()?;
    if args.evaluate {
        let whole = evaluation::evaluate(args, ground(args)?, threads(args), folder.as_ref(), watch, out)?;
        return Ok(ended(!whole, "corun_variability", "the pairs are those finished", messages));
    }
    match args.experiment {
        Some(Experiment::Windows) => {
            let whole = single::experiment(args, &ground(args)?, threads(args), watch, out)?;
            return Ok(ended(!whole, "corun_variability", "the windows are those finished", messages));
        }
        Some(Experiment::Cliffs) => {
            let whole = cliffs::experiment(args, &ground(args)?, threads(args), watch, out)?;
            return Ok(ended(!whole, "corun_variability", "the groups are those finished", messages));
        }
        None => {}
    }
    let found = find(args, watch)?;
    watch.clear();
    args.common.present(
        folder.as_ref(),
        |folder| files::write(args, &found, folder),
        |out| writeln!(out, "{}", object::object(args, &found)),
        |out| tables::write(args, &found, folder.as_ref(), out),
        out,
    )?;
    Ok(ended(found.interrupted, "corun_variability", "the simulated runs are those", messages))
}

/// Ends what has nothing to report yet.
fn go_on(watch: &Watch<'_>) -> Result<(), Failure> {
    if watch.is_interrupted() {
        return Err(Failure::run("interrupted before anything was predicted"));
    }
    Ok(())
}

fn threads(args: &PredictArgs) -> NonZeroUsize {
    args.threads.unwrap_or_else(available)
}

fn find(args: &PredictArgs, watch: &Watch<'_>) -> Result<Findings, Failure> {
    let threads = threads(args);
    let offsets = Offsets::random(args.offsets as usize, args.common.seed);
    let mut ground = ground(args)?;
    let played = played(args, &ground)?;
    let mut notes = Vec::new();
    let mut model = args.model();
    let (programs, cache) = if played.is_empty() {
        let read = profiles::read(&args.profiles, args, &ground)?;
        notes = read.notes;
        model = args.sharing.unwrap_or(read.model);
        (read.programs, read.cache)
    } else {
        (alone(args, &mut ground, &played, threads, watch)?, ground.cache()?)
    };
    watch.show("predicting");
    go_on(watch)?;
    let question = Question {
        programs: &programs,
        cache,
        way: cache.bytes() / cache.ways().unwrap_or(ground.settings.shared.geometry.ways() as f64),
        model,
        extrapolate: args.files.extrapolate,
        offsets: &offsets,
        threads,
    };
    let answer = question.answer(args.method)?;
    let schedule = args.schedule.then(|| schedule::of(&question)).transpose()?;
    let simulates = !played.is_empty() && args.simulate != Some(0);
    let on_chip = simulates.then_some((&ground, played.as_slice()));
    let count = cache.ways().map_or(ground.settings.shared.geometry.ways(), |ways| ways as u64);
    let ways = args.partition.map(|policy| ways::of(&question, count, policy, on_chip)).transpose()?;
    let truth = if played.is_empty() {
        None
    } else {
        simulate(args, &ground, &played, &offsets, &answer, threads, watch)?
    };
    let interrupted = watch.is_interrupted();
    let curve = programs.first().and_then(|program| program.phases().first());
    let line = curve.map_or(ground.settings.line_size().bytes(), |(_, curve)| curve.line_size());
    let line = f64::from(line);
    Ok(Findings { programs, cache, line, model, offsets, answer, schedule, ways, truth, notes, interrupted })
}

/// The chip.
/// Measures each program alone, in windows that suit the longest.
fn alone(
    args: &PredictArgs,
    ground: &mut Ground,
    played: &[Recorded],
    threads: NonZeroUsize,
    watch: &Watch<'_>,
) -> Result<Vec<Program<u64>>, Failure> {
    let longest = played.iter().map(|p| p.recording.references()).max().unwrap_or(1);
    ground.window = args.measured.window.unwrap_or_else(|| Ground::window(longest));
    let measure = |recorded: &Recorded| {
        watch.show(format!("measuring {} alone", recorded.name));
        go_on(watch)?;
        solo::profile(ground, recorded, args.measured.curves, threads)
    };
    played.iter().map(measure).collect()
}

fn ground(args: &PredictArgs) -> Result<Ground, Failure> {
    args.measured.ground(&args.chip, if args.names_nothing() { 8 } else { 1 }, args.common.seed)
}

/// The programs that are to be played on the chip: none where profiles are given.
fn played(args: &PredictArgs, ground: &Ground) -> Result<Vec<Recorded>, Failure> {
    let line_size = args.chip.line_size();
    if !args.traces.is_empty() {
        return args.traces.load(2, line_size);
    }
    match args.profiles.len() {
        0 => {}
        1 => return Err(Failure::usage("one profile shares with nobody: give at least two, or one twice")),
        _ => return Ok(Vec::new()),
    }
    let names: Vec<&str> = match args.embedded.as_slice() {
        [] => embedded::DEFAULT.to_vec(),
        [only] if only == "embedded" => embedded::DEFAULT.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    if names.len() < 2 {
        return Err(Failure::usage("one program shares with nobody: name at least two"));
    }
    let bytes = ground.settings.shared.geometry.bytes();
    names.iter().map(|name| embedded::program(name, bytes, line_size, args.common.seed)).collect()
}

fn simulate(
    args: &PredictArgs,
    ground: &Ground,
    played: &[Recorded],
    offsets: &Offsets,
    answer: &Answer,
    threads: NonZeroUsize,
    watch: &Watch<'_>,
) -> Result<Option<Truth>, Failure> {
    let count = args.simulate.unwrap_or(args.offsets).min(args.offsets) as usize;
    if count == 0 {
        return Ok(None);
    }
    let programs: Vec<&Recorded> = played.iter().collect();
    let lists: Vec<Vec<f64>> = (0..count).map(|run| offsets.of_run(run, programs.len())).collect();
    watch.show(format!("simulating {count} runs"));
    let alone = reference::alone(ground, programs[0])?;
    let began = Instant::now();
    let runs = reference::together(ground, &programs, &lists, threads, &|| watch.is_interrupted())?;
    let seconds = began.elapsed().as_secs_f64();
    if runs.is_empty() {
        return Ok(None);
    }
    let slowdowns: Vec<f64> = runs.iter().map(|run| run.cycles / alone).collect();
    let distribution = SlowdownDistribution::new(slowdowns.clone())?;
    let tracked = |run: usize| reference::tracked(ground, &programs, &offsets.of_run(run, programs.len()));
    let (fastest, slowest) = (tracked(answer.fastest.run)?, tracked(answer.slowest.run)?);
    Ok(Some(Truth { slowdowns, distribution, seconds, fastest, slowest, alone }))
}

impl Findings {
    /// Who runs beside whom.
    fn title(&self) -> String {
        let names: Vec<&str> = self.programs.iter().map(Program::name).collect();
        let cache = bytes(self.cache.bytes() as u64);
        format!("{} beside {}, sharing {cache}", names[0], names[1..].join(", "))
    }

    /// A program over the time of the slowest run, predicted and, where it was, simulated.
    fn courses(&self, program: usize) -> Result<Vec<(&'static str, Vec<TrajectoryBin>)>, Failure> {
        let trajectory = &self.answer.slowest.trajectory;
        let width = courses::width(trajectory.time());
        let mut found = vec![("predicted", trajectory.over_time(program, width)?)];
        if let Some(track) = self.truth.as_ref().and_then(|truth| truth.slowest.track.get(program)) {
            found.push(("simulated", courses::simulated(track, width, self.line)));
        }
        Ok(found)
    }

    /// What a method predicts for the offsets that were simulated.
    fn predicted_of(&self, method: usize, truth: &Truth) -> Option<SlowdownDistribution> {
        let slowdowns = &self.answer.methods[method].variability.slowdowns;
        SlowdownDistribution::new(slowdowns.iter().take(truth.slowdowns.len()).copied().collect()).ok()
    }

    /// Time to simulate all offsets over the time to predict them.
    fn speedup(&self, seconds: f64, truth: &Truth) -> f64 {
        let runs = self.answer.chosen().slowdowns.len() as f64;
        truth.seconds / truth.slowdowns.len() as f64 * runs / seconds
    }
}
