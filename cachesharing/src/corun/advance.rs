//! The step in time: the window that ends first decides how far everyone goes.

use std::hash::Hash;

use super::CoRun;
use super::timeline::Segment;
use crate::{Share, Sharing, SharingModel};

/// When a run is over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Until {
    /// The target has come to its end; the others start over as often as it takes.
    #[default]
    TargetEnds,
    /// So much time has passed; every program starts over when it ends.
    Time(f64),
}

/// A stretch of time in which no program changes its window or phase.
#[derive(Clone, Copy, Debug)]
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
pub struct Outcome {
    /// Time that passed.
    pub time: f64,
    /// Time of one pass of the target alone with the whole cache.
    pub time_alone: f64,
    /// Work of each program.
    pub work: Vec<f64>,
    /// Sets of windows that met.
    pub steps: u64,
    /// Times the model was solved by a method that remembers nothing; else 0, see
    /// [`CoRun::co_phases_solved`].
    pub invocations: u64,
    /// Share of the time in which the target stood on a cliff (seen with
    /// [`Probes::Cliffs`](crate::Probes::Cliffs) only).
    pub time_on_cliff: f64,
}

impl Outcome {
    /// Time of the target's pass over its time alone; of a run that ended after a time, meaningless.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        self.time / self.time_alone
    }
}

/// Where a program is.
#[derive(Clone, Copy, Debug)]
struct Place {
    segment: usize,
    left: f64, // work in the segment, > 0
}

/// Who wants to see each step, if anybody does.
pub(super) struct Observer<'a>(Option<&'a mut dyn FnMut(&Step<'_>)>);

impl Observer<'_> {
    /// Whether anybody looks.
    pub(super) const fn looks(&self) -> bool {
        self.0.is_some()
    }
}

impl<P: Copy + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// Runs the programs, each interferer beginning after the given fraction of its work, and shows each step.
    ///
    /// `offsets[i]` belongs to program i; the target begins at its beginning if none is given for it, and so do
    /// all programs beyond the end of `offsets`. Of an offset only the fractional part counts; one that is not a
    /// number is taken as 0.
    ///
    /// # Cost
    /// Per step, an invocation of the model (window methods) or a lookup (phase method). Where shares are followed over
    /// time ([`SharingModel::evicts_by_age`]), some ten steps for each exchange of the cache's lines, at half a
    /// microsecond each for two programs; the phase method looks up how a settled set of phases gives way to the next,
    /// and blends such changes where the set before had not settled.
    ///
    /// # References
    /// Sandberg and others, HPCA 2013, section 3.
    pub fn run(&self, offsets: &[f64], until: Until, mut observe: impl FnMut(&Step<'_>)) -> Outcome {
        self.observed(offsets, until, &mut Observer(Some(&mut observe)))
    }

    /// The same with nobody looking.
    pub(crate) fn outcome(&self, offsets: &[f64], until: Until) -> Outcome {
        self.observed(offsets, until, &mut Observer(None))
    }

    fn observed(&self, offsets: &[f64], until: Until, observe: &mut Observer<'_>) -> Outcome {
        if self.model.evicts_by_age() {
            return self.follow(offsets, until, observe);
        }
        let mut pass = Pass::new(self, offsets, until);
        let mut held = vec![0.0; self.timelines.len()];
        let mut sharing = Sharing::default();
        loop {
            let remembered;
            let shares = if let Some(memory) = &self.memory {
                // What is remembered must not depend on who asked first.
                remembered = memory.get(&pass.curves, |sharing| self.solve(&pass.curves, &[], sharing));
                remembered.nearest(&held)
            } else {
                self.solve(&pass.curves, &held, &mut sharing);
                pass.outcome.invocations += 1;
                sharing.shares()
            };
            held.clear();
            held.extend(shares.iter().map(|share| share.bytes));
            let time = pass.time(shares);
            if !pass.go(self, time, shares, observe) {
                return pass.outcome;
            }
        }
    }
}

/// A run on its way.
pub(super) struct Pass {
    places: Vec<Place>,
    until: Until,
    /// Numbers of the curves that hold now.
    pub curves: Vec<usize>,
    phases: Vec<usize>,
    /// Whether a program came into another segment last.
    pub changed: bool,
    /// What came of it so far.
    pub outcome: Outcome,
}

