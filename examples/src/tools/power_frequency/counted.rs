//! An embedded program on the reference core: profiled at one frequency on four counters, predicted at all, and
//! run at all to see what is true.

use std::sync::atomic::{AtomicBool, Ordering};

use powersleuth::analysis::Analysis;
use powersleuth::calibration::{MachineModel, TimeModel};
use powersleuth::multiplex::{CounterGroups, Filling, PerPhase};
use powersleuth::power::{OperatingPoints, PowerModel};
use powersleuth::{Error, Hertz};

use super::calibrate::{self, Calibration, INTERVAL, machine_name};
use super::events::{EVENTS, roles};
use super::recorded::Counted;
use super::study::{CodeOf, Study, Used};
use super::{judge, observe};
use crate::cli::Failure;
use crate::machines::ooo::{CoreSettings, Machine, Run, simulate};
use crate::workloads::{self, Workload};

/// What counts an embedded program, in reports.
pub const SOURCE: &str = "simulated core";

/// How an embedded program is observed.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The frequencies asked about, ascending.
    pub frequencies: Vec<Hertz>,
    /// The clock of the profiling run.
    pub profiled_at: Hertz,
    /// Counters that the nine events share.
    pub counters: usize,
    /// Seed of everything drawn.
    pub seed: u64,
    /// The core.
    pub core: CoreSettings,
}

/// Frequencies at which the reference core is calibrated: where it is profiled, and the ends of the range.
pub fn calibrated_at(points: &OperatingPoints, profiled_at: Hertz) -> Vec<Hertz> {
    let ends = points.frequencies().next().into_iter().chain(points.frequencies().last());
    ascending(ends.chain([profiled_at]).collect())
}

/// Each once, in order.
pub fn ascending(mut frequencies: Vec<Hertz>) -> Vec<Hertz> {
    frequencies.sort_by(|a, b| a.0.total_cmp(&b.0));
    frequencies.dedup();
    frequencies
}

/// What an embedded program is predicted with.
pub struct Models {
    time: TimeModel,
    power: PowerModel,
    margin: f64,
    used: Used,
}

impl Models {
    /// Those of a calibration that knows voltages and static power.
    ///
    /// # Errors
    /// [`Error`] if they cannot be fitted.
    pub fn fitted(calibration: &Calibration, setup: &Setup) -> Result<Self, Error> {
        let (power, _) = calibration.power(setup.seed)?;
        let (performance, errors) = ("overlapping stalls", Vec::new());
        Ok(Self {
            time: TimeModel::Overlapping(calibration.stalls(setup.profiled_at)?),
            margin: calibration.margin(setup.profiled_at)?,
            used: Used { performance, power: power.machine().to_owned(), errors },
            power,
        })
    }

    /// Those that were saved with a machine.
    ///
    /// # Errors
    /// [`Error::OtherMachine`] if it is another; [`Error::NotCounted`] without a performance model.
    pub fn saved(machine: &MachineModel, setup: &Setup) -> Result<Self, Error> {
        machine.power.check_machine(&machine_name(&setup.core))?;
        let what = "the time of a calibration";
        let fit = machine.time_at(setup.profiled_at).ok_or(Error::NotCounted { interval: 0, what })?;
        Ok(Self {
            time: fit.model,
            power: machine.power.clone(),
            margin: fit.margin,
            used: Used::of(machine, setup.profiled_at, &setup.frequencies),
        })
    }
}

/// Studies `workload`, called `name`, on a core with these operating points until its end or until `interrupted` is set.
///
/// # Errors
/// [`Failure`] if there is nothing to report.
pub fn study(
    name: &str,
    workload: &Workload,
    points: &OperatingPoints,
    models: Models,
    setup: &Setup,
    interrupted: &AtomicBool,
    progress: impl Fn(u64),
) -> Result<Study, Failure> {
    let run = run(workload, setup, interrupted, progress)?;
    if run.intervals.is_empty() {
        return Err(if interrupted.load(Ordering::Relaxed) {
            calibrate::interrupted()
        } else {
            Failure::Run(format!(
                "the program ended within its first interval of {INTERVAL} instructions: give a longer one (--scale)"
            ))
        });
    }
    let phases = observe::phases(&run, setup.seed)?;
    let truth = judge::truth(&run, &phases, points, &setup.frequencies, setup.seed)?;
    let clock = observe::clock_at(&run, setup.profiled_at)
        .ok_or(Error::UnknownFrequency { hertz: setup.profiled_at.0 })?;
    let groups = CounterGroups::round_robin(EVENTS.len(), setup.counters)?;
    let rotation = PerPhase::new(groups.as_slice().len());
    let record = observe::multiplexed(&run, &phases, clock, groups, rotation)?;
    let complete = record.interpolate(Filling::default())?;
    let profile = complete.profile(setup.profiled_at, &roles())?;
    let predicted = Analysis::predict(&profile, &models.time, &models.power, &setup.frequencies)?;

    let mut code = CodeOf::new();
    for (interval, &phase) in run.intervals.iter().zip(&phases) {
        let instructions = interval.code.iter().map(|&(block, n)| (block, n as f64));
        code.entry(phase).or_default().extend(instructions);
    }
    let basis = format!(
        "Counted on the simulated out-of-order core at {:.2} GHz: {} events on {} counters, turned phase by phase. All other \
         frequencies are predicted.",
        setup.profiled_at.ghz(),
        EVENTS.len(),
        setup.counters.min(EVENTS.len())
    );
    Ok(Study {
        program: format!("{name} (embedded)"),
        basis,
        source: SOURCE,
        modelled: false,
        interval: INTERVAL,
        profiled_at: setup.profiled_at,
        margin: Some(models.margin),
        views: Study::views(&predicted, &code, workloads::locate)?,
        predicted,
        truth: Some(truth),
        models: models.used,
        notes: Vec::new(),
        processes: Vec::new(),
        incomplete: interrupted.load(Ordering::Relaxed),
        counted: Some(Counted {
            machine: machine_name(&setup.core),
            profile,
            time: models.time,
            power: models.power,
        }),
    })
}

fn run(
    workload: &Workload,
    setup: &Setup,
    interrupted: &AtomicBool,
    progress: impl Fn(u64),
) -> Result<Run, Failure> {
    let clocks = setup.frequencies.iter().copied().chain([setup.profiled_at]);
    let machine = Machine { core: setup.core, frequencies: ascending(clocks.collect()), interval: INTERVAL };
    let mut seen = 0_u64;
    let events = workload.events()?.take_while(|_| {
        seen += 1;
        if seen % (1 << 16) == 0 {
            progress(seen);
        }
        !interrupted.load(Ordering::Relaxed)
    });
    Ok(simulate(events, &machine, usize::MAX)?)
}
