//! How far off everything is, on embedded programs whose truth is known at every frequency.

mod report;

pub use report::print;

use phase_detect::PhaseId;
use powersleuth::Hertz;
use powersleuth::analysis::{Analysis, Cost, Goal};
use powersleuth::multiplex::{Complete, CounterGroups, Filling, InTime, PerPhase};
use powersleuth::performance::{Linear, PerformanceModel, StallBased};
use powersleuth::power::{OperatingPoints, PowerModel};

use super::bench::Simulated;
use super::calibrate::{self, Calibration, INTERVAL};
use super::counted::{Setup, ascending};
use super::events::{EVENTS, roles};
use super::judge::{Errors, Regret, errors, filling_error, regret, truth};
use super::unknown::Unknown;
use super::{observe, suite};
use crate::cli::{Failure, Watch};
use crate::machines::ooo::{Machine, simulate};
use crate::workloads::Workload;

/// The journeys that are judged: profiled at the one, predicted for the other.
pub const ROUTES: [&str; 3] = ["max -> min", "median -> min", "min -> max"];
/// The performance models that are judged.
pub const MODELS: [&str; 3] = ["linear", "stall-based", "calibrated"];

/// Errors on one program.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub program: String,
    /// Its intervals.
    pub intervals: usize,
    /// Its phases.
    pub phases: usize,
    /// Its phase instances.
    pub instances: usize,
    /// Of time, by route and model, every event counted all the time.
    pub time: [[Errors; 3]; 3],
    /// Of power at the highest frequency, from a profile there, and at the lowest.
    pub power: [Errors; 2],
    /// Of the counts that multiplexing leaves out: phase by phase, and in time.
    pub filling: [f64; 2],
    /// Of time and power at the lowest frequency, from a multiplexed profile at the highest.
    pub multiplexed: [Errors; 2],
    /// The schedule of that profile against an exhaustive search of the truth.
    pub regret: Regret,
}

/// Errors on all programs.
#[derive(Clone, Debug)]
pub struct Table {
    /// Lowest, median and highest frequency: the stations of the [`ROUTES`].
    pub stations: [Hertz; 3],
    /// One per program.
    pub rows: Vec<Row>,
    /// The same machine and programs with nothing known of it beforehand.
    pub unknown: Option<Unknown>,
}

impl Table {
    /// Mean over programs of something.
    pub fn mean(&self, of: impl Fn(&Row) -> f64) -> f64 {
        self.rows.iter().map(of).sum::<f64>() / self.rows.len() as f64
    }

