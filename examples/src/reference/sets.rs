//! What a program does in the sets of a cache that it has alone: how long it takes to come back to a line, past how many
//! others, and how evenly its lines come into the sets.
//!
//! Kept exactly, set by set, from the accesses that get past the private caches.

use std::collections::HashMap;

use crate::machines::chip::Geometry;

/// Lines that are remembered of a set, in ways of the cache.
const DEPTH: usize = 2;
/// Bins of reuse times per octave, before they go to whoever sorts them into wider ones.
const BINS: f64 = 12.0;
/// Times over which lines used are counted: so many per octave, over so many octaves of accesses.
const TIMES: (usize, usize) = (4, 40);

/// Reuses past `distance` other lines of a set after `accesses` accesses, the mean of `count` such reuses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetReuse {
    /// Other lines that were used in the set meanwhile.
    pub distance: u32,
    /// Accesses of the program meanwhile, those that the private caches served included.
    pub accesses: f64,
    /// How many.
    pub count: u64,
}

/// What was seen in a stretch of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct SetUse {
    /// Reuses past fewer lines than a set has, by time and distance.
    pub reuses: Vec<SetReuse>,
    /// How the number of lines used within some time varies from set to set and from moment to moment: its variance where
    /// the mean is 1, 2, 3, ... lines, up to the ways of the cache; where fewer are ever used, that of all.
    pub variances: Vec<f64>,
}

/// Watches a program in the sets of a cache.
#[derive(Clone, Debug)]
pub struct SetWatch {
    geometry: Geometry,
    sets: Vec<Vec<(u64, u64)>>, // lines and when they were used last, the youngest first
    reuses: HashMap<(i32, u32), (u64, u64)>, // by bin of time and distance: how many, accesses of all
    looks: u64,
    used: Vec<(u64, u64)>, // lines used within each time, of all sets and looks: sum and sum of squares
}

impl SetWatch {
    /// Sets in which nothing was used yet.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            sets: vec![Vec::new(); geometry.sets() as usize],
            reuses: HashMap::new(),
            looks: 0,
            used: vec![(0, 0); TIMES.0 * TIMES.1],
        }
    }

    /// The program uses `line` with its access number `now`, which rises.
    pub fn touch(&mut self, line: u64, now: u64) {
        let ways = self.geometry.ways() as usize;
        let set = &mut self.sets[self.geometry.index().set(line, self.geometry.sets()) as usize];
        if let Some(distance) = set.iter().position(|&(other, _)| other == line) {
            let accesses = now - set[distance].1;
            if distance < ways && accesses > 0 {
                let bin = (BINS * (accesses as f64).log2()) as i32;
                let (count, all) = self.reuses.entry((bin, distance as u32)).or_default();
                *count += 1;
                *all += accesses;
            }
            set[..=distance].rotate_right(1);
            set[0].1 = now;
        } else {
            if set.len() == DEPTH * ways {
                set.pop();
            }
            set.insert(0, (line, now));
        }
    }

    /// Looks how evenly the lines used last lie over the sets, after access number `now`.
    ///
    /// # Cost
    /// A search in every set for every time.
    pub fn look(&mut self, now: u64) {
        self.looks += 1;
        let octaves = TIMES.0 * (now.max(1).ilog2() as usize + 1);
        let times = self.used.len().min(octaves + 1);
        for (number, (sum, squares)) in self.used[..times].iter_mut().enumerate() {
            let time = (number as f64 / TIMES.0 as f64).exp2() as u64;
            for set in &self.sets {
                let used = set.partition_point(|&(_, when)| now - when < time) as u64;
                *sum += used;
                *squares += used * used;
            }
        }
    }

    /// Variances of the lines used in a set within a time, where they are 1, 2, 3, ... on average.
    fn variances(&self) -> Vec<f64> {
        let count = (self.looks * self.geometry.sets()).max(1) as f64;
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
        (1..=self.geometry.ways()).map(|lines| at(lines as f64)).collect()
    }

    /// What was seen since this was last asked.
    pub fn take(&mut self) -> SetUse {
        let mut reuses: Vec<((i32, u32), (u64, u64))> = self.reuses.drain().collect();
        reuses.sort_unstable();
        let reuse = |((_, distance), (count, all)): ((i32, u32), (u64, u64))| SetReuse {
            distance,
            accesses: all as f64 / count as f64,
            count,
        };
        let variances = self.variances();
        self.looks = 0;
        self.used.fill((0, 0));
        SetUse { reuses: reuses.into_iter().map(reuse).collect(), variances }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use reuse_sampler::LineSize;

    use super::*;

    const SETS: u64 = 64;

    fn watch() -> SetWatch {
        SetWatch::new(Geometry::new(SETS * 16 * 64, 16, LineSize::B64).unwrap())
    }

    /// Plays `next` for a while, and again for as long with looks at it.
    fn played(mut next: impl FnMut(u64) -> u64) -> SetUse {
        let mut watch = watch();
        for now in 1..=200_000 {
            watch.touch(next(now), now);
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
        let of_walk = SetReuse { distance: 5, accesses: (6 * SETS) as f64, count: 100_000 };
        assert_eq!(seen.reuses, [of_walk]);
        assert!(seen.variances.iter().all(|&v| v < 0.3), "{:?}", seen.variances);
        // Whole lines per set are in all sets alike.
        assert!(seen.variances[9] < 1e-9);
    }

    #[test]
    fn lines_drawn_at_random_vary_as_much_as_are_new_in_twice_the_time() {
        let mut random = SmallRng::seed_from_u64(7);
        let each = 20.0_f64; // lines of a set
        let seen = played(|_| random.random_range(0..each as u64 * SETS));
        for (lines, variance) in (1..=16).map(f64::from).zip(&seen.variances) {
            // Each line was used with the same probability: a binomial distribution.
            let expected = lines * (1.0 - lines / each);
            assert!((variance / expected - 1.0).abs() < 0.15, "{lines}: {variance} {expected}");
        }
        // Past as many others for every number of them, and the longer the more.
        for distance in 0..16 {
            let here = || seen.reuses.iter().filter(|r| r.distance == distance);
            let count: u64 = here().map(|r| r.count).sum();
            assert!((count as f64 / (100_000.0 / each) - 1.0).abs() < 0.1, "{distance}: {count}");
            let mean = here().map(|r| r.accesses * r.count as f64).sum::<f64>() / count as f64;
            // After so many others of the twenty, one by one: each after 20 / (those left) accesses to the set.
            let waits: f64 = (0..=distance).map(|n| each / (each - f64::from(n))).sum();
            assert!((mean / (SETS as f64 * waits) - 1.0).abs() < 0.05, "{distance}: {mean} {waits}");
        }
    }

    #[test]
    fn a_set_used_twice_as_much_varies_from_the_others() {
        let seen =
            played(|now| if now % 3 == 0 { now / 3 % 6 * SETS } else { now % 6 * SETS + now / 6 % SETS });
        assert!(seen.variances[3] > 0.1, "{:?}", seen.variances);
        assert_eq!(watch().take(), SetUse { reuses: Vec::new(), variances: vec![0.0; 16] });
    }
}
