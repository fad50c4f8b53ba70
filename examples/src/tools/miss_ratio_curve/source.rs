//! What the curve is of: a trace, an embedded workload or a program, and how each is run.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use reuse_sampler::replay::{EventSource, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::trace::{OracleGeneralReader, TraceContent, TraceFormat};
use reuse_sampler::{
    Access, Bootstrap, CacheLines, LineSize, ReusePlan, SampleGap, Sampler, SamplerError, ThreadId, Window,
    WindowPlan,
};

use super::args::{Args, CacheSide, Hierarchy, Model, Unit};
use super::bursts::Bursts;
use super::measure::{Exact, Fit, Measured, fit, sample, sized_lru};
use super::prefetch::{self, Prefetching};
use super::sets::SomeSets;
use super::spots::{Named, Observer, Tap};
use super::stored::Stretch;
use super::threads::Threads;
use crate::cli::{ByName, Failure, Watch};
use crate::machines::chip::Policy;
use crate::machines::host::processor_as;
use crate::report::ProcessRow;
use crate::target::{Outcome, Scope, Target, command_name, embedded_workload};
use crate::traces::{InputFile, Merged, STRETCH, TraceFile, Traced, name_of};
use crate::workloads::locate;

/// Accesses in a window of a replayed source: short enough that a few million are divided into equal parts, long
/// enough that returning windows costs little.
const REPLAY_WINDOW: u64 = 16_384;
/// Parts that memory is kept for, if no number is given.
const PARTS: usize = 20;
/// Level of the intervals.
pub const LEVEL: f64 = 0.95;
/// Instructions in a window of a program.
const PROGRAM_WINDOW: u64 = 1_000_000;

/// The command line, checked.
pub struct Settings<'a> {
    args: &'a Args,
    format: Option<TraceFormat>,
    pub line_size: LineSize,
    sizes: Vec<CacheLines>,
    plan: WindowPlan,
    bootstrap: Option<Bootstrap>,
    hot_spots: Option<Hierarchy>,
    pub scope: Scope,
    pub unit: Option<Unit>,
}

impl<'a> Settings<'a> {
    /// Checks what `args` says.
    pub fn new(args: &'a Args) -> Result<Self, Failure> {
        args.refuse_counters()?;
        let scope = args.scope()?;
        let format = args.trace_format()?;
        let unit = args.unit(format)?;
        let line_size = args.line_size(format)?;
        let hot_spots = args.hot_spots(line_size)?;
        let rate = args.sample_rate();
        // Counts of every access do not name the instructions, nor those that a prefetcher made; single samples do.
        let reuse = if rate >= 1.0 && hot_spots.is_none() && args.prefetch.is_none() {
            ReusePlan::Every
        } else {
            ReusePlan::Sparse(SampleGap::mean(1.0 / rate).map_err(Failure::usage)?)
        };
        let sizes = args.cache_sizes(line_size)?;
        let bootstrap = match args.draws {
            0 => None,
            draws => Some(Bootstrap::new(LEVEL, draws, args.common.seed).map_err(Failure::usage)?),
        };
        // They would be of all touches, fetched lines included.
        let bootstrap = bootstrap.filter(|_| args.prefetch.is_none());
        let plan = WindowPlan::new(reuse);
        Ok(Self { args, format, line_size, sizes, plan, bootstrap, hot_spots, scope, unit })
    }

    /// Runs and measures whatever the command line names, until `interrupted` is set.
    pub fn run(&self, interrupted: &AtomicBool) -> Result<Run, Failure> {
        match (&self.args.trace, self.format) {
            (Some(path), Some(format)) => self.trace(path, format, interrupted),
            _ if self.args.program.is_empty() => self.workload(interrupted),
            _ => self.program(interrupted),
        }
    }

