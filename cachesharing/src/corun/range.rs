//! The slowdown of one run with its range.

use std::hash::Hash;

use super::CoRun;
use super::advance::{Outcome, Until};
use super::burst::Burst;
use super::place::Observer;
use crate::sharing::margin;
use crate::{Leaving, Probes, SharedCache, SharingModel};

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
    /// Highest slowdown likewise.
    pub high: f64,
    /// Whether the run depends on which program ran first, or on a little more or less of the cache, or its programs'
    /// [curves](crate::Program::with_uncertainty) or the time it waits for memory leave that much open. The number is for
    /// programs that have run together before, the range for any of them first, once the target has made a pass.
    pub flagged: bool,
    /// Slowdown of a pass that finds none of its data in the cache, because only the others ran before, in a cache a little
    /// smaller: what loading it costs a program that ends after one pass.
    pub first_pass: f64,
}

/// Predictions without a flag are within this part of the truth, as measured: see the crate's front page. What reaches further
/// from the number is flagged.
const UNFLAGGED: f64 = 0.03;
/// An end of a range that is further from the number than this is not moved by bursts.
const WIDE: f64 = 0.15;
/// Times alone and beside others that hardly touch the cache differ by so much: others change which lines share a set.
const NOTHING: f64 = 0.002;

/// Waiting for memory may take by this part more or less than predicted: chosen on drawn streams, seed 20.
const WAITING: f64 = 0.5;

/// Parts of what co-runners cost by which it may be less and more than predicted where programs are taken to settle as soon as
/// a window begins: what they hold lags behind. Chosen on co-runs of `dot`, `z3`, `glpsol`, `7zz`, `oggenc` and `tclsh` in
/// caches with random replacement.
const LAGS: (f64, f64) = (0.6, 0.3);

/// Where lines leave at random, caches are smaller and larger by this multiple of what they are else: chosen on the same.
const AT_RANDOM: f64 = 1.7;

/// Where lines leave at random, programs that slow each other down are taken to do so the more: the more of its time that costs
/// a program, this multiple of it, the less it may be, but no more than this part. Chosen on streams of `tests/follow.rs`.
const CROWDED: (f64, f64) = (0.8, 0.4);

/// On the chip a bad start may take half as long again as predicted until it is made up for: the upper end of a range is
/// stretched by as much, but no more than this part of it.
const MADE_UP: f64 = 0.1;

fn stretched(slowdown: f64, high: f64) -> f64 {
    high + (0.5 * (high - slowdown)).min(MADE_UP * high)
}

/// Whether a range is wide enough for a flag.
fn is_wide(low: f64, slowdown: f64, high: f64) -> bool {
    high > slowdown * (1.0 + UNFLAGGED) || low < slowdown * (1.0 - UNFLAGGED)
}

/// Times of the target's pass over its time in the run itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ends {
    pub low: f64,
    pub high: f64,
    pub first_pass: f64, // after the others alone
}

impl Ends {
    /// Those of the run itself.
    pub const NONE: Self = Self { low: 1.0, high: 1.0, first_pass: 1.0 };

    /// The widest of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            first_pass: self.first_pass.max(other.first_pass),
        }
    }
}

