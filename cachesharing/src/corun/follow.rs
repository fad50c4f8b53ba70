//! Co-runs over time with what each program holds of the cache followed from step to step.
//!
//! A cache is exchanged slowly: after a change of phase a program still finds what it left there, and a program that
//! reuses data older than a window finds what its co-runners left of it. A step lasts until a small part of the cache is
//! exchanged, however many windows that spans: where windows end, only speeds change. So it makes no difference how a
//! program is cut into windows, and each change of the cache, however small, accumulates.

use std::hash::Hash;
use std::sync::OnceLock;

use super::CoRun;
use super::advance::{self, Outcome, Until, settled_step};
use super::place::{Calm, Observer, Places};
use super::range::Variant;
use super::recency::{Ran, Recency};
use super::timeline::Timeline;
use crate::curve::{Chances, Exchanged, Met};
use crate::{Allocation, CacheCurve, Leaving, Probes, Share, SharedCache, Sharing, SharingModel};

/// Programs have settled where the model says if they hold as much to within this part of the cache.
const SAME: f64 = 0.01;
/// They have if that has hardly changed for this part of the age of the oldest lines.
const CALM: f64 = 0.25;
/// A pass shorter than this part of the time in which the cache's lines are exchanged is averaged: what programs hold
/// hardly changes from one phase to the next.
const SHORT: f64 = 0.5;
/// Most steps between two changes of phase: after some 700 exchanges of the cache's lines what programs hold either stays,
/// though the model has them settle elsewhere, or goes round in a circle, and would for as long as the phases last.
const MOST_STEPS: u32 = 4096;

/// Caches filled in which nothing stays.
const GONE: f64 = 100.0;

/// What a curve does in the present state of the cache.
#[derive(Clone, Copy, Default)]
struct Speed {
    computed: u64, // number of the state it was computed for; 0 for never
    now: Allocation,
    time: f64,     // per access at the beginning of the step
    pace: f64,     // time per access, waiting for memory included, when it last ran; 0 for never
    accesses: f64, // in this step
}

/// The cache over time.
struct Follower<'r> {
    cache: &'r SharedCache,
    timelines: &'r [Timeline],
    state: Recency,
    number: u64, // of the state
    held: Vec<f64>,
    speeds: Vec<Vec<Speed>>,  // by program and curve
    ran: Vec<Vec<usize>>,     // curves that each program ran in this step
    present: Vec<Allocation>, // of the present curves
    age: f64,                 // of the oldest lines
    calm: Calm,
    variant: Variant,
    settled: bool, // this state is one that all programs had settled in
    chances: Option<&'r [Vec<OnceLock<Chances>>]>, // by program and curve, where lines leave at random
}

impl<'r> Follower<'r> {
    fn new(
        cache: &'r SharedCache,
        timelines: &'r [Timeline],
        state: Recency,
        variant: Variant,
        chances: Option<&'r [Vec<OnceLock<Chances>>]>,
    ) -> Self {
        let programs = timelines.len();
        Self {
            cache,
            timelines,
            state,
            number: 0,
            held: vec![0.0; programs],
            speeds: timelines.iter().map(|t| vec![Speed::default(); t.numbers()]).collect(),
            ran: vec![Vec::new(); programs],
            present: vec![Allocation::default(); programs],
            age: 0.0,
            calm: Calm::default(),
            variant,
            settled: false,
            chances,
        }
    }

    /// Computes what each program holds at time `now`; returns whether that has hardly changed lately.
    fn look(&mut self, now: f64) -> bool {
        self.number += 1;
        self.age = self.state.holding(self.cache.bytes(), &mut self.held);
        self.calm.time(now, &self.held, self.cache.bytes()) >= CALM * self.age
    }

    /// Goes on from `state`, in which programs hold these shares, whatever the speeds were before.
    fn restart(&mut self, state: Recency, shares: &[Share]) {
        self.state = state;
        self.number += 1;
        self.held.clear();
        self.held.extend(shares.iter().map(|share| share.bytes));
        self.calm = Calm::default();
        self.settled = true;
    }