    fn trace(&self, path: &Path, format: TraceFormat, interrupted: &AtomicBool) -> Result<Run, Failure> {
        let name = name_of(path);
        let failed = |error| Failure::Run(format!("{name}: {error}"));
        let ended = |measured: Measured| Run {
            source: name.clone(),
            machine: None,
            interrupted: measured.incomplete,
            measured,
            outcome: Outcome::Unknown,
            processes: Vec::new(),
            notes: Vec::new(),
        };
        if self.unit == Some(Unit::Bytes) {
            let file = InputFile::open(path)?;
            let watch = Watch::over(interrupted, file.bytes, &file.read);
            let mut reader = OracleGeneralReader::new(file.reader);
            return sized_lru(&mut reader, &self.sizes, &watch).map(ended).map_err(failed);
        }
        let trace = TraceFile::open(path, format)?;
        let watch = Watch::over(interrupted, trace.bytes, &trace.read);
        let stream = trace.stream.side(self.args.side.into()).map_err(Failure::usage)?;
        let measured = match stream.content(self.line_size).map_err(failed)? {
            TraceContent::Accesses(stream) => self.replay(stream, &watch, failed, |_| None)?,
            TraceContent::Samples(mut samples) => {
                self.refuse_order(&name)?;
                self.model(samples.as_mut(), false, &watch, failed)?
            }
        };
        Ok(ended(measured))
    }

    /// Refuses the exact models, and a shared cache, for what does not give every access.
    fn refuse_order(&self, source: &str) -> Result<(), Failure> {
        let model = self.args.model;
        if model.is_exact() || self.scope == Scope::Shared || self.args.prefetch.is_some() {
            let name = model.name();
            let what = match self.args.prefetch {
                Some(_) => "--prefetch",
                None if model.is_exact() => &name,
                None => "--scope shared",
            };
            return Err(Failure::Usage(format!(
                "{what} needs every access in order, which {source} does not give: record a trace and give --trace",
            )));
        }
        Ok(())
    }

    fn workload(&self, interrupted: &AtomicBool) -> Result<Run, Failure> {
        let name = &self.args.workload;
        let workload = embedded_workload(name, self.args.common.seed, 1)?;
        if self.args.side == CacheSide::Instruction {
            return Err(Failure::usage(
                "embedded workloads have no instructions to fetch: give a program (-- PROGRAM), or a din or lackey trace",
            ));
        }
        let watch = Watch::new(interrupted);
        let events = workload.events()?;
        let measured = self.replay(events, &watch, Failure::run, |pc| Some((locate(pc)?, true)))?;
        Ok(Run {
            source: format!("{name} (embedded)"),
            machine: None,
            interrupted: measured.incomplete,
            measured,
            outcome: Outcome::Unknown,
            processes: Vec::new(),
            notes: Vec::new(),
        })
    }

    fn program(&self, interrupted: &AtomicBool) -> Result<Run, Failure> {
        if self.args.is_traced() {
            return self.traced_program(interrupted);
        }
        let mut options = self.args.observing();
        options.window = PROGRAM_WINDOW;
        options.line_size = self.line_size;
        options.seed = self.args.common.seed;
        options.strides = self.strides();
        let target = Target::program(&self.args.program, &options).and_then(Target::in_accesses);
        let mut target = target?;
        let watch = Watch::new(interrupted);
        let mut measured = match (self.model(target.sampler(), true, &watch, Failure::run), target.outcome())
        {
            (Err(Failure::Run(problem)), ended @ Outcome::Signalled(_)) => {
                return Err(
                    ended.without_result(&format!("{problem}; --backend dbi observes short runs, too"))
                );
            }
            (measured, _) => measured?,
        };
        if let Some(spots) = &mut measured.spots {
            spots.describe(|pc| target.place(pc));
        }
        measured.operands = target.operands(measured.accesses);
        let interrupted = measured.incomplete;
        measured.incomplete |= target.ended_early();
        Ok(Run {
            source: target.name().to_owned(),
            machine: target.machine(),
            measured,
            interrupted,
            outcome: target.outcome(),
            processes: target.processes(),
            notes: target.notes(),
        })
    }

