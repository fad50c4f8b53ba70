//! Observes a program with whatever this machine has.
//!
//! With hardware counters that is the `perf` backend: near the program's own speed. Without, the `dbi` backend: exact,
//! nothing to install, two to four times slower than the program alone where it only counts. Programs for another
//! processor, and machines on which it cannot start programs, are left to the `qemu` backend: as exact, slower, and in need
//! of an emulator. Which of them are tried depends on the features this crate is built with.

#[cfg(any(feature = "dbi", feature = "qemu"))]
mod trace;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

#[cfg(any(feature = "dbi", feature = "qemu"))]
pub use trace::{AutoTrace, fetches, trace};

#[cfg(feature = "dbi")]
use crate::dbi::{DbiOptions, DbiSampler};
#[cfg(feature = "perf")]
use crate::perf::{self, PerfOptions, PerfSampler};
#[cfg(feature = "qemu")]
use crate::qemu::{QemuOptions, QemuSampler};
use crate::{
    Children, Clock, CodeLocation, Cpu, LineSize, ProcessRecord, Sampler, SamplerError, TargetExit, Window,
    WindowPlan,
};

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
    /// What becomes of processes that the program starts. Default: they are observed too.
    pub children: Children,
    /// Mean number of a thread's accesses from one [stride](Window::strides) sampled to the next, by `dbi` and `qemu`; 0 for
    /// none. Default: 0.
    pub strides: u64,
    /// The processor that the program is shown, by `dbi` and `qemu`. Default: the one that it runs on.
    pub cpu: Cpu,
    /// Which backend is to observe. Default: the best there is.
    pub backend: Choice,
}

impl Default for AutoOptions {
    fn default() -> Self {
        Self {
            window: 10_000_000,
            line_size: LineSize::B64,
            seed: 0,
            environment: Vec::new(),
            directory: None,
            output_to_stderr: false,
            children: Children::Follow,
            strides: 0,
            cpu: Cpu::Host,
            backend: Choice::Best,
        }
    }
}

/// Which backend is to observe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// Counters where windows and distances can be counted with them, else as [`Exact`](Self::Exact).
    #[default]
    Best,
    /// What sees every block and access: the `dbi` backend, else `qemu`.
    Exact,
    /// The `perf` backend or none, with time where there are no counters.
    Perf,
    /// The `perf` backend with the processor's counters or none: windows are instructions. What distances are counted
    /// in, see [`AutoSampler::distances`].
    Counters,
    /// The `qemu` backend or none.
    Qemu,
    /// The `dbi` backend or none.
    Dbi,
}

/// A program under whichever backend was found.
#[derive(Debug)]
pub struct AutoSampler {
    backend: Backend,
    /// Why counters were refused, if they were, then what the backend has warned of.
    warnings: Vec<String>,
    taken: usize, // of the backend's
}

#[derive(Debug)]
enum Backend {
    #[cfg(feature = "perf")]
    Perf(Box<PerfSampler>),
    #[cfg(feature = "qemu")]
    Qemu(Box<QemuSampler>),
    #[cfg(feature = "dbi")]
    Dbi(Box<DbiSampler>),
}

/// Starts `program` (found as a shell finds it) with `arguments`, under the best backend there is. It waits
/// before its first instruction until [`next_window`](Sampler::next_window) gives the initial plan.
///
/// # Errors
/// The program cannot be run, or nothing here could observe it, in which case the error names the package, the setting
/// or the machine that is missing.
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
    let arguments: Vec<OsString> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
    let program = program.as_ref();
    let mut missing: Vec<String> = Vec::new();
    #[cfg_attr(not(feature = "perf"), allow(unused_mut))]
    let mut refused = None;
    #[cfg(feature = "perf")]
    let only = matches!(options.backend, Choice::Perf | Choice::Counters);
    #[cfg(feature = "perf")]
    if only || options.backend == Choice::Best && options.cpu == Cpu::Host {
        if options.cpu != Cpu::Host {
            let missing = format!(
                "under counters a program is shown the processor that it runs on: for {} give another backend",
                options.cpu
            );
            return Err(SamplerError::Unsupported { backend: "perf", missing });
        }
        let found = perf::probe();
        let mut why = found.advice.join("; ");
        let mut is_refused = found.stops.is_err();
        if only || found.has_counters() {
            match PerfSampler::spawn(program, &arguments, &perf_options(options)) {
                Ok(sampler) => return Ok(AutoSampler::new(Backend::Perf(Box::new(sampler)), None)),
                Err(SamplerError::Unsupported { missing, .. }) if !only => {
                    (why, is_refused) = (missing, true);
                }
                Err(error) => return Err(error),
            }
        }
        refused = is_refused.then(|| format!("counters cannot be used: {why}"));
        missing.push(format!("perf: {why}"));
    }
    #[cfg(feature = "dbi")]
    if matches!(options.backend, Choice::Best | Choice::Exact | Choice::Dbi) {
        match DbiSampler::spawn(program, &arguments, &dbi_options(options)) {
            Ok(sampler) => return Ok(AutoSampler::new(Backend::Dbi(Box::new(sampler)), refused)),
            Err(error) if options.backend == Choice::Dbi => return Err(error),
            // A program for another processor, say.
            Err(error) => missing.push(format!("dbi: {error}")),
        }
    }
    #[cfg(feature = "qemu")]
    if !matches!(options.backend, Choice::Perf | Choice::Counters | Choice::Dbi) {
        match QemuSampler::spawn(program, &arguments, &qemu_options(options)) {
            Ok(sampler) => return Ok(AutoSampler::new(Backend::Qemu(Box::new(sampler)), refused)),
            Err(SamplerError::Unsupported { missing: what, .. }) => missing.push(format!("qemu: {what}")),
            Err(error) => return Err(error),
        }
    }
    let _ = (program, &arguments, &refused);
    if missing.is_empty() {
        missing.push("the backend asked for is not built in: enable its feature".to_owned());
    }
    Err(SamplerError::Unsupported { backend: "auto", missing: missing.join("\n") })
}

