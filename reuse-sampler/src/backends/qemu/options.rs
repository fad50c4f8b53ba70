//! Settings of a run under the emulator.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Children, Cpu, LineSize};

/// Settings of a [`QemuSampler`](super::QemuSampler).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QemuOptions {
    /// Instructions in a window, per thread. At least 1; below some millions the hand-over at each boundary
    /// shows. Default: 10 M.
    pub window: u64,
    /// Line size at which reuse is observed. Default: 64 bytes.
    pub line_size: LineSize,
    /// Which accesses are chosen, where not all are. Default: 0.
    pub seed: u64,
    /// Variables to set in the program's environment, which otherwise is the caller's.
    pub environment: Vec<(OsString, OsString)>,
    /// Directory to run the program in. Default: the caller's.
    pub directory: Option<PathBuf>,
    /// Whether what the program writes to standard output goes to standard error, because the caller's own
    /// results go to standard output. Default: no.
    pub output_to_stderr: bool,
    /// Whether the program's addresses may differ from run to run. Default: no, so that a seed chooses the
    /// same accesses again and locations can be compared. Emulators of version 10 place programs that it executes here or
    /// there nevertheless.
    pub randomized_addresses: bool,
    /// Events of one thread, at most, that [`QemuTrace`](super::QemuTrace) hands out together once there are several
    /// threads; from 2 to 8192. Fewer interleave threads more nearly as they ran, and cost more. Default: 8192.
    pub stretch: u32,
    /// What becomes of processes that the program starts. Default: they are observed too.
    pub children: Children,
    /// Mean number of a thread's accesses from one [stride](crate::Window::strides) sampled to the next; 0 for none.
    /// Default: 0.
    pub strides: u64,
    /// The processor that the program is shown. Default: the one that the emulator chooses.
    pub cpu: Cpu,
    /// The emulator. Default: `qemu-x86_64` or `qemu-aarch64`, whichever the program is for, from `PATH`.
    pub emulator: Option<PathBuf>,
}

impl Default for QemuOptions {
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
            emulator: None,
        }
    }
}

impl QemuOptions {
    /// Windows of this many instructions, everything else by default.
    #[must_use]
    pub fn windows_of(instructions: u64) -> Self {
        Self { window: instructions, ..Self::default() }
    }

    /// The same at another line size.
    #[must_use]
    pub fn line_size(mut self, line_size: LineSize) -> Self {
        self.line_size = line_size;
        self
    }

    /// The same with another seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The same with stretches of so many events.
    #[must_use]
    pub fn stretch(mut self, events: u32) -> Self {
        self.stretch = events;
        self
    }

    /// The same with one more variable in the program's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The same in another directory.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }
}
