//! Programs together over time, with what they hold of the cache followed from window to window.
//!
//! A cache is exchanged slowly: after a change of phase a program still finds what it left there, and what comes back
//! to data older than a window finds what others left of it. The window methods follow that all the way; the phase
//! method looks up what it followed before ([`blend`](super::blend)), where that can be looked up.

use std::hash::Hash;

use super::CoRun;
use super::advance::{Observer, Outcome, Pass, Until};
use super::recency::Recency;
use crate::curve::Met;
use crate::{Allocation, CacheCurve, Share, SharedCache, Sharing, SharingModel};

/// Little moves where programs hold as much as a step ago to within this part of the cache.
const STILL: f64 = 1e-3;
/// By how much longer steps become, at most, where little moves.
const LONGEST: f64 = 2.0;
/// Programs are where the settled state has them that hold as much of the cache as there to within this part of it.
const SAME: f64 = 0.01;

/// What comes after a set of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The end of the run.
    Nothing,
    /// Another set; this one had settled as it was first solved.
    Settled,
    /// Another set; the cache holds something else.
    Moving,
}

/// Follows what the programs hold, set of windows by set of windows.
pub(super) struct Follower<'a> {
    cache: &'a SharedCache,
    curves: Vec<&'a CacheCurve>,
    state: Recency,
    held: Vec<f64>,
    before: Vec<f64>, // what was held a step ago
    times: Vec<f64>,  // per access
    scratch: Vec<Allocation>,
    age: f64,      // of the oldest lines
    elapsed: f64,  // in these windows
    stride: f64,   // in [1, LONGEST]
    counted: bool, // reuse times of any program
}

impl<'a> Follower<'a> {
    /// Begins at a state.
    pub(super) fn new(cache: &'a SharedCache, programs: usize, state: Recency) -> Self {
        Self {
            cache,
            curves: Vec::with_capacity(programs),
            state,
            held: vec![0.0; programs],
            before: vec![0.0; programs],
            times: vec![0.0; programs],
            scratch: vec![Allocation::default(); programs],
            age: 0.0,
            elapsed: 0.0,
            stride: 1.0,
            counted: false,
        }
    }

    /// Goes on with these curves.
    pub(super) fn enter(&mut self, curves: impl Iterator<Item = &'a CacheCurve>) {
        self.curves.clear();
        self.curves.extend(curves);
        // Where the last search ended says nothing of another curve.
        self.scratch.fill(Allocation::default());
        self.held.fill(f64::INFINITY);
        self.elapsed = 0.0;
        self.stride = 1.0;
        self.counted = crate::sharing::tell_reuse(self.cache, &self.curves);
    }

    /// Works out what each program does now; answers for how long, and whether little moves although all lines of the
    /// cache were exchanged since these windows began.
    pub(super) fn look(&mut self) -> (f64, bool) {
        let bytes = self.cache.bytes();
        std::mem::swap(&mut self.held, &mut self.before);
        self.age = self.state.holding(bytes, &mut self.held);
        crate::sharing::holding(&self.curves, &self.held, &mut self.scratch);
        if self.counted {
            self.meet();
        }
        let inflow = crate::sharing::flow(self.cache, &mut self.scratch);
        for (time, a) in self.times.iter_mut().zip(&self.scratch) {
            *time = a.time;
        }
        let moved = self.held.iter().zip(&self.before).map(|(now, before)| (now - before).abs());
        let still = moved.fold(0.0, f64::max) < STILL * bytes;
        self.stride = if still { (2.0 * self.stride).min(LONGEST) } else { 1.0 };
        (self.stride * Recency::patience(bytes, self.age, inflow), still && self.elapsed >= self.age)
    }

    /// Asks of the reuses that are known what others brought in meanwhile.
    fn meet(&mut self) {
        let (state, curves, times, began) = (&self.state, &self.curves, &self.times, self.elapsed > 0.0);
        let speed = |scratch: &[Allocation], i: usize| if began { times[i] } else { scratch[i].time };
        crate::sharing::meet(self.cache, curves, &mut self.scratch, speed, |_, other, time| {
            state.touched_in(time, other, curves.len())
        });
    }

    /// Time per unit of work of a program now.
    #[inline]
    pub(super) fn cpi(&self, program: usize) -> f64 {
        self.times[program] * self.curves[program].mix()
    }

    /// Leaves in `shares` what each program has and does now.
    pub(super) fn describe(&mut self, shares: &mut Vec<Share>) {
        crate::sharing::shares_of(&self.curves, self.age, &mut self.scratch, shares);
    }

    /// Lets `time` pass.
    pub(super) fn pass(&mut self, time: f64) {
        self.elapsed += time;
        self.state.pass(self.cache.bytes(), &self.curves, &self.times, time);
    }

