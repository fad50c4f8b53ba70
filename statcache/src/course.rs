//! Evictions over the time of a run: how many misses lie between two touches of a line, rather than how many do on
//! average.

use reuse_sampler::{CacheLines, ReuseProfile};

use crate::concentration::Concentration;

/// The run is followed in about so many steps, of equal length but for the ends of windows, and in no fewer than windows.
const STEPS: usize = 64;
/// Distances of a window are put together by eighths of octaves.
const PER_OCTAVE: f64 = 8.0;
/// Evictions for each line of the cache in a step of which half are resolved. Chosen as the constants of the standard error.
const RESOLVED: f64 = 4.0;
/// Iterations in a step until its solution is given up; some five are usual.
const ITERATIONS: u32 = 200;

/// A run that begins with an empty cache, cut into steps of time.
///
/// # Formula
/// E(t) is the number of evictions until access t: the misses so far beyond those that fill the cache,
/// E(t) = max(0, M(t) - L). A line touched at s and next at e is gone with probability
///
/// p = 1 - (1 - 1/L)^(E(e) - E(s)),
///
/// and M(t) is the number of first touches until t plus the sum of p over the reuses that end by t. M is linear within
/// a step. When reuses of a window start is taken to be spread evenly over the window. Lines touched until t are those
/// touched for the last time until then, and those whose next reuse is under way: that gives the first touches until each
/// step.
///
/// Steps are solved one after the other, each for the largest number of misses that agrees with itself: started from
/// "everything misses", Newton's method falls to it. It never rises with L.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Course {
    times: Vec<f64>,          // bounds of the steps, ascending from 0; empty before the first fit
    first: Vec<f64>,          // first touches until each bound
    near: f64,                // reuses with nothing in between, in accesses
    reuses: Vec<Vec<Reuses>>, // by the step in which they end
}

/// Reuses that start and end at one time.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Reuses {
    count: f64, // accesses, > 0
    start: f64, // number of a bound, and the share of the step after it
    end: f64,
}

/// How misses cluster, as far as steps show it. Shares are means over the steps, weighted by the reuses whose fate one more
/// eviction would decide.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bursts {
    /// Share of the evictions that fall within steps too long to see when: k / (k + 4) where a step evicts k lines for each
    /// line of the cache.
    pub unresolved: f64, // in [0, 1]
    /// The same, times the share of one length among the reuses that end in the step.
    pub concentrated: f64, // in [0, unresolved]
    /// Half the change of the miss ratio from step to step, relative to its mean: where steps differ, so may what is within.
    pub roughness: f64, // in [0, 1]
}

/// Reuses that end in the step at hand, in a cache that is full: in units of the logarithm by which evictions thin them out.
#[derive(Clone, Copy, Debug)]
struct Ending {
    count: f64,
    before: f64, // by the evictions until the step begins
    within: f64, // by each miss of the step
}

/// Nothing survives evictions by e to this power, to the precision of the sums.
const GONE: f64 = 40.0;

/// Reuses of one window with similar distances.
#[derive(Clone, Copy, Debug)]
struct Group {
    count: f64,
    distance: f64, // > 0
}

#[cfg(feature = "serde")]
impl Course {
    /// Whether one that was saved is as `fit` makes them; or what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        // Comparisons that a NaN fails.
        let is_count = |count: f64| count >= 0.0 && count.is_finite();
        let rises = |pair: &[f64]| pair[1] > pair[0] && pair[1].is_finite();
        let steps = self.reuses.len();
        if self.times.len() != steps + 1 || self.first.len() != steps + 1 || steps == 0 {
            return Err(format!(
                "{} bounds and {} first touches of {steps} steps",
                self.times.len(),
                self.first.len()
            ));
        }
        if self.times[0] != 0.0 || !self.times.windows(2).all(rises) {
            return Err(format!("bounds of steps that do not rise from 0: {:?}", self.times));
        }
        if !self.first.iter().all(|&lines| is_count(lines))
            || self.first.windows(2).any(|pair| pair[1] < pair[0])
        {
            return Err(format!("first touches that fall: {:?}", self.first));
        }
        for (step, reuses) in self.reuses.iter().enumerate() {
            for &Reuses { count, start, end } in reuses {
                let within = start >= 0.0 && start <= end && end >= step as f64 && end <= (step + 1) as f64;
                if !is_count(count) || !within {
                    return Err(format!("{count} reuses from {start} to {end} in step {step}"));
                }
            }
        }
        if is_count(self.near) {
            Ok(())
        } else {
            Err(format!("{} reuses with nothing in between", self.near))
        }
    }
}

