//! How long a program, alone with a set-associative cache, takes to reuse its lines, how many other lines of the set it
//! uses meanwhile, and how evenly the lines in use lie over the sets.
//!
//! Counted exactly, set by set, from any stream of accesses: those that miss in the private caches, for a shared cache.

use std::collections::HashMap;

use super::footprint::{Ages, TIMES};
use crate::{CacheLines, Error, Line};

/// Lines remembered in each set, in ways of the cache.
const DEPTH: usize = 2;
/// Bins of reuse times per octave.
const BINS: f64 = 12.0;

/// Reuses of lines at one distance in their set, after about the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetReuse {
    /// Other lines of the program that were used in the line's set since the line was: its stack distance in the set.
    pub distance: u32,
    /// Mean number of accesses of the program since the line was used last, those that its private caches serve
    /// included: its reuse time. Above 0.
    pub accesses: f64,
    /// Number of reuses. Above 0.
    pub count: f64,
}

/// What was counted in a stretch of a program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SetUse {
    /// Reuses at distances below the ways of the cache, by time, then distance.
    pub reuses: Vec<SetReuse>,
    /// The same of lines that a prefetcher asked for: nobody waits for those.
    pub prefetches: Vec<SetReuse>,
    /// Variance, from set to set and from moment to moment, of the number of different lines used in a set within some
    /// time, where its mean is 1, 2, 3, ... lines, up to the ways of the cache. If fewer are ever used, the last known.
    ///
    /// 0 for a walk in order; for lines of random sets used at random moments, as many as are new in twice the time.
    pub variances: Vec<f64>,
    /// Times in accesses, rising, each with the sum over all uses of how long ago the line was used before, but no longer than
    /// that time: over the accesses of the stretch, how many different lines are used within the time on average (the
    /// footprint). Of a set only twice the cache's ways are remembered: lines beyond are new ones.
    pub footprint: Vec<(u64, f64)>,
}

/// A line in its set.
#[derive(Clone, Copy, Debug)]
struct Used {
    line: Line,
    when: u64,
}

/// Reuses by bin of time and distance: how many, accesses of all.
type Counts = HashMap<(i32, u32), (u64, u64)>;

/// What was counted, by time and then by distance. Nothing is left.
fn drained(counts: &mut Counts) -> Vec<SetReuse> {
    let mut counts: Vec<((i32, u32), (u64, u64))> = counts.drain().collect();
    counts.sort_unstable();
    let reuse = |((_, distance), (count, all)): ((i32, u32), (u64, u64))| SetReuse {
        distance,
        accesses: all as f64 / count as f64,
        count: count as f64,
    };
    counts.into_iter().map(reuse).collect()
}

/// Counts the reuses of a program in the sets of a cache.
///
/// # Cost
/// Memory for two caches' worth of lines; per use, a search in one set.
///
/// ```
/// use reuse_sampler::{Line, SetReuseCounter};
///
/// let mut counter = SetReuseCounter::new(64, 16)?; // sets, ways
/// for (now, line) in (1..).zip((0..6 * 64).cycle().take(10_000)) {
///     counter.touch(Line(line), line % 64, now);
/// }
/// let reuse = counter.take().reuses[0];
/// assert_eq!((reuse.distance, reuse.accesses), (5, 384.0)); // five other lines of the set, 6 * 64 accesses
/// # Ok::<(), reuse_sampler::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SetReuseCounter {
    ways: usize,          // >= 1
    sets: Vec<Vec<Used>>, // the youngest first
    reuses: Counts,
    prefetches: Counts,
    looks: u64,            // at all sets
    used: Vec<(u64, u64)>, // lines used within each time, of all sets and looks: sum and sum of squares
    ages: Ages,
}

impl SetReuseCounter {
    /// For a cache of so many sets and ways, empty.
    ///
    /// # Errors
    /// [`Error::Ways`] unless there are 1 to 256; [`Error::Sets`] without sets.
    pub fn new(sets: usize, ways: u32) -> Result<Self, Error> {
        if !(1..=256).contains(&ways) {
            return Err(Error::Ways { ways });
        }
        if sets == 0 {
            return Err(Error::Sets { sets });
        }
        Ok(Self {
            ways: ways as usize,
            sets: vec![Vec::new(); sets],
            reuses: Counts::new(),
            prefetches: Counts::new(),
            looks: 0,
            used: vec![(0, 0); TIMES.0 * TIMES.1],
            ages: Ages::new(),
        })
    }

    /// Lines of the cache.
    #[must_use]
    pub fn lines(&self) -> CacheLines {
        CacheLines((self.sets.len() * self.ways) as u64)
    }

    /// The program uses `line`, which belongs in set number `set` (beyond the last, counted from the first again), with
    /// its access number `now`, which rises.
    pub fn touch(&mut self, line: Line, set: u64, now: u64) {
        self.used(line, set, now, true);
    }

    /// A prefetcher asks for `line`: the same, but the program waits for nothing. Who uses the line then reuses it at once.
    pub fn prefetch(&mut self, line: Line, set: u64, now: u64) {
        self.used(line, set, now, false);
    }