    /// Whether programs hold what they do where they settle.
    pub(super) fn settled(&self, shares: &[Share]) -> bool {
        let bytes = self.cache.bytes();
        shares.iter().zip(&self.held).all(|(share, held)| (share.bytes - held).abs() < SAME * bytes)
    }

    /// What each program holds now.
    pub(super) fn held(&self) -> &[f64] {
        &self.held
    }

    /// What the reuses of each program meet with now, where any are known.
    pub(super) fn met(&self) -> impl Iterator<Item = Option<Met>> {
        self.scratch.iter().filter(|_| self.counted).map(Allocation::met)
    }

    /// The age at which lines leave now.
    pub(super) const fn age(&self) -> f64 {
        self.age
    }

    /// When lines were last used.
    pub(super) const fn state(&self) -> &Recency {
        &self.state
    }

    /// The same, to go on from.
    pub(super) fn into_state(self) -> Recency {
        self.state
    }
}

impl<P: Copy + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// [`run`](Self::run) for a model whose lines leave at an age.
    pub(super) fn follow(&self, offsets: &[f64], until: Until, observe: &mut Observer<'_>) -> Outcome {
        let sets = self.memory.as_ref().and_then(|memory| Some((memory, memory.sets()?)));
        if let Some((memory, sets)) = sets {
            return self.follow_remembered(memory, sets, offsets, until, observe);
        }
        let mut pass = Pass::new(self, offsets, until);
        let mut sharing = Sharing::default();
        self.solve(&pass.curves, &[], &mut sharing);
        pass.outcome.invocations += 1;
        let state = self.settled_in(&sharing, &self.curves_of(&pass.curves));
        let mut follower = Follower::new(&self.cache, self.timelines.len(), state);
        while self.follow_set(&mut follower, None, &mut sharing, &mut pass, observe) != After::Nothing {}
        pass.outcome
    }

    /// Follows one set of windows until a program leaves it; `settled` is what was solved for it, if that is remembered.
    pub(super) fn follow_set<'a>(
        &'a self,
        follower: &mut Follower<'a>,
        settled: Option<&Sharing>,
        scratch: &mut Sharing,
        pass: &mut Pass,
        observe: &mut Observer<'_>,
    ) -> After {
        follower.enter(self.timelines.iter().zip(&pass.curves).map(|(t, &number)| &t.curves()[number]));
        let mut shares = Vec::new();
        loop {
            let (patience, calm) = follower.look();
            pass.outcome.invocations += 1;
            if calm {
                let (shares, first) = if let Some(settled) = settled {
                    let nearest = settled.nearest(follower.held());
                    (nearest, std::ptr::eq(nearest, settled.shares()))
                } else {
                    self.solve(&pass.curves, follower.held(), scratch);
                    pass.outcome.invocations += 1;
                    (scratch.shares(), false)
                };
                if follower.settled(shares) {
                    let time = pass.time(shares);
                    if !pass.go(self, time, shares, observe) {
                        return After::Nothing;
                    }
                    follower.state.wait(time);
                    return if first { After::Settled } else { After::Moving };
                }
            }
            let time = pass.time_until(|program, work| work * follower.cpi(program)).min(patience);
            if observe.looks() {
                follower.describe(&mut shares);
                if let Some(settled) = settled {
                    flag(&mut shares, settled);
                }
                pass.show(self, 0.0, time, &shares, observe);
            }
            let on_cliff = settled.is_some_and(|settled| settled.shares()[0].on_cliff);
            if !pass.advance(self, time, on_cliff, |program| time / follower.cpi(program)) {
                return After::Nothing;
            }
            follower.pass(time);
            if pass.changed {
                return After::Moving;
            }
        }
    }

    /// The recency of lines where the programs have settled as `sharing` says.
    pub(super) fn settled_in(&self, sharing: &Sharing, curves: &[&CacheCurve]) -> Recency {
        let times: Vec<f64> = sharing.shares().iter().zip(curves).map(|(s, c)| s.cpi / c.mix()).collect();
        let age = sharing.eviction_age().filter(|age| age.is_finite() && *age > 0.0).unwrap_or(1.0);
        let far = crate::sharing::tell_reuse(&self.cache, curves);
        Recency::settled(self.cache.bytes(), curves, &times, age, far)
    }
}

/// Cliffs are those of the settled state.
fn flag(shares: &mut [Share], settled: &Sharing) {
    for (share, settled) in shares.iter_mut().zip(settled.shares()) {
        let (low, high) = settled.cpi_range;
        share.cpi_range = (low.min(share.cpi), high.max(share.cpi));
        share.on_cliff = settled.on_cliff;
    }
}
