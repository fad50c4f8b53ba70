//! Programs together over time, with what they hold of the cache followed from window to window.
//!
//! A cache is exchanged slowly: after a change of phase a program still finds what it left there, and what comes back
//! to data older than a window finds what others left of it. The window methods follow that all the way. The phase
//! method remembers how one set of phases that has settled gives way to the next, so that it is worked out once for
//! each change, and follows only those sets that end before they settle.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use super::CoRun;
use super::advance::{Outcome, Pass, Step, Until};
use super::recency::Recency;
use crate::{Allocation, CacheCurve, Share, Sharing, SharingModel};

/// Little moves where programs hold as much as a step ago to within this part of the cache.
const STILL: f64 = 1e-3;
/// By how much longer steps become, at most, where little moves.
const LONGEST: f64 = 2.0;
/// Programs are where the settled state has them that hold as much of the cache as there to within this part of it.
const SAME: f64 = 0.01;
/// Steps after which a change that has not settled is followed no longer for others.
const MOST_STEPS: usize = 48;

/// What the cache holds when a set of windows begins.
enum Held {
    /// What the set of phases of that number settled in.
    Settled(usize),
    /// Something else.
    Moving(Recency),
}

/// How one settled set of phases gives way to another.
#[derive(Default)]
struct Change {
    steps: Vec<Moving>,
    end: Recency,
    settles: bool,
    time: f64,          // of all steps
    shares: Vec<Share>, // means over them
}

/// A stretch of a change.
struct Moving {
    before: Recency,
    time: f64,
    shares: Vec<Share>,
}

/// Changes by the numbers of the two sets.
#[derive(Default)]
pub(super) struct Changes {
    known: RwLock<HashMap<(usize, usize), Arc<Change>>>,
}

/// Follows what the programs hold while they stay in the same windows.
struct Follower<'a> {
    run: Scene<'a>,
    state: Recency,
    held: Vec<f64>,
    before: Vec<f64>, // what was held a step ago
    times: Vec<f64>,  // per access
    shares: Vec<Share>,
    scratch: Vec<Allocation>,
    elapsed: f64, // in these windows
    stride: f64,  // in [1, LONGEST]
}

/// Who shares what.
#[derive(Clone, Copy)]
struct Scene<'a> {
    cache: &'a crate::SharedCache,
    curves: &'a [&'a CacheCurve],
}

impl<'a> Follower<'a> {
    fn new(run: Scene<'a>, state: Recency) -> Self {
        let count = run.curves.len();
        Self {
            run,
            state,
            held: vec![0.0; count],
            before: vec![f64::INFINITY; count],
            times: vec![0.0; count],
            shares: Vec::with_capacity(count),
            scratch: Vec::with_capacity(count),
            elapsed: 0.0,
            stride: 1.0,
        }
    }

    /// Works out what each program does now; answers for how long, and whether little moves although all lines of the
    /// cache were exchanged since these windows began.
    fn look(&mut self) -> (f64, bool) {
        let Scene { cache, curves } = self.run;
        std::mem::swap(&mut self.held, &mut self.before);
        let age = self.state.holding(cache.bytes(), &mut self.held);
        let inflow =
            crate::sharing::holding(cache, curves, &self.held, age, &mut self.scratch, &mut self.shares);
        for (time, (share, curve)) in self.times.iter_mut().zip(self.shares.iter().zip(curves)) {
            *time = share.cpi / curve.mix();
        }
        let moved = self.held.iter().zip(&self.before).map(|(now, before)| (now - before).abs());
        let still = moved.fold(0.0, f64::max) < STILL * cache.bytes();
        self.stride = if still { (2.0 * self.stride).min(LONGEST) } else { 1.0 };
        (self.stride * Recency::patience(cache.bytes(), age, inflow), still && self.elapsed >= age)
    }

    /// Lets `time` pass.
    fn pass(&mut self, time: f64) {
        self.elapsed += time;
        self.state.pass(self.run.cache.bytes(), self.run.curves, &self.times, time);
    }