impl Course {
    /// Cuts the run that consists of `windows` into steps. Accesses lost sight of are reused as late as the samples
    /// leave possible if `resolve`, never otherwise.
    pub fn fit(windows: &[ReuseProfile], resolve: bool) -> Self {
        // Steps that the run's length would round to nothing have no place in it.
        let shortest = (windows.iter().map(accesses).sum::<f64>() * 1e-12).max(1.0);
        let mut bounds = vec![0.0];
        for window in windows {
            bounds.push(bounds[bounds.len() - 1] + accesses(window).max(shortest));
        }
        let each = bounds[bounds.len() - 1] / STEPS as f64;
        let mut course = Self { times: vec![0.0], ..Self::default() };
        let mut begins = vec![0]; // numbers of the bounds at which windows begin
        for pair in bounds.windows(2) {
            let parts = ((pair[1] - pair[0]) / each).round().max(1.0);
            let step = (pair[1] - pair[0]) / parts;
            course.times.extend((1..parts as usize).map(|k| pair[0] + step * k as f64));
            course.times.push(pair[1]);
            begins.push(course.times.len() - 1);
        }
        course.reuses.resize(course.times.len() - 1, Vec::new());
        let run = course.accesses();
        let mut touched = vec![0.0; course.times.len()];
        let mut last = 0.0;
        let mut waiting = 0.0; // accesses that all reuses last, together
        for (k, window) in windows.iter().enumerate() {
            let (groups, never) = course.groups(window, resolve);
            let (begin, end) = (bounds[k], bounds[k + 1]);
            last += never;
            for (b, &time) in course.times.iter().enumerate().skip(begins[k] + 1) {
                touched[b] += never * ((time - begin) / (end - begin)).min(1.0);
            }
            for group in groups {
                waiting += group.count * (group.distance + 1.0).min(run);
                let latest = end.min(run - group.distance).max(begin);
                course.add(group, begin, latest);
                let range = (latest - begin).max(f64::MIN_POSITIVE);
                for (b, &time) in course.times.iter().enumerate().skip(begins[k] + 1) {
                    let since = (time - group.distance).max(begin);
                    if since >= latest {
                        break;
                    }
                    touched[b] += group.count * ((time.min(latest) - since) / range);
                }
            }
        }
        // Few samples may show no last touch at all; yet there are as many lines as wait for a reuse on average.
        let lines = last.max((waiting + course.near) / run);
        let steps = course.times.len() - 1;
        touched[steps] = lines;
        course.first = rising(&touched);
        course
    }

    /// The reuses of `window` by distance, and how many of its accesses are the last ones to their line. Counts those
    /// with nothing in between.
    fn groups(&mut self, window: &ReuseProfile, resolve: bool) -> (Vec<Group>, f64) {
        let distribution = window.distribution();
        let accesses = accesses(window);
        let mut groups: Vec<(i64, Group)> = Vec::new();
        let lost = distribution.unresolved() * f64::from(u8::from(resolve));
        let masses = distribution.masses().iter();
        let masses = masses.map(|mass| (mass.middle(), mass.probability - mass.invalidated));
        for (distance, probability) in masses.chain((lost > 0.0).then_some((distribution.horizon(), lost))) {
            let (count, distance) = (probability * accesses, distance as f64);
            if count <= 0.0 {
                continue; // other threads take all of them away
            }
            if distance == 0.0 {
                self.near += count;
                continue;
            }
            let number = ((distance + 1.0).log2() * PER_OCTAVE) as i64;
            match groups.last_mut() {
                Some((last, group)) if *last == number => {
                    group.distance =
                        (group.distance * group.count + distance * count) / (group.count + count);
                    group.count += count;
                }
                _ => groups.push((number, Group { count, distance })),
            }
        }
        let never = distribution.dangling() + distribution.invalidated() + distribution.unresolved() - lost;
        (groups.into_iter().map(|(_, group)| group).collect(), never * accesses)
    }

    /// Adds reuses that start between `earliest` and `latest`.
    fn add(&mut self, group: Group, earliest: f64, latest: f64) {
        for (share, start, end) in self.starts(group.distance, earliest, latest) {
            let step = (end as usize).min(self.reuses.len() - 1);
            self.reuses[step].push(Reuses { count: share * group.count, start, end });
        }
    }

    /// Moments between `earliest` and `latest` at which reuses of `distance` start, each with its share of them, and when
    /// they end: one for each step that they may start in, two where they last a good part of it.
    fn starts(&self, distance: f64, earliest: f64, latest: f64) -> Vec<(f64, f64, f64)> {
        let mut starts = Vec::new();
        let mut step = self.place(earliest) as usize;
        while step < self.times.len() - 1 && (self.times[step] < latest || starts.is_empty()) {
            let (from, to) = (self.times[step].max(earliest), self.times[step + 1].min(latest));
            let parts = if distance * 8.0 < self.times[step + 1] - self.times[step] { 1.0 } else { 2.0 };
            let share =
                if latest > earliest { (to - from) / (latest - earliest) / parts } else { 1.0 / parts };
            for part in [0.5, 1.5].into_iter().take(parts as usize) {
                let start = from + (to - from) * part / parts;
                starts.push((share, self.place(start), self.place(start + distance)));
            }
            step += 1;
        }
        starts
    }