/// The settings as those of a backend, with some of its own.
#[cfg(any(feature = "perf", feature = "dbi", feature = "qemu"))]
macro_rules! options_of {
    ($options:expr, $Options:ident { $($own:ident: $value:expr),* }) => {{
        let AutoOptions { window, line_size, seed, environment, directory, output_to_stderr, .. } =
            $options.clone();
        $Options {
            window,
            line_size,
            seed,
            environment,
            directory,
            output_to_stderr,
            $($own: $value,)*
            ..$Options::default()
        }
    }};
}

#[cfg(feature = "perf")]
fn perf_options(options: &AutoOptions) -> PerfOptions {
    let (keep_code, time) = (options.backend != Choice::Perf, options.backend == Choice::Perf);
    options_of!(
        options,
        PerfOptions { children: options.children, keep_code: keep_code, time_if_no_counters: time }
    )
}

#[cfg(feature = "qemu")]
fn qemu_options(options: &AutoOptions) -> QemuOptions {
    options_of!(
        options,
        QemuOptions { children: options.children, strides: options.strides, cpu: options.cpu }
    )
}

#[cfg(feature = "dbi")]
fn dbi_options(options: &AutoOptions) -> DbiOptions {
    options_of!(
        options,
        DbiOptions { children: options.children, strides: options.strides, cpu: options.cpu }
    )
}

/// Asks whichever backend there is; counters something else, where that is said first.
macro_rules! ask {
    ($backend:expr, $sampler:pat => $answer:expr) => {
        ask!($backend, $sampler => $answer, $sampler => $answer)
    };
    ($backend:expr, $perf:pat => $counted:expr, $sampler:pat => $answer:expr) => {
        match $backend {
            #[cfg(feature = "perf")]
            Backend::Perf($perf) => $counted,
            #[cfg(feature = "qemu")]
            Backend::Qemu($sampler) => $answer,
            #[cfg(feature = "dbi")]
            Backend::Dbi($sampler) => $answer,
        }
    };
}

impl AutoSampler {
    #[cfg(any(feature = "perf", feature = "qemu", feature = "dbi"))]
    fn new(backend: Backend, refused: Option<String>) -> Self {
        let mut sampler = Self { backend, warnings: refused.into_iter().collect(), taken: 0 };
        sampler.take_warnings();
        sampler
    }

    /// Name of the backend that was found.
    pub const fn backend(&self) -> &'static str {
        match self.backend {
            #[cfg(feature = "perf")]
            Backend::Perf(_) => "perf",
            #[cfg(feature = "qemu")]
            Backend::Qemu(_) => "qemu",
            #[cfg(feature = "dbi")]
            Backend::Dbi(_) => "dbi",
        }
    }

    /// What the distances of its samples are counted in.
    pub fn distances(&self) -> Clock {
        ask!(&self.backend, sampler => sampler.clocks().1, _ => Clock::Accesses)
    }

    /// How the program ended, once it has.
    pub fn exit_status(&self) -> Option<TargetExit> {
        ask!(&self.backend, sampler => sampler.exit_status())
    }

    /// Operands per access, where every access can be seen (`qemu`, `dbi`). An operand is what cachegrind calls a data
    /// reference: a read-modify-write is one (two accesses), and so is one that straddles lines.
    pub fn operands_per_access(&self) -> Option<f64> {
        ask!(&self.backend, _ => None, sampler => sampler.operands_per_access())
    }

    /// The processes of the observed tree: the program first, in the order in which they began. Complete after the end.
    pub fn processes(&self) -> Vec<ProcessRecord> {
        ask!(&self.backend, sampler => sampler.processes())
    }

    /// What the user should know about the run: parts that went unobserved, and why counters were refused where they
    /// are preferred (not that a machine has none). Complete after the end.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Takes over what the backend has warned of since. It takes nothing back.
    fn take_warnings(&mut self) {
        let own = ask!(&self.backend, sampler => sampler.warnings());
        self.warnings.extend(own.iter().skip(self.taken).cloned());
        self.taken = own.len();
    }

    /// Where the code at `address` comes from, if it was seen in a window and belongs to a file.
    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        ask!(&mut self.backend, sampler => sampler.locate(address))
    }
}

impl Sampler for AutoSampler {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        let window = ask!(&mut self.backend, sampler => sampler.next_window(plan));
        self.take_warnings();
        window
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        let stopped = ask!(&mut self.backend, sampler => sampler.stop());
        self.take_warnings();
        stopped
    }
}
