//! Predictions against what the reference core really took and drew.

use phase_detect::PhaseId;
use powersleuth::analysis::{Analysis, Cost, Goal, Schedule};
use powersleuth::multiplex::Complete;
use powersleuth::power::{OperatingPoint, OperatingPoints};
use powersleuth::{Cycles, Error, Hertz};

use super::events::{EVENTS, counts};
use super::observe::clock_at;
use crate::machines::ooo::{PowerTruth, Run};

/// What the run costs at each of `frequencies`, power as a sensor reads it.
///
/// # Errors
/// [`Error::UnknownFrequency`] if it did not run at one; [`Error::BeyondPoints`] if one has no voltage.
pub fn truth(
    run: &Run,
    phases: &[PhaseId],
    points: &OperatingPoints,
    frequencies: &[Hertz],
    seed: u64,
) -> Result<Analysis<PhaseId>, Error> {
    truth_with(&mut PowerTruth::new(seed), run, phases, points, frequencies)
}

/// The same as `sensor` reads it.
///
/// # Errors
/// As [`truth`].
pub fn truth_with(
    sensor: &mut PowerTruth,
    run: &Run,
    phases: &[PhaseId],
    points: &OperatingPoints,
    frequencies: &[Hertz],
) -> Result<Analysis<PhaseId>, Error> {
    let watched = |&frequency: &Hertz| {
        let unknown = Error::UnknownFrequency { hertz: frequency.0 };
        Ok((clock_at(run, frequency).ok_or(unknown)?, points.at(frequency)?))
    };
    let clocks: Vec<(usize, OperatingPoint)> =
        frequencies.iter().map(watched).collect::<Result<_, Error>>()?;
    let intervals = run.intervals.iter().zip(phases).map(|(interval, &phase)| {
        let costs = clocks.iter().map(|(clock, point)| {
            let time = Cycles(interval.clocks[*clock].cycles) / point.frequency;
            Cost { time, energy: sensor.read(interval, *clock, point) * time }
        });
        (phase, interval.activity.instructions as f64, costs.collect::<Vec<Cost>>())
    });
    Analysis::from_costs(frequencies, intervals)
}

/// Errors of one program's phase instances, relative, weighted by their intervals: as the paper computes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Errors {
    /// Mean of their sizes.
    pub mean: f64,
    /// The largest.
    pub worst: f64,
}

/// Compares what was predicted at `frequency` with the truth, phase instance by phase instance.
///
/// # Errors
/// [`Error::UnknownFrequency`] if one of the two does not have it.
pub fn errors(
    predicted: &Analysis<PhaseId>,
    truth: &Analysis<PhaseId>,
    frequency: Hertz,
    quantity: impl Fn(Cost) -> f64,
) -> Result<Errors, Error> {
    let (ours, theirs) = (predicted.level(frequency)?, truth.level(frequency)?);
    let mut errors = Errors::default();
    for (number, instance) in truth.instances().iter().enumerate() {
        let got = quantity(predicted.instance_costs(number)[ours.0]);
        let expected = quantity(truth.instance_costs(number)[theirs.0]);
        let error = (got / expected - 1.0).abs();
        errors.mean += error * instance.intervals.len() as f64;
        errors.worst = errors.worst.max(error);
    }
    errors.mean /= truth.intervals() as f64;
    Ok(errors)
}

/// Mean size of the errors of values that were filled in, or counted, relative to the event's mean: over all
/// intervals and those events that happen at all.
pub fn filling_error(run: &Run, complete: &Complete<PhaseId>, clock: usize) -> f64 {
    let mut sums = [(0.0, 0.0); EVENTS.len()];
    for (number, interval) in run.intervals.iter().enumerate() {
        let truth = counts(interval, clock);
        for ((sum, truth), value) in sums.iter_mut().zip(truth).zip(complete.values(number)) {
            sum.0 += (value - truth).abs();
            sum.1 += truth;
        }
    }
    let happening: Vec<f64> = sums.iter().filter(|sum| sum.1 > 0.0).map(|sum| sum.0 / sum.1).collect();
    happening.iter().sum::<f64>() / happening.len() as f64
}

/// How a schedule made from predictions does on the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Regret {
    /// Objective of each phase against the best that any frequency within the bound has, less 1; averaged over
    /// phases with their energy. Negative if bounds are broken.
    pub mean: f64,
    /// The largest of a phase that makes up one per cent of the program or more.
    pub worst: f64,
    /// Share that is kept of what a schedule made from the truth saves of the objective, phases weighted as above; 1
    /// where that saves less than a thousandth.
    pub kept: f64,
    /// Share of the objective that is saved, and that a schedule made from the truth saves.
    pub saved: [f64; 2],
    /// Phases that take longer than the bound allows, by how much.
    pub violations: Vec<(PhaseId, f64)>,
}

/// What is kept of the savings of several programs together.
pub fn kept<'a>(all: impl Iterator<Item = &'a Regret>) -> f64 {
    let [ours, possible] = all.fold([0.0; 2], |[a, b], regret| [a + regret.saved[0], b + regret.saved[1]]);
    if possible > 0.0 { ours / possible } else { 1.0 }
}

/// Compares `schedule` with an exhaustive search of the truth, phase by phase.
pub fn regret(truth: &Analysis<PhaseId>, schedule: &Schedule<PhaseId>, goal: &Goal) -> Regret {
    let fastest = truth.fastest();
    let total = truth.program_costs()[fastest.0].energy;
    let mut regret =
        Regret { mean: 0.0, worst: f64::NEG_INFINITY, kept: 1.0, saved: [0.0; 2], violations: Vec::new() };
    let mut saved = [0.0; 2];
    for phase in truth.phases() {
        let value = |cost: Cost| goal.objective().of(cost);
        let reference = phase.costs[fastest.0];
        let within = |cost: &&Cost| cost.time / reference.time <= 1.0 + goal.slowdown();
        let best = phase.costs.iter().filter(within).map(|&c| value(c)).fold(value(reference), f64::min);
        let chosen = phase.costs[schedule.level(&phase.phase).unwrap_or(fastest).0];
        let share = reference.energy / total;
        let loss = value(chosen) / best - 1.0;
        regret.mean += loss * share;
        saved[0] += (1.0 - value(chosen) / value(reference)) * share;
        saved[1] += (1.0 - best / value(reference)) * share;
        if share >= 0.01 {
            regret.worst = regret.worst.max(loss);
        }
        let slowdown = chosen.time / reference.time - 1.0;
        if slowdown > goal.slowdown() {
            regret.violations.push((phase.phase, slowdown - goal.slowdown()));
        }
    }
    if saved[1] > 1e-3 {
        regret.kept = saved[0] / saved[1];
    }
    regret.saved = saved;
    regret
}
