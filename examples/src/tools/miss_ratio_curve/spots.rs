//! Which code misses: loads and stores apart, and the instructions that miss most in a cache of one size.

use std::collections::BTreeMap;

use reuse_sampler::replay::{Event, EventSource, Strides};
use reuse_sampler::{
    Access, AccessKind, Advice, CacheLines, CacheModel, Error, Evaluator, Hint, HotSpot, HotSpots, LineSize,
    ReuseDistribution, SamplerError, Window,
};
use serde::Serialize;

use super::args::Hierarchy;
use super::bursts::Part;

/// Instructions that are listed.
const MOST: usize = 40;

/// A place in the code, and whether it has a name: more than file and offset.
pub type Named = (String, bool);
type Instruction = (u64, AccessKind);

/// Gathers what windows say about code.
#[derive(Debug)]
pub struct Observer {
    line_size: LineSize,
    kinds: HotSpots<AccessKind>, // for the first touches, which only the run as a whole gives away
    instructions: Option<HotSpots<Instruction>>,
    strides: Strides,
}

impl Observer {
    /// Nothing yet; instructions are kept apart if `instructions` says so.
    pub fn new(line_size: LineSize, instructions: bool) -> Self {
        Self {
            line_size,
            kinds: HotSpots::new(),
            instructions: instructions.then(HotSpots::new),
            strides: Strides::default(),
        }
    }

    /// Adds a window.
    ///
    /// # Errors
    /// [`Error`] for a window of other units than the first.
    pub fn add(&mut self, window: &Window) -> Result<(), Error> {
        self.strides.add(&window.strides);
        self.kinds.add(window, |site| site.kind)?;
        self.instructions.as_mut().map_or(Ok(()), |spots| spots.add(window, |site| (site.pc, site.kind)))
    }

    /// Miss ratios of loads and of stores at each size; `None` where there are none.
    ///
    /// The cache of each part judges what arrived in that part, and parts count by their accesses of the kind: parts
    /// may mix loads and stores differently, so that the run's arrivals in the parts' mean cache would be wrong. `at` prepares
    /// the caches of all parts at one size.
    pub fn kinds<'a>(
        &self,
        parts: &[Part],
        sizes: &[CacheLines],
        at: impl Fn(CacheLines) -> Vec<Evaluator<'a>>,
    ) -> Vec<[Option<f64>; 2]> {
        let of_kind = |kind| {
            let arrived = parts.iter().map(|part| {
                let arrived =
                    if kind == AccessKind::Load { &part.arrivals.loads } else { &part.arrivals.stores };
                (arrived.total_weight() as f64, arrived.distribution())
            });
            let first = self.kinds.arrivals(&kind);
            (arrived.collect::<Vec<_>>(), first.map_or(0.0, |profile| profile.dangling_weight() as f64))
        };
        let kinds = [AccessKind::Load, AccessKind::Store].map(of_kind);
        let ratio = |(arrived, first): &(Vec<(f64, ReuseDistribution)>, f64), caches: &[Evaluator<'_>]| {
            // One cache for each part, in the same order.
            let (misses, accesses) = arrived
                .iter()
                .zip(caches)
                .filter(|((weight, _), _)| *weight > 0.0)
                .fold((*first, *first), |(misses, accesses), ((weight, arrived), cache)| {
                    (misses + weight * cache.miss_ratio(arrived), accesses + weight)
                });
            (accesses > 0.0).then(|| misses / accesses)
        };
        let of_size = |&size| {
            let caches = at(size);
            kinds.each_ref().map(|kind| ratio(kind, &caches))
        };
        sizes.iter().map(of_size).collect()
    }

    /// The instructions by their misses in a cache, and what could be done; `None` if they were not kept apart.
    ///
    /// # Errors
    /// [`Error`] for a model of other units than the windows.
    pub fn spots(&self, model: &impl CacheModel, hierarchy: &Hierarchy) -> Result<Option<Spots>, Error> {
        let Some(instructions) = &self.instructions else { return Ok(None) };
        let ranked = instructions.rank(&model.at(hierarchy.size));
        let stride = |site: &Instruction| self.strides.of(site.0);
        let mut tips: BTreeMap<Instruction, Vec<Tip>> = BTreeMap::new();
        for advice in instructions.advise(model, &hierarchy.levels, stride)? {
            let site = advice.site;
            let tip = Tip::from(advice);
            if tip.hint != "prefetch" || site.1 == AccessKind::Load {
                tips.entry(site).or_default().push(tip);
            }
        }
        let misses = ranked.iter().map(|spot| (spot.site.0, spot.misses)).collect();
        // What fills a cache in vain comes in addition: it may itself miss little.
        let is_listed = |(rank, spot): &(usize, HotSpot<_>)| *rank < MOST || tips.contains_key(&spot.site);
        let listed: Vec<_> = ranked.into_iter().enumerate().filter(is_listed).map(|(_, spot)| spot).collect();
        let spot = |spot: HotSpot<Instruction>| {
            let advice = tips.remove(&spot.site).unwrap_or_default();
            let has = |hint| advice.iter().any(|tip| tip.hint == hint);
            let stride = stride(&spot.site);
            Spot {
                pc: spot.site.0,
                kind: if spot.site.1 == AccessKind::Load { "load" } else { "store" },
                code: None,
                samples: spot.samples,
                accesses: spot.accesses,
                misses: spot.misses,
                miss_ratio: spot.miss_ratio,
                first_touches: spot.first_touches,
                wasted: spot.wasted,
                stride: stride.map(|stride| stride.bytes),
                stride_share: stride.map(|stride| stride.share),
                prefetch: has("prefetch"),
                non_temporal: has("non-temporal"),
                advice,
            }
        };
        Ok(Some(Spots {
            lines: hierarchy.size.0,
            levels: hierarchy.levels.iter().map(|level| level.bytes(self.line_size)).collect(),
            samples: instructions.samples(),
            named: 0.0,
            by_instruction: listed.into_iter().map(spot).collect(),
            by_code: Vec::new(),
            misses,
        }))
    }
}