    /// Number of the bound at or before `time`, and the share of the step that has passed since.
    fn place(&self, time: f64) -> f64 {
        let steps = self.times.len() - 1;
        let step = self.times.partition_point(|&bound| bound <= time).clamp(1, steps) - 1;
        let within = (time - self.times[step]) / (self.times[step + 1] - self.times[step]);
        step as f64 + within.clamp(0.0, 1.0)
    }

    /// Whether a cache of `size` never evicts anything, but for the rounding of sums.
    fn holds_all(&self, size: CacheLines) -> bool {
        self.first.last().is_none_or(|lines| size.0 as f64 >= lines * (1.0 - 1e-12))
    }

    /// Accesses of the run.
    pub fn accesses(&self) -> f64 {
        self.times.last().copied().unwrap_or(0.0)
    }

    /// The misses until each bound in a cache of `size`, at least 2 lines.
    pub fn solve(&self, size: CacheLines) -> Vec<f64> {
        if self.holds_all(size) {
            return self.first.clone(); // nothing is ever evicted
        }
        let mut misses = vec![0.0; self.times.len()];
        let mut ending = Vec::new();
        for step in 0..self.reuses.len() {
            misses[step + 1] = misses[step] + self.solve_step(step, size, &mut misses, &mut ending);
        }
        misses
    }

    /// The misses in one step, if `misses` holds those until it begins. `ending` is scratch.
    fn solve_step(&self, step: usize, size: CacheLines, misses: &mut [f64], ending: &mut Vec<Ending>) -> f64 {
        let rate = eviction_rate(size);
        let reuses = &self.reuses[step];
        let first = self.first[step + 1] - self.first[step];
        let mut found = first + reuses.iter().map(|reuses| reuses.count).sum::<f64>();
        // Until the cache is full, misses evict nothing; what follows is concave only after that.
        let full = misses[step] >= size.0 as f64;
        if full {
            ending.clear();
            ending.extend(reuses.iter().map(|&Reuses { count, start, end }| {
                let here = start.max(step as f64);
                let before = evictions(misses, size, start, here);
                Ending { count, before: before * rate, within: (end - here) * rate }
            }));
        }
        for _ in 0..ITERATIONS {
            let (mut sum, mut slope) = (first, 0.0);
            if full {
                for &Ending { count, before, within } in &*ending {
                    let exponent = before + found * within;
                    let survive = if exponent < GONE { count * (-exponent).exp() } else { 0.0 };
                    sum += count - survive;
                    slope += within * survive;
                }
            } else {
                misses[step + 1] = misses[step] + found;
                for &Reuses { count, start, end } in reuses {
                    sum += count * -(-evictions(misses, size, start, end) * rate).exp_m1();
                }
            }
            let next = if slope < 1.0 { (sum - slope * found) / (1.0 - slope) } else { sum };
            let next = next.clamp(first, found);
            let falls = found - next;
            found = next;
            if falls <= 1e-12 * found {
                break;
            }
        }
        found
    }

    /// The miss ratio in a cache of `size`, at least 1 line.
    pub fn miss_ratio(&self, size: CacheLines) -> f64 {
        let misses = if size.0 == 1 {
            // Whatever comes in between evicts the line.
            let far: f64 = self.reuses.iter().flatten().map(|reuses| reuses.count).sum();
            self.first.last().map_or(0.0, |first| first + far)
        } else {
            self.solve(size).last().copied().unwrap_or(0.0)
        };
        (misses / self.accesses()).clamp(0.0, 1.0)
    }