    /// Hands out all that a program does: its accesses in order, or its instructions.
    fn traced_program(&self, interrupted: &AtomicBool) -> Result<Run, Failure> {
        let (program, side) = (&self.args.program, self.args.side.into());
        let traced = Traced::spawn(program, side, &self.args.observing())?;
        let watch = Watch::new(interrupted);
        let mut measured = self.replay(traced.clone(), &watch, Failure::run, |pc| traced.place(pc))?;
        if let Some(coherence) = &mut measured.coherence {
            coherence.stretch = Some(STRETCH);
            coherence.describe(self.line_size, |data| traced.variable(data), |pc| traced.locate(pc));
        }
        measured.operands = traced.operands();
        let interrupted = measured.incomplete;
        measured.incomplete |= traced.ended_early();
        Ok(Run {
            source: command_name(&self.args.program),
            machine: Some(processor_as(self.args.cpu)),
            measured,
            interrupted,
            outcome: traced.outcome(),
            processes: traced.processes(),
            notes: traced.notes(),
        })
    }

    /// Measures a replayed source by whatever model was asked for, behind a prefetcher if one was.
    fn replay(
        &self,
        source: impl EventSource,
        watch: &Watch<'_>,
        failed: impl FnOnce(SamplerError) -> Failure,
        locate: impl FnMut(u64) -> Option<Named>,
    ) -> Result<Measured, Failure> {
        let Some(prefetch) = self.args.prefetch else { return self.measure(source, watch, failed, locate) };
        let seen = Cell::default();
        let mut source = Prefetching::new(source, prefetch, self.line_size, &seen);
        let measured = if self.args.model.is_exact() {
            prefetch::exact(&mut source, self.line_size, &self.sizes, watch).map_err(failed)?
        } else {
            self.measure(source, watch, failed, locate)?
        };
        measured.of_demand(prefetch, seen.get())
    }

    fn measure(
        &self,
        source: impl EventSource,
        watch: &Watch<'_>,
        failed: impl FnOnce(SamplerError) -> Failure,
        locate: impl FnMut(u64) -> Option<Named>,
    ) -> Result<Measured, Failure> {
        let (line_size, sizes, seed) = (self.line_size, &self.sizes, self.args.common.seed);
        let measured = match self.args.model {
            Model::ExactLru | Model::ExactRandom => {
                let caches = Exact { source, line_size, sizes, watch };
                match (self.args.ways, self.args.model, self.scope) {
                    (Some(ways), Model::ExactLru, _) => caches.in_sets(ways, Policy::Lru, failed)?,
                    (Some(ways), ..) => caches.in_sets(ways, Policy::Random { seed }, failed)?,
                    (None, Model::ExactLru, Scope::Private) => caches.private(failed)?,
                    (None, Model::ExactLru, _) => caches.lru(failed)?,
                    (None, ..) => caches.random(seed, failed)?,
                }
            }
            Model::Statstack | Model::Statcache => {
                let windows = ReplayOptions::windows_of(WindowLength::Accesses(REPLAY_WINDOW));
                let options = windows.line_size(line_size).seed(seed).strides(self.strides());
                let sets = self.some_sets();
                let tapped = Tap::new(source, |access: &Access| {
                    if let Some(sets) = &sets {
                        sets.borrow_mut().access(access);
                    }
                });
                let mut measured = if self.scope == Scope::Shared {
                    let mut sampler = ReplaySampler::new(Merged(tapped), options)?;
                    Measured { threads: 0, ..self.model(&mut sampler, true, watch, failed)? }
                } else if self.args.includes_coherence() {
                    let mut sampler = ReplaySampler::new(tapped, options.coherent())?;
                    self.model_threads(&mut sampler, watch, failed)?
                } else {
                    let mut sampler = ReplaySampler::new(tapped, options)?;
                    self.model(&mut sampler, true, watch, failed)?
                };
                // Of several threads with a private cache each, the sets of none were simulated.
                if let Some(sets) = sets.as_ref().filter(|_| measured.threads <= 1) {
                    measured.hold_against(sets.borrow().against(&measured.points), line_size);
                }
                if let Some(spots) = &mut measured.spots {
                    spots.describe(locate);
                }
                measured
            }
        };
        if measured.accesses == 0 {
            return Err(Failure::Run("no memory access was seen".to_owned()));
        }
        Ok(measured)
    }

