//! From events or windows to a curve.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::ControlFlow;

use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::{
    Access, Bootstrap, CacheLines, CacheModel, Grouped, Interval, Line, LineSize, Reuse, ReuseDistance,
    ReuseProfile, Sampler, SamplerError, SetAssociative, Stratum, ThreadId, Window, WindowPlan, merge_alike,
};
use statcache::StatCache;
use statstack::{PooledCorrection, StatStack};

use super::args::{Hierarchy, Model};
use super::bursts::{Bursts, Part, alike, joined, sampled};
use super::coherence::Coherence;
use super::sets::SetsSimulated;
use super::spots::{Observer, Spots};
use super::stored::Stretch;
use crate::cli::{Failure, Watch};
use crate::machines::chip::{Cache, Geometry, Policy};
use reuse_sampler::reference::{ExactLru, ExactRandom, MesiCaches, SizedLru};
use reuse_sampler::trace::OracleGeneralReader;

/// Accesses between two looks at the clock and the interrupt flag.
const BATCH: u64 = 1 << 16;
/// Combinations of size and seed that one simulation of random replacement takes.
const RANDOM_CACHES: usize = 64;
/// Parts that misses are followed through: one for so many [`SAMPLES`], but so many at least and at most. The least is how many
/// are looked at for merging elsewhere.
/// `docs/model-accuracy.md` says on which programs this was chosen.
const FEW: usize = 64;
const MANY: usize = 960;
const SAMPLES: u64 = 50;
/// Random replacement is averaged over so many seeds where sizes leave room for them.
const RANDOM_SEEDS: usize = 8;

/// A curve, and what it was made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Memory accesses, one per line touched.
    pub accesses: u64,
    /// Operands of instructions, where they are known: one for each read-modify-write and for each that straddles lines.
    pub operands: Option<u64>,
    /// How many accesses were sampled.
    pub samples: u64,
    /// Parts that a model was fitted to.
    pub windows: usize,
    /// Misses were followed through the run; otherwise the parts' curves are averaged.
    pub in_time: bool,
    /// Miss ratio by cache size.
    pub points: Vec<(CacheLines, f64)>,
    /// Share of the accesses that miss because another thread took their line, at each of them; empty where not modelled.
    pub invalidated: Vec<f64>,
    /// What chance in the choice of samples leaves open and the model gets wrong at each of them, where that was asked for.
    pub intervals: Option<Vec<Interval>>,
    /// Miss ratios of loads and of stores at each of them, if they are known.
    pub kinds: Option<Vec<[Option<f64>; 2]>>,
    /// Missed bytes over requested bytes at each of them, where sizes count bytes.
    pub byte_ratios: Option<Vec<f64>>,
    /// The instructions that miss most, where they were asked for.
    pub spots: Option<Spots>,
    /// What simulated sets say of caches of few ways, where the model was held against some.
    pub sets: Vec<SetsSimulated>,
    /// Threads with windows of their own; 0 where threads are not distinguished.
    pub threads: usize,
    /// Miss ratios of a cache that all threads share, where the curve is that of private ones.
    pub shared: Option<Vec<(CacheLines, f64)>>,
    /// Misses of private caches because of other threads' stores, where all threads were seen in order.
    pub coherence: Option<Coherence>,
    /// Lines that a prefetcher touched, where there is one: the rest is of the program's own accesses.
    pub prefetches: Option<u64>,
    /// The parts that a model was fitted to, where samples were taken.
    pub stretches: Vec<Stretch>,
    /// The run was observed in part.
    pub incomplete: bool,
}

impl Measured {
    /// Keeps what simulated sets say; intervals that they contradict reach as far as the simulation.
    pub fn hold_against(&mut self, sets: Vec<SetsSimulated>, line_size: LineSize) {
        for simulated in sets.iter().filter(|sets| sets.flagged) {
            let intervals = self.intervals.iter_mut().flatten();
            for interval in intervals.filter(|interval| interval.size.bytes(line_size) == simulated.bytes) {
                let reach = 2.0 * simulated.standard_error;
                interval.low = interval.low.min(simulated.miss_ratio - reach).max(0.0);
                interval.high = interval.high.max(simulated.miss_ratio + reach).min(1.0);
            }
        }
        self.sets = sets;
    }
}

