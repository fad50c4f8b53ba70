//! Runs an unmodified Linux program under QEMU's user-mode emulator and samples it exactly.

#[cfg(qemu_plugin)]
mod emulator;
#[cfg(qemu_plugin)]
mod locate;
mod location;
#[cfg(qemu_plugin)]
mod memory;
mod options;
#[cfg(qemu_plugin)]
mod process;
#[cfg(qemu_plugin)]
mod program;
#[cfg(qemu_plugin)]
mod sampler;
#[cfg(qemu_plugin)]
#[allow(unsafe_code, dead_code)]
mod shared; // the plugin uses the other half

use std::ffi::OsStr;
use std::fmt;

pub use location::CodeLocation;
pub use options::QemuOptions;

use crate::{Sampler, SamplerError, Window, WindowPlan};

/// How an observed program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetExit {
    /// It exited with this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl fmt::Display for TargetExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// A program that runs under the emulator, one window at a time.
#[derive(Debug)]
pub struct QemuSampler {
    #[cfg(qemu_plugin)]
    run: sampler::Run,
    #[cfg(not(qemu_plugin))]
    run: std::convert::Infallible,
}

#[cfg(qemu_plugin)]
impl QemuSampler {
    /// Starts `program` (found as a shell finds it) with `arguments`. It waits before its first instruction
    /// until [`next_window`](Sampler::next_window) gives the initial plan. Standard input, output and error
    /// are the caller's.
    ///
    /// # Errors
    /// [`SamplerError::Target`] if the program cannot be run, [`SamplerError::Unsupported`] if there is no
    /// emulator that loads plugins, [`SamplerError::Value`] for a window of length 0, [`SamplerError::Io`] if
    /// the system refuses.
    pub fn spawn<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
        Ok(Self { run: sampler::Run::start(program.as_ref(), &arguments, options)? })
    }

    /// Where the code at `address` comes from, if it was seen in a window and belongs to a file. Also after
    /// the program's end.
    ///
    /// # Cost
    /// With the feature `symbols`, each file is read when it is first asked for: some milliseconds a megabyte.
    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.run.locate(address)
    }

    /// Number of the emulator's process, which is the program's as the program sees it.
    pub fn process_id(&self) -> u32 {
        self.run.process_id()
    }

    /// How the program ended, after [`next_window`](Sampler::next_window) has returned `None` or
    /// [`stop`](Sampler::stop) was called.
    pub fn exit_status(&self) -> Option<TargetExit> {
        self.run.exit_status()
    }

    /// What the user should know about the run: parts that went unobserved. Complete after the end.
    pub fn warnings(&self) -> &[String] {
        &self.run.warnings
    }
}

#[cfg(qemu_plugin)]
impl Sampler for QemuSampler {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        self.run.next_window(plan)
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        self.run.stop()
    }
}

#[cfg(not(qemu_plugin))]
impl QemuSampler {
    /// Always an error: the emulator runs Linux programs on Linux.
    ///
    /// # Errors
    /// [`SamplerError::Unsupported`].
    pub fn spawn<A: AsRef<OsStr>>(
        _program: impl AsRef<OsStr>,
        _arguments: impl IntoIterator<Item = A>,
        _options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        Err(SamplerError::Unsupported {
            backend: "qemu",
            missing: "qemu's user-mode emulation runs on 64-bit Linux only".into(),
        })
    }

    /// Where the code at `address` comes from.
    pub fn locate(&mut self, _address: u64) -> Option<CodeLocation> {
        match self.run {}
    }

    /// Number of the emulator's process.
    pub fn process_id(&self) -> u32 {
        match self.run {}
    }

    /// How the program ended.
    pub fn exit_status(&self) -> Option<TargetExit> {
        match self.run {}
    }

    /// What the user should know about the run.
    pub fn warnings(&self) -> &[String] {
        match self.run {}
    }
}

#[cfg(not(qemu_plugin))]
impl Sampler for QemuSampler {
    fn next_window(&mut self, _plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        match self.run {}
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        match self.run {}
    }
}
