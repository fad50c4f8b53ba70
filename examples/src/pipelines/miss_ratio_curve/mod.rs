//! One miss-ratio curve: of a trace, a program or an embedded workload, modelled or exact.

mod args;
mod bursts;
mod measure;
mod output;

pub use args::{Args, Model};

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use indicatif::{ProgressBar, ProgressStyle};
use reuse_sampler::replay::{EventSource, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{CacheLines, ReusePlan, SampleGap, SamplerError, WindowPlan};

use self::bursts::Bursts;
use self::measure::{Measured, RandomCaches, Watch};
use self::output::Report;
use crate::cli::{Failure, INTERRUPTED, interrupt_flag, unless_closed};
use crate::output::OutputDir;
use crate::target::{Outcome, Target, TargetOptions};
use crate::traces::{TraceFile, format_of};
use crate::workloads::{NAMES, Workload};

/// Accesses in a window of a replayed source: short enough that a few million are divided into equal parts, long
/// enough that returning windows costs little.
const REPLAY_WINDOW: u64 = 16_384;
/// Instructions in a window of a program.
const PROGRAM_WINDOW: u64 = 1_000_000;

/// Runs the pipeline until its end or Ctrl-C. `out` takes the result, `messages` what else is to be said.
///
/// # Errors
/// [`Failure`] with one line for the user.
pub fn run(args: &Args, out: &mut dyn Write, messages: &mut dyn Write) -> Result<u8, Failure> {
    run_until(&*interrupt_flag()?, args, out, messages)
}

/// The same until `interrupted` is set.
///
/// # Errors
/// As [`run`].
pub fn run_until(
    interrupted: &AtomicBool,
    args: &Args,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<u8, Failure> {
    let sizes = args.cache_sizes()?;
    // Found before the run, not after.
    let folder = args.common.out.as_deref().map(OutputDir::prepare).transpose().map_err(Failure::run)?;
    if args.model.is_exact() && args.sample_rate < 1.0 {
        // A message that nobody reads is no failure.
        let _ = writeln!(
            messages,
            "miss_ratio_curve: {} sees every access: --sample-rate is not used",
            args.model.name()
        );
    }
    let Run { source, measured, status, remark } = measure(args, &sizes, interrupted)?;
    let report = Report {
        model: args.model,
        line_size: args.line_size,
        source: &source,
        sample_rate: if args.model.is_exact() { 1.0 } else { args.sample_rate },
        seed: args.common.seed,
        measured: &measured,
    };
    if let Some(folder) = &folder {
        report.write_files(folder)?;
    }
    unless_closed(if args.common.json { report.write_json(out) } else { report.write_table(out) })?;
    if let Some(remark) = remark {
        let _ = writeln!(messages, "miss_ratio_curve: {remark}; the curve shows the run until then");
    }
    Ok(status)
}

/// A curve, what it is of, and how the run ended.
struct Run {
    source: String,
    measured: Measured,
    status: u8,
    remark: Option<String>,
}

impl Run {
    fn new(source: String, measured: Measured) -> Self {
        let interrupted = measured.incomplete;
        let status = if interrupted { INTERRUPTED } else { 0 };
        Self { source, measured, status, remark: interrupted.then(|| "interrupted".to_owned()) }
    }

    /// The same of a program that ended in this way: its exit status is passed on.
    fn ended(mut self, outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Signalled(signal) => {
                self.measured.incomplete = true;
                self.status = signal.shell_status();
                self.remark = Some(format!("the program was killed by {signal}"));
            }
            Outcome::Exited(code) if *code != 0 => self.status = u8::try_from(code & 0xff).unwrap_or(1),
            Outcome::Exited(_) | Outcome::Unknown => {}
        }
        self
    }
}

/// Measures what the command line names.
fn measure(args: &Args, sizes: &[CacheLines], interrupted: &AtomicBool) -> Result<Run, Failure> {
    if let Some(path) = &args.trace {
        let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
        let format = args.format.map_or_else(|| format_of(path), Ok).map_err(Failure::usage)?;
        let trace = TraceFile::open(path, format).map_err(Failure::run)?;
        let bar = Bar::new(trace.bytes);
        let watch = Watch { interrupted, progress: &|accesses| bar.tell(trace.read.get(), accesses) };
        let failed = |error| Failure::Run(format!("{name}: {error}"));
        let measured = replay(args, sizes, trace.stream, &watch, failed)?;
        return Ok(Run::new(name, measured));
    }
    let bar = Bar::new(None);
    let watch = Watch { interrupted, progress: &|accesses| bar.tell(0, accesses) };
    if args.program.is_empty() {
        let name = &args.workload;
        let workload = Workload::by_name(name, args.common.seed, 1).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            Failure::Usage(format!("no embedded workload {name:?}; there are {}", names.join(", ")))
        })?;
        let events = workload.events().map_err(Failure::run)?;
        let measured = replay(args, sizes, events, &watch, Failure::run)?;
        return Ok(Run::new(format!("{name} (embedded)"), measured));
    }
    if args.model.is_exact() {
        return Err(Failure::Usage(format!(
            "{} needs every access in order, which a running program does not give: record a trace and give --trace",
            args.model.name()
        )));
    }
    let options = TargetOptions { window: PROGRAM_WINDOW, line_size: args.line_size, seed: args.common.seed };
    let mut target = Target::program(&args.program, options).map_err(Failure::run)?;
    let bursts = Bursts::new(args.windows as usize, args.line_size);
    let (bursts, incomplete) =
        measure::sample(target.sampler(), &plan(args)?, bursts, &watch).map_err(Failure::run)?;
    let measured = measure::fit(args.model, bursts, incomplete, sizes)?;
    Ok(Run::new(target.name().to_owned(), measured).ended(&target.outcome()))
}

