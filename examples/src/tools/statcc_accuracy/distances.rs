//! How far back each reference of a recorded program finds its line, and profiles of its windows made from
//! that: of all references, or of a random sample.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reuse_sampler::{Line, LineSize, Outcome, ReuseDistance, ReuseProfile};

use crate::machines::chip::{PrivateCaches, Recording, Reference};
use reuse_sampler::reference::LineIds;

/// Set in the entry of a line's first reference.
const FIRST: u32 = 1 << 31;

/// For each reference, the number of references since its line was last used, or asked for by a prefetcher. The program is
/// taken to run in circles: for the first touch of a line that is the distance from its last one in the pass before.
#[derive(Clone, Debug)]
pub struct Distances {
    line_size: LineSize,
    uses: Vec<u32>,         // distance, at most FIRST - 1, and the FIRST bit
    asks: Option<Vec<Ask>>, // by rising reference; none without a prefetcher
}

/// A line that a prefetcher asks for.
#[derive(Clone, Copy, Debug)]
struct Ask {
    after: usize, // number of the reference
    entry: u32,   // as of a use
}

/// What is known of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiles {
    /// How far back each reference finds its line used or asked for.
    pub uses: ReuseProfile,
    /// The same of what the prefetcher asks for as well, if there is one.
    pub touches: Option<ReuseProfile>,
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
    /// Walks a recording once, on a core with these private caches, if they prefetch. Distances of 2^31 and more are taken as
    /// one less than that.
    pub fn of(recording: &Recording, mut prefetching: Option<PrivateCaches>) -> Self {
        let mut walk = Walk::default();
        for (now, (line, kind)) in recording.iter().enumerate() {
            let entry = walk.touch(line, now, Touch::Use(now));
            walk.uses.push(entry);
            let Some(private) = &mut prefetching else { continue };
            private.play(&[Reference { line, kind, instructions: 0.0, dependent: false }], |stretch| {
                for ahead in stretch.asks() {
                    let entry = walk.touch(ahead, now, Touch::Ask(walk.asks.len()));
                    walk.asks.push(Ask { after: now, entry });
                }
            });
        }
        walk.close();
        Self { line_size: recording.line_size(), uses: walk.uses, asks: prefetching.map(|_| walk.asks) }
    }

    /// Number of references.
    pub fn references(&self) -> u64 {
        self.uses.len() as u64
    }

    /// Profiles of consecutive windows of `window` references (the last may be shorter) in `pass`, of every
    /// reference.
    pub fn profiles(&self, window: u64, pass: Pass) -> Vec<Profiles> {
        self.windows(window).map(|window| self.profile(window, 1, pass)).collect()
    }

    /// The same from a sample: each reference is chosen with probability 1 / `gap`, independently.
    ///
    /// Gaps of whole references are drawn from their geometric distribution. A window without any sample is
    /// given that of the reference in its middle, so that no window is unknown.
    pub fn sampled(&self, window: u64, pass: Pass, gap: f64, seed: u64) -> Vec<Profiles> {
        let mut random = StdRng::seed_from_u64(seed);
        let survival = (-gap.max(1.0).recip()).ln_1p(); // of one step: ln(1 - 1 / gap)
        let mut step = || {
            let uniform: f64 = 1.0 - random.random::<f64>(); // above 0
            (uniform.ln() / survival) as usize
        };
        let weight = gap.round().max(1.0) as u64;
        let mut ahead = step(); // references to skip from the window's beginning
        self.windows(window)
            .map(|window| {
                let (length, middle) = (window.len(), window.start + window.len() / 2);
                let mut chosen = Vec::new();
                let mut at = ahead;
                while at < length {
                    chosen.push(window.start + at);
                    at = at.saturating_add(1 + step());
                }
                ahead = at - length;
                if chosen.is_empty() {
                    chosen.push(middle);
                }
                self.profile(chosen, weight, pass)
            })
            .collect()
    }

    /// Consecutive windows of so many references.
    fn windows(&self, window: u64) -> impl Iterator<Item = Range<usize>> {
        let (length, window) = (self.uses.len(), window.max(1) as usize);
        (0..length).step_by(window).map(move |start| start..length.min(start.saturating_add(window)))
    }

    /// Profiles of `chosen` references.
    fn profile(&self, chosen: impl IntoIterator<Item = usize>, weight: u64, pass: Pass) -> Profiles {
        let mut uses = ReuseProfile::new(self.line_size);
        let mut touches = self.asks.as_ref().map(|_| uses.clone());
        let all_asks = self.asks.as_deref().unwrap_or_default();
        for at in chosen {
            let outcome = |entry: u32| {
                if pass == Pass::First && entry & FIRST != 0 {
                    Outcome::Dangling
                } else {
                    Outcome::Reused(ReuseDistance(u64::from(entry & !FIRST)))
                }
            };
            let Some(&entry) = self.uses.get(at) else { continue };
            uses.record(outcome(entry), weight);
            uses.add_accesses(weight);
            let Some(touches) = &mut touches else { continue };
            touches.record(outcome(entry), weight);
            touches.add_accesses(weight);
            let asks = &all_asks[all_asks.partition_point(|ask| ask.after < at)..];
            for ask in asks.iter().take_while(|ask| ask.after == at) {
                touches.record(outcome(ask.entry), weight);
            }
        }
        Profiles { uses, touches }
    }
}

