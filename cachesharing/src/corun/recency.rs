//! When the lines of the cache were last used, and by whom.
//!
//! Since any moment a program has touched so many different bytes. That number grows at each access by a line with the
//! probability that the access misses a cache of just that size: the very curve that was measured alone, of whatever
//! window the program is in now. The cache holds what was touched since the last moment since which all programs
//! together touched as much as it holds. A line's age carries over from window to window in this way, where a settled
//! state forgets it.
//!
//! Where lines leave at random, what counts is what was fetched since any moment. Of what a program fetched, a part stays that
//! falls by a factor of e with each cache that all programs together fetched since.

use crate::curve::{Chances, Exchanged, Lookup};
use crate::{CacheCurve, Leaving};

/// Moments per age of the cache: how finely it is followed.
const PER_AGE: f64 = 6.0;
/// Halvings of the shortest age in a settled state: programs that fit touch all they have in a small part of it.
const MOST_HALVINGS: u32 = 40;
/// How far back what was touched is recorded, in caches filled. Now and then a set keeps a line for longer than the
/// others.
const REACH: f64 = 1.7;
/// The same where lines leave at random: of older ones, one in four hundred stays.
const REACH_AT_RANDOM: f64 = 6.0;
/// Factor from one moment to an older one there.
const STEP_BACK: f64 = 1.25;
/// Most such moments: of programs that fit nothing is ever touched but what they hold.
const MOST_STEPS_BACK: i32 = 12;

/// What each program touched since each of several moments, or fetched where lines leave at random.
#[derive(Clone, Debug)]
pub(super) struct Recency {
    now: f64,
    moments: Vec<f64>, // rising, the last before now
    totals: Vec<f64>,  // bytes touched since each moment by all programs
    touched: Vec<f64>, // by each program, as many as there are programs for each moment
    made: Vec<f64>,    // accesses of each program since each moment, likewise
    alone: Vec<f64>,   // bytes that it would have fetched alone in those; nothing where lines leave by age
    reach: f64,        // how far back moments are kept: until so many caches were touched, at least 1
    leaving: Leaving,
}

/// What a program did in a step while it followed a curve.
#[derive(Clone, Copy)]
pub(super) struct Ran<'c> {
    pub curve: &'c CacheCurve,
    pub accesses: f64,
    pub fetched: f64, // bytes
}

impl Default for Recency {
    fn default() -> Self {
        Self {
            now: 0.0,
            moments: Vec::new(),
            totals: Vec::new(),
            touched: Vec::new(),
            made: Vec::new(),
            alone: Vec::new(),
            reach: 1.0,
            leaving: Leaving::ByAge,
        }
    }
}

impl Recency {
    /// The state that programs settle in which take `times` per access in a cache of `bytes`; `far` if lines touched before the oldest line in the cache was used are needed as well.
    pub(super) fn settled(bytes: f64, curves: &[&CacheCurve], times: &[f64], far: bool) -> Self {
        let mut state = Self { reach: if far { REACH } else { 1.0 }, ..Self::default() };
        let filled = |curve: &&CacheCurve, time: &f64, age: f64| {
            let mut at = Lookup::default();
            curve.filling().after(age / time, &mut at);
            at.bytes
        };
        let all =
            |age: f64| curves.iter().zip(times).map(|(curve, time)| filled(curve, time, age)).sum::<f64>();
        let age = filling_age(bytes, all);
        // What is found exactly full may lack a rounding error.
        let mut oldest = 1.05 * age;
        let mut steps = 0;
        while far && steps < MOST_STEPS_BACK && all(oldest) < REACH * bytes {
            oldest *= STEP_BACK;
            steps += 1;
        }
        let mut put = |age: f64| {
            let before = state.touched.len();
            for (curve, time) in curves.iter().zip(times) {
                state.touched.push(filled(curve, time, age));
                state.made.push(age / time);
            }
            let total: f64 = state.touched[before..].iter().sum();
            state.moments.push(-age);
            state.totals.push(total);
            total
        };
        for step in 0..=steps {
            put(oldest / STEP_BACK.powi(step));
        }
        let mut part = PER_AGE;
        while part > 1.5 {
            part -= 1.0;
            put(age * part / PER_AGE);
        }
        let mut short = age / PER_AGE;
        for _ in 0..MOST_HALVINGS {
            short *= 0.5;
            if put(short) < 0.5 * bytes / PER_AGE {
                break;
            }
        }
        state
    }