    /// Computes how fast the programs are that follow `curves`; returns how many bytes come in per unit of time.
    fn meet(&mut self, curves: &[usize]) -> f64 {
        let all = || self.timelines.iter().zip(curves).map(|(t, &number)| t.curve(number)).enumerate();
        for (i, curve) in all() {
            let known = self.speeds[i][curves[i]];
            if known.computed == self.number {
                self.present[i] = known.now;
                continue;
            }
            let mut now = Allocation::holding(curve, self.held[i]);
            let pace = if known.pace > 0.0 { known.pace } else { now.time };
            let met = |pace: f64| self.met(curves, i, pace);
            // The time it took when it last ran, beside something else, is only where to begin.
            let rounds = if known.computed + 1 < self.number { 2 } else { 1 };
            let mut pace = pace;
            for _ in 0..rounds {
                let Some(met) = met(pace) else { break };
                now.take(met);
                pace = now.time;
            }
            let time = now.time;
            if known.computed > 0 && known.computed + 1 == self.number {
                // In the middle of the step, on the straight line through this and the last one.
                now.time *= 1.0 + 0.5 * ((time / known.time).clamp(0.8, 1.25) - 1.0);
            }
            self.speeds[i][curves[i]] = Speed { computed: self.number, now, time, ..known };
            self.present[i] = now;
        }
        let curves = self.timelines.iter().zip(curves).map(|(t, &number)| t.curve(number));
        crate::sharing::flow(self.cache, curves, &mut self.present)
    }

    /// What an access of program `i` costs that takes `pace` per access; `None` where its curve is all that is known.
    fn met(&self, curves: &[usize], i: usize, pace: f64) -> Option<Met> {
        let (programs, state, variant) = (curves.len(), &self.state, self.variant);
        // What it used before it was there never came in.
        let late = !self.settled && !variant.ran_before(i);
        let curve = self.timelines[i].curve(curves[i]);
        if let Some(chances) = &self.chances {
            let chances = chances[i][curves[i]].get_or_init(|| Chances::new(curve, self.cache.bytes()));
            return Some(chances.met(|accesses| {
                let age = state.age_of(accesses, pace, i, programs);
                let exchanged = state.exchanged_in(age, self.cache.bytes(), i, programs);
                let never = late && state.is_before(age);
                Exchanged { together: if never { GONE } else { exchanged.together }, ..exchanged }
            }));
        }
        let all = || self.timelines.iter().zip(curves).map(|(t, &number)| t.curve(number)).enumerate();
        let others = all().filter(|&(j, _)| j != i);
        let burst = self.timelines[i].burst(curves[i]);
        let touched = |j: usize, time: f64| {
            let accesses = time / pace;
            let time = state.age_of(accesses, pace, i, programs) + pace * variant.late(i, burst, accesses);
            if late && state.is_before(time) {
                GONE * self.cache.bytes()
            } else {
                state.touched_in(time, j, programs)
            }
        };
        crate::sharing::meet(self.cache, curve, pace, &others, touched)
    }

    /// Time per unit of work of a program now.
    #[inline]
    fn cpi(&self, program: usize, curve: usize) -> f64 {
        self.present[program].time * self.timelines[program].curve(curve).mix()
    }

    /// Lets the programs make the accesses of `time` at their present speeds.
    fn run(&mut self, curves: &[usize], time: f64) {
        for (i, &curve) in curves.iter().enumerate() {
            let speed = &mut self.speeds[i][curve];
            if speed.accesses == 0.0 {
                self.ran[i].push(curve);
            }
            speed.pace = self.present[i].time;
            speed.accesses += time / self.present[i].time;
        }
    }

    /// Ends a step of `time`: all that was touched in it is in the cache.
    fn end(&mut self, time: f64) {
        let (timelines, speeds, ran) = (self.timelines, &self.speeds, &self.ran);
        let of = |i: usize| {
            ran[i].iter().map(move |&number| {
                let (curve, speed) = (timelines[i].curve(number), &speeds[i][number]);
                Ran { curve, accesses: speed.accesses, fetched: speed.accesses * speed.now.inflow() }
            })
        };
        self.state.pass(self.cache.bytes(), timelines.len(), of, time);
        for (speeds, ran) in self.speeds.iter_mut().zip(&mut self.ran) {
            for curve in ran.drain(..) {
                speeds[curve].accesses = 0.0;
            }
        }
    }

    /// Whether programs hold what they do where they settle.
    fn has_settled(&self, shares: &[Share]) -> bool {
        let bytes = self.cache.bytes();
        shares.iter().zip(&self.held).all(|(share, held)| (share.bytes - held).abs() < SAME * bytes)
    }
}