/// Runs `sampler` to its end and hands what it saw to `add`, which answers the number of accesses so far. Returns the number
/// of threads, and whether the run was interrupted.
pub fn sample(
    sampler: &mut dyn Sampler,
    plan: &WindowPlan,
    mut add: impl FnMut(&Window) -> Result<u64, reuse_sampler::Error>,
    observer: &mut Observer,
    watch: &Watch<'_>,
) -> Result<(usize, bool), SamplerError> {
    let (mut incomplete, mut threads) = (false, BTreeSet::new());
    while let Some(window) = sampler.next_window(plan)? {
        let accesses = add(&window)?;
        threads.insert(window.thread);
        observer.add(&window)?;
        if !incomplete && !watch.goes_on(accesses, "accesses") {
            incomplete = true;
            sampler.stop()?;
        }
    }
    Ok((threads.len(), incomplete))
}

/// What is fitted, and to what end.
#[derive(Clone, Copy, Debug)]
pub struct Fit<'a> {
    /// StatStack or StatCache.
    pub model: Model,
    /// Cache sizes.
    pub sizes: &'a [CacheLines],
    /// Line size of all profiles.
    pub line_size: LineSize,
    /// Ways of a set; `None` for fully associative caches.
    pub ways: Option<u32>,
    /// How intervals are drawn, if at all.
    pub bootstrap: Option<Bootstrap>,
    /// Whether misses are followed through the run: what StatCache does for one cache that is empty at first.
    pub in_time: bool,
    /// Into how many parts the run is divided, if that was given.
    pub windows: Option<usize>,
    /// What was seen of the code.
    pub observer: &'a Observer,
    /// The cache whose hot spots are asked for.
    pub hot_spots: Option<&'a Hierarchy>,
}

impl Fit<'_> {
    fn spots(&self, model: &impl CacheModel) -> Result<Option<Spots>, Failure> {
        Ok(self.hot_spots.map_or(Ok(None), |hierarchy| self.observer.spots(model, hierarchy))?)
    }
}

/// Fits a model to each part, of so many accesses and samples together, and averages their curves.
pub fn fit(
    settings: &Fit<'_>,
    parts: &[Part],
    (accesses, samples): (u64, u64),
    incomplete: bool,
) -> Result<Measured, Failure> {
    if parts.iter().all(|part| part.profile.is_empty()) {
        return Err(Failure::Run(match accesses {
            0 => "no memory access was seen".to_owned(),
            _ => format!("none of {accesses} accesses was sampled: raise --sample-rate"),
        }));
    }
    let in_time = settings.in_time;
    let Curve { points, invalidated, intervals, kinds, spots } = match (settings.model, settings.ways) {
        // Random replacement is the same in sets: see `SetAssociative`.
        (Model::Statcache, _) if in_time => curve_in_time(parts, settings)?,
        (Model::Statcache, _) => curve(parts, StatCache::fit, StatCache::fit, settings)?,
        (_, None) => {
            let pooled = pooled(parts)?;
            let fit = |part: &ReuseProfile| pooled.fit(part);
            curve(parts, fit, fit, settings)?
        }
        (_, Some(ways)) => {
            let pooled = pooled(parts)?;
            let in_sets = |model: Result<StatStack, statstack::Error>| Ok(SetAssociative::new(model?, ways)?);
            let fit = |part: &ReuseProfile| -> Result<_, statstack::Error> { in_sets(pooled.fit(part)) };
            // 128 sizes are asked of each model: only without a correction is that quick enough to be done 2,000 times.
            let redrawn = |part: &ReuseProfile| -> Result<_, statstack::Error> {
                in_sets(StatStack::fit_distances(part))
            };
            curve(parts, fit, redrawn, settings)?
        }
    };
    let (kinds, windows) = (Some(kinds), parts.len());
    Ok(Measured {
        accesses,
        samples,
        windows,
        in_time,
        points,
        invalidated,
        intervals,
        kinds,
        spots,
        incomplete,
        ..Measured::default()
    })
}

