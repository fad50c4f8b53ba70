//! Runs over time: each step lasts until the first program ends its window.

use std::hash::Hash;
use std::sync::Arc;

use super::CoRun;
use super::place::{Observer, Places};
use super::range::Variant;
use crate::{Probes, Share, Sharing, SharingModel};

/// When a run is over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Until {
    /// The target has come to its end; the others start over as often as it takes.
    #[default]
    TargetEnds,
    /// So much time has passed; every program starts over when it ends.
    Time(f64),
}

/// A stretch of time in which no program changes its window or phase.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Step<'a> {
    /// When it begins.
    pub start: f64,
    /// How long it lasts, above 0.
    pub time: f64,
    /// Per program the number of its phase, in [`Program::phases`](crate::Program::phases). A phase-oblivious run
    /// has each program in the phase of its first window.
    pub phases: &'a [usize],
    /// Per program what it has of the cache and what that makes of it.
    pub shares: &'a [Share],
    /// Time per unit of work that the target would take at this point, alone with the whole cache.
    pub cpi_alone: f64,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Outcome {
    /// Time that passed.
    pub time: f64,
    /// The same if the target always ran in the fastest stable state found, where settled states are on a cliff.
    pub low: f64,
    /// The same in the slowest one.
    pub high: f64,
    /// Time of one pass of the target alone with the whole cache.
    pub time_alone: f64,
    /// Work of each program.
    pub work: Vec<f64>,
    /// Steps in time: one for each set of windows that met, more where what programs hold changes meanwhile, fewer
    /// where passes of a short co-runner repeat.
    pub steps: u64,
    /// Times the model was solved, or the speeds of programs computed from what they hold; solutions that a method
    /// remembers are not among them, see [`CoRun::co_phases_solved`].
    pub invocations: u64,
    /// Time in which the target stood on a cliff (seen with
    /// [`Probes::Cliffs`](crate::Probes::Cliffs) only).
    pub time_on_cliff: f64,
    /// Time in which the target waited because memory served others.
    #[cfg_attr(feature = "serde", serde(default))]
    pub time_waiting: f64,
}

impl Outcome {
    /// Time of the target's pass over its time alone; of a run that ended after a time, meaningless.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        self.time / self.time_alone
    }
}

impl<P: Clone + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// Runs the programs, each interferer beginning after the given fraction of its work, and shows each step.
    ///
    /// `offsets[i]` belongs to program i; the target begins at its beginning if none is given for it, and so do
    /// all programs beyond the end of `offsets`. Of an offset only the fractional part counts; one that is not a
    /// number is taken as 0.
    ///
    /// Passes of a co-runner that repeat the one before are skipped; of a co-runner whose pass is far shorter than a
    /// step, or than a millionth of the target's pass, the average over its pass is used.
    ///
    /// # Cost
    /// Per step, an invocation of the model (window methods) or a lookup (phase methods). Where shares are followed over
    /// time ([`SharingModel::follows`]), some six steps for each exchange of the cache's lines, at half a
    /// microsecond each for two programs, until programs have settled. Programs that do not settle within 4,096 steps
    /// go on to the end of the stretch as they are.
    ///
    /// # References
    /// Sandberg and others, HPCA 2013, section 3.
    pub fn run(&self, offsets: &[f64], until: Until, mut observe: impl FnMut(&Step<'_>)) -> Outcome {
        self.observed(offsets, until, &mut Observer::new(Some(&mut observe)))
    }

    /// The same without an observer.
    pub(crate) fn outcome(&self, offsets: &[f64], until: Until) -> Outcome {
        self.observed(offsets, until, &mut Observer::new(None))
    }

    fn observed(&self, offsets: &[f64], until: Until, observer: &mut Observer<'_>) -> Outcome {
        if let Some(leaving) = self.leaving() {
            return self.follow(leaving, Variant::AsItIs, offsets, until, observer).0;
        }
        let mut places = Places::new(self, offsets, until, false);
        for (i, timeline) in self.timelines.iter().enumerate() {
            let is_short = timeline.time_alone() < SHORT * self.timelines[0].time_alone();
            if let Some(whole) = timeline.whole().filter(|_| is_short) {
                places.follow_whole(i, Some(whole));
            }
        }
        let mut held = vec![0.0; self.timelines.len()];
        let mut scratch = Sharing::default();
        loop {
            let solution: Arc<Sharing>;
            let shares = if self.memories.is_some() {
                solution = self.remembered(Variant::AsItIs, &places.curves);
                solution.shares()
            } else {
                self.solve(&self.cache, &places.curves, &held, self.settings.probes, &mut scratch);
                places.outcome.invocations += 1;
                scratch.shares()
            };
            held.clear();
            held.extend(shares.iter().map(|share| share.bytes));
            let time = places.time(|program| shares[program].cpi);
            if !settled_step(&mut places, time, shares, observer) {
                return places.outcome;
            }
            places.skip_passes(&held, 0.0, observer);
        }
    }

    /// The solution of a set of curves in one of the caches, which depends on the set alone.
    pub(super) fn remembered(&self, variant: Variant, curves: &[usize]) -> Arc<Sharing> {
        let probes = match (variant, self.settings.probes) {
            (Variant::AsItIs, probes) => probes,
            (_, Probes::One) => Probes::One,
            (_, Probes::Starts | Probes::Cliffs) => Probes::Starts,
        };
        let cache = variant.cache(&self.cache, self.leaving());
        let solve = |sharing: &mut Sharing| self.solve(&cache, curves, &[], probes, sharing);
        if let Some(memories) = &self.memories {
            return memories[variant.cache_number()].get(curves, solve);
        }
        let mut sharing = Sharing::default();
        solve(&mut sharing);
        Arc::new(sharing)
    }
}

/// A pass shorter than this part of the target's is averaged.
pub(super) const SHORT: f64 = 1e-6;

/// Goes on by `time` with settled shares; returns whether the run goes on.
pub(super) fn settled_step(
    places: &mut Places<'_>,
    time: f64,
    shares: &[Share],
    observer: &mut Observer<'_>,
) -> bool {
    places.show(time, shares, observer);
    let target = &shares[0];
    let range = if target.on_cliff {
        places.outcome.time_on_cliff += time;
        (target.cpi_range.0 / target.cpi, target.cpi_range.1 / target.cpi)
    } else {
        (1.0, 1.0)
    };
    places.outcome.time_waiting += time * target.waiting;
    places.advance(time, |program| shares[program].cpi, range)
}