impl Slowdown {
    /// That of a run whose time lies between these ends, or in its own range where that is wider, predicted from curves
    /// of this uncertainty.
    pub(crate) fn of(outcome: &Outcome, ends: Ends, uncertainty: f64) -> Self {
        let (slowdown, alone) = (outcome.slowdown(), outcome.time_alone);
        let uncertainty = uncertainty + WAITING * outcome.time_waiting / outcome.time;
        let low = outcome.low.min(ends.low * outcome.time) / alone;
        let high = outcome.high.max(ends.high * outcome.time) / alone;
        let first_pass =
            stretched(slowdown, ends.first_pass * slowdown) * (1.0 + UNFLAGGED) * (1.0 + uncertainty);
        // Nobody gains from others, but for rounding.
        let less = |low: f64, part: f64| (low * (1.0 - part)).max(low.min(1.0 - NOTHING));
        let wide = is_wide(low, slowdown, high);
        let (low, high) = if wide {
            // What is predicted right is within this of the truth.
            (less(low, UNFLAGGED), stretched(slowdown, high) * (1.0 + UNFLAGGED))
        } else {
            (low.min(slowdown), high.max(slowdown))
        };
        let (low, high) = (less(low, uncertainty), high * (1.0 + uncertainty));
        Self { slowdown, low, high, flagged: wide || is_wide(low, slowdown, high), first_pass }
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
    pub(super) fn cache(self, cache: &SharedCache, leaving: Option<Leaving>) -> SharedCache {
        let wider = if leaving == Some(Leaving::AtRandom) { AT_RANDOM } else { 1.0 };
        let margin = (wider * margin(cache)).min(0.5);
        match self {
            Self::AsItIs => *cache,
            Self::Larger | Self::Shorter => cache.resized(1.0 + margin),
            Self::Smaller | Self::Longer => cache.resized(1.0 - margin),
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

    /// Whether the target's reuse times are other than its mean speed says.
    pub(super) const fn bursts(self) -> bool {
        matches!(self, Self::Shorter | Self::Longer)
    }

    /// Accesses between two uses of a line beyond `after`; negative if there are fewer.
    pub(super) fn late(self, program: usize, burst: Burst, after: f64) -> f64 {
        match self {
            Self::Shorter if program == 0 => -burst.early(after),
            Self::Longer if program == 0 => burst.late(after),
            _ => 0.0,
        }
    }

    /// What each of so many programs held before the run.
    pub(super) fn start(self, cache: &SharedCache, programs: usize) -> Vec<f64> {
        let held = |i: usize| if self.ran_before(i) { cache.bytes() } else { 0.0 };
        if self == Self::AsItIs { Vec::new() } else { (0..programs).map(held).collect() }
    }
}

impl<P: Clone + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// The slowdown of the target's pass from these offsets, as in [`run`](Self::run), with its range.
    ///
    /// With [`Probes::One`] only the run itself is made, and its range is the number. Else, if shares are followed over
    /// time, two more runs follow: one after the target alone has run in a slightly larger cache, and one after the others alone
    /// have in a slightly smaller one. Each makes a pass first, so that loading data does not count as a state. For each end
    /// that these move little, another run lets the target come back to its lines earlier or later within a window, because
    /// misses come in bursts.
    /// Where settled states are on a cliff, their ranges count as well. Models that have programs settle as soon as a window
    /// begins are not run again: between programs of several windows, what others cost may be 60 % less or 30 % more.
    ///
    /// # Cost
    /// One, or five to nine passes.
    #[must_use]
    pub fn slowdown(&self, offsets: &[f64]) -> Slowdown {
        let outcome = self.outcome(offsets, Until::TargetEnds);
        let ends = self.ends(offsets, &outcome);
        Slowdown::of(&outcome, ends, self.uncertainty())
    }

    /// The largest of the programs'.
    pub(crate) fn uncertainty(&self) -> f64 {
        self.programs.iter().map(|program| program.uncertainty()).fold(0.0, f64::max)
    }

    /// The ends of the run that came to `outcome` from `offsets`.
    pub(crate) fn ends(&self, offsets: &[f64], outcome: &Outcome) -> Ends {
        let of = |time: f64| time / outcome.time;
        let mut ends = Ends { low: of(outcome.low), high: of(outcome.high), first_pass: 1.0 };
        if self.settings.probes == Probes::One || self.timelines.len() == 1 {
            return ends;
        }
        if let Some(leaving) = self.leaving() {
            for variant in [Variant::Larger, Variant::Smaller, Variant::Shorter, Variant::Longer] {
                if leaving == Leaving::AtRandom && variant.bursts() {
                    continue;
                }
                // Bursts move no end that is far away as it is.
                if (variant == Variant::Shorter && ends.low < 1.0 - WIDE)
                    || (variant == Variant::Longer && ends.high > 1.0 + WIDE)
                {
                    continue;
                }
                let (run, before) =
                    self.follow(leaving, variant, offsets, Until::TargetEnds, &mut Observer::new(None));
                let first_pass = if variant == Variant::Smaller { of(before) } else { 1.0 };
                let time = of(run.time);
                ends = ends.and(Ends { low: time, high: time, first_pass });
            }
            if leaving == Leaving::AtRandom {
                let cost = (1.0 - of(outcome.time_alone)).max(0.0);
                let less = cost * (CROWDED.0 * cost).min(CROWDED.1);
                ends = ends.and(Ends { low: 1.0 - less, ..Ends::NONE });
            }
        } else if self.timelines.iter().any(|timeline| timeline.segments().len() > 1) {
            let cost = (1.0 - of(outcome.time_alone)).max(0.0);
            ends = ends.and(Ends { low: 1.0 - LAGS.0 * cost, high: 1.0 + LAGS.1 * cost, first_pass: 1.0 });
        } else {
            return ends;
        }
        ends.and(Ends { low: 1.0 - NOTHING, high: 1.0 + NOTHING, first_pass: 1.0 })
    }
}