/// What the parts have in common.
fn pooled(parts: &[Part]) -> Result<PooledCorrection, statstack::Error> {
    PooledCorrection::of(parts.iter().map(|part| &part.profile))
}

impl Fit<'_> {
    /// The parts of a run, with samples or without: where nobody gave their number and misses are not followed through them,
    /// those whose samples differ.
    pub fn divided(&self, bursts: &Bursts) -> Result<Vec<Part>, reuse_sampler::Error> {
        match self.windows {
            Some(windows) => bursts.divided(windows),
            None if self.in_time => bursts.divided(FEW),
            None => alike(bursts.divided(FEW)?),
        }
    }

    /// What is modelled of them: of a run that misses are followed through, as many as its samples allow. Parts without
    /// samples take their time, too, there.
    pub fn modelled(&self, bursts: &Bursts, parts: Vec<Part>) -> Result<Vec<Part>, reuse_sampler::Error> {
        if self.is_followed() {
            bursts.divided(((bursts.samples() / SAMPLES) as usize).clamp(FEW, MANY))
        } else if self.in_time {
            Ok(parts)
        } else {
            sampled(parts)
        }
    }

    /// Whether misses are followed through parts of which nobody gave the number.
    const fn is_followed(&self) -> bool {
        self.in_time && self.windows.is_none()
    }
}

/// What a model says.
struct Curve {
    points: Vec<(CacheLines, f64)>,
    invalidated: Vec<f64>,
    intervals: Option<Vec<Interval>>,
    kinds: Vec<[Option<f64>; 2]>,
    spots: Option<Spots>,
}

/// The mean curve of the parts' models, and by how much it varies if samples are redrawn and `redrawn` fitted to them.
fn curve<M: CacheModel, N: CacheModel, E: std::error::Error + From<reuse_sampler::Error>>(
    parts: &[Part],
    fit: impl Fn(&ReuseProfile) -> Result<M, E>,
    redrawn: impl Fn(&ReuseProfile) -> Result<N, E>,
    settings: &Fit<'_>,
) -> Result<Curve, Failure> {
    let profiles = || parts.iter().map(|part| &part.profile);
    let model = Grouped::fit(profiles(), fit)?;
    let points = model.curve(settings.sizes).points;
    let invalidated = settings.sizes.iter().map(|&size| taken_away(parts, &model, size)).collect();
    let caches = |size| model.parts().iter().map(|(_, model)| model.at(size)).collect();
    let kinds = settings.observer.kinds(parts, settings.sizes, caches);
    let spots = settings.spots(&model)?;
    let Some(bootstrap) = &settings.bootstrap else {
        return Ok(Curve { points, invalidated, intervals: None, kinds, spots });
    };
    let strata: Vec<Stratum<'_>> = profiles().map(Stratum::sampled).collect();
    let drawn = bootstrap.stratified(&strata, redrawn, settings.sizes)?;
    // Around the curve that is shown, which the redrawn models need not share.
    let around = |(&(size, miss_ratio), drawn): (&(CacheLines, f64), Interval)| Interval {
        size,
        miss_ratio,
        low: (miss_ratio - (drawn.miss_ratio - drawn.low)).clamp(0.0, miss_ratio),
        high: (miss_ratio + (drawn.high - drawn.miss_ratio)).clamp(miss_ratio, 1.0),
        model_error: drawn.model_error,
    };
    let intervals = points.iter().zip(drawn.average).map(around).collect();
    Ok(Curve { points, invalidated, intervals: Some(intervals), kinds, spots })
}