    /// The state that programs settle in which take `times` per access, fetch `inflows` bytes in each and would fetch `alone`
    /// with all of the cache, where lines leave at random.
    pub(super) fn settled_at_random(bytes: f64, times: &[f64], inflows: &[f64], alone: &[f64]) -> Self {
        let mut state = Self { reach: REACH_AT_RANDOM, leaving: Leaving::AtRandom, ..Self::default() };
        let speed: f64 = inflows.iter().zip(times).map(|(inflow, time)| inflow / time).sum();
        let mut caches = REACH_AT_RANDOM;
        while caches > 0.5 / PER_AGE {
            let age = caches * bytes / speed;
            state.moments.push(-age);
            state.totals.push(caches * bytes);
            for ((time, inflow), alone) in times.iter().zip(inflows).zip(alone) {
                let made = age / time;
                state.made.push(made);
                state.touched.push(made * inflow);
                state.alone.push(made * alone);
            }
            caches /= STEP_BACK;
        }
        state
    }

    /// How often the cache of `bytes` was exchanged within an age, where lines leave at random: by all programs together, and
    /// by what program `i` would have fetched alone in its accesses since.
    pub(super) fn exchanged_in(&self, age: f64, bytes: f64, i: usize, programs: usize) -> Exchanged {
        let moment = self.now - age;
        let younger = self.moments.partition_point(|&m| m < moment);
        let value = |number: usize| {
            let alone = self.alone.get(number * programs + i).copied().unwrap_or(0.0);
            (self.totals.get(number).copied().unwrap_or(0.0), alone)
        };
        let at = |number: usize| self.now - self.moments.get(number).unwrap_or(&self.now);
        // Before the oldest moment it went on as since.
        let (less, more, part) = match younger.checked_sub(1) {
            Some(older) => {
                let (end, begin) = (at(younger), at(older));
                (value(younger), value(older), (age - end) / (begin - end))
            }
            None => ((0.0, 0.0), value(0), age / at(0)),
        };
        let between = |less: f64, more: f64| (less + part * (more - less)) / bytes;
        Exchanged { together: between(less.0, more.0), alone: between(less.1, more.1) }
    }

    /// Whether that age reaches back to before this state was set up.
    pub(super) fn is_before(&self, age: f64) -> bool {
        age > self.now
    }

    /// How long ago program `i`, which takes `pace` per access now, was `accesses` accesses back: at the speeds it had since.
    pub(super) fn age_of(&self, accesses: f64, pace: f64, i: usize, programs: usize) -> f64 {
        let made = |moment: usize| self.made.get(moment * programs + i).copied().unwrap_or(0.0);
        let age = |moment: usize| self.now - self.moments.get(moment).unwrap_or(&self.now);
        let (mut younger, mut older) = (self.moments.len(), 0);
        if older == younger || accesses >= made(older) {
            return age(older) + (accesses - made(older)) * pace;
        }
        while younger - older > 1 {
            let middle = usize::midpoint(younger, older);
            if made(middle) > accesses { older = middle } else { younger = middle }
        }
        let part = (accesses - made(younger)) / (made(older) - made(younger));
        age(younger) + part * (age(older) - age(younger))
    }

    /// What program `i` touched within an age; of one beyond the oldest moment, since that.
    pub(super) fn touched_in(&self, age: f64, i: usize, programs: usize) -> f64 {
        let moment = self.now - age;
        let touched = |number: usize| self.touched.get(number * programs + i).copied().unwrap_or(0.0);
        let younger = self.moments.partition_point(|&m| m < moment);
        let Some(older) = younger.checked_sub(1) else { return touched(0) };
        // Ages of the moments around it and before. What is touched grows ever slower: a parabola through all three.
        let (end, begin) =
            (self.now - self.moments.get(younger).unwrap_or(&self.now), self.now - self.moments[older]);
        let (less, more) = (touched(younger), touched(older));
        let slope = (more - less) / (begin - end);
        let straight = less + slope * (age - end);
        let Some(before) = older.checked_sub(1) else { return straight };
        let earlier = self.now - self.moments[before];
        let bend = ((touched(before) - more) / (earlier - begin) - slope) / (earlier - end);
        (straight + bend * (age - end) * (age - begin)).clamp(less, more)
    }

