//! The slowdown of one run with its range.

use std::hash::Hash;

use super::CoRun;
use super::advance::{Outcome, Until};
use super::place::Observer;
use crate::sharing::margin;
use crate::{Probes, SharedCache, SharingModel};

/// How much slower the target of a run is, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Slowdown {
    /// Time of the target's pass over its time alone, in the state reached from programs that started together.
    pub slowdown: f64,
    /// Lowest slowdown in any stable state found, in caches a little smaller to a little larger.
    pub low: f64,
    /// Highest slowdown likewise.
    pub high: f64,
    /// Whether the run depends on which program warmed up first, or on a little more or less of the cache: use the
    /// range, not the number.
    pub flagged: bool,
}

/// The predictions without a flag are within this part of the truth, as measured: see the crate's front page.
const UNFLAGGED: f64 = 0.03;
/// A range wider than this is a flag.
const CLIFF: f64 = 0.15;

impl Slowdown {
    /// That of a run whose time lies between so many times its own, or in its own range where that is wider.
    pub(crate) fn of(outcome: &Outcome, (low, high): (f64, f64)) -> Self {
        let (low, high) = (outcome.low.min(low * outcome.time), outcome.high.max(high * outcome.time));
        let alone = outcome.time_alone;
        Self::new(outcome.slowdown(), low / alone, high / alone)
    }

    fn new(slowdown: f64, low: f64, high: f64) -> Self {
        let flagged = high > low * (1.0 + CLIFF);
        if flagged {
            return Self { slowdown, low, high, flagged };
        }
        let (least, most) = (slowdown * (1.0 - UNFLAGGED), slowdown * (1.0 + UNFLAGGED));
        Self { slowdown, low: low.clamp(least, slowdown), high: high.clamp(slowdown, most), flagged }
    }
}

/// The cache and the start that a run is made with: of a range, each end has its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Variant {
    /// The cache as it is, in the state that the first windows settle in.
    AsItIs,
    /// A slightly larger one; the target held all of it.
    Larger,
    /// A slightly smaller one; the others held all of it.
    Smaller,
}

impl Variant {
    pub(super) fn cache(self, cache: &SharedCache) -> SharedCache {
        match self {
            Self::AsItIs => *cache,
            Self::Larger => cache.resized(1.0 + margin(cache)),
            Self::Smaller => cache.resized(1.0 - margin(cache)),
        }
    }

    /// What each of so many programs held before the run.
    pub(super) fn start(self, cache: &SharedCache, programs: usize) -> Vec<f64> {
        let held = |i: usize| if (i == 0) == (self == Self::Larger) { cache.bytes() } else { 0.0 };
        if self == Self::AsItIs { Vec::new() } else { (0..programs).map(held).collect() }
    }
}

impl<P: Copy + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// The slowdown of the target's pass from these offsets, as in [`run`](Self::run), with its range.
    ///
    /// With [`Probes::One`] only the run itself is made, and its range is the number. Else, if shares are followed over
    /// time, it is made twice more: with the target favoured at the start in a slightly larger cache, and with the
    /// others favoured in a slightly smaller one. Where settled states are on a cliff, their ranges count as well.
    ///
    /// # Cost
    /// One or three runs.
    #[must_use]
    pub fn slowdown(&self, offsets: &[f64]) -> Slowdown {
        let outcome = self.outcome(offsets, Until::TargetEnds);
        let ends = self.ends(offsets, &outcome);
        Slowdown::of(&outcome, ends)
    }

    /// Lowest and highest time of the run that came to `outcome` from `offsets`, over its time.
    pub(crate) fn ends(&self, offsets: &[f64], outcome: &Outcome) -> (f64, f64) {
        let (mut low, mut high) = (outcome.low, outcome.high);
        if self.settings.probes != Probes::One && self.model.evicts_by_age() && self.timelines.len() > 1 {
            for variant in [Variant::Larger, Variant::Smaller] {
                let run = self.follow(variant, offsets, Until::TargetEnds, &mut Observer::new(None));
                (low, high) = (low.min(run.time), high.max(run.time));
            }
        }
        (low / outcome.time, high / outcome.time)
    }
}
