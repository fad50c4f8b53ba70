//! Once per machine: memory's latency, what stalls are worth, and what activity draws.

use std::sync::atomic::{AtomicBool, Ordering};

use powersleuth::multiplex::Source;
use powersleuth::performance::{Counts, OverlappingStalls, PerformanceModel, SlowdownErrors};
use powersleuth::power::{Fit, OperatingPoints, PowerModel, TrainingSet};
use powersleuth::{Cycles, Error, Hertz, Seconds, Watts};

use super::events::{counts, roles};
use super::suite;
use crate::cli::Failure;
use crate::machines::ooo::{CoreSettings, Interval, Machine, PowerTruth, Run, simulate};
use crate::workloads::{Kernel, Workload};

/// Name of the reference core, with which models fitted on it are saved.
pub const MACHINE: &str = "reference out-of-order core";

/// Name of the core with these settings.
pub fn machine_name(core: &CoreSettings) -> String {
    if *core == CoreSettings::default() {
        return MACHINE.to_owned();
    }
    format!("{MACHINE}, {} wide", core.width)
}

/// Instructions in an interval.
pub const INTERVAL: u64 = 100_000;

/// Intervals that make an observation.
pub const OBSERVATION: usize = 5;
/// Share of the training stretches whose slowdown, predicted by the other programs, the margin of a schedule covers.
const COVERAGE: f64 = 0.90;
/// Intervals of each program.
const TRAINING: usize = 15;

/// The user did not want to wait.
pub(super) fn interrupted() -> Failure {
    Failure::run("interrupted before anything was measured")
}

/// The training programs' runs at a few frequencies, and what follows from them.
#[derive(Debug)]
pub struct Calibration {
    core: CoreSettings,
    points: OperatingPoints,
    latency: Seconds,
    programs: Vec<String>,
    runs: Vec<Run>,
}

/// Number of the program, counts where it was profiled, and cycles at the other frequency.
type Stretch = (usize, Counts, Cycles);

/// An observation's counts at one clock.
pub(super) struct Sum {
    /// What the performance models read.
    pub counts: Counts,
    /// What the power model reads.
    pub power: Vec<f64>,
}

impl Calibration {
    /// Runs the training programs on `core` at each of `frequencies`, ascending, at least two: those
    /// that are profiled at, and the ends of the range.
    ///
    /// # Errors
    /// [`Failure`] if a workload cannot run, or `interrupted` is set.
    pub fn run(
        core: CoreSettings,
        points: OperatingPoints,
        frequencies: Vec<Hertz>,
        seed: u64,
        interrupted: &AtomicBool,
    ) -> Result<Self, Failure> {
        let machine = Machine { core, frequencies, interval: INTERVAL };
        let latency = latency(&machine, seed)?;
        let mut programs = Vec::new();
        let mut runs = Vec::new();
        for (program, workload) in suite::training(seed) {
            if interrupted.load(Ordering::Relaxed) {
                return Err(self::interrupted());
            }
            programs.push(program);
            runs.push(simulate(workload.events()?, &machine, TRAINING)?);
        }
        Ok(Self { core, points, latency, programs, runs })
    }

    /// The machine's operating points.
    pub const fn points(&self) -> &OperatingPoints {
        &self.points
    }

    /// Time of a miss that does not depend on the core's clock.
    pub const fn latency(&self) -> Seconds {
        self.latency
    }

    /// The training programs with their runs.
    pub fn runs(&self) -> impl Iterator<Item = (&str, &Run)> {
        self.programs.iter().map(String::as_str).zip(&self.runs)
    }

    /// The frequencies, ascending.
    pub fn frequencies(&self) -> &[Hertz] {
        self.runs.first().map_or(&[], |run| &run.frequencies)
    }

    /// Weights of stalls for profiles taken at `profiled_at`, from runs there and at the frequency furthest from it.
    ///
    /// # Errors
    /// As [`OverlappingStalls::fit`]; [`Error::UnknownFrequency`] unless it is one of the calibration's.
    pub fn stalls(&self, profiled_at: Hertz) -> Result<OverlappingStalls, Error> {
        let (to, stretches) = self.stretches(profiled_at)?;
        let all = stretches.iter().map(|&(_, counts, cycles)| (counts, cycles));
        OverlappingStalls::fit(self.latency, profiled_at, to, all)
    }

    /// What the bound of a schedule made from such a profile must allow for: the error on programs left out.
    ///
    /// # Errors
    /// As [`stalls`](Self::stalls).
    pub fn margin(&self, profiled_at: Hertz) -> Result<f64, Error> {
        let (to, stretches) = self.stretches(profiled_at)?;
        let mut runs = Vec::new();
        for left_out in 0..self.programs.len() {
            let others = stretches.iter().filter(|(program, ..)| *program != left_out);
            let others = others.map(|&(_, counts, cycles)| (counts, cycles));
            let model = OverlappingStalls::fit(self.latency, profiled_at, to, others)?;
            for (_, counts, cycles) in stretches.iter().filter(|(program, ..)| *program == left_out) {
                let cycles = [counts.cycles(), *cycles, model.cycles_at(counts, profiled_at, to)];
                runs.push((cycles, model.doubt(counts, profiled_at)));
            }
        }
        let programs = self.programs.len() as f64;
        // As for exchangeable programs: a new one is one more.
        SlowdownErrors::of(profiled_at, to, runs)?.margin((COVERAGE * (1.0 + 1.0 / programs)).min(1.0))
    }

