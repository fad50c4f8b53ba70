//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Parser};
use powersleuth::analysis::{Cost, Goal, Hysteresis, Limits, Objective};
use powersleuth::calibration::MachineModel;
use powersleuth::linux::Tree;
use powersleuth::perf::EventCode;
use powersleuth::power::OperatingPoints;
use powersleuth::{Hertz, Joules, Kelvin, Seconds, Watts};
use reuse_sampler::Cpu;
use serde_json::{Value, json};

use super::bench::Simulated;
use super::counted::{Setup, ascending};
use super::events::COUNTERS;
use super::live::study::Machine;
use super::live::{LIVE_WINDOW, choose};
use super::suite;
use crate::cli::values::{not_negative, positive};
use crate::cli::{CommandLine, Common, Failure};
use crate::machines::ooo::{CoreSettings, PackageSettings};
use crate::target::{ChildProcesses, PROGRAM_WINDOW};
use crate::workloads::{NAMES, Workload};

/// Predicts time, power and energy of each phase of a program at any clock frequency, from one run at one, and chooses
/// the frequency to run it at.
///
/// Without PROGRAM an embedded workload runs on a simulated out-of-order core, which also gives the truth. PROGRAM
/// runs unmodified: if this machine has hardware counters (perf_event), they count it, and a meter (powercap) measures its
/// energy if there is one. Otherwise it runs translated, or under qemu-user, where nothing counts cycles: they are
/// modelled from what it reuses, for that same core. The output says which. The exit status is the program's own.
/// Ctrl-C ends with what there is.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::struct_excessive_bools)] // one for each flag
#[command(name = "power_frequency", version, group(ArgGroup::new("counts").args(["program", "calibrate"])))]
pub struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Embedded workload to run without a program
    #[arg(long, value_name = "NAME", default_value = "database", conflicts_with = "program")]
    workload: String,
    /// The profile.json of another command, whose run is modelled as it is, instead of a program; or of this one, where
    /// the run was counted: what was counted then is predicted from
    #[arg(long, value_name = "FILE", conflicts_with_all = ["program", "workload", "scale", "modelled", "profile_at",
        "counters", "window", "accuracy", "calibrate"])]
    pub(super) profile: Option<PathBuf>,
    /// How many times as long the embedded workload's phases are
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    scale: u32,
    /// What to minimise
    #[arg(long, value_enum, default_value = "edp")]
    objective: Minimise,
    /// How much longer a phase may take than at the highest frequency, in per cent
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = not_negative)]
    bound: f64,
    /// Frequencies to predict, in GHz, for example 1.6,2.13,2.66 [default: nine from 1.6 to 2.67]
    #[arg(long, value_name = "GHZ", value_delimiter = ',', value_parser = positive)]
    frequencies: Vec<f64>,
    /// Frequency to profile at, in GHz: the embedded workload [default: the highest], or a program that is counted, for
    /// which the machine's cores are set to it meanwhile (as root) [default: as they are]
    #[arg(long, value_name = "GHZ", value_parser = positive)]
    pub(super) profile_at: Option<f64>,
    /// Counters that the events share, besides those of cycles and instructions
    #[arg(long, value_name = "N", default_value_t = COUNTERS as u8, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub(super) counters: u8,
    /// Time that a change of frequency takes, in microseconds; its power is the program's
    #[arg(long, value_name = "US", default_value = "0", value_parser = not_negative)]
    transition: f64,
    /// Leave the frequency as it is unless changing it gains as much for the coming instance of a phase, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = not_negative,
        conflicts_with_all = ["deadline", "energy_budget", "power_cap", "dwell"])]
    hysteresis: Option<f64>,
    /// Model cycles from reuse, even if they could be counted
    #[arg(long, conflicts_with_all = ["profile_at", "counters"])]
    pub(super) modelled: bool,
    /// Fail rather than model if nothing counts the program
    #[arg(long, requires = "program", conflicts_with = "modelled")]
    pub(super) counted: bool,
    /// Code of an event of this processor, as NAME=HEX, for example stalls=0x01A2; may be repeated
    #[arg(long = "event", value_name = "NAME=CODE", requires = "counts", value_parser = choose::parse)]
    pub(super) events: Vec<(usize, EventCode)>,
    /// Models of the machine's power and time, as --calibrate --json writes them, or a power model alone, as powersleuth
    /// saves it [default: an example, not of this machine; for an embedded workload, its core's]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["modelled", "accuracy"])]
    power_model: Option<PathBuf>,
    /// Fit models of power and time to this machine (as root, some ten minutes) or to the simulated one, by running
    /// kernels at every frequency; with --json prints what --power-model reads
    #[arg(long, value_enum, value_name = "MACHINE", num_args = 0..=1, require_equals = true,
        default_missing_value = "here",
        conflicts_with_all = ["program", "modelled", "accuracy", "workload", "power_model", "profile_at"])]
    pub(super) calibrate: Option<Calibrated>,
    /// Deadline of the whole program, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    deadline: Option<f64>,
    /// Energy budget of the whole program, in joules
    #[arg(long, value_name = "JOULES", value_parser = positive)]
    energy_budget: Option<f64>,
    /// Power limit of every phase instance, in watts
    #[arg(long, value_name = "WATTS", value_parser = positive)]
    power_cap: Option<f64>,
    /// Least time between two changes of frequency, in microseconds
    #[arg(long, value_name = "US", value_parser = not_negative)]
    dwell: Option<f64>,
    /// Follow the schedule: the embedded workload runs again, and each phase at the frequency that is set for it in the
    /// cpufreq files below --system, which are restored whatever happens, a kill included
    #[arg(long, conflicts_with_all = ["program", "profile", "modelled", "accuracy", "calibrate"])]
    pub(super) apply: bool,
    /// Instructions that the simulated core dispatches in a cycle
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    core_width: u8,
    /// Error of the simulated meter, in per cent (a standard deviation)
    #[arg(long, value_name = "PERCENT", default_value = "1.5", value_parser = not_negative)]
    noise: f64,
    /// By how many kelvin the room warms up while the simulated machine is calibrated
    #[arg(long, value_name = "KELVIN", default_value = "0", value_parser = not_negative)]
    drift: f64,
    /// Latency of this machine's memory, in nanoseconds
    #[arg(long, value_name = "NS", default_value = "80", value_parser = positive)]
    memory_latency: f64,
    /// Folder below which proc and sys of the machine are read
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(super) system: PathBuf,
    /// Instructions in a window of a program that is counted, of one that is modelled, or of a modelled workload
    /// [default: 100000000, 10000000, 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// What to do with processes that PROGRAM starts where cycles are modelled; counted are those of its first thread
    #[arg(long, value_enum, default_value = "follow", requires = "program")]
    pub(super) children: ChildProcesses,
    /// With --modelled, the processor that PROGRAM is shown: host, or x86-64, x86-64-v2, x86-64-v3 or x86-64-v4, with
    /// which libraries choose the same functions on every machine
    #[arg(long, value_name = "CPU", default_value = "host", requires = "program", requires = "modelled")]
    pub(super) cpu: Cpu,
    /// Judge the predictions on eight embedded workloads instead, and print the table of errors
    #[arg(long, conflicts_with_all = ["program", "modelled", "workload", "scale", "window", "profile_at"])]
    pub(super) accuracy: bool,
    /// The program to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    pub(super) program: Vec<OsString>,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("an embedded workload: energy times time, at most 5 % slower", "--objective edp --bound 5"),
        ("a program, with counters where there are some", "--out report -- xz --keep --stdout file"),
        (
            "a run that phase_guided_cache --out or corun_variability recorded",
            "--profile report/profile.json",
        ),
        ("how good the predictions are", "--accuracy"),
        ("a schedule that meets a deadline with the least energy", "--objective energy --deadline 0.02"),
        ("models of this machine, as root", "--calibrate --json -o machine.json"),
        ("a program by those", "--power-model machine.json -- xz --keep file"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }

    fn program(&self) -> &[OsString] {
        &self.program
    }
}