    /// Some sets of caches of few ways, to hold the model against.
    fn some_sets(&self) -> Option<RefCell<SomeSets>> {
        let seed = self.args.common.seed;
        let policy = if self.args.model == Model::Statcache { Policy::Random { seed } } else { Policy::Lru };
        self.args.ways.map(|ways| RefCell::new(SomeSets::new(&self.sizes, ways, self.line_size, policy)))
    }

    /// Mean gap between strides: as many are sampled as accesses; 0 where nobody asks for them.
    fn strides(&self) -> u64 {
        if self.hot_spots.is_some() { (1.0 / self.args.sample_rate()).round().max(1.0) as u64 } else { 0 }
    }

    /// Samples to the end and fits the model. `is_whole` says that what the sampler returns is a run from its beginning.
    fn model(
        &self,
        sampler: &mut dyn Sampler,
        is_whole: bool,
        watch: &Watch<'_>,
        failed: impl FnOnce(SamplerError) -> Failure,
    ) -> Result<Measured, Failure> {
        let mut bursts = Bursts::new(self.args.windows().unwrap_or(PARTS), self.line_size);
        let mut observer = Observer::new(self.line_size, self.hot_spots.is_some());
        let add = |window: &Window| bursts.add(window).map(|()| bursts.accesses());
        let sampled = sample(sampler, &self.plan, add, &mut observer, watch);
        let (threads, incomplete) = sampled.map_err(failed)?;
        let seen = (bursts.accesses(), bursts.samples());
        let settings = self.fit(&observer, is_whole && threads <= 1);
        let parts = settings.divided(&bursts)?;
        let stretches = Stretch::of(ThreadId(0), &parts);
        let parts = settings.modelled(&bursts, parts)?;
        Ok(Measured { threads, stretches, ..fit(&settings, &parts, seen, incomplete)? })
    }

    /// The same for a private cache of each thread, and the cache that all share.
    fn model_threads(
        &self,
        sampler: &mut dyn Sampler,
        watch: &Watch<'_>,
        failed: impl FnOnce(SamplerError) -> Failure,
    ) -> Result<Measured, Failure> {
        let mut seen = Threads::new(self.args.windows().unwrap_or(PARTS), self.line_size);
        let mut observer = Observer::new(self.line_size, self.hot_spots.is_some());
        let sampled = sample(sampler, &self.plan, |window| seen.add(window), &mut observer, watch);
        let (threads, incomplete) = sampled.map_err(failed)?;
        seen.fit(&self.fit(&observer, threads <= 1), threads, incomplete)
    }

    /// `one_cache` says that the windows are those of one cache from its beginning, from which no other thread takes lines.
    fn fit<'b>(&'b self, observer: &'b Observer, one_cache: bool) -> Fit<'b> {
        Fit {
            in_time: one_cache && self.args.model == Model::Statcache,
            windows: self.args.windows(),
            model: self.args.model,
            sizes: &self.sizes,
            line_size: self.line_size,
            ways: self.args.ways,
            bootstrap: self.bootstrap,
            observer,
            hot_spots: self.hot_spots.as_ref(),
        }
    }
}

/// A curve, what it is of, and how the program ended if it was one.
pub struct Run {
    pub source: String,
    /// The processor that it ran on, where it ran.
    pub machine: Option<String>,
    pub measured: Measured,
    /// Whether it was observed in part because it was interrupted.
    pub interrupted: bool,
    pub outcome: Outcome,
    /// The processes of a program, where they are distinguished.
    pub processes: Vec<ProcessRow>,
    /// What the user should know about it.
    pub notes: Vec<String>,
}
