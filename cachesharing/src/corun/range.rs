//! The slowdown of one run with its range.

use std::hash::Hash;

use super::CoRun;
use super::advance::Until;
use super::place::Observer;
use crate::sharing::margin;
use crate::{Probes, SharingModel};

/// How much slower the target of a run is, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    fn new(slowdown: f64, low: f64, high: f64) -> Self {
        let flagged = high > low * (1.0 + CLIFF);
        if flagged {
            return Self { slowdown, low, high, flagged };
        }
        let (least, most) = (slowdown * (1.0 - UNFLAGGED), slowdown * (1.0 + UNFLAGGED));
        Self { slowdown, low: low.clamp(least, slowdown), high: high.clamp(slowdown, most), flagged }
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
        self.ranged(offsets).0
    }

    /// The same, and the run.
    pub(crate) fn ranged(&self, offsets: &[f64]) -> (Slowdown, super::Outcome) {
        let outcome = self.outcome(offsets, Until::TargetEnds);
        let (mut low, mut high) = (outcome.low, outcome.high);
        if self.settings.probes != Probes::One && self.model.evicts_by_age() && self.timelines.len() > 1 {
            let (margin, bytes) = (margin(&self.cache), self.cache.bytes());
            let mut favoured = vec![0.0; self.timelines.len()];
            favoured[0] = bytes;
            let others: Vec<f64> = favoured.iter().map(|held| bytes - held).collect();
            for (factor, start) in [(1.0 + margin, favoured), (1.0 - margin, others)] {
                let cache = self.cache.resized(factor);
                let run =
                    self.follow(&cache, Some(&start), offsets, Until::TargetEnds, &mut Observer::new(None));
                (low, high) = (low.min(run.time), high.max(run.time));
            }
        }
        let alone = outcome.time_alone;
        (Slowdown::new(outcome.slowdown(), low / alone, high / alone), outcome)
    }
}
