//! From events or windows to a curve.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::{
    Access, CacheLines, CacheModel, Grouped, LineSize, ReuseProfile, Sampler, SamplerError, WindowPlan,
};
use statcache::StatCache;
use statstack::StatStack;

use super::args::Model;
use super::bursts::Bursts;
use crate::cli::Failure;
use crate::reference::exact::{ExactLru, ExactRandom};

/// Accesses between two looks at the clock and the interrupt flag.
const BATCH: u64 = 1 << 16;
/// Combinations of size and seed that one simulation of random replacement takes.
const RANDOM_CACHES: usize = 64;
/// Random replacement is averaged over so many seeds where sizes leave room for them.
const RANDOM_SEEDS: usize = 8;

/// A curve, and what it was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Memory accesses, one per line touched.
    pub accesses: u64,
    /// How many of them were sampled.
    pub samples: u64,
    /// Parts that a model was fitted to.
    pub windows: usize,
    /// Miss ratio by cache size.
    pub points: Vec<(CacheLines, f64)>,
    /// The run was interrupted.
    pub incomplete: bool,
}

/// How the run is watched over.
pub struct Watch<'a> {
    /// Set when the run is to end with what it has.
    pub interrupted: &'a AtomicBool,
    /// Told the number of accesses so far, now and then.
    pub progress: &'a dyn Fn(u64),
}

impl Watch<'_> {
    fn goes_on(&self, accesses: u64) -> bool {
        (self.progress)(accesses);
        !self.interrupted.load(Ordering::Relaxed)
    }
}

/// Runs `sampler` to its end and divides what it saw into parts.
pub fn sample(
    sampler: &mut dyn Sampler,
    plan: &WindowPlan,
    mut bursts: Bursts,
    watch: &Watch<'_>,
) -> Result<(Bursts, bool), SamplerError> {
    let mut incomplete = false;
    while let Some(window) = sampler.next_window(plan)? {
        bursts.add(&window)?;
        if !incomplete && !watch.goes_on(bursts.accesses()) {
            incomplete = true;
            sampler.stop()?;
        }
    }
    Ok((bursts, incomplete))
}

/// Fits a model to each part and averages their curves.
pub fn fit(
    model: Model,
    bursts: Bursts,
    incomplete: bool,
    sizes: &[CacheLines],
) -> Result<Measured, Failure> {
    let (accesses, samples) = (bursts.accesses(), bursts.samples());
    let parts = bursts.into_parts().map_err(Failure::run)?;
    if parts.is_empty() {
        return Err(Failure::Run(match accesses {
            0 => "no memory access was seen".to_owned(),
            _ => format!("none of {accesses} accesses was sampled: raise --sample-rate"),
        }));
    }
    let curve = if model == Model::Statcache {
        average(&parts, StatCache::fit, sizes)
    } else {
        average(&parts, StatStack::fit, sizes)
    };
    Ok(Measured { accesses, samples, windows: parts.len(), points: curve?, incomplete })
}

fn average<M: CacheModel, E: From<reuse_sampler::Error> + std::fmt::Display>(
    parts: &[ReuseProfile],
    fit: impl Fn(&ReuseProfile) -> Result<M, E>,
    sizes: &[CacheLines],
) -> Result<Vec<(CacheLines, f64)>, Failure> {
    Ok(Grouped::fit(parts, fit).map_err(Failure::run)?.curve(sizes).points)
}

/// Exact LRU caches of all sizes.
pub fn exact_lru(
    source: &mut impl EventSource,
    line_size: LineSize,
    sizes: &[CacheLines],
    watch: &Watch<'_>,
) -> Result<Measured, SamplerError> {
    let mut lru = ExactLru::new();
    let (accesses, incomplete) = replay(source, line_size, watch, |line| lru.access(line))?;
    let points = lru.total().curve(line_size, sizes).points;
    Ok(Measured { accesses, samples: accesses, windows: 1, points, incomplete })
}

/// Simulated random replacement: the average over a few seeds derived from `seed`.
pub struct RandomCaches(Vec<ExactRandom>);

impl RandomCaches {
    /// Empty caches of these sizes.
    pub fn new(sizes: &[CacheLines], seed: u64) -> Result<Self, Failure> {
        let seeds = (RANDOM_CACHES / sizes.len().clamp(1, RANDOM_CACHES)).clamp(1, RANDOM_SEEDS) as u64;
        let seeds: Vec<u64> =
            (0..seeds).map(|i| seed.wrapping_mul(RANDOM_SEEDS as u64).wrapping_add(i)).collect();
        let caches = sizes.chunks(RANDOM_CACHES).map(|sizes| ExactRandom::new(sizes, &seeds));
        Ok(Self(caches.collect::<Result<_, _>>().map_err(Failure::usage)?))
    }

    /// Plays all of `source` to them.
    pub fn run(
        mut self,
        source: &mut impl EventSource,
        line_size: LineSize,
        sizes: &[CacheLines],
        watch: &Watch<'_>,
    ) -> Result<Measured, SamplerError> {
        let (accesses, incomplete) = replay(source, line_size, watch, |line| {
            for caches in &mut self.0 {
                caches.access(line);
            }
        })?;
        let misses = self.0.iter_mut().flat_map(|caches| caches.take_window().misses());
        let ratio = |misses: f64| if accesses > 0 { misses / accesses as f64 } else { 0.0 };
        let points = sizes.iter().copied().zip(misses.map(ratio)).collect();
        Ok(Measured { accesses, samples: accesses, windows: 1, points, incomplete })
    }
}

/// Hands every line that is accessed to `access`. Answers their number, and whether it was interrupted.
fn replay(
    source: &mut impl EventSource,
    line_size: LineSize,
    watch: &Watch<'_>,
    mut access: impl FnMut(reuse_sampler::Line),
) -> Result<(u64, bool), SamplerError> {
    let mut accesses = 0;
    let mut batch_end = BATCH;
    let mut touch = |event: &Access| {
        let (first, last) = line_size.span(event);
        (first..=last).for_each(|line| access(reuse_sampler::Line(line)));
        accesses += last - first + 1;
        if accesses >= batch_end {
            batch_end = accesses + BATCH;
            return watch.goes_on(accesses);
        }
        true
    };
    let stopped = source.drive(|event| match event {
        Event::Access(event) if !touch(&event) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })?;
    Ok((accesses, stopped.is_some()))
}
