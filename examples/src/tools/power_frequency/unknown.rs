//! A calibration that knew nothing of its machine, on programs that it never saw.

use phase_detect::PhaseId;
use powersleuth::analysis::{Analysis, Cost, Goal, Objective};
use powersleuth::calibration::MachineModel;
use powersleuth::linux::Thermometer;
use powersleuth::multiplex::Filling;
use powersleuth::{Cycles, Error, Hertz, Kelvin, Seconds, Watts};

use super::bench::Simulated;
use super::calibrate::INTERVAL;
use super::events::roles;
use super::judge::{Errors, Regret, errors, regret, truth_with};
use super::observe::{all_counted, phases};
use crate::cli::Failure;
use crate::machines::ooo::{Machine, Package, PackageSettings, PowerTruth, Run, simulate};
use crate::workloads::Workload;

/// How far off a program is.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub program: String,
    /// Time at the lowest frequency, profiled at the highest.
    pub time: Errors,
    /// Power at the highest frequency, and from there at the lowest.
    pub power: [Errors; 2],
    /// Share of its intervals, at all frequencies, whose true time and power lie within the interval of their phase
    /// instance's prediction.
    pub inside: [f64; 2],
    /// A schedule for the least energy-delay product with no phase more than 10 % slower, with the model's margin, against
    /// one made from the truth.
    pub regret: Regret,
}

/// How far off all are.
#[derive(Clone, Debug)]
pub struct Unknown {
    /// One per program.
    pub rows: Vec<Row>,
    /// What the calibration itself says of time and power from the highest to the lowest frequency: mean error and
    /// interval.
    pub promised: [[f64; 2]; 2],
}

/// How far into the drift of a calibration's room the programs run: a room that goes on warming up.
const WARM: f64 = 0.8;

impl Unknown {
    /// Predicts `programs` from profiles at the highest frequency of `machine` by `model`, everything counted.
    ///
    /// # Errors
    /// [`Failure`] if one cannot run.
    pub fn judge(
        machine: &Simulated,
        model: &MachineModel,
        programs: Vec<(&str, Workload)>,
        seed: u64,
    ) -> Result<Self, Failure> {
        let all: Vec<Hertz> = machine.points.frequencies().collect();
        let (lowest, highest) = (all[0], all[all.len() - 1]);
        let settings = Machine { core: machine.core, frequencies: all, interval: INTERVAL };
        let mut rows = Vec::new();
        for (name, workload) in programs {
            let events = workload.events()?;
            let run = simulate(events, &settings, usize::MAX)?;
            rows.push(row(name, &run, machine, model, seed)?);
        }
        let promised = model.route(highest, lowest).map_or([[0.0; 2]; 2], |route| {
            [route.time, route.power].map(|accuracy| [accuracy.mean, accuracy.interval])
        });
        Ok(Self { rows, promised })
    }

    /// Mean over programs of something.
    pub fn mean(&self, of: impl Fn(&Row) -> f64) -> f64 {
        self.rows.iter().map(of).sum::<f64>() / self.rows.len() as f64
    }
}

fn row(name: &str, run: &Run, machine: &Simulated, model: &MachineModel, seed: u64) -> Result<Row, Failure> {
    let frequencies = &run.frequencies;
    let clock = frequencies.len() - 1;
    let (lowest, highest) = (frequencies[0], frequencies[clock]);
    let phases = phases(run, seed)?;
    let profile =
        all_counted(run, &phases, clock)?.interpolate(Filling::default())?.profile(highest, &roles())?;
    let what = "the time of a calibration";
    let fit = model.time_at(highest).ok_or(Error::NotCounted { interval: 0, what })?;
    let predict =
        |excess: Kelvin| Analysis::predict(&profile, &fit.model, &model.warmer(excess)?, frequencies);

    let room = machine.package.drift * WARM;
    let mut predicted = predict(Kelvin(0.0))?;
    if let Some(thermal) = &model.thermal {
        let expected = predicted.program_costs()[clock].power();
        predicted = predict(thermal.excess(temperature(run, machine, room, seed)?, expected))?;
    }
    let mut sensor = PowerTruth::new(seed).in_a_room(room);
    let truth = truth_with(&mut sensor, run, &phases, &machine.points, frequencies)?;
    let bound = Goal::least(Objective::Edp).within(0.1)?;
    let schedule = predicted.schedule(&bound.with_margin(fit.margin)?);
    let (time, power) = (|cost: Cost| cost.time.0, |cost: Cost| cost.power().0);
    Ok(Row {
        program: name.to_owned(),
        time: errors(&predicted, &truth, lowest, time)?,
        power: [errors(&predicted, &truth, highest, power)?, errors(&predicted, &truth, lowest, power)?],
        inside: inside(&predicted, &truth, model, highest),
        regret: regret(&truth, &schedule, &bound),
    })
}

/// What the package shows while the program runs at the highest frequency in a room that is `warmer`.
fn temperature(run: &Run, machine: &Simulated, warmer: Kelvin, seed: u64) -> Result<Kelvin, Error> {
    let clock = run.frequencies.len() - 1;
    let point = machine.points.at(run.frequencies[clock])?;
    let (mut cycles, mut drawn) = (Cycles(0.0), [Watts(0.0); 2]);
    for interval in &run.intervals {
        let each = interval.clocks[clock].cycles;
        cycles += Cycles(each);
        let parts = PowerTruth::parts(interval, clock, &point, warmer);
        drawn = [drawn[0] + parts[0] * each, drawn[1] + parts[1] * each];
    }
    let [leakage, switching] = drawn.map(|watts| watts / cycles.0);
    // As warm as it becomes in a second.
    let settings = PackageSettings { drift: warmer, duration: Seconds(1.0), ..machine.package };
    let package = Package::new(settings, seed);
    package.draw(leakage + switching, switching, Seconds(1.0));
    Thermometer::find(package)?.read()
}

/// Shares of the intervals whose phase instance lies within the model's intervals of time and of power.
fn inside(
    predicted: &Analysis<PhaseId>,
    truth: &Analysis<PhaseId>,
    model: &MachineModel,
    from: Hertz,
) -> [f64; 2] {
    let (mut inside, mut all) = ([0.0; 2], 0.0);
    for (number, instance) in truth.instances().iter().enumerate() {
        let weight = instance.intervals.len() as f64;
        for (level, &to) in truth.frequencies().iter().enumerate() {
            // At the profile's own frequency time is not predicted.
            let Some(route) = model.route(from, to).filter(|_| to != from) else { continue };
            let (ours, theirs) =
                (predicted.instance_costs(number)[level], truth.instance_costs(number)[level]);
            let ratios = [theirs.time / ours.time, theirs.power() / ours.power()];
            for ((count, ratio), accuracy) in inside.iter_mut().zip(ratios).zip([route.time, route.power]) {
                *count += weight * f64::from(u8::from((ratio - 1.0).abs() <= accuracy.interval));
            }
            all += weight;
        }
    }
    inside.map(|count| count / all)
}
