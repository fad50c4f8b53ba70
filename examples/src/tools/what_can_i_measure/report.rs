//! What was found, for people and for programs.

use std::fmt;

use serde::Serialize;

use super::SelfCheck;

/// What the machine offers.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The operating system.
    pub system: String,
    /// The processor's architecture.
    pub architecture: String,
    /// Counters and watchpoints.
    pub counters: Counters,
    /// The `qemu` backend.
    pub emulator: Trial,
    /// The `dbi` backend.
    pub translation: Trial,
    /// The backend that `auto` takes.
    pub chosen: Trial,
    /// Valgrind, whose traces can be read.
    pub valgrind: Valgrind,
    /// What counters made of a known program, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_check: Option<SelfCheck>,
}

/// What the `perf` backend found. A reason is why something is not there, and absent where it is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counters {
    /// The processor's entry in the table of events.
    pub processor: String,
    /// Version of the Linux kernel.
    pub kernel: Option<String>,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i32>,
    /// Whether programs can be sampled with counters.
    pub enough: bool,
    /// Why events cannot stop a program.
    pub no_stops: Option<String>,
    /// Why instructions cannot be counted.
    pub no_instructions: Option<String>,
    /// Why memory accesses cannot be counted.
    pub no_accesses: Option<String>,
    /// Why the processor does not sample accesses with their addresses.
    pub no_precise: Option<String>,
    /// Why the processor does not profile accesses by itself, beside those that are sampled.
    pub no_profile: Option<String>,
    /// Why branches are not recorded.
    pub no_branches: Option<String>,
    /// Debug registers that are free.
    pub watchpoints: usize,
    /// How many bytes each can watch; 0 where there is none.
    pub watched_bytes: u32,
    /// Whether the machine's instructions are understood.
    pub decodes: bool,
    /// What to change, most important first.
    pub advice: Vec<String>,
    /// All that in lines for people.
    #[serde(skip)]
    pub text: String,
}

/// A backend tried on a small program, from its start to its end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trial {
    /// Its name, if it could observe the program.
    pub backend: Option<&'static str>,
    /// Instructions it counted; 0 where it counts time instead.
    pub instructions: u64,
    /// Memory accesses it counted.
    pub accesses: u64,
    /// What it warned of.
    pub warnings: Vec<String>,
    /// What is missing and how to get it, if it could not.
    pub missing: Option<String>,
}

/// Whether there is a valgrind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Valgrind {
    /// What it says its version is.
    pub version: Option<String>,
    /// What is missing and how to get it.
    pub missing: Option<String>,
}

impl Report {
    /// The backend that observes programs by default, and why; or why there is none.
    pub fn choice(&self) -> String {
        match (self.chosen.backend, self.counters.enough) {
            (Some(name), true) => {
                format!("{name}, because instructions and accesses can be counted and reuse watched for")
            }
            (Some(name), false) => {
                format!("{name}, because counters do not suffice here; it is exact, and slower than they are")
            }
            (None, _) => {
                format!("none: {}", self.chosen.missing.as_deref().unwrap_or("nothing was found"))
            }
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.missing {
            Some(missing) => write!(f, "no: {missing}"),
            None => write!(f, "yes: saw {} instructions and {} accesses", self.instructions, self.accesses),
        }
    }
}

impl fmt::Display for SelfCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(missing) = &self.missing {
            return write!(f, "not run: {missing}");
        }
        let [low, median, high] = self.distances;
        let clock = self.clock.unwrap_or_default();
        match self.right {
            Some(true) => f.write_str("right")?,
            Some(false) => f.write_str("WRONG")?,
            None => f.write_str("not judged")?,
        }
        write!(
            f,
            ": {low}, {median}, {high} {clock} (tenth percentile, median, ninetieth) with {} other lines' accesses between; \
             {} samples reused, {} censored; {} stops, {} late; {:.2} s alone, {:.2} s observed",
            self.expected,
            self.reused,
            self.censored,
            self.stops,
            self.late,
            self.seconds_alone,
            self.seconds_observed
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "This machine: {}, {}", self.system, self.architecture)?;
        if self.system != "linux" {
            writeln!(
                f,
                "Programs are observed on Linux only. Traces, profiles and embedded workloads work here too."
            )?;
        }
        writeln!(f, "\nCounters and watchpoints (backend perf)")?;
        for line in self.counters.text.lines() {
            writeln!(f, "  {line}")?;
        }
        if self.counters.watchpoints > 0 {
            writeln!(f, "  each watches up to                 {} bytes", self.counters.watched_bytes)?;
        }
        for (name, trial) in
            [("Translation (backend dbi)", &self.translation), ("Emulator (backend qemu)", &self.emulator)]
        {
            writeln!(f, "\n{name}, tried on a small program\n  {trial}")?;
            for warning in &trial.warnings {
                writeln!(f, "  {warning}")?;
            }
        }
        writeln!(f, "\nValgrind, whose traces (--tool=lackey, exp-bbv) can be read")?;
        match (&self.valgrind.version, &self.valgrind.missing) {
            (Some(version), _) => writeln!(f, "  {version}")?,
            (None, missing) => writeln!(f, "  no: {}", missing.as_deref().unwrap_or("unknown"))?,
        }
        if let Some(check) = &self.self_check {
            writeln!(f, "\nSelf-check: reuse distances of a known program\n  {check}")?;
        }
        writeln!(f, "\nBy default (auto), programs are observed by\n  {}", self.choice())
    }
}