    /// The largest over programs of something.
    pub fn worst(&self, of: impl Fn(&Row) -> f64) -> f64 {
        self.rows.iter().map(of).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Judges the eight programs of the suite, and a calibration of `machine` that knows nothing of it on them.
///
/// # Errors
/// [`Failure`] if one cannot run, or the user does not want to wait.
pub fn judge(machine: &Simulated, setup: &Setup, goal: Goal, watch: &Watch<'_>) -> Result<Table, Failure> {
    let points = machine.points.clone();
    let stations = stations(&points);
    watch.show("calibrating on the training programs");
    let calibration = Calibration::run(setup.core, points, stations.to_vec(), setup.seed, watch.flag())?;
    let mut rows = Vec::new();
    for (name, workload) in suite::evaluation(setup.seed.wrapping_add(1), 1) {
        if watch.is_interrupted() {
            return Err(calibrate::interrupted());
        }
        watch.show(name);
        rows.push(row(name, &workload, &calibration, setup, &goal)?);
    }
    watch.show("calibrating as if nothing were known");
    let model = machine.calibrate(setup.seed, watch.flag())?;
    watch.show("judging that");
    let seed = setup.seed.wrapping_add(1);
    let unknown = Unknown::judge(machine, &model, suite::evaluation(seed, 1), seed)?;
    Ok(Table { stations, rows, unknown: Some(unknown) })
}

/// Lowest, median and highest.
pub fn stations(points: &OperatingPoints) -> [Hertz; 3] {
    let all: Vec<Hertz> = points.frequencies().collect();
    [all[0], all[all.len() / 2], all[all.len() - 1]]
}

/// Judges one program; `calibration` is at the [`stations`], schedules choose among the frequencies of `setup`.
///
/// # Errors
/// [`Failure`] if it cannot run.
pub fn row(
    name: &str,
    workload: &Workload,
    calibration: &Calibration,
    setup: &Setup,
    goal: &Goal,
) -> Result<Row, Failure> {
    let points = calibration.points();
    let stations = stations(points);
    let frequencies = ascending(stations.iter().chain(&setup.frequencies).copied().collect());
    let machine = Machine { core: setup.core, frequencies: frequencies.clone(), interval: INTERVAL };
    let events = workload.events()?;
    let run = simulate(events, &machine, usize::MAX)?;
    let phases = observe::phases(&run, setup.seed)?;
    let truth = truth(&run, &phases, points, &frequencies, setup.seed)?;
    let (power, _) = calibration.power(setup.seed)?;
    let clock = |station: usize| frequencies.iter().position(|&f| f == stations[station]).unwrap_or(0);
    let predict = |complete: &Complete<PhaseId>, model: &dyn PerformanceModel, station: usize| {
        predict(complete, model, &power, stations[station], &frequencies)
    };
    let time = |cost: Cost| cost.time.0;
    let watts = |cost: Cost| cost.power().0;

    let mut by_route = [[Errors::default(); 3]; 3];
    let stall = StallBased::new(calibration.latency())?;
    let mut power_errors = [Errors::default(); 2];
    for (route, (from, to)) in by_route.iter_mut().zip([(2, 0), (1, 0), (0, 2)]) {
        let counted = observe::all_counted(&run, &phases, clock(from))?.interpolate(Filling::default())?;
        let calibrated = calibration.stalls(stations[from])?;
        let models: [&dyn PerformanceModel; 3] = [&Linear, &stall, &calibrated];
        for (slot, model) in route.iter_mut().zip(models) {
            *slot = errors(&predict(&counted, model, from)?, &truth, stations[to], time)?;
        }
        if (from, to) == (2, 0) {
            let predicted = predict(&counted, &calibrated, from)?;
            power_errors = [
                errors(&predicted, &truth, stations[from], watts)?,
                errors(&predicted, &truth, stations[to], watts)?,
            ];
        }
    }

    let (highest, lowest) = (stations[2], stations[0]);
    let groups = CounterGroups::round_robin(EVENTS.len(), setup.counters)?;
    let turns = groups.as_slice().len();
    let guided = observe::multiplexed(&run, &phases, clock(2), groups.clone(), PerPhase::new(turns))?
        .interpolate(Filling::default())?;
    let timed = observe::multiplexed(&run, &phases, clock(2), groups, InTime::new(turns))?.carry_forward()?;
    let predicted = predict(&guided, &calibration.stalls(highest)?, 2)?;
    let goal = goal.with_margin(calibration.margin(highest)?)?;
    Ok(Row {
        program: name.to_owned(),
        intervals: truth.intervals(),
        phases: truth.phases().len(),
        instances: truth.instances().len(),
        time: by_route,
        power: power_errors,
        filling: [filling_error(&run, &guided, clock(2)), filling_error(&run, &timed, clock(2))],
        multiplexed: [errors(&predicted, &truth, lowest, time)?, errors(&predicted, &truth, lowest, watts)?],
        regret: regret(&truth, &predicted.schedule(&goal), &goal),
    })
}

fn predict(
    complete: &Complete<PhaseId>,
    model: &dyn PerformanceModel,
    power: &PowerModel,
    profiled_at: Hertz,
    frequencies: &[Hertz],
) -> Result<Analysis<PhaseId>, powersleuth::Error> {
    Analysis::predict(&complete.profile(profiled_at, &roles())?, &model, power, frequencies)
}