    /// Whether programs hold what they do where they settle.
    fn settled(&self, shares: &[Share]) -> bool {
        let bytes = self.run.cache.bytes();
        shares.iter().zip(&self.held).all(|(share, held)| (share.bytes - held).abs() < SAME * bytes)
    }
}

impl<P: Copy + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// [`run`](Self::run) for a model whose lines leave at an age.
    pub(super) fn follow(
        &self,
        offsets: &[f64],
        until: Until,
        mut observe: impl FnMut(&Step<'_>),
    ) -> Outcome {
        let mut pass = Pass::new(self, offsets, until);
        let mut numbers = Vec::new();
        let mut held: Option<Held> = None;
        let mut sharing = Sharing::default();
        loop {
            numbers.clone_from(&pass.curves);
            let remembered =
                self.memory.as_ref().map(|memory| memory.get(&numbers, |s| self.solve(&numbers, &[], s)));
            let settled: Option<&Sharing> = remembered.as_deref();
            let number = self.memory.as_ref().and_then(|memory| memory.numbered(&numbers));
            let state = match (held.take(), settled.zip(number)) {
                (None, None) => {
                    self.solve(&numbers, &[], &mut sharing);
                    pass.outcome.invocations += 1;
                    self.settled_in(&sharing, &self.curves_of(&numbers))
                }
                (Some(Held::Moving(state)), _) => state,
                (before, Some((sharing, to))) => {
                    let from = if let Some(Held::Settled(from)) = before { from } else { to };
                    match self.after_settled(from, to, sharing, &numbers, &mut pass, &mut observe) {
                        Some(Held::Moving(state)) if !pass.changed => state,
                        Some(after) => {
                            held = Some(after);
                            continue;
                        }
                        None => return pass.outcome,
                    }
                }
                // What has settled has a number, and so have all that follow.
                (Some(Held::Settled(_)), None) => Recency::default(),
            };
            let curves = self.curves_of(&numbers);
            let mut follower = Follower::new(Scene { cache: &self.cache, curves: &curves }, state);
            let after = loop {
                let (patience, calm) = follower.look();
                pass.outcome.invocations += 1;
                if let Some(settled) = settled {
                    flag(&mut follower.shares, settled);
                }
                if calm {
                    let (shares, first) = if let Some(settled) = settled {
                        let nearest = settled.nearest(&follower.held);
                        (nearest, std::ptr::eq(nearest, settled.shares()))
                    } else {
                        self.solve(&numbers, &follower.held, &mut sharing);
                        pass.outcome.invocations += 1;
                        (sharing.shares(), false)
                    };
                    if follower.settled(shares) {
                        let time = pass.time(shares);
                        if !pass.go(self, time, shares, &mut observe) {
                            return pass.outcome;
                        }
                        follower.state.wait(time);
                        break match number {
                            Some(number) if first => Held::Settled(number),
                            _ => Held::Moving(follower.state),
                        };
                    }
                }
                let time = pass.time(&follower.shares).min(patience);
                if !pass.go(self, time, &follower.shares, &mut observe) {
                    return pass.outcome;
                }
                follower.pass(time);
                if pass.changed {
                    break Held::Moving(follower.state);
                }
            };
            held = Some(after);
        }
    }

    /// Goes on in set number `to`, whose settled state is `sharing`, after number `from` had settled, until a program
    /// leaves it or it turns out that it does not settle; answers what is held then, nothing where the run is over.
    fn after_settled(
        &self,
        from: usize,
        to: usize,
        sharing: &Sharing,
        numbers: &[usize],
        pass: &mut Pass,
        mut observe: impl FnMut(&Step<'_>),
    ) -> Option<Held> {
        pass.changed = false;
        if from != to {
            let change = self.change(from, to, sharing, numbers);
            if change.time < pass.time(&change.shares) {
                if change.time > 0.0 && !pass.go(self, change.time, &change.shares, &mut observe) {
                    return None;
                }
            } else {
                for step in &change.steps {
                    let time = pass.time(&step.shares).min(step.time);
                    if !pass.go(self, time, &step.shares, &mut observe) {
                        return None;
                    }
                    if pass.changed {
                        let curves = self.curves_of(numbers);
                        let scene = Scene { cache: &self.cache, curves: &curves };
                        let mut follower = Follower::new(scene, step.before.clone());
                        follower.look();
                        follower.pass(time);
                        return Some(Held::Moving(follower.state));
                    }
                }
            }
            if !change.settles {
                return Some(Held::Moving(change.end.clone()));
            }
        }
        let shares = sharing.shares();
        pass.go(self, pass.time(shares), shares, &mut observe).then_some(Held::Settled(to))
    }

    /// The recency of lines where the programs have settled as `sharing` says.
    fn settled_in(&self, sharing: &Sharing, curves: &[&CacheCurve]) -> Recency {
        let times: Vec<f64> = sharing.shares().iter().zip(curves).map(|(s, c)| s.cpi / c.mix()).collect();
        let age = sharing.eviction_age().filter(|age| age.is_finite() && *age > 0.0).unwrap_or(1.0);
        Recency::settled(self.cache.bytes(), curves, &times, age)
    }

    /// How set number `from` gives way to number `to`, whose settled state is `sharing` and whose curves are
    /// `numbers`. Depends on the two alone.
    fn change(&self, from: usize, to: usize, sharing: &Sharing, numbers: &[usize]) -> Arc<Change> {
        // The map is whole even if a thread died holding it: entries go in complete.
        let known = &self.changes.known;
        if let Some(change) = known.read().unwrap_or_else(PoisonError::into_inner).get(&(from, to)) {
            return Arc::clone(change);
        }
        let Some(memory) = &self.memory else { return Arc::default() };
        let old = memory.set(from);
        let before = memory.get(&old, |sharing| self.solve(&old, &[], sharing));
        let curves = self.curves_of(numbers);
        let scene = Scene { cache: &self.cache, curves: &curves };
        let mut follower = Follower::new(scene, self.settled_in(&before, &self.curves_of(&old)));
        let mut change = Change::default();
        while change.steps.len() < MOST_STEPS {
            let (time, calm) = follower.look();
            if calm && follower.settled(sharing.shares()) {
                change.settles = true;
                break;
            }
            flag(&mut follower.shares, sharing);
            let shares = follower.shares.clone();
            change.steps.push(Moving { before: follower.state.clone(), time, shares });
            follower.pass(time);
        }
        change.end = follower.state;
        change.time = change.steps.iter().map(|step| step.time).sum();
        change.shares = (0..numbers.len()).map(|program| mean(&change.steps, program)).collect();
        let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry((from, to)).or_insert_with(|| Arc::new(change)))
    }
}