/// Distances on the way through a recording.
#[derive(Debug, Default)]
struct Walk {
    ids: LineIds,
    lines: Vec<(Touch, usize)>, // by line: first touch, and reference of the last one
    uses: Vec<u32>,
    asks: Vec<Ask>,
}

/// Number of a touch of its kind.
#[derive(Clone, Copy, Debug)]
enum Touch {
    Use(usize),
    Ask(usize),
}

impl Walk {
    /// What to enter for a touch at the reference of number `now`.
    fn touch(&mut self, line: u64, now: usize, touch: Touch) -> u32 {
        let (id, new) = self.ids.id(Line(line));
        if new {
            self.lines.push((touch, now));
            return FIRST;
        }
        let before = std::mem::replace(&mut self.lines[id as usize].1, now);
        short(now.saturating_sub(before + 1))
    }

    /// The program starts over.
    fn close(&mut self) {
        let length = self.uses.len();
        for &(first, last) in &self.lines {
            let (entry, at) = match first {
                Touch::Use(at) => (&mut self.uses[at], at),
                Touch::Ask(ask) => {
                    let ask = &mut self.asks[ask];
                    (&mut ask.entry, ask.after)
                }
            };
            *entry |= short(length - 1 - last + at);
        }
    }
}

fn short(distance: usize) -> u32 {
    distance.min(FIRST as usize - 1) as u32
}

#[cfg(test)]
mod tests {
    use quickcheck::{QuickCheck, TestResult};

    use super::*;
    use crate::machines::chip::{CacheSettings, ChipSettings, PrefetcherSettings};

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
            let distances = Distances::of(&recording, None);
            let expected = |pass| -> Vec<Profiles> {
                let truth = brute_force(&lines);
                let windows = truth.chunks(window as usize).map(|part| {
                    let mut profile = ReuseProfile::new(LineSize::B64);
                    for &(distance, new) in part {
                        let dangling = pass == Pass::First && new;
                        let reused = Outcome::Reused(ReuseDistance(distance));
                        profile.record(if dangling { Outcome::Dangling } else { reused }, 1);
                    }
                    profile.add_accesses(part.len() as u64);
                    Profiles { uses: profile, touches: None }
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
    fn what_is_asked_for_ahead_is_touched_then() {
        // A page in a row, twice, through caches that keep nothing of it: from the second step on the prefetcher asks ahead.
        let recording = Recording::of_lines((0..64).chain(0..64), LineSize::B64).unwrap();
        let l1 = CacheSettings::lru(1 << 10, 1, LineSize::B64).unwrap();
        let chip = ChipSettings { l1, ..ChipSettings::paper().unwrap() };
        let settings = PrefetcherSettings { streams: 1, ahead: 4 };
        let chip = ChipSettings { prefetcher: Some(settings), ..chip };
        let distances = Distances::of(&recording, Some(PrivateCaches::new(&chip)));
        let profiles = distances.profiles(64, Pass::First);
        let [first, second] = &profiles[..] else { panic!("{profiles:?}") };
        let at = |profile: &ReuseProfile, distance: u64| {
            let distribution = profile.distribution();
            let of = |d: u64| distribution.beyond(d) * profile.total_weight() as f64;
            (of(distance.saturating_sub(1)) - if distance > 0 { of(distance) } else { 0.0 }).round()
        };
        // Lines 0 to 2 are not known to be coming; all others were asked for by the reference before.
        assert_eq!(first.uses.dangling_weight(), 3);
        let touches = first.touches.as_ref().unwrap();
        assert_eq!(touches.dangling_weight(), 64, "every line is touched for the first time once");
        assert_eq!(at(&second.uses, 63), 3.0, "the same three go back to the pass before");
        assert_eq!(touches.accesses(), 64);
        assert!(touches.total_weight() > 4 * 60 + 64 - 12, "{}", touches.total_weight());
    }

    #[test]
    fn samples_are_one_in_gap_and_unbiased() {
        // Two interleaved loops: distances 19 and 1999 in equal parts.
        let lines = (0..400_000_u64).map(|i| if i % 2 == 0 { i / 2 % 10 } else { 1000 + i / 2 % 1000 });
        let distances = Distances::of(&Recording::of_lines(lines, LineSize::B64).unwrap(), None);
        let profiles = distances.sampled(50_000, Pass::Later, 100.0, 3);
        assert_eq!(profiles.len(), 8);
        let mut all = ReuseProfile::new(LineSize::B64);
        for profile in &profiles {
            all.merge(&profile.uses).unwrap();
        }
        // 4,000 samples: a standard error of 63, and of 0.008 in the share of long distances.
        assert!(all.samples().abs_diff(4_000) < 300, "{} samples", all.samples());
        assert!((all.distribution().beyond(1_000) - 0.5).abs() < 0.04);
        assert_eq!(profiles, distances.sampled(50_000, Pass::Later, 100.0, 3), "the seed decides");
        assert_ne!(profiles, distances.sampled(50_000, Pass::Later, 100.0, 4));
        // Fewer samples than windows: still one each.
        assert!(distances.sampled(50_000, Pass::Later, 1e9, 3).iter().all(|p| p.uses.samples() == 1));
    }
}