/// What is to be as small as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Minimise {
    /// Energy
    Energy,
    /// Energy times time
    Edp,
    /// Energy times time squared
    Ed2p,
}

/// Which machine is calibrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Calibrated {
    /// This machine
    Here,
    /// The simulated one
    Simulated,
}

impl From<Minimise> for Objective {
    fn from(minimise: Minimise) -> Self {
        match minimise {
            Minimise::Energy => Self::Energy,
            Minimise::Edp => Self::Edp,
            Minimise::Ed2p => Self::Ed2p,
        }
    }
}

impl Args {
    /// The embedded workload with its name: one of the suite, or of the common ones.
    pub(super) fn workload(&self) -> Result<(&str, Workload), Failure> {
        let suite = || suite::evaluation(self.common.seed, self.scale);
        let (name, seed) = (self.workload.as_str(), self.common.seed);
        let found = suite().into_iter().find(|(known, _)| *known == name).map(|(_, workload)| workload);
        let workload = found.or_else(|| Workload::by_name(name, seed, self.scale)).ok_or_else(|| {
            let own: Vec<&str> = suite().iter().map(|(name, _)| *name).collect();
            let common: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            let names = [own, common].concat().join(", ");
            Failure::Usage(format!("no embedded workload {name:?}; there are {names}"))
        })?;
        Ok((name, workload))
    }

