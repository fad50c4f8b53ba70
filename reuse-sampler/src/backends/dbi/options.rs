//! Settings of a translated run.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Children, Cpu, LineSize};

/// Settings of a [`DbiSampler`](super::DbiSampler).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DbiOptions {
    /// Instructions in a window. At least 1. Default: 10 M.
    pub window: u64,
    /// Line size at which reuse is observed. Default: 64 bytes.
    pub line_size: LineSize,
    /// Seed of the choice of samples. Default: 0.
    pub seed: u64,
    /// Variables to set in the program's environment, which otherwise is the caller's.
    pub environment: Vec<(OsString, OsString)>,
    /// Directory to run the program in. Default: the caller's.
    pub directory: Option<PathBuf>,
    /// Whether the program's standard output goes to standard error. Default: no.
    pub output_to_stderr: bool,
    /// Whether the program's addresses may differ from run to run. Default: no.
    pub randomized_addresses: bool,
    /// Events of one thread, about, that [`DbiTrace`](super::DbiTrace) hands out together once there are several threads;
    /// fewer interleave threads more nearly as they ran, and cost more. Default: 8192.
    pub stretch: u32,
    /// What becomes of processes that the program starts. Default: they are observed too.
    pub children: Children,
    /// Mean number of a thread's accesses from one [stride](crate::Window::strides) sampled to the next; 0 for none.
    /// Default: 0.
    pub strides: u64,
    /// The processor that the program is shown. Default: the one that it runs on.
    pub cpu: Cpu,
}

impl Default for DbiOptions {
    fn default() -> Self {
        Self {
            window: 10_000_000,
            line_size: LineSize::B64,
            seed: 0,
            environment: Vec::new(),
            directory: None,
            output_to_stderr: false,
            randomized_addresses: false,
            stretch: 1 << 13,
            children: Children::Follow,
            strides: 0,
            cpu: Cpu::Host,
        }
    }
}

impl DbiOptions {
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
}