impl Pass {
    pub(super) fn new<P, M>(run: &CoRun<'_, P, M>, offsets: &[f64], until: Until) -> Self {
        let count = run.timelines.len();
        let places: Vec<Place> = (0..count)
            .map(|i| place_at(run.timelines[i].segments(), offsets.get(i).copied().unwrap_or(0.0)))
            .collect();
        let segment = |i: usize| run.timelines[i].segments()[places[i].segment];
        let curves = (0..count).map(|i| segment(i).curve).collect();
        let phases = (0..count).map(|i| segment(i).phase).collect();
        let outcome = Outcome {
            time: 0.0,
            time_alone: run.timelines[0].time_alone(),
            work: vec![0.0; count],
            steps: 0,
            invocations: 0,
            time_on_cliff: 0.0,
        };
        Self { places, until, curves, phases, changed: true, outcome }
    }

    /// Time until a program with these shares comes to the end of its segment, or the run does.
    pub(super) fn time(&self, shares: &[Share]) -> f64 {
        self.time_until(|program, work| work * shares[program].cpi)
    }

    /// The same where `when` tells when a program has done so much work.
    #[inline]
    pub(super) fn time_until(&self, when: impl Fn(usize, f64) -> f64) -> f64 {
        let end = match self.until {
            Until::TargetEnds => f64::INFINITY,
            Until::Time(time) => time - self.outcome.time,
        };
        self.places.iter().enumerate().map(|(program, place)| when(program, place.left)).fold(end, f64::min)
    }

    /// Goes on by `time`, at most [`time`](Self::time); answers whether the run goes on.
    pub(super) fn go<P, M>(
        &mut self,
        run: &CoRun<'_, P, M>,
        time: f64,
        shares: &[Share],
        observe: &mut Observer<'_>,
    ) -> bool {
        self.show(run, 0.0, time, shares, observe);
        self.advance(run, time, shares[0].on_cliff, |program| time / shares[program].cpi)
    }

    /// Shows what happens from `after` from now on for `time`.
    #[inline]
    pub(super) fn show<P, M>(
        &self,
        run: &CoRun<'_, P, M>,
        after: f64,
        time: f64,
        shares: &[Share],
        observe: &mut Observer<'_>,
    ) {
        let Some(observe) = &mut observe.0 else { return };
        if time > 0.0 && time.is_finite() {
            let start = self.outcome.time + after;
            let cpi_alone = run.timelines[0].cpi_alone(self.curves[0]);
            observe(&Step { start, time, phases: &self.phases, shares, cpi_alone });
        }
    }

    /// Goes on by `time`, in which each program does the work it is told to; answers whether the run goes on.
    #[inline]
    pub(super) fn advance<P, M>(
        &mut self,
        run: &CoRun<'_, P, M>,
        time: f64,
        on_cliff: bool,
        work: impl Fn(usize) -> f64,
    ) -> bool {
        if time <= 0.0 || !time.is_finite() {
            return false;
        }
        self.outcome.time += time;
        self.outcome.steps += 1;
        if on_cliff {
            self.outcome.time_on_cliff += time;
        }
        self.changed = false;
        let mut over = false;
        for (i, place) in self.places.iter_mut().enumerate() {
            let segments = run.timelines[i].segments();
            let work = work(i);
            self.outcome.work[i] += work;
            place.left -= work;
            // What rounding leaves of a window that ended with another is not a window.
            if place.left <= 1e-9 * segments[place.segment].work {
                self.changed = true;
                place.segment += 1;
                if place.segment == segments.len() {
                    over |= i == 0 && self.until == Until::TargetEnds;
                    place.segment = 0;
                }
                let segment = segments[place.segment];
                place.left = segment.work;
                (self.curves[i], self.phases[i]) = (segment.curve, segment.phase);
            }
        }
        !over
    }
}

/// The place after `offset` of all work.
fn place_at(segments: &[Segment], offset: f64) -> Place {
    let fraction = if offset.is_finite() { offset.rem_euclid(1.0) } else { 0.0 };
    let mut left = fraction * segments.iter().map(|s| s.work).sum::<f64>();
    for (segment, s) in segments.iter().enumerate() {
        if left < s.work * (1.0 - 1e-9) {
            return Place { segment, left: s.work - left };
        }
        left = (left - s.work).max(0.0);
    }
    Place { segment: 0, left: segments[0].work }
}