    fn used(&mut self, line: Line, set: u64, now: u64, is_waited: bool) {
        let (ways, count) = (self.ways, self.sets.len() as u64);
        let number = (set % count) as usize;
        let set = &mut self.sets[number];
        let Some(distance) = set.iter().position(|used| used.line == line) else {
            self.ages.count(None);
            set.truncate(DEPTH * ways - 1);
            set.insert(0, Used { line, when: now });
            return;
        };
        let accesses = now.saturating_sub(set[distance].when);
        set[..=distance].rotate_right(1);
        set[0] = Used { line, when: now };
        self.ages.count(Some(accesses));
        if distance < ways && accesses > 0 {
            let bin = (BINS * (accesses as f64).log2()) as i32;
            let counts = if is_waited { &mut self.reuses } else { &mut self.prefetches };
            let (count, all) = counts.entry((bin, distance as u32)).or_default();
            *count += 1;
            *all += accesses;
        }
    }

    /// Counts how evenly the lines used last lie over the sets, after access number `now`: the variances are those of
    /// all moments at which this is called.
    ///
    /// # Cost
    /// A few nanoseconds for each line of two caches.
    pub fn look(&mut self, now: u64) {
        self.looks += 1;
        let octaves = TIMES.0 * (now.max(1).ilog2() as usize + 1);
        let times = self.used.len().min(octaves + 1);
        // By the first time within which a line was used: lines, and by how much they add to the squares of their sets.
        let mut new = vec![(0, 0); times];
        for set in &self.sets {
            for (used, younger) in set.iter().zip(0_u64..) {
                let Some((lines, squares)) =
                    new.get_mut(self.ages.first_above(now.saturating_sub(used.when)))
                else {
                    break;
                };
                *lines += 1;
                *squares += 2 * younger + 1;
            }
        }
        let (mut lines, mut squares) = (0, 0);
        for ((sum, sum_of_squares), new) in self.used.iter_mut().zip(new) {
            (lines, squares) = (lines + new.0, squares + new.1);
            *sum += lines;
            *sum_of_squares += squares;
        }
    }

    /// Variances of the lines used in a set within a time, where they are 1, 2, 3, ... on average.
    fn variances(&self) -> Vec<f64> {
        let count = (self.looks * self.sets.len() as u64).max(1) as f64;
        let known: Vec<(f64, f64)> = self
            .used
            .iter()
            .map(|&(sum, squares)| {
                let mean = sum as f64 / count;
                // Rounding must not make it negative.
                (mean, (squares as f64 / count - mean * mean).max(0.0))
            })
            .collect();
        // Times beyond the program's own were not looked at.
        let rising =
            known.windows(2).position(|pair| pair[1].0 < pair[0].0).map_or(known.len(), |last| last + 1);
        let known = &known[..rising];
        let at = |lines: f64| {
            let above = known.partition_point(|&(mean, _)| mean < lines);
            let right = known.get(above).or(known.last()).copied().unwrap_or_default();
            let left = above.checked_sub(1).map_or((0.0, 0.0), |below| known[below]);
            if lines >= right.0 {
                right.1
            } else {
                left.1 + (lines - left.0) / (right.0 - left.0) * (right.1 - left.1)
            }
        };
        (1..=self.ways).map(|lines| at(lines as f64)).collect()
    }

    /// Returns what was counted since the last call. Lines stay where they are.
    pub fn take(&mut self) -> SetUse {
        let (reuses, prefetches) = (drained(&mut self.reuses), drained(&mut self.prefetches));
        let variances = self.variances();
        self.looks = 0;
        self.used.fill((0, 0));
        let footprint = self.ages.take();
        SetUse { reuses, prefetches, variances, footprint }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FootprintCounter;
    use super::*;

    const SETS: u64 = 64;

    fn watch() -> SetReuseCounter {
        SetReuseCounter::new(SETS as usize, 16).unwrap()
    }

    /// Plays `next` for a while, and again for as long with looks at it.
    fn played(mut next: impl FnMut(u64) -> u64) -> SetUse {
        let mut watch = watch();
        for now in 1..=200_000 {
            let line = next(now);
            watch.touch(Line(line), line % SETS, now);
            if now == 100_000 {
                watch.take();
            }
            if now > 100_000 && now % 2000 == 0 {
                watch.look(now);
            }
        }
        watch.take()
    }

    #[test]
    fn a_walk_comes_back_past_all_others_after_as_many_accesses() {
        let seen = played(|now| now % (6 * SETS));
        let of_walk = SetReuse { distance: 5, accesses: (6 * SETS) as f64, count: 100_000.0 };
        assert_eq!(seen.reuses, [of_walk]);
        assert!(seen.variances.iter().all(|&v| v < 0.3), "{:?}", seen.variances);
        // Whole lines per set are in all sets alike.
        assert!(seen.variances[9] < 1e-9);
    }

    #[test]
    fn lines_drawn_at_random_vary_as_much_as_are_new_in_twice_the_time() {
        let mut state = 7_u64;
        let each = 20.0_f64; // lines of a set
        let seen = played(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % (each as u64 * SETS)
        });
        for (lines, variance) in (1..=16).map(f64::from).zip(&seen.variances) {
            // Each line was used with the same probability: a binomial distribution.
            let expected = lines * (1.0 - lines / each);
            assert!((variance / expected - 1.0).abs() < 0.15, "{lines}: {variance} {expected}");
        }
        // Past as many others for every number of them, and the longer the more.
        for distance in 0..16 {
            let here = || seen.reuses.iter().filter(|r| r.distance == distance);
            let count: f64 = here().map(|r| r.count).sum();
            assert!((count / (100_000.0 / each) - 1.0).abs() < 0.1, "{distance}: {count}");
            let mean = here().map(|r| r.accesses * r.count).sum::<f64>() / count;
            // After so many others of the twenty, one by one: each after 20 / (those left) accesses to the set.
            let waits: f64 = (0..=distance).map(|n| each / (each - f64::from(n))).sum();
            assert!((mean / (SETS as f64 * waits) - 1.0).abs() < 0.05, "{distance}: {mean} {waits}");
        }
    }

