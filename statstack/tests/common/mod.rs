//! Profiles by brute force: the distance of every access, from a map of last touches.

#![allow(dead_code)] // each test file uses its part

use std::collections::HashMap;

use reuse_sampler::{LineSize, Outcome, ReuseDistance, ReuseOverlap, ReuseProfile, WindowIndex};

/// The profile of a run in which every access was a sample.
pub fn profile_of(lines: &[u64]) -> ReuseProfile {
    let mut profile = ReuseProfile::new(LineSize::B64);
    let mut last: HashMap<u64, usize> = HashMap::new();
    for (at, &line) in lines.iter().enumerate() {
        if let Some(before) = last.insert(line, at) {
            profile.record(Outcome::Reused(ReuseDistance((at - before - 1) as u64)), 1);
        }
    }
    profile.record_many(Outcome::Dangling, last.len() as u64, 1);
    profile.add_accesses(lines.len() as u64);
    profile
}

/// Numbers from 0 to 2^31 - 1 (Knuth's MMIX generator, upper bits).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A profile drawn by quickcheck: distances over many magnitudes, with or without censored samples.
#[derive(Clone, Debug)]
pub struct AnyProfile(pub ReuseProfile);

impl quickcheck::Arbitrary for AnyProfile {
    fn arbitrary(g: &mut quickcheck::Gen) -> Self {
        let mut profile = ReuseProfile::new(LineSize::B64);
        let censoring = bool::arbitrary(g);
        let kinds = usize::arbitrary(g) % 40 + 1;
        for _ in 0..kinds {
            let magnitude = u32::arbitrary(g) % 30;
            let distance = u64::arbitrary(g) & ((1 << magnitude) - 1);
            let outcome = match u8::arbitrary(g) % 8 {
                0 => Outcome::Dangling,
                1 | 2 if censoring => Outcome::Censored { at_least: distance },
                _ => Outcome::Reused(ReuseDistance(distance)),
            };
            profile.record_many(outcome, u64::arbitrary(g) % 100 + 1, u64::arbitrary(g) % 1000 + 1);
        }
        profile.add_accesses(profile.total_weight());
        Self(profile)
    }
}

/// Miss ratio of LRU caches by a list with the line touched last in front.
pub fn exact(lines: &[u64], sizes: &[u64]) -> Vec<f64> {
    let mut list: Vec<u64> = Vec::new();
    let mut misses = vec![0; sizes.len()];
    for &line in lines {
        let depth = list.iter().position(|&other| other == line);
        for (size, misses) in sizes.iter().zip(&mut misses) {
            *misses += u64::from(depth.is_none_or(|depth| depth as u64 >= *size));
        }
        if let Some(depth) = depth {
            list.remove(depth);
        }
        list.insert(0, line);
    }
    misses.into_iter().map(|misses| misses as f64 / lines.len() as f64).collect()
}

/// When each access's line is touched next; usize::MAX if it is not.
pub fn next_touches(lines: &[u64]) -> Vec<usize> {
    let mut next = vec![usize::MAX; lines.len()];
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for (at, &line) in lines.iter().enumerate().rev() {
        next[at] = seen.insert(line, at).unwrap_or(usize::MAX);
    }
    next
}

/// Overlaps by definition, of markers chosen with probability 1/`one_in`: for each, how many of the later
/// ones are not touched again before it ends.
pub fn overlaps(lines: &[u64], one_in: u64, random: &mut Random) -> Vec<ReuseOverlap> {
    let next = next_touches(lines);
    let markers: Vec<usize> = (0..lines.len()).filter(|_| random.below(one_in) == 0).collect();
    let mut overlaps = Vec::new();
    for (k, &marker) in markers.iter().enumerate().filter(|(_, marker)| next[**marker] != usize::MAX) {
        let during = markers[k + 1..].iter().take_while(|&&later| later < next[marker]);
        let open = during.filter(|&&later| next[later] > next[marker]).count() as u64;
        overlaps.push(overlap((next[marker] - marker - 1) as u64, one_in, open));
    }
    overlaps
}

pub fn overlap(distance: u64, weight: u64, open: u64) -> ReuseOverlap {
    ReuseOverlap {
        started_in: WindowIndex(0),
        shortest: ReuseDistance(distance),
        longest: ReuseDistance(distance),
        weight,
        samples: 1,
        open,
        pairs: open * open.saturating_sub(1),
    }
}

/// Turns of work on few lines and of random accesses to many: what lies in between two touches depends on
/// where they are.
pub fn bursts(random: &mut Random, accesses: usize) -> Vec<u64> {
    let mut lines = Vec::new();
    while lines.len() < accesses {
        let (base, width) = if random.below(2) == 0 { (0, 8) } else { (1000, 400) };
        for _ in 0..100 + random.below(300) {
            lines.push(base + random.below(width));
        }
    }
    lines
}