/// The curve of StatCache in time. Intervals are drawn from its windows modelled apart.
fn curve_in_time(parts: &[Part], settings: &Fit<'_>) -> Result<Curve, Failure> {
    let profiles = |parts: &[Part]| parts.iter().map(|part| part.profile.clone()).collect::<Vec<_>>();
    let windows = profiles(parts);
    let accesses: Vec<u64> = windows.iter().map(ReuseProfile::accesses).collect();
    let model = StatCache::fit_in_time(&windows)?;
    let intervals = settings.bootstrap.as_ref().map(|bootstrap| {
        // How much samples vary shows in fewer windows as well, of which models are fitted sooner.
        let few = profiles(&joined(parts, parts.len().div_ceil(FEW))?);
        let alike = merge_alike(&few)?;
        let strata: Vec<Stratum<'_>> = alike.iter().map(Stratum::sampled).collect();
        let drawn = bootstrap.stratified(&strata, StatCache::fit, settings.sizes)?;
        Ok::<_, statcache::Error>(bootstrap.around(&model, &drawn.average))
    });
    Ok(Curve {
        points: model.curve(settings.sizes).points,
        invalidated: vec![0.0; settings.sizes.len()],
        intervals: intervals.transpose()?,
        kinds: settings.observer.kinds(parts, settings.sizes, |size| model.by_part(size, &accesses)),
        spots: settings.spots(&model)?,
    })
}

/// Share of the accesses that miss because another thread took their line, which the cache held until then.
fn taken_away<M: CacheModel>(parts: &[Part], model: &Grouped<M>, size: CacheLines) -> f64 {
    let (mut misses, mut all) = (0.0, 0.0);
    for (part, (_, model)) in parts.iter().zip(model.parts()) {
        let weight = part.profile.total_weight() as f64;
        all += weight;
        if part.profile.invalidated_weight() > 0 {
            let at = model.at(size);
            let held = |distance| 1.0 - at.miss_probability(Reuse::Distance(ReuseDistance(distance)));
            let distribution = part.profile.distribution();
            let taken = distribution.masses().iter().filter(|mass| mass.invalidated > 0.0);
            misses += weight * taken.map(|mass| mass.invalidated * held(mass.middle())).sum::<f64>();
        }
    }
    if all > 0.0 { misses / all } else { 0.0 }
}

/// Simulated caches of these sizes, to which all of a source is played.
pub struct Exact<'a, S> {
    pub source: S,
    pub line_size: LineSize,
    pub sizes: &'a [CacheLines],
    pub watch: &'a Watch<'a>,
}