    /// Against all windows of the same stream, lines counted one by one.
    #[test]
    fn footprints_are_the_lines_used_in_windows_of_so_many_accesses() {
        let mut state = 3_u64;
        let lines: Vec<u64> = (0..12_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Of every third set more lines than of the others.
                let (set, number) = ((state >> 33) % SETS, (state >> 40) % 24);
                number % if set % 3 == 0 { 24 } else { 9 } * SETS + set
            })
            .collect();
        let (mut watch, mut all) = (watch(), FootprintCounter::default());
        for (now, &line) in (1..).zip(&lines) {
            watch.touch(Line(line), line % SETS, now);
            all.touch(Line(line), now);
            if now == 4000 {
                watch.take();
                all.take();
            }
        }
        let footprint = watch.take().footprint;
        // No set has more lines than are remembered.
        assert_eq!(all.take(), footprint);
        for span in [1, 8, 64, 512, 1024] {
            let sum = footprint.iter().find(|(time, _)| *time == span).unwrap().1;
            let windows = (4000..=12_000 - span as usize).map(|end| {
                let mut seen = lines[end - span as usize..end].to_vec();
                seen.sort_unstable();
                seen.dedup();
                seen.len() as f64
            });
            let mean = windows.clone().sum::<f64>() / windows.count() as f64;
            assert!((sum / 8000.0 / mean - 1.0).abs() < 0.02, "{span}: {sum} {mean}");
        }
        assert!(watch.take().footprint.iter().all(|&(_, sum)| sum == 0.0));
    }

    #[test]
    fn what_was_prefetched_is_used_again_at_once() {
        let mut watch = watch();
        for now in 1..=20_000 {
            let line = now % (8 * SETS);
            watch.touch(Line(line), line % SETS, now);
            let ahead = (line + 1) % (8 * SETS);
            watch.prefetch(Line(ahead), ahead % SETS, now);
            if now == 10_000 {
                watch.take();
            }
        }
        // Asked for an access before, and no other line of the set since.
        let seen = watch.take();
        assert_eq!(seen.reuses, [SetReuse { distance: 0, accesses: 1.0, count: 10_000.0 }]);
        // The prefetcher comes back after a round.
        let round = (8 * SETS - 1) as f64;
        assert_eq!(seen.prefetches, [SetReuse { distance: 7, accesses: round, count: 10_000.0 }]);
    }

    #[test]
    fn a_set_used_twice_as_much_varies_from_the_others() {
        let seen =
            played(|now| if now % 3 == 0 { now / 3 % 6 * SETS } else { now % 6 * SETS + now / 6 % SETS });
        assert!(seen.variances[3] > 0.1, "{:?}", seen.variances);
        assert!(SetReuseCounter::new(0, 16).is_err() && SetReuseCounter::new(64, 0).is_err());
        let nothing = watch().take();
        assert_eq!((nothing.reuses, nothing.variances), (Vec::new(), vec![0.0; 16]));
        assert!(nothing.footprint.iter().all(|&(_, sum)| sum == 0.0));
    }

    #[test]
    fn a_look_counts_what_a_search_for_each_time_finds() {
        let (mut watch, mut state, mut now) = (watch(), 3_u64, 0);
        let mut expected = watch.used.clone();
        for step in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Rare jumps make lines of all ages, up to beyond the longest time.
            now += 1 + if state >> 55 == 0 { 1 << (state % 45) } else { 0 };
            let line = (state >> 33) % (1 << (step / 1500));
            watch.touch(Line(line), line % SETS, now);
            if step % 500 == 499 {
                watch.look(now);
                let times = TIMES.0 * (now.ilog2() as usize + 1) + 1;
                for (number, (sum, squares)) in expected.iter_mut().enumerate().take(times) {
                    let time = (number as f64 / TIMES.0 as f64).exp2() as u64;
                    for set in &watch.sets {
                        let used = set.partition_point(|used| now - used.when < time) as u64;
                        *sum += used;
                        *squares += used * used;
                    }
                }
            }
        }
        assert_eq!(watch.used, expected);
        assert!(now > 1 << 41 && expected[40].0 > 0);
    }
}
