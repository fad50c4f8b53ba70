//! How far back each reference of a recorded program finds its line, and profiles of its windows made from
//! that: of all references, or of a random sample.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reuse_sampler::{Line, LineSize, Outcome, ReuseDistance, ReuseProfile};

use crate::machines::chip::Recording;
use reuse_sampler::reference::LineIds;

/// Set in the entry of a line's first reference.
const FIRST: u32 = 1 << 31;

/// For each reference, the number of references since the last one to its line. The program is taken to run in
/// circles: for a line's first reference that is the distance from its last one in the pass before.
#[derive(Clone, Debug)]
pub struct Distances {
    line_size: LineSize,
    entries: Vec<u32>, // distance, at most FIRST - 1, and the FIRST bit
}

/// Which pass of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// From empty caches: first references find nothing.
    First,
    /// After another one.
    Later,
}

impl Distances {
    /// Walks a recording once. Distances of 2^31 and more are taken as one less than that.
    pub fn of(recording: &Recording) -> Self {
        let mut ids = LineIds::new();
        let mut last: Vec<u64> = Vec::new(); // by line: number of its last reference
        let mut first: Vec<u64> = Vec::new(); // and of its first
        let mut entries = Vec::with_capacity(recording.references() as usize);
        for (now, (line, _)) in (0_u64..).zip(recording.iter()) {
            let (id, new) = ids.id(Line(line));
            if new {
                first.push(now);
                last.push(now);
                entries.push(FIRST);
            } else {
                let before = std::mem::replace(&mut last[id as usize], now);
                entries.push(short(now - before - 1));
            }
        }
        let length = recording.references();
        for (&first, &last) in first.iter().zip(&last) {
            entries[first as usize] |= short(length - 1 - last + first);
        }
        Self { line_size: recording.line_size(), entries }
    }

    /// Number of references.
    pub fn references(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Profiles of consecutive windows of `window` references (the last may be shorter) in `pass`, of every
    /// reference.
    pub fn profiles(&self, window: u64, pass: Pass) -> Vec<ReuseProfile> {
        let windows = self.entries.chunks(window.max(1) as usize);
        windows.map(|window| self.profile(window.iter().copied().map(|entry| (entry, 1)), pass)).collect()
    }

    /// The same from a sample: each reference is chosen with probability 1 / `gap`, independently.
    ///
    /// Gaps of whole references are drawn from their geometric distribution. A window without any sample is
    /// given that of the reference in its middle, so that no window is unknown.
    pub fn sampled(&self, window: u64, pass: Pass, gap: f64, seed: u64) -> Vec<ReuseProfile> {
        let mut random = StdRng::seed_from_u64(seed);
        let survival = (-gap.max(1.0).recip()).ln_1p(); // of one step: ln(1 - 1 / gap)
        let mut step = || {
            let uniform: f64 = 1.0 - random.random::<f64>(); // above 0
            (uniform.ln() / survival) as usize
        };
        let weight = gap.round().max(1.0) as u64;
        let mut ahead = step(); // references to skip from the window's beginning
        let windows = self.entries.chunks(window.max(1) as usize);
        windows
            .map(|window| {
                let mut chosen = Vec::new();
                let mut at = ahead;
                while let Some(&entry) = window.get(at) {
                    chosen.push((entry, weight));
                    at += 1 + step();
                }
                ahead = at - window.len();
                if chosen.is_empty() {
                    chosen.extend(window.get(window.len() / 2).map(|&entry| (entry, weight)));
                }
                self.profile(chosen, pass)
            })
            .collect()
    }

    fn profile(&self, entries: impl IntoIterator<Item = (u32, u64)>, pass: Pass) -> ReuseProfile {
        let mut profile = ReuseProfile::new(self.line_size);
        for (entry, weight) in entries {
            let outcome = if pass == Pass::First && entry & FIRST != 0 {
                Outcome::Dangling
            } else {
                Outcome::Reused(ReuseDistance(u64::from(entry & !FIRST)))
            };
            profile.record(outcome, weight);
            profile.add_accesses(weight);
        }
        profile
    }
}

fn short(distance: u64) -> u32 {
    distance.min(u64::from(FIRST - 1)) as u32
}

#[cfg(test)]
mod tests {
    use quickcheck::{QuickCheck, TestResult};

    use super::*;

    /// Distances of the second of two passes, and whether the line was new in the first, by looking back.
    fn brute_force(lines: &[u8]) -> Vec<(u64, bool)> {
        let twice: Vec<u8> = lines.iter().chain(lines).copied().collect();
        (lines.len()..twice.len())
            .map(|now| {
                let back = (0..now).rev().find(|&t| twice[t] == twice[now]).unwrap();
                ((now - back - 1) as u64, back < lines.len())
            })
            .collect()
    }

    #[test]
    fn agrees_with_looking_back() {
        #[allow(clippy::needless_pass_by_value)] // as quickcheck calls properties
        fn agrees(lines: Vec<u8>, window: u8) -> TestResult {
            if lines.is_empty() {
                return TestResult::discard();
            }
            let window = u64::from(window) + 1;
            let recording = Recording::of_lines(lines.iter().map(|&l| u64::from(l)), LineSize::B64).unwrap();
            let distances = Distances::of(&recording);
            let expected = |pass| -> Vec<ReuseProfile> {
                let truth = brute_force(&lines);
                let windows = truth.chunks(window as usize).map(|part| {
                    let mut profile = ReuseProfile::new(LineSize::B64);
                    for &(distance, new) in part {
                        let dangling = pass == Pass::First && new;
                        let reused = Outcome::Reused(ReuseDistance(distance));
                        profile.record(if dangling { Outcome::Dangling } else { reused }, 1);
                    }
                    profile.add_accesses(part.len() as u64);
                    profile
                });
                windows.collect()
            };
            TestResult::from_bool([Pass::First, Pass::Later].into_iter().all(|pass| {
                // A sample of every reference is all of them.
                distances.profiles(window, pass) == expected(pass)
                    && distances.sampled(window, pass, 1.0, 7) == expected(pass)
            }))
        }
        QuickCheck::new().tests(300).quickcheck(agrees as fn(Vec<u8>, u8) -> TestResult);
    }

    #[test]
    fn samples_are_one_in_gap_and_unbiased() {
        // Two interleaved loops: distances 19 and 1999 in equal parts.
        let lines = (0..400_000_u64).map(|i| if i % 2 == 0 { i / 2 % 10 } else { 1000 + i / 2 % 1000 });
        let distances = Distances::of(&Recording::of_lines(lines, LineSize::B64).unwrap());
        let profiles = distances.sampled(50_000, Pass::Later, 100.0, 3);
        assert_eq!(profiles.len(), 8);
        let mut all = ReuseProfile::new(LineSize::B64);
        for profile in &profiles {
            all.merge(profile).unwrap();
        }
        // 4,000 samples: a standard error of 63, and of 0.008 in the share of long distances.
        assert!(all.samples().abs_diff(4_000) < 300, "{} samples", all.samples());
        assert!((all.distribution().beyond(1_000) - 0.5).abs() < 0.04);
        assert_eq!(profiles, distances.sampled(50_000, Pass::Later, 100.0, 3), "the seed decides");
        assert_ne!(profiles, distances.sampled(50_000, Pass::Later, 100.0, 4));
        // Fewer samples than windows: still one each.
        assert!(distances.sampled(50_000, Pass::Later, 1e9, 3).iter().all(|p| p.samples() == 1));
    }
}