impl<S: EventSource> Exact<'_, S> {
    /// Of so many ways.
    pub fn in_sets(
        mut self,
        ways: u32,
        policy: Policy,
        failed: impl FnOnce(SamplerError) -> Failure,
    ) -> Result<Measured, Failure> {
        let line_size = self.line_size;
        let cache = |size: &CacheLines| {
            let ways = u64::from(ways).min(size.0);
            Ok((Cache::new(Geometry::new(size.bytes(line_size), ways, line_size)?, policy), 0_u64))
        };
        let caches: Result<Vec<_>, crate::machines::chip::ChipError> = self.sizes.iter().map(cache).collect();
        let mut caches = caches.map_err(Failure::usage)?;
        let played = self.lines(|line| {
            for (cache, misses) in &mut caches {
                if !cache.touch(line.0) {
                    cache.insert(line.0);
                    *misses += 1;
                }
            }
        });
        Ok(self.measured(played.map_err(failed)?, caches.into_iter().map(|(_, misses)| misses as f64)))
    }

    /// LRU, fully associative, for all threads.
    pub fn lru(mut self, failed: impl FnOnce(SamplerError) -> Failure) -> Result<Measured, Failure> {
        let mut lru = ExactLru::new();
        let played = self.lines(|line| lru.access(line)).map_err(failed)?;
        let points = lru.total().curve(self.line_size, self.sizes).points;
        Ok(Measured { points, ..self.measured(played, std::iter::empty()) })
    }

    /// LRU, fully associative, private to each thread.
    pub fn private(mut self, failed: impl FnOnce(SamplerError) -> Failure) -> Result<Measured, Failure> {
        let mut caches = MesiCaches::new(self.sizes, self.line_size).map_err(Failure::usage)?;
        let access = |thread, access: &Access| caches.access(thread, access);
        let played = replay(&mut self.source, self.watch, access).map_err(failed)?;
        let points = caches.total().iter().map(|misses| (misses.size, misses.miss_ratio())).collect();
        let coherence = Coherence::of(&caches, self.line_size);
        let threads = coherence.threads.len();
        let measured = self.measured(played, std::iter::empty());
        Ok(Measured { points, threads, coherence: Some(coherence), ..measured })
    }

    /// Random replacement, fully associative: the average over a few seeds derived from `seed`.
    pub fn random(
        mut self,
        seed: u64,
        failed: impl FnOnce(SamplerError) -> Failure,
    ) -> Result<Measured, Failure> {
        let sizes = self.sizes;
        let seeds = (RANDOM_CACHES / sizes.len().clamp(1, RANDOM_CACHES)).clamp(1, RANDOM_SEEDS) as u64;
        let seeds: Vec<u64> =
            (0..seeds).map(|i| seed.wrapping_mul(RANDOM_SEEDS as u64).wrapping_add(i)).collect();
        let caches = sizes.chunks(RANDOM_CACHES).map(|sizes| ExactRandom::new(sizes, &seeds));
        let mut caches: Vec<_> = caches.collect::<Result<_, _>>().map_err(Failure::usage)?;
        let played = self.lines(|line| caches.iter_mut().for_each(|caches| caches.access(line)));
        let misses = caches.iter_mut().flat_map(|caches| caches.take_window().misses());
        Ok(self.measured(played.map_err(failed)?, misses))
    }

    /// Hands every line that is accessed to `access`. Returns their number, and whether it was interrupted.
    fn lines(&mut self, mut access: impl FnMut(Line)) -> Result<(u64, bool), SamplerError> {
        replay(&mut self.source, self.watch, |_, event| {
            let (first, last) = self.line_size.span(event);
            (first..=last).for_each(|line| access(Line(line)));
            last - first + 1
        })
    }

    /// What so many accesses show, with so many misses at each size.
    fn measured(&self, (accesses, incomplete): (u64, bool), misses: impl Iterator<Item = f64>) -> Measured {
        let points = self.sizes.iter().copied().zip(misses.map(|misses| misses / accesses.max(1) as f64));
        Measured {
            accesses,
            samples: accesses,
            windows: 1,
            points: points.collect(),
            incomplete,
            ..Measured::default()
        }
    }
}

/// Exact LRU caches of objects, their sizes in bytes.
pub fn sized_lru(
    reader: &mut OracleGeneralReader<impl Read>,
    sizes: &[CacheLines],
    watch: &Watch<'_>,
) -> Result<Measured, SamplerError> {
    let bytes: Vec<u64> = sizes.iter().map(|size| size.0).collect();
    let mut caches = SizedLru::new(&bytes);
    let mut incomplete = false;
    while let Some(request) = reader.next_request()? {
        caches.request(request);
        if caches.requests() % BATCH == 0 && !watch.goes_on(caches.requests(), "requests") {
            incomplete = true;
            break;
        }
    }
    let accesses = caches.requests();
    let ratio = |part: u64, of: u64| if of > 0 { part as f64 / of as f64 } else { 0.0 };
    let points = caches.misses().map(|of| (CacheLines(of.size), ratio(of.requests, accesses))).collect();
    let byte_ratios = Some(caches.misses().map(|of| ratio(of.bytes, caches.requested_bytes())).collect());
    Ok(Measured {
        accesses,
        samples: accesses,
        windows: 1,
        points,
        byte_ratios,
        incomplete,
        ..Measured::default()
    })
}

/// Hands every access to `access`, which answers how many lines it touches. Answers their number, and whether it was
/// interrupted.
pub fn replay(
    source: &mut impl EventSource,
    watch: &Watch<'_>,
    mut access: impl FnMut(ThreadId, &Access) -> u64,
) -> Result<(u64, bool), SamplerError> {
    let (mut accesses, mut batch_end, mut thread) = (0, BATCH, ThreadId(0));
    let stopped = source.drive(|event| {
        match event {
            Event::Access(event) => accesses += access(thread, &event),
            Event::Thread(next) => thread = next,
            _ => {}
        }
        if accesses >= batch_end {
            batch_end = accesses + BATCH;
            if !watch.goes_on(accesses, "accesses") {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok((accesses, stopped.is_some()))
}