    /// How it is observed, on a core with these operating points.
    pub(super) fn setup(&self, points: &OperatingPoints) -> Result<Setup, Failure> {
        let all: Vec<Hertz> = points.frequencies().collect();
        let known = |ghz: f64| {
            let frequency = as_written(Hertz::from_ghz(ghz), points);
            points.at(frequency).map_err(|_| {
                let (lowest, highest) = (all[0].ghz(), all[all.len() - 1].ghz());
                Failure::Usage(format!("the core runs at {lowest:.2} to {highest:.2} GHz, not at {ghz}"))
            })?;
            Ok(frequency)
        };
        let asked: Vec<Hertz> =
            self.frequencies.iter().map(|&ghz| known(ghz)).collect::<Result<_, Failure>>()?;
        let frequencies = if asked.is_empty() { all.clone() } else { ascending(asked) };
        let profiled_at = match self.profile_at {
            Some(ghz) => known(ghz)?,
            None => all[all.len() - 1],
        };
        let (counters, seed) = (usize::from(self.counters), self.common.seed);
        Ok(Setup { frequencies, profiled_at, counters, seed, core: self.core() })
    }

    fn core(&self) -> CoreSettings {
        CoreSettings { width: f64::from(self.core_width), ..CoreSettings::default() }
    }

    /// The simulated machine.
    pub(super) fn simulated(&self, points: OperatingPoints) -> Simulated {
        let (noise, drift) = (self.noise / 100.0, Kelvin(self.drift));
        Simulated {
            core: self.core(),
            points,
            package: PackageSettings { noise, drift, ..PackageSettings::default() },
        }
    }

    /// The files whose frequencies the schedule is applied to, if it is, and the least time between changes.
    pub(super) fn applied_to(&self) -> Result<Option<(Tree, Seconds)>, Failure> {
        // A simulated program must not set the clock of a real processor.
        if self.apply && self.system == Path::new("/") {
            let what = "--apply sets the clock of the simulated processor: name the folder with its files with --system";
            return Err(Failure::Usage(what.to_owned()));
        }
        let dwell = Seconds(self.dwell.unwrap_or(0.0) * 1e-6);
        Ok(self.apply.then(|| (Tree::new(&self.system), dwell)))
    }

