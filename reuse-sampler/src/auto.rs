//! Observes a program with whatever this machine has.
//!
//! Today that is the [`qemu`](crate::qemu) backend: exact, without privileges, and several times slower than
//! the program alone.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::qemu::{CodeLocation, QemuOptions, QemuSampler, TargetExit};
use crate::{LineSize, Sampler, SamplerError, Window, WindowPlan};

/// Settings that every backend understands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AutoOptions {
    /// Instructions in a window, per thread. At least 1. Default: 10 M.
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
}

impl Default for AutoOptions {
    fn default() -> Self {
        let QemuOptions { window, line_size, seed, environment, directory, output_to_stderr, .. } =
            QemuOptions::default();
        Self { window, line_size, seed, environment, directory, output_to_stderr }
    }
}

/// A program under whichever backend was found.
#[derive(Debug)]
pub struct AutoSampler {
    backend: Backend,
}

#[derive(Debug)]
enum Backend {
    Qemu(QemuSampler),
}

/// Starts `program` (found as a shell finds it) with `arguments`, under the best backend there is. It waits
/// before its first instruction until [`next_window`](Sampler::next_window) gives the initial plan.
///
/// # Errors
/// As [`QemuSampler::spawn`]: the program cannot be run, or nothing is installed that could observe it, in
/// which case the error names the package.
///
/// ```no_run
/// use reuse_sampler::auto::{self, AutoOptions};
/// use reuse_sampler::{ReusePlan, SampleGap, Sampler, WindowPlan};
///
/// let mut sampler = auto::spawn("sort", ["--parallel=1", "words.txt"], &AutoOptions::default())?;
/// let plan = WindowPlan::new(ReusePlan::Sparse(SampleGap::mean(1000.0)?));
/// while let Some(window) = sampler.next_window(&plan)? {
///     println!("{} instructions, {} samples", window.instructions, window.samples.len());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn spawn<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
    options: &AutoOptions,
) -> Result<AutoSampler, SamplerError> {
    let AutoOptions { window, line_size, seed, environment, directory, output_to_stderr } = options.clone();
    let options = QemuOptions {
        window,
        line_size,
        seed,
        environment,
        directory,
        output_to_stderr,
        ..QemuOptions::default()
    };
    Ok(AutoSampler { backend: Backend::Qemu(QemuSampler::spawn(program, arguments, &options)?) })
}

impl AutoSampler {
    /// Name of the backend that was found.
    pub const fn backend(&self) -> &'static str {
        match self.backend {
            Backend::Qemu(_) => "qemu",
        }
    }

    /// How the program ended, once it has.
    pub fn exit_status(&self) -> Option<TargetExit> {
        match &self.backend {
            Backend::Qemu(sampler) => sampler.exit_status(),
        }
    }

    /// What the user should know about the run: parts that went unobserved. Complete after the end.
    pub fn warnings(&self) -> &[String] {
        match &self.backend {
            Backend::Qemu(sampler) => sampler.warnings(),
        }
    }

    /// Where the code at `address` comes from, if it was seen in a window and belongs to a file.
    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        match &mut self.backend {
            Backend::Qemu(sampler) => sampler.locate(address),
        }
    }
}

impl Sampler for AutoSampler {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        match &mut self.backend {
            Backend::Qemu(sampler) => sampler.next_window(plan),
        }
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        match &mut self.backend {
            Backend::Qemu(sampler) => sampler.stop(),
        }
    }
}