/// Measures a replayed source by whatever model was asked for.
fn replay(
    args: &Args,
    sizes: &[CacheLines],
    mut source: impl EventSource,
    watch: &Watch<'_>,
    failed: impl FnOnce(SamplerError) -> Failure,
) -> Result<Measured, Failure> {
    let line_size = args.line_size;
    let measured = match args.model {
        Model::ExactLru => measure::exact_lru(&mut source, line_size, sizes, watch).map_err(failed)?,
        Model::ExactRandom => {
            let caches = RandomCaches::new(sizes, args.common.seed)?;
            caches.run(&mut source, line_size, sizes, watch).map_err(failed)?
        }
        Model::Statstack | Model::Statcache => {
            let options = ReplayOptions::windows_of(WindowLength::Accesses(REPLAY_WINDOW))
                .line_size(line_size)
                .seed(args.common.seed);
            let mut sampler = ReplaySampler::new(source, options).map_err(Failure::run)?;
            let bursts = Bursts::new(args.windows as usize, line_size);
            let (bursts, incomplete) =
                measure::sample(&mut sampler, &plan(args)?, bursts, watch).map_err(failed)?;
            measure::fit(args.model, bursts, incomplete, sizes)?
        }
    };
    if measured.accesses == 0 {
        return Err(Failure::Run("no memory access was seen".to_owned()));
    }
    Ok(measured)
}

fn plan(args: &Args) -> Result<WindowPlan, Failure> {
    Ok(WindowPlan::new(if args.sample_rate >= 1.0 {
        ReusePlan::Every
    } else {
        ReusePlan::Sparse(SampleGap::mean(1.0 / args.sample_rate).map_err(Failure::usage)?)
    }))
}

/// A progress bar on standard error, if that is a terminal.
struct Bar(Option<ProgressBar>);

impl Bar {
    /// Over so many bytes, or of unknown length.
    fn new(bytes: Option<u64>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| match bytes {
            Some(bytes) => {
                let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {msg} ETA {eta}");
                ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            }
            None => ProgressBar::new_spinner(),
        });
        Self(bar)
    }

    fn tell(&self, bytes: u64, accesses: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(bytes);
            bar.set_message(format!("{} accesses", crate::report::count(accesses)));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