impl<P: Clone + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// [`run`](Self::run) for a model whose lines leave at an age, in the cache and from the start of `variant`; and the
    /// time of the pass before, for an end of a range.
    pub(super) fn follow(
        &self,
        leaving: Leaving,
        variant: Variant,
        offsets: &[f64],
        until: Until,
        observer: &mut Observer<'_>,
    ) -> (Outcome, f64) {
        let cache = &variant.cache(&self.cache, Some(leaving));
        let mut places = Places::new(self, offsets, until, variant != Variant::AsItIs);
        let mut sharing = Sharing::default();
        let solve = |curves: &[usize], held: &[f64], sharing: &mut Sharing| {
            self.solve(cache, curves, held, Probes::One, sharing);
        };
        let start = variant.start(&self.cache, self.timelines.len());
        solve(&places.curves, &start, &mut sharing);
        places.outcome.invocations += 1;
        let state = first_state(variant, cache, leaving, sharing.shares(), places.curves());
        let mut follower = Follower::new(cache, &self.timelines, state, variant, self.chances(variant));
        let mut unchanged = 0.0; // time since a program last changed its curve
        let mut steps = 0; // in that time
        let mut again = 0.0; // value of it from which on to compare with the settled state
        // In the state that the first windows settle in.
        let mut at_start = variant == Variant::AsItIs;
        loop {
            let is_calm = follower.look(places.outcome.time);
            places.outcome.invocations += 1;
            let mut inflow = follower.meet(&places.curves);
            let longest = Recency::STEP * follower.age;
            if self.average_short_passes(&mut places, follower.age, cache.bytes(), inflow) {
                unchanged = 0.0;
                inflow = follower.meet(&places.curves);
            }
            let has_calmed = is_calm && unchanged >= follower.age.max(again);
            // With other reuse times the model's settled states are not those of the run.
            let settles = !variant.bursts();
            if at_start || (has_calmed && settles) {
                at_start = false;
                // Ends of a range need no ranges of their own: a solution that would not be remembered is found from
                // what programs hold.
                let remembered = (variant == Variant::AsItIs || self.memories.is_some())
                    .then(|| self.remembered(variant, &places.curves));
                let near = remembered.as_deref().map(|sharing| sharing.nearest(&follower.held));
                let shares = if let Some(shares) = near.filter(|shares| follower.has_settled(shares)) {
                    shares
                } else {
                    solve(&places.curves, &follower.held, &mut sharing);
                    places.outcome.invocations += 1;
                    sharing.shares()
                };
                if follower.has_settled(shares) {
                    let state = settled_state(cache, leaving, shares, places.curves());
                    let time = places.time(|program| shares[program].cpi);
                    let goes_on = settled_step(&mut places, time, shares, observer);
                    if !(goes_on || places.begin_again()) {
                        return places.end();
                    }
                    // However the programs came to settle there, they leave it from the same state.
                    follower.restart(state, shares);
                    let skipped = places.skip_passes(&follower.held, follower.age, observer);
                    follower.state.wait(skipped);
                    (unchanged, again) = (0.0, 0.0);
                    continue;
                }
                again = 2.0 * unchanged;
            }
            if unchanged == 0.0 {
                steps = 0;
            }
            steps += 1;
            if steps > MOST_STEPS || (has_calmed && !settles) {
                let time = places.time(|program| follower.cpi(program, places.curves[program]));
                let goes_on = self.go_on(variant, &follower, &mut places, time, observer);
                if !(goes_on || places.begin_again()) {
                    return places.end();
                }
                let skipped = places.skip_passes(&follower.held, follower.age, observer);
                follower.state.wait(time + skipped);
                (unchanged, again) = (0.0, 0.0);
                continue;
            }
            // Until this much came in, or this time passed.
            let mut room = Recency::STEP * cache.bytes();
            let mut elapsed = 0.0;
            loop {
                let end = places.time(|program| follower.cpi(program, places.curves[program]));
                let patience = (longest - elapsed).min(room / inflow);
                if elapsed > 0.0 && patience <= 1e-9 * longest {
                    break; // what rounding leaves of a step is not a step
                }
                let time = end.min(patience);
                follower.run(&places.curves, time);
                elapsed += time;
                room -= inflow * time;
                unchanged += time;
                let goes_on = self.go_on(variant, &follower, &mut places, time, observer);
                if !(goes_on || places.begin_again()) {
                    return places.end();
                }
                if goes_on && time >= patience {
                    break;
                }
                (unchanged, again) = (0.0, 0.0);
                if !goes_on || places.may_skip() {
                    break;
                }
                inflow = follower.meet(&places.curves);
            }
            follower.end(elapsed);
            let skipped = places.skip_passes(&follower.held, follower.age, observer);
            follower.state.wait(skipped);
        }
    }

    /// Goes on by `time` at the present speeds; returns whether the run does.
    fn go_on(
        &self,
        variant: Variant,
        follower: &Follower<'_>,
        places: &mut Places<'_>,
        time: f64,
        observer: &mut Observer<'_>,
    ) -> bool {
        if observer.observes() {
            let mut shares = Vec::new();
            crate::sharing::shares_of(places.curves(), follower.age, &follower.present, &mut shares);
            if self.memories.is_some() {
                flag(&mut shares, &self.remembered(variant, &places.curves));
            }
            places.show(time, &shares, observer);
        }
        let cpis: Vec<f64> =
            places.curves.iter().enumerate().map(|(i, &curve)| follower.cpi(i, curve)).collect();
        places.outcome.time_waiting += time * follower.present[0].waiting;
        places.advance(time, |program| cpis[program], (1.0, 1.0))
    }

    /// Lets each interferer follow the average over its pass whose pass is short compared with the time in
    /// which lines are exchanged in a cache of `bytes` whose lines leave at `age` and come in at `inflow`; returns whether a curve changed.
    fn average_short_passes(&self, places: &mut Places<'_>, age: f64, bytes: f64, inflow: f64) -> bool {
        let short = SHORT * age.min(bytes / inflow);
        let mut changed = false;
        for (i, timeline) in self.timelines.iter().enumerate().skip(1) {
            // Beside others a pass takes at least the time it takes alone.
            let alone = timeline.time_alone();
            let is_short = timeline.segments().len() == 1
                || alone < short
                || alone < advance::SHORT * self.timelines[0].time_alone();
            changed |= places.follow_whole(i, timeline.whole().filter(|_| is_short));
        }
        changed
    }
}

