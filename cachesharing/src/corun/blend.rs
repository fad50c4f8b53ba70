//! The phase method with what programs hold followed over time, by looking up what was followed before.
//!
//! Sets of phases meet again and again, but hardly ever after the same time: what is held when one gives way to the next
//! is something else each time. It is taken for a blend of the states in which the last few sets would have settled.
//! How each of those gives way to the set that begins is followed once; what happens is then the same blend of what
//! happens in each, and so is what is held at the end, each as far as it has come.

use std::hash::Hash;

use super::CoRun;
use super::advance::{Observer, Outcome, Pass, Until};
use super::change::Change;
use super::cophase::Memory;
use super::follow::{After, Follower};
use super::recency::Recency;
use super::table::Remembered;
use crate::{Allocation, Share, Sharing, SharingModel};

/// Settled states that weigh less in a blend are not told apart from the one that counts most.
const LEAST: f64 = 0.01;
/// Sets that came and went so fast that more states than these are left of them are followed rather than looked up.
const MOST_PARTS: usize = 4;

/// What the cache holds when a set of phases begins.
enum Held {
    /// So much of what each set of these numbers settled in; the parts add up to 1.
    Blend(Vec<(usize, f64)>),
    /// Something else.
    Moving(Recency),
}

/// What happens while a set of phases holds.
struct Course<'a, 'b> {
    parts: &'b [(f64, Remembered<'a, Box<Change>>)], // weights, and what gives way
    rest: f64,                                       // weight of what has settled from the beginning
    settled: &'b [Share],
    lasts: f64, // until all has settled
}

impl Course<'_, '_> {
    /// Work of a program until `time`, and work per unit of time from there on.
    #[inline]
    fn work(&self, program: usize, time: f64) -> (f64, f64) {
        let speed = 1.0 / self.settled[program].cpi;
        let settled = (self.rest * time * speed, self.rest * speed);
        self.parts.iter().fold(settled, |(work, rate), (weight, change)| {
            let (done, now) = change.work(program, time, speed);
            (work + weight * done, rate + weight * now)
        })
    }

    /// Work of a program until `time`.
    #[inline]
    fn done(&self, program: usize, time: f64) -> f64 {
        if time >= self.lasts {
            time / self.settled[program].cpi - self.lost(program)
        } else {
            self.work(program, time).0
        }
    }

    /// Work that a program does not do while all settles, of what it would have done settled.
    #[inline]
    fn lost(&self, program: usize) -> f64 {
        self.parts.iter().map(|(weight, change)| weight * change.lost(program)).sum()
    }

    /// When a program has done `work`.
    #[inline]
    fn when(&self, program: usize, work: f64) -> f64 {
        let settled = (work + self.lost(program)) * self.settled[program].cpi;
        if settled >= self.lasts { settled } else { self.when_before(program, work) }
    }

    /// The same where that is before all has settled.
    fn when_before(&self, program: usize, work: f64) -> f64 {
        let speed = 1.0 / self.settled[program].cpi;
        let (mut low, mut high) = (0.0, self.lasts);
        let mut time = (work / speed).min(self.lasts);
        // Newton's steps on straight pieces, kept from turning round and round by halving.
        for _ in 0..200 {
            let (done, speed) = self.work(program, time);
            let missing = work - done;
            if missing.abs() <= 1e-13 * work {
                break;
            }
            if missing > 0.0 {
                low = time;
            } else {
                high = time;
            }
            let next = time + missing / speed;
            time = if next > low && next < high { next } else { 0.5 * (low + high) };
            if !(low < time && time < high) {
                break;
            }
        }
        time
    }
}