/// What a program has and does on average over the steps: ratios over its work, the rest over time.
fn mean(steps: &[Moving], program: usize) -> Share {
    let each = || steps.iter().map(|step| (step.time, &step.shares[program]));
    let time: f64 = each().map(|(time, _)| time).sum();
    let work: f64 = each().map(|(time, share)| time / share.cpi).sum();
    let over_time = |get: fn(&Share) -> f64| each().map(|(t, s)| t * get(s)).sum::<f64>() / time;
    let over_work = |get: fn(&Share) -> f64| each().map(|(t, s)| t / s.cpi * get(s)).sum::<f64>() / work;
    let low = each().map(|(_, s)| s.cpi_range.0).fold(f64::INFINITY, f64::min);
    let high = each().map(|(_, s)| s.cpi_range.1).fold(0.0, f64::max);
    Share {
        bytes: over_time(|s| s.bytes),
        sticky_bytes: over_time(|s| s.sticky_bytes),
        cpi: time / work,
        cpi_range: (low, high),
        on_cliff: each().any(|(_, s)| s.on_cliff),
        extrapolated: each().any(|(_, s)| s.extrapolated),
        miss_ratio: over_work(|s| s.miss_ratio),
        fetch_ratio: over_work(|s| s.fetch_ratio),
        bandwidth: over_time(|s| s.bandwidth),
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