    /// What a cache of `size` does within the steps, and between them.
    pub fn bursts(&self, size: CacheLines) -> Bursts {
        if size.0 < 2 {
            return Bursts::default(); // nothing is left to when misses come
        }
        let (misses, rate) = (self.solve(size), eviction_rate(size));
        let time = |place: f64| {
            let step = (place as usize).min(self.reuses.len() - 1);
            self.times[step] + (place - step as f64) * (self.times[step + 1] - self.times[step])
        };
        let (mut bursts, mut all) = (Bursts::default(), 0.0);
        for (step, reuses) in self.reuses.iter().enumerate() {
            let mut here = Concentration::default();
            for &Reuses { count, start, end } in reuses {
                here.add(time(end) - time(start), count, evictions(&misses, size, start, end) * rate);
            }
            let turns = (misses[step + 1] - misses[step]) / size.0 as f64;
            let unresolved = here.weight() * turns / (turns + RESOLVED);
            bursts.unresolved += unresolved;
            bursts.concentrated += unresolved * here.share();
            all += here.weight();
        }
        if all > 0.0 {
            bursts.unresolved = (bursts.unresolved / all).min(1.0);
            bursts.concentrated = (bursts.concentrated / all).min(1.0);
        }
        let ratio =
            |step: usize| (misses[step + 1] - misses[step]) / (self.times[step + 1] - self.times[step]);
        let ratios: Vec<f64> = (0..self.reuses.len()).map(ratio).collect();
        let changes: f64 = ratios.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum();
        let sum: f64 = ratios.iter().sum();
        bursts.roughness = if sum > 0.0 { changes / (2.0 * sum) } else { 0.0 };
        bursts
    }

    /// Probability that an access misses which is reused after `distance` others, if it is as likely to start at any time
    /// between `earliest` and `latest`.
    pub fn evicted(
        &self,
        distance: f64,
        size: CacheLines,
        misses: &[f64],
        (earliest, latest): (f64, f64),
    ) -> f64 {
        if distance == 0.0 || self.holds_all(size) {
            return 0.0;
        }
        let rate = eviction_rate(size);
        let longest = self.accesses() - distance;
        let latest = latest.min(longest).max(0.0);
        let starts = self.starts(distance, earliest.clamp(0.0, latest), latest);
        let gone = |&(share, start, end): &(f64, f64, f64)| {
            share * -(-evictions(misses, size, start, end) * rate).exp_m1()
        };
        starts.iter().map(gone).sum::<f64>().min(1.0) // shares add up to 1 but for rounding
    }
}

/// Evictions from a place between bounds to another one.
fn evictions(misses: &[f64], size: CacheLines, start: f64, end: f64) -> f64 {
    let step = |place: f64| (place as usize).min(misses.len() - 2);
    let (first, last) = (step(start), step(end));
    let within = |step: usize, share: f64| (misses[step + 1] - misses[step]) * share;
    let lines = size.0 as f64;
    if misses[first] + within(first, start - first as f64) < lines {
        return (misses[last] + within(last, end - last as f64) - lines).max(0.0);
    }
    // Added up instead of subtracted: in a long run, the misses between two touches are few beside those before.
    if first == last {
        return within(first, end - start);
    }
    let between = misses[last] - misses[first + 1];
    within(first, (first + 1) as f64 - start) + between + within(last, end - last as f64)
}

/// -ln(1 - 1/L): the rate at which evictions hit a given line.
pub fn eviction_rate(size: CacheLines) -> f64 {
    -(-1.0 / size.0 as f64).ln_1p()
}

/// The accesses that a profile was sampled from.
fn accesses(window: &ReuseProfile) -> f64 {
    if window.accesses() > 0 { window.accesses() as f64 } else { window.total_weight() as f64 }
}

/// The numbers nearest to `numbers`, in squares, that never fall: neighbours that do are averaged. The first and the last
/// one stay, and none is beyond them.
fn rising(numbers: &[f64]) -> Vec<f64> {
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return Vec::new() };
    let mut blocks: Vec<(f64, f64)> = Vec::new(); // mean, how many
    for &number in &numbers[..numbers.len() - 1] {
        let mut block = (number.clamp(first, last), 1.0);
        while let Some(&(mean, count)) = blocks.last().filter(|before| before.0 >= block.0) {
            blocks.pop();
            block = ((mean * count + block.0 * block.1) / (count + block.1), count + block.1);
        }
        blocks.push(block);
    }
    // The mean of a block may be rounded to more than all of its numbers.
    let repeated = |(mean, count): (f64, f64)| std::iter::repeat_n(mean.min(last), count as usize);
    let mut rising: Vec<f64> = blocks.into_iter().flat_map(repeated).collect();
    rising[0] = first;
    rising.push(last);
    rising
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_are_averaged_away() {
        assert_eq!(rising(&[0.0, 4.0, 2.0, 3.0, 5.0]), [0.0, 3.0, 3.0, 3.0, 5.0]);
        assert_eq!(rising(&[0.0, 9.0, 1.0, 3.0]), [0.0, 2.0, 2.0, 3.0]);
        assert_eq!(rising(&[0.0, -1.0, 1.0, 1.0]), [0.0, 0.0, 1.0, 1.0]);
        assert_eq!(rising(&[0.0, 1.0, 3.0, 1.5, 5.0]), [0.0, 1.0, 2.25, 2.25, 5.0]);
    }
}