    /// What the whole program must keep to; `None` if nothing was said.
    pub(super) fn limits(&self) -> Result<Option<Limits>, Failure> {
        let Self { deadline, energy_budget, power_cap, dwell, .. } = *self;
        if deadline.or(energy_budget).or(power_cap).or(dwell).is_none() {
            return Ok(None);
        }
        let dwell = Seconds(dwell.unwrap_or(0.0) * 1e-6);
        let mut limits = Limits::default().with_dwell(dwell).map_err(Failure::usage)?;
        if let Some(deadline) = deadline {
            limits = limits.by(Seconds(deadline)).map_err(Failure::usage)?;
        }
        if let Some(energy) = energy_budget {
            limits = limits.with_energy(Joules(energy)).map_err(Failure::usage)?;
        }
        if let Some(power) = power_cap {
            limits = limits.below(Watts(power)).map_err(Failure::usage)?;
        }
        Ok(Some(limits))
    }

    /// The same in words, and as JSON.
    pub(super) fn limits_in_words(&self) -> Option<(String, Value)> {
        let words = [
            (self.deadline, "ends within", "s"),
            (self.energy_budget, "takes at most", "J"),
            (self.power_cap, "draws at most", "W in each phase instance"),
            (self.dwell, "changes the clock no sooner than every", "us"),
        ];
        let said: Vec<String> = words
            .iter()
            .filter_map(|(value, what, unit)| Some(format!("{what} {} {unit}", (*value)?)))
            .collect();
        let object = json!({
            "seconds": self.deadline,
            "joules": self.energy_budget,
            "watts": self.power_cap,
            "dwell_us": self.dwell,
        });
        (!said.is_empty()).then(|| (format!("the program {}", said.join(", ")), object))
    }

    /// What to optimise for, with changes of frequency during which `power` is drawn.
    pub(super) fn goal(&self, power: Watts) -> Result<Goal, Failure> {
        let time = Seconds(self.transition * 1e-6);
        Goal::least(self.objective.into())
            .within(self.bound / 100.0)
            .and_then(|goal| goal.with_transition(Cost { time, energy: power * time }))
            .map_err(Failure::usage)
    }

    pub(super) fn hysteresis(&self) -> Result<Option<Hysteresis>, Failure> {
        self.hysteresis.map(|percent| Hysteresis::new(percent / 100.0)).transpose().map_err(Failure::usage)
    }

    /// Instructions in a window, where cycles are counted.
    pub(super) fn live_window(&self) -> u64 {
        self.window.unwrap_or(LIVE_WINDOW)
    }

    /// The models that the user gives.
    pub(super) fn machine_model(&self) -> Result<Option<MachineModel>, Failure> {
        let Some(path) = &self.power_model else { return Ok(None) };
        let refused = |what: String| Failure::Usage(format!("power model {}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        serde_json::from_str(&text).map(Some).map_err(|error| refused(error.to_string()))
    }

    /// Frequencies of this machine that are asked about; none for all.
    pub(super) fn live_frequencies(&self) -> Vec<Hertz> {
        ascending(self.frequencies.iter().map(|&ghz| Hertz::from_ghz(ghz)).collect())
    }

    /// What the user states about this machine.
    pub(super) fn machine(&self) -> Result<Machine, Failure> {
        Ok(Machine {
            power: self.machine_model()?,
            latency: Seconds::from_ns(self.memory_latency),
            frequencies: self.live_frequencies(),
        })
    }

    /// Instructions in a window, where cycles are modelled.
    pub(super) fn window(&self) -> u64 {
        let otherwise = if self.program.is_empty() { super::calibrate::INTERVAL } else { PROGRAM_WINDOW };
        self.window.unwrap_or(otherwise)
    }

    /// What is minimised, in words.
    pub(super) fn objective_name(&self) -> &'static str {
        match self.objective {
            Minimise::Energy => "energy",
            Minimise::Edp => "energy-delay product",
            Minimise::Ed2p => "energy-delay-squared product",
        }
    }
}

/// The operating point that is meant: 2.1333 GHz by 2.13, and 2.6667 by 2.66 as in the paper.
pub(super) fn as_written(asked: Hertz, points: &OperatingPoints) -> Hertz {
    points.frequencies().find(|f| (f.ghz() - asked.ghz()).abs() < 0.01).unwrap_or(asked)
}
