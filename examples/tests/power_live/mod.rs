//! Programs counted by a machine's own counters, with the reference core's run in place of the machine: what it shows
//! on its counters is known, and what is true at other frequencies too.

mod applied;
mod calibrated;
mod chosen;
mod studied;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::support::run_pipeline;
use examples::machines::ooo::{CoreSettings, Interval, Machine, PowerTruth, Run, nehalem_points, simulate};
use examples::tools::power_frequency::events::counts;
use examples::tools::power_frequency::live::bench::NativeBench;
use examples::tools::power_frequency::live::choose::{Choice, MISSES, QUANTITIES, STALLS, Supply, parse};
use examples::tools::power_frequency::live::native::can_count;
use examples::tools::power_frequency::live::observe::{Observed, observe};
use examples::tools::power_frequency::live::study::{Machine as Settings, Run as Setup, study};
use examples::tools::power_frequency::live::{IntervalSource, Seen};
use examples::tools::power_frequency::recorded::profile;
use examples::tools::power_frequency::study::Study;
use examples::tools::power_frequency::{Args, run, suite};
use powersleuth::calibration::{Bench, Calibration, MachineModel, Measurement, kernels};
use powersleuth::linux::{EnergyMeter, Files, Pin, Tree, package_zones, policies};
use powersleuth::multiplex::{Count, CounterSource, Reading};
use powersleuth::perf::{EventCode, PerfCounters, PerfError};
use powersleuth::performance::Counts;
use powersleuth::{Cycles, Hertz, Joules, Seconds};

const INTERVAL: u64 = 100_000;
const FAST: usize = 1;

/// A phased program on the reference core, at the lowest frequency and the highest.
fn program() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        let machine = Machine {
            core: CoreSettings::default(),
            frequencies: vec![Hertz::from_ghz(1.6), Hertz::from_ghz(8.0 / 3.0)],
            interval: INTERVAL,
        };
        let (_, workload) =
            suite::evaluation(1, 1).into_iter().find(|(name, _)| *name == "database").unwrap();
        simulate(workload.events().unwrap(), &machine, 300).unwrap()
    })
}

#[derive(Debug, thiserror::Error)]
#[error("the counters broke")]
struct Broke;

/// The run, shown on counters. Code number `i` is that of quantity `i`.
struct Shown {
    next: usize,
    asked: Vec<usize>,
    codes: Vec<EventCode>,
    stalls_are_silent: bool,
    breaks_after: usize,
}

impl Shown {
    fn on(choice: &Choice) -> Self {
        Self {
            next: 0,
            asked: Vec::new(),
            codes: choice.codes.clone(),
            stalls_are_silent: false,
            breaks_after: usize::MAX,
        }
    }
}

impl CounterSource for Shown {
    type Error = Broke;

    fn start(&mut self, events: &[usize]) -> Result<(), Broke> {
        self.asked = events.to_vec();
        Ok(())
    }

    fn stop(&mut self) -> Result<Reading, Broke> {
        let run = program();
        let interval = &run.intervals[self.next - 1];
        let truth = counts(interval, FAST);
        let cycles = interval.clocks[FAST].cycles;
        let time = Duration::from_secs_f64(cycles / run.frequencies[FAST].0);
        let count = |value: f64| Count { value: value.round() as u64, enabled: time, running: time };
        let event = |&number: &usize| {
            let EventCode::Raw(quantity) = self.codes[number] else { panic!("{number}") };
            let quantity = quantity as usize;
            let silent = self.stalls_are_silent && quantity == STALLS;
            count(if silent { 0.0 } else { truth[quantity] })
        };
        Ok(Reading {
            instructions: count(interval.activity.instructions as f64),
            cycles: count(cycles),
            counts: self.asked.iter().map(event).collect(),
        })
    }
}

impl IntervalSource for Shown {
    fn run(&mut self) -> Result<Option<Seen>, Broke> {
        if self.next == self.breaks_after {
            return Err(Broke);
        }
        let Some(interval) = program().intervals.get(self.next) else { return Ok(None) };
        self.next += 1;
        Ok(Some(interval.code.iter().map(|&(block, n)| (block, n as f64)).collect()))
    }

    fn locate(&mut self, address: u64) -> Option<String> {
        Some(format!("code at {address:#x}"))
    }
}

/// Files in memory; an energy counter that has gone on by a joule whenever it is read.
#[derive(Default)]
struct System {
    files: BTreeMap<String, String>,
    microjoules: Cell<u64>,
}

impl System {
    fn with(list: &[(&str, &str)]) -> Self {
        let files = list.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect();
        Self { files, microjoules: Cell::new(500_000) }
    }
}

impl Files for System {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        if path.ends_with("/energy_uj") {
            // Wraps at 10 J.
            self.microjoules.set((self.microjoules.get() + 1_000_000) % 10_000_000);
            return Ok(self.microjoules.get().to_string().into_bytes());
        }
        self.files.get(path).map(|text| text.clone().into_bytes()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn write(&self, path: &str, _: &str) -> io::Result<()> {
        panic!("{path} is not to be written")
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let inside = self.files.keys().filter_map(|path| path.strip_prefix(directory)?.strip_prefix('/'));
        let mut names: Vec<String> =
            inside.filter_map(|rest| Some(rest.split('/').next()?.to_owned())).collect();
        names.dedup();
        if names.is_empty() { Err(ErrorKind::NotFound.into()) } else { Ok(names) }
    }
}

/// A machine that has the quantities of `there`, and no others.
fn choice(there: &[usize]) -> Choice {
    let given: Vec<(usize, EventCode)> =
        (0..QUANTITIES.len()).map(|n| (n, EventCode::Raw(n as u64))).collect();
    Choice::make(&System::default(), "another", &given, |code| match code {
        EventCode::Raw(n) if there.contains(&(n as usize)) => Ok(()),
        _ => Err(PerfError::Unsupported),
    })
}

fn everything() -> Choice {
    choice(&(0..QUANTITIES.len()).collect::<Vec<_>>())
}

fn settings() -> Settings {
    Settings { power: None, latency: Seconds::from_ns(65.0), frequencies: program().frequencies.clone() }
}

fn observed(choice: &Choice, source: Shown, system: &System) -> (Observed, Shown) {
    let meter = package_zones(system).ok().map(|zones| EnergyMeter::new(system, &zones).unwrap());
    observe(source, choice, 4, 0, meter, &AtomicBool::new(false), |_| {}).unwrap()
}

fn studied(choice: &Choice, source: Shown, system: &System) -> Study {
    let (observed, mut source) = observed(choice, source, system);
    let setup = Setup { program: "program", window: INTERVAL, counters: 4, incomplete: false };
    study(&observed, choice, &settings(), system, setup, &mut source).unwrap()
}

/// Seconds of the whole run on a clock of the core.
fn truth(clock: usize) -> f64 {
    let run = program();
    run.intervals.iter().map(|i| i.clocks[clock].cycles).sum::<f64>() / run.frequencies[clock].0
}

fn seconds(study: &Study) -> [f64; 2] {
    [0, 1].map(|level| study.predicted.program_costs()[level].time.0)
}