/// The recency of lines at the start of a run of `variant` whose first windows settle with `shares`: for the ends of a
/// range, as if only the target, or only the others, had run until then.
fn first_state<'c>(
    variant: Variant,
    cache: &SharedCache,
    leaving: Leaving,
    shares: &[Share],
    curves: impl Iterator<Item = &'c CacheCurve>,
) -> Recency {
    let mut shares = shares.to_vec();
    for (_, share) in shares.iter_mut().enumerate().filter(|(i, _)| !variant.ran_before(*i)) {
        share.cpi = f64::INFINITY;
    }
    settled_state(cache, leaving, &shares, curves)
}

/// The recency of lines where programs that follow `curves` have settled with these shares.
fn settled_state<'c>(
    cache: &SharedCache,
    leaving: Leaving,
    shares: &[Share],
    curves: impl Iterator<Item = &'c CacheCurve>,
) -> Recency {
    let curves: Vec<&CacheCurve> = curves.collect();
    let times: Vec<f64> = shares.iter().zip(&curves).map(|(s, c)| s.cpi / c.mix()).collect();
    if leaving == Leaving::AtRandom {
        let inflows: Vec<f64> =
            shares.iter().zip(&curves).map(|(s, c)| Chances::inflow(s.fetch_ratio, c)).collect();
        let alone: Vec<f64> =
            curves.iter().map(|c| Chances::inflow(c.fetch_ratio(cache.bytes()), c)).collect();
        return Recency::settled_at_random(cache.bytes(), &times, &inflows, &alone);
    }
    let far = crate::sharing::any_reuse_times(cache, curves.iter().copied());
    Recency::settled(cache.bytes(), &curves, &times, far)
}

/// Cliffs are those of the settled state.
fn flag(shares: &mut [Share], settled: &Sharing) {
    for (share, settled) in shares.iter_mut().zip(settled.shares()) {
        let (low, high) = settled.cpi_range;
        share.cpi_range = (low.min(share.cpi), high.max(share.cpi));
        share.on_cliff = settled.on_cliff;
    }
}