    /// The furthest frequency, and the training programs' stretches there.
    fn stretches(&self, profiled_at: Hertz) -> Result<(Hertz, Vec<Stretch>), Error> {
        let frequencies = self.frequencies();
        let unknown = Error::UnknownFrequency { hertz: profiled_at.0 };
        let from = frequencies.iter().position(|&f| f == profiled_at).ok_or(unknown)?;
        let highest = frequencies.len() - 1;
        let distance = |at: usize| (frequencies[at].0 / profiled_at.0).ln().abs();
        let to = if distance(0) >= distance(highest) { 0 } else { highest };
        let mut stretches = Vec::new();
        for (program, run) in self.runs.iter().enumerate() {
            for part in run.intervals.chunks(OBSERVATION) {
                let cycles = part.iter().map(|interval| interval.clocks[to].cycles).sum();
                stretches.push((program, sum(part, from)?.counts, Cycles(cycles)));
            }
        }
        Ok((frequencies[to], stretches))
    }

    /// Observations of the power model's events at the highest frequency, with the program each belongs to.
    ///
    /// # Errors
    /// As [`TrainingSet::push`].
    pub fn observations(&self, seed: u64) -> Result<(TrainingSet, Vec<usize>), Error> {
        let mut sensor = PowerTruth::new(seed);
        let mut set = TrainingSet::new(roles().power.into_iter().map(|(event, _)| event))?;
        let mut groups = Vec::new();
        for (program, run) in self.runs.iter().enumerate() {
            let clock = run.frequencies.len() - 1;
            let point = self.points.at(run.frequencies[clock])?;
            for part in run.intervals.chunks(OBSERVATION) {
                let sum = sum(part, clock)?;
                let energy = |interval: &Interval| {
                    sensor.read(interval, clock, &point).0 * interval.clocks[clock].cycles
                };
                let energy: f64 = part.iter().map(energy).sum();
                let cycles = sum.counts.cycles();
                set.push(&sum.power, cycles, &point, Watts(energy / cycles.0))?;
                groups.push(program);
            }
        }
        Ok((set, groups))
    }

    /// The power model fitted to them, with how good it is.
    ///
    /// # Errors
    /// As [`TrainingSet::fit`].
    pub fn power(&self, seed: u64) -> Result<(PowerModel, Fit), Error> {
        let fit = self.observations(seed)?.0.fit()?;
        let model = PowerModel::new(machine_name(&self.core), self.points.clone(), fit.capacitance().clone());
        Ok((model, fit))
    }
}

/// Slope of the cycles of a miss over the frequency, of a list in memory that is followed.
fn latency(machine: &Machine, seed: u64) -> Result<Seconds, Failure> {
    let chase = Workload::kernel(Kernel::PointerChase { nodes: 256 << 10, hops: 60_000 }, 1, seed);
    let run = simulate(chase.events()?, machine, 1)?;
    let (slow, fast) = (0, run.frequencies.len() - 1);
    let part = |clock: usize| run.intervals.iter().map(|i| i.clocks[clock].cycles).sum::<f64>();
    let misses: f64 = run.intervals.iter().map(|i| i.activity.llc_misses as f64).sum();
    let difference = Cycles((part(fast) - part(slow)) / misses);
    Ok(difference / (run.frequencies[fast] - run.frequencies[slow]))
}

pub(super) fn sum(part: &[Interval], clock: usize) -> Result<Sum, Error> {
    let roles = roles();
    let mut events = [0.0; super::events::EVENTS.len()];
    let (mut instructions, mut cycles) = (0.0, 0.0);
    for interval in part {
        for (sum, count) in events.iter_mut().zip(counts(interval, clock)) {
            *sum += count;
        }
        instructions += interval.activity.instructions as f64;
        cycles += interval.clocks[clock].cycles;
    }
    let stalls = Cycles(events[roles.stall_cycles].min(cycles));
    let mut counts = Counts::new(instructions, Cycles(cycles), stalls, events[roles.llc_misses])?;
    if let Some(event) = roles.resource_stalls {
        counts = counts.with_resource_stalls(Cycles(events[event]))?;
    }
    let source = |(_, source): &(_, Source)| match *source {
        Source::Event(event) => events[event],
        Source::Instructions => instructions,
    };
    Ok(Sum { counts, power: roles.power.iter().map(source).collect() })
}