impl<P: Copy + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// [`follow`](Self::follow) for a method that remembers `sets` sets of phases.
    pub(super) fn follow_remembered(
        &self,
        memory: &Memory,
        sets: usize,
        offsets: &[f64],
        until: Until,
        observe: &mut Observer<'_>,
    ) -> Outcome {
        let mut pass = Pass::new(self, offsets, until);
        let mut numbers = pass.curves.clone();
        let mut held = Held::Blend(vec![(memory.number(&numbers), 1.0)]);
        let mut parts: Vec<(f64, Remembered<'_, Box<Change>>)> = Vec::new();
        let mut scratch = Sharing::default();
        loop {
            numbers.clone_from(&pass.curves);
            let number = memory.number(&numbers);
            let sharing = memory.numbered(number, |sharing| self.solve(&numbers, &[], sharing));
            match &mut held {
                Held::Moving(state) => {
                    let mut follower =
                        Follower::new(&self.cache, self.timelines.len(), std::mem::take(state));
                    let settled = Some(&*sharing);
                    held = match self.follow_set(&mut follower, settled, &mut scratch, &mut pass, observe) {
                        After::Nothing => return pass.outcome,
                        After::Settled => Held::Blend(vec![(number, 1.0)]),
                        After::Moving => Held::Moving(follower.into_state()),
                    };
                }
                Held::Blend(blend) if blend.len() > MOST_PARTS => held = Held::Moving(self.blended(blend)),
                Held::Blend(blend) => {
                    parts.clear();
                    let others = blend.iter().filter(|&&(set, _)| set != number);
                    parts.extend(others.map(|&(set, weight)| {
                        (weight, self.change((set, number, sets), &sharing, &numbers))
                    }));
                    if parts.iter().any(|(_, change)| !change.settles()) {
                        held = Held::Moving(self.blended(blend));
                        continue;
                    }
                    let course = Course {
                        parts: &parts,
                        rest: 1.0 - parts.iter().map(|(weight, _)| weight).sum::<f64>(),
                        settled: sharing.shares(),
                        lasts: parts.iter().map(|(_, change)| change.time()).fold(0.0, f64::max),
                    };
                    let time = pass.time_until(|program, work| course.when(program, work));
                    if observe.looks() {
                        self.show(&course, &numbers, time, &pass, observe);
                    }
                    let on_cliff = course.settled[0].on_cliff;
                    let over = !pass.advance(self, time, on_cliff, |program| course.done(program, time));
                    if over {
                        return pass.outcome;
                    }
                    if time >= course.lasts {
                        blend.clear();
                        blend.push((number, 1.0));
                    } else {
                        blend_on(blend, number, &parts, time);
                    }
                }
            }
        }
    }

    /// Shows the steps of a course up to `time`.
    fn show(
        &self,
        course: &Course<'_, '_>,
        numbers: &[usize],
        time: f64,
        pass: &Pass,
        observe: &mut Observer<'_>,
    ) {
        let curves = self.curves_of(numbers);
        let mut ends: Vec<f64> = course.parts.iter().flat_map(|(_, change)| change.ends()).copied().collect();
        ends.retain(|&end| end < time);
        ends.push(time);
        ends.sort_by(f64::total_cmp);
        let (mut scratch, mut shares): (Vec<Allocation>, Vec<Share>) = Default::default();
        let mut start = 0.0;
        for end in ends {
            if end <= start {
                continue;
            }
            let mut mean = Mean::new(course.settled, course.rest);
            for (weight, change) in course.parts {
                if let Some(now) = change.holding(0.5 * (start + end)) {
                    crate::sharing::holding(&curves, now.bytes, &mut scratch);
                    for (a, met) in scratch.iter_mut().zip(now.met) {
                        if let Some(met) = met {
                            a.take(*met);
                        }
                    }
                    crate::sharing::flow(&self.cache, &mut scratch);
                    crate::sharing::shares_of(&curves, now.age, &mut scratch, &mut shares);
                    mean.add(&shares, *weight);
                } else {
                    mean.add(course.settled, *weight);
                }
            }
            pass.show(self, start, end - start, &mean.shares(), observe);
            start = end;
        }
    }

    /// The recency of lines of a blend.
    fn blended(&self, blend: &[(usize, f64)]) -> Recency {
        let parts: Vec<(f64, Recency)> =
            blend.iter().map(|&(set, weight)| (weight, self.settled_state(set))).collect();
        Recency::blended(&parts, self.timelines.len())
    }
}

/// What is held after `time` in set `number`.
fn blend_on(
    blend: &mut Vec<(usize, f64)>,
    number: usize,
    parts: &[(f64, Remembered<'_, Box<Change>>)],
    time: f64,
) {
    blend.retain(|&(set, _)| set != number);
    let mut settled = 1.0;
    for ((_, weight), (before, change)) in blend.iter_mut().zip(parts) {
        *weight = before * (1.0 - change.moved(time));
        settled -= *weight;
    }
    blend.push((number, settled));
    blend.retain(|&(_, weight)| weight >= LEAST);
    let kept: f64 = blend.iter().map(|(_, weight)| weight).sum();
    for (_, weight) in blend {
        *weight /= kept;
    }
}

/// Shares of a blend: ratios over work, the rest over time.
struct Mean {
    sum: Vec<Share>, // speeds in place of CPIs, ratios times speed
}

impl Mean {
    fn new(settled: &[Share], weight: f64) -> Self {
        let none = |share: &Share| Share {
            cpi_range: share.cpi_range,
            on_cliff: share.on_cliff,
            ..Share::default()
        };
        let mut mean = Self { sum: settled.iter().map(none).collect() };
        mean.add(settled, weight);
        mean
    }

    fn add(&mut self, shares: &[Share], weight: f64) {
        for (sum, share) in self.sum.iter_mut().zip(shares) {
            let speed = weight / share.cpi;
            sum.cpi += speed;
            sum.bytes += weight * share.bytes;
            sum.sticky_bytes += weight * share.sticky_bytes;
            sum.bandwidth += weight * share.bandwidth;
            sum.miss_ratio += speed * share.miss_ratio;
            sum.fetch_ratio += speed * share.fetch_ratio;
            sum.extrapolated |= weight > 0.0 && share.extrapolated;
        }
    }

    fn shares(mut self) -> Vec<Share> {
        for share in &mut self.sum {
            share.cpi = 1.0 / share.cpi;
            share.miss_ratio *= share.cpi;
            share.fetch_ratio *= share.cpi;
            let (low, high) = share.cpi_range;
            share.cpi_range = (low.min(share.cpi), high.max(share.cpi));
        }
        self.sum
    }
}