    /// What each program holds of a cache of `bytes`; answers the age at which lines leave it.
    pub(super) fn holding(&self, bytes: f64, held: &mut [f64]) -> f64 {
        let programs = held.len();
        let since = |moment: usize| &self.touched[moment * programs..(moment + 1) * programs];
        // Totals fall from moment to moment.
        let younger = self.totals.partition_point(|&total| total >= bytes);
        let Some(older) = younger.checked_sub(1) else {
            // Not full yet.
            held.copy_from_slice(since(0));
            return self.now - self.moments[0];
        };
        let (end, rest) = match self.moments.get(younger) {
            Some(&moment) => (moment, self.totals[younger]),
            None => (self.now, 0.0),
        };
        let part = ((self.totals[older] - bytes) / (self.totals[older] - rest)).clamp(0.0, 1.0);
        let age = self.now - (self.moments[older] + part * (end - self.moments[older]));
        if self.leaving == Leaving::AtRandom {
            self.holding_at_random(bytes, held);
            return age;
        }
        for (i, (held, &more)) in held.iter_mut().zip(since(older)).enumerate() {
            let less = if younger < self.moments.len() { since(younger)[i] } else { 0.0 };
            *held = more + part * (less - more);
        }
        age
    }

    /// The same where lines leave at random: what stays of what was fetched between two moments, and before the oldest one in
    /// proportion to what was fetched since.
    fn holding_at_random(&self, bytes: f64, held: &mut [f64]) {
        let programs = held.len();
        held.fill(0.0);
        for moment in 0..self.moments.len() {
            let since = |values: &[f64], at: usize| values.get(at).copied().unwrap_or(0.0);
            let total = f64::midpoint(self.totals[moment], since(&self.totals, moment + 1));
            let stays = (-total / bytes).exp();
            for (i, held) in held.iter_mut().enumerate() {
                let fetched =
                    self.touched[moment * programs + i] - since(&self.touched, (moment + 1) * programs + i);
                *held += stays * fetched;
            }
        }
        let all: f64 = held.iter().sum();
        for held in held {
            *held *= bytes / all;
        }
    }

    /// Part of the cache that may be exchanged before what programs hold is computed anew.
    pub(super) const STEP: f64 = 1.0 / PER_AGE;

    /// Lets `time` pass in which program i did what `ran(i)` says.
    pub(super) fn pass<'c, I: Iterator<Item = Ran<'c>>>(
        &mut self,
        bytes: f64,
        programs: usize,
        ran: impl Fn(usize) -> I,
        time: f64,
    ) {
        self.moments.push(self.now);
        self.totals.push(0.0);
        self.touched.extend((0..programs).map(|_| 0.0));
        self.made.extend((0..programs).map(|_| 0.0));
        if self.leaving == Leaving::AtRandom {
            self.alone.extend((0..programs).map(|_| 0.0));
        }
        self.totals.fill(0.0);
        for i in 0..programs {
            for Ran { curve, accesses, fetched } in ran(i) {
                let made = self.made.iter_mut().skip(i).step_by(programs);
                let touched = self.touched.iter_mut().skip(i).step_by(programs);
                if self.leaving == Leaving::AtRandom {
                    let alone = accesses * Chances::inflow(curve.fetch_ratio(bytes), curve);
                    for ((touched, made), all) in
                        touched.zip(made).zip(self.alone.iter_mut().skip(i).step_by(programs))
                    {
                        *touched += fetched;
                        *made += accesses;
                        *all += alone;
                    }
                    continue;
                }
                let mut at = Lookup::default();
                for (touched, made) in touched.zip(made) {
                    curve.filling().grown(*touched, *made, accesses, &mut at);
                    *touched = at.bytes;
                    *made += accesses;
                }
            }
            // Since earlier, no less was touched.
            let (mut least, touched) = (0.0_f64, self.touched.iter_mut().skip(i).step_by(programs));
            for (touched, total) in touched.zip(&mut self.totals).rev() {
                least = least.max(*touched);
                *touched = least;
                *total += least;
            }
        }
        self.now += time;
        self.forget(bytes, programs);
    }

    /// Lets `time` pass in which nothing changes.
    pub(super) fn wait(&mut self, time: f64) {
        self.now += time;
        for moment in &mut self.moments {
            *moment += time;
        }
    }

