//! Settings of a run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::Coverage;
use crate::{Children, Error, LineSize, SamplerError};

/// Settings of a [`PerfSampler`](super::PerfSampler).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools)] // independent switches, each with its name
pub struct PerfOptions {
    /// Instructions in a window, per thread, where instructions can be counted. At least 1. Default: 10 M.
    pub window: u64,
    /// Processor time in a window, per thread, where they cannot. At least 1 us. Default: 10 ms.
    pub window_time: Duration,
    /// Line size at which reuse is observed. Default: 64 bytes.
    pub line_size: LineSize,
    /// Which accesses are chosen. Default: 0.
    pub seed: u64,
    /// Code samples in a window: where the thread is at equal distances. 20 separate phases; each costs about a
    /// microsecond. 0 for none. Default: 20.
    pub code_samples: u64,
    /// Whether the processor's own choice of accesses is given up before code samples, where its counters do not suffice for
    /// both ([`Capabilities::group`](super::Capabilities::group)). Without code samples phases cannot be separated. Default: no.
    pub keep_code: bool,
    /// How much of a line is watched where a debug register covers only 8 bytes. Default: [`Coverage::Line`].
    pub coverage: Coverage,
    /// Whether a random open sample gives way when all debug registers are busy, instead of the oldest but for one that is
    /// held at the expense of others, so that some grow old. Either is without bias where lines are touched independently;
    /// a random choice is more misled by phases (`tests/four_registers.rs`). Default: no.
    pub reclaim_random: bool,
    /// Mean gap between samples in windows whose plan asks for every access, which cannot be seen. Default: 100,000.
    pub densest: f64,
    /// Groups of counters, which take turns from window to window. Events are named as [`events`](super::events) has
    /// them. Default: none.
    pub counters: Vec<Vec<String>>,
    /// Operations between two that the processor profiles by itself where it can
    /// ([`Capabilities::profiles`](super::Capabilities::profiles)), reported by
    /// [`PerfSampler::profiled`](super::PerfSampler::profiled) beside windows and their samples: at least 1, and no less than
    /// the processor's own limit (some 1,000). Default: none.
    pub profile_every: Option<u64>,
    /// Whether to do with time where the processor's counters cannot be used: windows and distances are then
    /// nanoseconds, good for separating phases and for the far tail of reuse only. Default: yes.
    pub time_if_no_counters: bool,
    /// How many instructions early the processor is asked to stop for a chosen access, which single steps then reach.
    /// At least as many as it stops late by; each costs a stop. Default: none, the access that follows where it stops is
    /// taken.
    pub early: Option<u64>,
    /// How many instructions later than it could the program is asked to stop: plays a processor that notices overflows
    /// late, so that what that costs and biases can be measured. Default: 0.
    pub skid: u64,
    /// What becomes of processes that the program makes, of one that is attached to those that it makes from then on. What
    /// a process executes in its own place is observed in any case. Default: they are observed too.
    pub children: Children,
    /// Variables to set in the program's environment, which otherwise is the caller's.
    pub environment: Vec<(OsString, OsString)>,
    /// Directory to run the program in. Default: the caller's.
    pub directory: Option<PathBuf>,
    /// Whether what the program writes to standard output goes to standard error. Default: no.
    pub output_to_stderr: bool,
    /// Whether the program's addresses may differ from run to run. Default: no.
    pub randomized_addresses: bool,
}

impl Default for PerfOptions {
    fn default() -> Self {
        Self {
            window: 10_000_000,
            window_time: Duration::from_millis(10),
            line_size: LineSize::B64,
            seed: 0,
            code_samples: 20,
            keep_code: false,
            coverage: Coverage::default(),
            reclaim_random: false,
            densest: 100_000.0,
            counters: Vec::new(),
            profile_every: None,
            time_if_no_counters: true,
            early: None,
            skid: 0,
            children: Children::Follow,
            environment: Vec::new(),
            directory: None,
            output_to_stderr: false,
            randomized_addresses: false,
        }
    }
}

impl PerfOptions {
    /// Windows of this many instructions, everything else by default.
    #[must_use]
    pub fn windows_of(instructions: u64) -> Self {
        Self { window: instructions, ..Self::default() }
    }

    /// The same with one more variable in the program's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub(super) fn check(&self) -> Result<(), SamplerError> {
        if self.window == 0 || self.window_time < Duration::from_micros(1) {
            return Err(Error::WindowLength.into());
        }
        if !(self.densest.is_finite() && self.densest >= 1.0) {
            return Err(Error::SampleGap { accesses: self.densest }.into());
        }
        Ok(())
    }
}
