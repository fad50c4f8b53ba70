//! A run of several threads, each with its private cache: what was seen of each, and of all together.

use std::collections::BTreeMap;

use reuse_sampler::{CacheLines, Error, LineSize, Scope, ThreadId, Window};

use super::bursts::{Bursts, Part};
use super::coherence::{ByOthers, Coherence, ThreadCurve, ThreadPoint};
use super::measure::{Fit, Measured, fit};
use super::stored::Stretch;
use crate::cli::Failure;

/// Threads that have models of their own. Any further ones are taken together, by the first of them.
const APART: usize = 64;

/// Windows by thread.
#[derive(Debug)]
pub struct Threads {
    empty: Bursts,
    apart: BTreeMap<ThreadId, Bursts>,
    further: Option<ThreadId>,
    process: Bursts,
}

impl Threads {
    /// Nothing yet; the run of each thread is to be divided into `parts`.
    pub fn new(parts: usize, line_size: LineSize) -> Self {
        let process = Bursts::with_scope(parts, line_size, Scope::Shared);
        Self { process, empty: Bursts::new(parts, line_size), apart: BTreeMap::new(), further: None }
    }

    /// Adds a window. Answers the number of accesses so far.
    pub fn add(&mut self, window: &Window) -> Result<u64, Error> {
        let mut thread = window.thread;
        if self.apart.len() >= APART && !self.apart.contains_key(&thread) {
            thread = *self.further.get_or_insert(thread);
        }
        self.apart.entry(thread).or_insert_with(|| self.empty.clone()).add(window)?;
        if let Some(process) = &window.process {
            self.process.add(process)?;
        }
        Ok(self.process.accesses())
    }

    /// Fits models to each part of each thread, and to the process for the cache that all share.
    pub fn fit(self, settings: &Fit<'_>, threads: usize, incomplete: bool) -> Result<Measured, Failure> {
        let alone = Fit { bootstrap: None, hot_spots: None, ..*settings };
        let (mut parts, mut curves): (Vec<Part>, Vec<ThreadCurve>) = (Vec::new(), Vec::new());
        let (mut accesses, mut samples, mut stretches) = (0, 0, Vec::new());
        for (thread, bursts) in self.apart {
            let (seen, refetched) = ((bursts.accesses(), bursts.samples()), bursts.refetched());
            (accesses, samples) = (accesses + seen.0, samples + seen.1);
            let own = settings.divided(&bursts)?;
            stretches.extend(Stretch::of(thread, &own));
            let own = settings.modelled(&bursts, own)?;
            // A thread of few accesses may have no sample.
            if own.iter().all(|part| part.profile.is_empty()) {
                continue;
            }
            let measured = fit(&alone, &own, seen, false)?;
            curves.push(curve(thread, &measured, refetched, settings));
            parts.extend(own);
        }
        let measured = fit(settings, &parts, (accesses, samples), incomplete)?;
        let seen = (self.process.accesses(), self.process.samples());
        let process = settings.modelled(&self.process, settings.divided(&self.process)?)?;
        let shared = fit(&alone, &process, seen, false)?;
        let coherence = Coherence { points: of_all(&curves), threads: curves, ..Coherence::default() };
        Ok(Measured {
            threads,
            coherence: Some(coherence),
            shared: Some(shared.points),
            stretches,
            ..measured
        })
    }
}

/// Coherence misses of all threads, by size.
fn of_all(threads: &[ThreadCurve]) -> Vec<ByOthers> {
    let accesses = threads.iter().map(|thread| thread.accesses as f64).sum::<f64>();
    let misses = |at: usize| {
        threads.iter().map(|of| of.accesses as f64 * of.points[at].sharing.coherence).sum::<f64>()
    };
    let sizes = threads.first().map_or(0, |thread| thread.points.len());
    (0..sizes).map(|at| ByOthers::modelled(misses(at) / accesses.max(1.0))).collect()
}

/// `refetched` is the share of the invalidated samples whose line the thread touched again.
fn curve(thread: ThreadId, measured: &Measured, refetched: f64, settings: &Fit<'_>) -> ThreadCurve {
    let point = |(&(size, miss_ratio), sharing): (&(CacheLines, f64), ByOthers)| ThreadPoint {
        bytes: size.bytes(settings.line_size),
        lines: size.0,
        miss_ratio,
        sharing,
    };
    let sharing = measured.invalidated.iter().map(|&taken| ByOthers::modelled(refetched * taken));
    let points = measured.points.iter().zip(sharing).map(point).collect();
    ThreadCurve { thread: thread.0, accesses: measured.accesses, points }
}
