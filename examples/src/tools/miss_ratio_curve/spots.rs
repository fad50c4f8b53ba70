//! Which code misses: loads and stores apart, and the instructions that miss most in a cache of one size.

use std::collections::{BTreeMap, BTreeSet};

use reuse_sampler::replay::{Event, EventSource, Strides};
use reuse_sampler::{
    Access, AccessKind, CacheLines, CacheModel, Grouped, HotSpot, HotSpots, LineSize, ReuseProfile,
    SamplerError, Window,
};
use serde::Serialize;

use super::bursts::Part;

/// Instructions that are listed.
const MOST: usize = 40;
/// Share of all misses below which an instruction is no candidate for anything.
const WORTH: f64 = 0.01;

/// Gathers what windows say about code.
#[derive(Debug)]
pub struct Observer {
    line_size: LineSize,
    kinds: HotSpots<AccessKind>, // for the first touches, which only the run as a whole gives away
    instructions: Option<HotSpots<(u64, AccessKind)>>,
}

impl Observer {
    /// Nothing yet; instructions are kept apart if `instructions` says so.
    pub fn new(line_size: LineSize, instructions: bool) -> Self {
        Self { line_size, kinds: HotSpots::new(), instructions: instructions.then(HotSpots::new) }
    }

    /// Adds a window.
    pub fn add(&mut self, window: &Window) {
        for sample in &window.samples {
            self.kinds.add(sample, |site| site.kind);
            if let Some(instructions) = &mut self.instructions {
                instructions.add(sample, |site| (site.pc, site.kind));
            }
        }
    }

    /// Miss ratios of loads and of stores at each size; `None` where there are none.
    ///
    /// The model of each part judges what arrived in that part, and parts count by their accesses of the kind: parts
    /// may mix loads and stores differently, so that the run's arrivals in the parts' mean model would be wrong.
    pub fn kinds<M: CacheModel>(
        &self,
        parts: &[Part],
        model: &Grouped<M>,
        sizes: &[CacheLines],
    ) -> Vec<[Option<f64>; 2]> {
        let of_kind = |kind| {
            // Parts and models are in the same order, one model for each.
            let arrived: Vec<(&ReuseProfile, &M)> = parts
                .iter()
                .map(
                    |part| {
                        if kind == AccessKind::Load { &part.arrivals.loads } else { &part.arrivals.stores }
                    },
                )
                .zip(model.parts().iter().map(|(_, model)| model))
                .filter(|(arrived, _)| !arrived.is_empty())
                .collect();
            let first = self.kinds.arrivals(&kind, self.line_size);
            (arrived, first.map_or(0.0, |profile| profile.dangling_weight() as f64))
        };
        let kinds = [AccessKind::Load, AccessKind::Store].map(of_kind);
        let ratio = |(arrived, first): &(Vec<(&ReuseProfile, &M)>, f64), size| {
            let (misses, accesses) =
                arrived.iter().fold((*first, *first), |(misses, accesses), (part, model)| {
                    let weight = part.total_weight() as f64;
                    (misses + weight * model.miss_ratio_of(part, size), accesses + weight)
                });
            (accesses > 0.0).then(|| misses / accesses)
        };
        sizes.iter().map(|&size| kinds.each_ref().map(|kind| ratio(kind, size))).collect()
    }

    /// The instructions by their misses in a cache of `size`; `None` if they were not kept apart.
    pub fn spots(&self, model: &impl CacheModel, size: CacheLines) -> Option<Spots> {
        let instructions = self.instructions.as_ref()?;
        let ranked = instructions.rank(&model.at(size));
        // What fills the cache in vain comes in addition: it may itself miss little.
        let streaming: BTreeSet<(u64, AccessKind)> = HotSpot::non_temporal(&ranked)
            .into_iter()
            .filter(|spot| spot.accesses * spot.wasted >= WORTH * wasted(&ranked))
            .map(|spot| spot.site)
            .collect();
        let is_listed = |(rank, spot): &(usize, HotSpot<_>)| *rank < MOST || streaming.contains(&spot.site);
        let spot = |spot: HotSpot<(u64, AccessKind)>| {
            let non_temporal = streaming.contains(&spot.site);
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
                stride: None,
                stride_share: None,
                prefetch: false,
                non_temporal,
            }
        };
        let spots =
            ranked.into_iter().enumerate().filter(is_listed).map(|(_, ranked)| spot(ranked)).collect();
        Some(Spots {
            lines: size.0,
            samples: instructions.samples(),
            by_instruction: spots,
            by_code: Vec::new(),
        })
    }
}

fn wasted<K>(spots: &[HotSpot<K>]) -> f64 {
    spots.iter().map(|spot| spot.accesses * spot.wasted).sum()
}

/// The instructions that miss most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spots {
    /// Size of the cache.
    pub lines: u64,
    /// Samples behind it.
    pub samples: u64,
    /// Most misses first.
    pub by_instruction: Vec<Spot>,
    /// The same by the place in the source, or in the program's code, where that is known.
    pub by_code: Vec<Place>,
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
    /// Its lines leave before they are touched again: a hint to keep them out costs nothing.
    pub non_temporal: bool,
}

/// A place in the code and the share of its instructions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    pub code: String,
    pub accesses: f64,
    pub misses: f64,
}

impl Spots {
    /// Adds names of code and strides.
    pub fn describe(&mut self, mut locate: impl FnMut(u64) -> Option<String>, strides: Option<&Strides>) {
        let mut places: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for spot in &mut self.by_instruction {
            spot.code = locate(spot.pc);
            if let Some(code) = &spot.code {
                let place = places.entry(code.clone()).or_default();
                *place = (place.0 + spot.accesses, place.1 + spot.misses);
            }
            let Some(stride) = strides.and_then(|strides| strides.of(spot.pc)) else { continue };
            spot.stride = Some(stride.bytes);
            spot.stride_share = Some(stride.share);
            spot.prefetch = spot.kind == "load" && spot.misses >= WORTH && stride.is_regular();
        }
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