    /// Drops redundant moments: all but one of those before the oldest line's, and of those since which much
    /// the same was touched.
    fn forget(&mut self, bytes: f64, programs: usize) {
        let least = 0.5 * bytes / PER_AGE;
        let last = self.totals.len() - 1;
        let mut kept = 0;
        for moment in 0..=last {
            let next = self.totals.get(moment + 1).copied();
            let useless = match next {
                Some(next) if next >= self.reach * bytes => true,
                Some(next) if kept > 0 => self.totals[kept - 1] - next < least,
                _ => false,
            };
            if useless {
                continue;
            }
            self.moments[kept] = self.moments[moment];
            self.totals[kept] = self.totals[moment];
            for of_each in [&mut self.touched, &mut self.made, &mut self.alone] {
                if !of_each.is_empty() {
                    of_each.copy_within(moment * programs..(moment + 1) * programs, kept * programs);
                }
            }
            kept += 1;
        }
        self.moments.truncate(kept);
        self.totals.truncate(kept);
        self.touched.truncate(kept * programs);
        self.made.truncate(kept * programs);
        self.alone.truncate(kept * programs);
    }
}

/// The age within which `filled(age)`, which rises, comes to `bytes`.
fn filling_age(bytes: f64, filled: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (1.0_f64, 2.0_f64);
    while filled(high) < bytes && high < f64::MAX / 4.0 {
        (low, high) = (high, 4.0 * high);
    }
    while filled(low) > bytes && low > f64::MIN_POSITIVE {
        (low, high) = (0.25 * low, low);
    }
    // Regula falsi, Illinois: the sum is concave between knots.
    let (mut below, mut above) = (filled(low) - bytes, filled(high) - bytes);
    let mut age = high;
    for _ in 0..60 {
        age = low - below * (high - low) / (above - below);
        let excess = filled(age) - bytes;
        if excess.abs() <= 1e-6 * bytes {
            break;
        }
        if excess < 0.0 {
            (low, below, above) = (age, excess, 0.5 * above);
        } else {
            (high, above, below) = (age, excess, 0.5 * below);
        }
    }
    age
}

#[cfg(test)]
mod tests {
    use reuse_sampler::SetReuse;

    use super::*;
    use crate::{CurvePoint, ReuseTimes};

    /// A program that uses a new line every `every` accesses, but no more than `most`.
    fn program(every: f64, most: f64) -> CacheCurve {
        let point = |bytes| CurvePoint::new(bytes, 2.0, 0.1);
        let reuse = SetReuse { distance: 1, accesses: 10.0, count: 1.0 };
        let times = ReuseTimes::new(1024, vec![1.0], [reuse]).unwrap();
        let times = times.with_footprint([(every * most, most), (1e9, most)]).unwrap();
        CacheCurve::new(vec![point(1024), point(8192)], 1.0, 64).unwrap().with_reuse_times(times).unwrap()
    }

    #[test]
    fn time_is_that_of_the_speeds_since() {
        let curve = program(1.0, 1e6);
        let (bytes, time) = (64_000.0, 100.0);
        let mut state = Recency::settled(bytes, &[&curve], &[2.0], true);
        // A hundred accesses in each of ten steps, slower and slower.
        for step in 1..=10 {
            let ran = Ran { curve: &curve, accesses: 100.0, fetched: 0.0 };
            state.pass(bytes, 1, |_| [ran].into_iter(), time * f64::from(step));
        }
        for (accesses, age) in [(0.0, 0.0), (50.0, 500.0), (100.0, 1000.0), (150.0, 1450.0), (1000.0, 5500.0)]
        {
            let found = state.age_of(accesses, 7.0, 0, 1);
            assert!((found - age).abs() < 1e-6, "{accesses}: {found} {age}");
        }
        // And what a settled state takes, at the same speed for ever.
        for accesses in [3.0, 777.0, 1e9] {
            let found = Recency::settled(bytes, &[&curve], &[2.0], true).age_of(accesses, 2.0, 0, 1);
            assert!((found / accesses - 2.0).abs() < 1e-6, "{accesses}: {found}");
        }
    }

    #[test]
    fn no_less_was_touched_since_earlier() {
        let (large, small) = (program(1.0, 500.0), program(2.0, 60.0));
        let bytes = 64.0 * 400.0;
        let mut state = Recency::settled(bytes, &[&large, &small], &[2.0, 3.0], true);
        for step in 0..40 {
            let now = if step / 5 % 2 == 0 { [&small, &large] } else { [&large, &small] };
            let ran = |i: usize| Ran { curve: now[i], accesses: 90.0, fetched: 0.0 };
            state.pass(bytes, 2, |i| [ran(i)].into_iter(), 200.0);
            for i in 0..2 {
                let touched: Vec<f64> = state.touched.iter().skip(i).step_by(2).copied().collect();
                assert!(touched.is_sorted_by(|a, b| a >= b), "{step} {i}: {touched:?}");
            }
        }
    }
}