/// The instructions that miss most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spots {
    /// Size of the cache.
    pub lines: u64,
    /// Sizes in bytes of the levels that hints are judged at.
    pub levels: Vec<u64>,
    /// Samples behind it.
    pub samples: u64,
    /// Share of the misses whose instruction has a name: a function or a source line, not only a place in a file.
    pub named: f64,
    /// Most misses first.
    pub by_instruction: Vec<Spot>,
    /// The same by the place in the source, or in the program's code, where that is known.
    pub by_code: Vec<Place>,
    #[serde(skip)]
    misses: Vec<(u64, f64)>, // of all instructions
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spot {
    pub pc: u64,
    pub kind: &'static str,
    pub code: Option<String>,
    pub samples: u64,
    pub accesses: f64,
    pub misses: f64,
    pub miss_ratio: f64,
    pub first_touches: f64,
    pub wasted: f64,
    pub stride: Option<i64>,
    pub stride_share: Option<f64>,
    /// It loads, misses, and its next address can be foreseen.
    pub prefetch: bool,
    /// Its lines leave all levels before they are touched again: a hint to keep them out costs nothing.
    pub non_temporal: bool,
    /// What could be done about its misses.
    pub advice: Vec<Tip>,
}

/// What could be done about the misses of an instruction, and how many that would remove.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tip {
    /// `prefetch`, `non-temporal`, `block` or `fuse`.
    pub hint: &'static str,
    /// Of a prefetch: executions ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// Of a fusion: the instruction that left the lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with: Option<u64>,
    /// Share of all misses of each level.
    pub removes: Vec<f64>,
}

impl From<Advice<Instruction>> for Tip {
    fn from(advice: Advice<Instruction>) -> Self {
        let (hint, ahead, with) = match advice.hint {
            Hint::Prefetch { ahead } => ("prefetch", Some(ahead), None),
            Hint::NonTemporal => ("non-temporal", None, None),
            Hint::Block => ("block", None, None),
            Hint::Fuse { with } => ("fuse", None, Some(with.0)),
            _ => ("", None, None),
        };
        Self { hint, ahead, with, removes: advice.removes }
    }
}

/// A place in the code and the share of its instructions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    pub code: String,
    pub accesses: f64,
    pub misses: f64,
}

impl Spots {
    /// Adds names of code.
    pub fn describe(&mut self, mut locate: impl FnMut(u64) -> Option<Named>) {
        let mut places: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for spot in &mut self.by_instruction {
            spot.code = locate(spot.pc).map(|(code, _)| code);
            if let Some(code) = &spot.code {
                let place = places.entry(code.clone()).or_default();
                *place = (place.0 + spot.accesses, place.1 + spot.misses);
            }
        }
        let named = |&&(pc, _): &&(u64, f64)| locate(pc).is_some_and(|(_, is_name)| is_name);
        self.named = self.misses.iter().filter(named).map(|(_, misses)| misses).sum();
        self.by_code =
            places.into_iter().map(|(code, (accesses, misses))| Place { code, accesses, misses }).collect();
        self.by_code.sort_by(|a, b| b.misses.total_cmp(&a.misses));
    }
}

/// A source whose accesses are also shown to `watch`.
pub struct Tap<S, F> {
    source: S,
    watch: F,
}

impl<S, F: FnMut(&Access)> Tap<S, F> {
    /// Passes on the events of `source`.
    pub const fn new(source: S, watch: F) -> Self {
        Self { source, watch }
    }
}

impl<S: EventSource, F: FnMut(&Access)> EventSource for Tap<S, F> {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        let event = self.source.next_event()?;
        if let Some(Event::Access(access)) = &event {
            (self.watch)(access);
        }
        Ok(event)
    }
}
