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
    /// Lowest slowdown in any stable state found, in caches a little smaller to a little larger; of a flagged range, less
    /// the error of predictions without a flag.
    pub low: f64,
    /// Highest slowdown likewise, and after the worst start.
    pub high: f64,
    /// Whether the run depends on what the cache holds when it begins, or on a little more or less of it. The number is
    /// for programs that have run together before, the range for any start.
    pub flagged: bool,
}

/// The predictions without a flag are within this part of the truth, as measured: see the crate's front page.
const UNFLAGGED: f64 = 0.03;
/// Misses come in bursts, in which a program is slower than on average, and in between it is faster: by so much the
/// times may differ that lines are reused after.
const BURST: f64 = 1.5;
/// A range wider than this is a flag.
const CLIFF: f64 = 0.15;

/// On the chip a bad start may take half as long again as predicted until it is made up for: the upper end of a range is
/// stretched by as much, but no more than this part of it.
const MADE_UP: f64 = 0.1;

fn stretched(slowdown: f64, high: f64) -> f64 {
    high + (0.5 * (high - slowdown)).min(MADE_UP * high)
}

/// Whether a range is wide enough for a flag.
fn is_wide(low: f64, slowdown: f64, high: f64) -> bool {
    stretched(slowdown, high) > low * (1.0 + CLIFF)
}

impl Slowdown {
    /// That of a run whose time lies between so many times its own, or in its own range where that is wider.
    pub(crate) fn of(outcome: &Outcome, (low, high): (f64, f64)) -> Self {
        let (low, high) = (outcome.low.min(low * outcome.time), outcome.high.max(high * outcome.time));
        let alone = outcome.time_alone;
        Self::new(outcome.slowdown(), low / alone, high / alone)
    }

    fn new(slowdown: f64, low: f64, high: f64) -> Self {
        let flagged = is_wide(low, slowdown, high);
        if flagged {
            // Nobody gains from others; what is predicted right is within this of the truth.
            let least = (low * (1.0 - UNFLAGGED)).max(low.min(1.0));
            let most = stretched(slowdown, high) * (1.0 + UNFLAGGED);
            return Self { slowdown, low: least, high: most, flagged };
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
    /// A slightly larger one; until then the target ran in it alone.
    Larger,
    /// A slightly smaller one; until then the others ran in it alone.
    Smaller,
    /// The larger one, with the target's reuse times shorter.
    Shorter,
    /// The smaller one, with the target's reuse times longer.
    Longer,
}

impl Variant {
    pub(super) fn cache(self, cache: &SharedCache) -> SharedCache {
        match self {
            Self::AsItIs => *cache,
            Self::Larger | Self::Shorter => cache.resized(1.0 + margin(cache)),
            Self::Smaller | Self::Longer => cache.resized(1.0 - margin(cache)),
        }
    }

    /// Which of the three caches that is.
    pub(super) const fn cache_number(self) -> usize {
        match self {
            Self::AsItIs => 0,
            Self::Larger | Self::Shorter => 1,
            Self::Smaller | Self::Longer => 2,
        }
    }

    /// Whether a program ran before the run began.
    pub(super) fn ran_before(self, program: usize) -> bool {
        match self {
            Self::AsItIs => true,
            Self::Larger | Self::Shorter => program == 0,
            Self::Smaller | Self::Longer => program != 0,
        }
    }

    /// What a program's reuse times are multiplied by.
    pub(super) const fn reuse_times(self, program: usize) -> f64 {
        match self {
            Self::Shorter if program == 0 => 1.0 / BURST,
            Self::Longer if program == 0 => BURST,
            _ => 1.0,
        }
    }

    /// What each of so many programs held before the run.
    pub(super) fn start(self, cache: &SharedCache, programs: usize) -> Vec<f64> {
        let held = |i: usize| if self.ran_before(i) { cache.bytes() } else { 0.0 };
        if self == Self::AsItIs { Vec::new() } else { (0..programs).map(held).collect() }
    }
}

impl<P: Copy + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// The slowdown of the target's pass from these offsets, as in [`run`](Self::run), with its range.
    ///
    /// With [`Probes::One`] only the run itself is made, and its range is the number. Else, if shares are followed over
    /// time, it is made twice more: after the target alone has run in a slightly larger cache, and after the others alone
    /// have in a slightly smaller one. If these agree, twice again with reuse times of the target half as long again, and
    /// shorter by as much: misses come in bursts. Where settled states are on a cliff, their ranges count as well.
    ///
    /// # Cost
    /// One, three or five runs.
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
            for variants in [[Variant::Larger, Variant::Smaller], [Variant::Shorter, Variant::Longer]] {
                for variant in variants {
                    let run = self.follow(variant, offsets, Until::TargetEnds, &mut Observer::new(None));
                    (low, high) = (low.min(run.time), high.max(run.time));
                }
                if is_wide(low, outcome.time, high) {
                    break;
                }
            }
        }
        (low / outcome.time, high / outcome.time)
    }
}
