//! Reuse times where sets cannot be counted: from sparse samples of reuse distances.

use reuse_sampler::{CacheLines, Clock, ReuseDistribution, ReuseProfile, SetReuse, probability_of_at_least};

use super::ReuseTimes;
use crate::error::Error;

impl ReuseTimes {
    /// What `profile` leads to expect in a cache of `ways` ways of `way_bytes` bytes behind private caches of `private`
    /// lines, where sets cannot be counted: from sparse samples.
    ///
    /// # Formula
    /// With P(D > n) the probability that a line is not used again within n accesses, n accesses use
    /// E(n) = sum over i < n of P(D > i) lines. Reuses within the n' accesses in which E reaches `private` lines are served
    /// before the shared cache. After n > n' accesses, n' P(D > n') + E(n) - E(n') lines have been used in the shared cache
    /// since; of `s` sets, each has on average the s-th part of them, with as much variance as in twice the time are new.
    ///
    /// # Accuracy
    /// Lines are taken to fall on all sets alike, and not to be served by private caches between two uses of the shared one.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Count`] for no ways; [`Error::Samples`] for a profile that is empty, or whose
    /// distances are not in accesses.
    pub fn estimated(
        way_bytes: u64,
        ways: u32,
        private: CacheLines,
        profile: &ReuseProfile,
    ) -> Result<Self, Error> {
        if ways == 0 {
            return Err(Error::Count { what: "ways", count: 0, remedy: "at least one" });
        }
        if profile.is_empty() || profile.clock() != Clock::Accesses {
            return Err(Error::Samples { samples: profile.samples(), clock: profile.clock().to_string() });
        }
        let sets = (way_bytes as f64 / f64::from(profile.line_size().bytes())).max(1.0);
        let use_of = SharedUse::new(&profile.distribution(), private.0 as f64);
        let per_set = |accesses: f64| use_of.lines(accesses) / sets;
        let variance = |accesses: f64| (per_set(2.0 * accesses) - per_set(accesses)).max(0.0);
        let accesses = profile.accesses().max(profile.total_weight()) as f64;
        let mut reuses = Vec::new();
        for piece in use_of.pieces.iter().filter(|piece| piece.middle > use_of.private) {
            let (mean, variance) = (per_set(piece.middle), variance(piece.middle));
            let mut at_least = 1.0;
            for distance in 0..ways {
                let more = if mean > 0.0 {
                    probability_of_at_least(u64::from(distance) + 1, mean, variance)
                } else {
                    0.0
                };
                let count = accesses * piece.here * (at_least - more);
                if count > 0.0 {
                    reuses.push(SetReuse { distance, accesses: piece.middle + 1.0, count });
                }
                at_least = more;
            }
        }
        let variances = (1..=ways).map(|lines| variance(use_of.accesses(f64::from(lines) * sets))).collect();
        Ok(Self::new(way_bytes, variances, reuses)?.of_lines(profile.line_size().bytes()))
    }
}

/// How many lines of a program are used in the shared cache within some time.
struct SharedUse {
    pieces: Vec<Piece>, // by middle
    private: f64,       // accesses within which private caches serve a reuse
}

/// Reuses after about the same number of accesses.
struct Piece {
    middle: f64, // accesses between
    here: f64,   // probability
    beyond: f64, // of more
    lines: f64,  // that so many accesses use
}

impl SharedUse {
    fn new(distribution: &ReuseDistribution, private: f64) -> Self {
        let endless = distribution.dangling() + distribution.invalidated() + distribution.unresolved();
        let (mut beyond, mut lines, mut before) = (1.0, 0.0, 0.0);
        let pieces = distribution.masses().iter().map(|mass| {
            let middle = mass.middle() as f64;
            lines += (middle - before) * beyond;
            let here = mass.probability - mass.invalidated;
            beyond = (beyond - here).max(endless);
            before = middle;
            Piece { middle, here, beyond, lines }
        });
        let mut found = Self { pieces: pieces.collect(), private: 0.0 };
        found.private = found.accesses(private);
        found
    }

    /// The last piece up to `least`, of what `of` says.
    fn piece(&self, least: f64, of: impl Fn(&Piece) -> f64) -> (f64, f64, f64) {
        let after = self.pieces.partition_point(|piece| of(piece) <= least);
        let piece = after.checked_sub(1).and_then(|last| self.pieces.get(last));
        piece.map_or((0.0, 0.0, 1.0), |piece| (piece.middle, piece.lines, piece.beyond))
    }

    /// Lines that `accesses` accesses use.
    fn all_lines(&self, accesses: f64) -> f64 {
        let (middle, lines, beyond) = self.piece(accesses, |piece| piece.middle);
        lines + (accesses - middle) * beyond
    }

    /// Accesses that use so many lines; infinitely many where there are fewer.
    fn accesses(&self, lines: f64) -> f64 {
        let (middle, before, beyond) = self.piece(lines, |piece| piece.lines);
        middle + (lines - before) / beyond
    }

    /// Lines that `accesses` accesses use in the shared cache.
    fn lines(&self, accesses: f64) -> f64 {
        if !accesses.is_finite() {
            return self.pieces.last().map_or(0.0, |last| last.lines);
        }
        let (_, _, missing) = self.piece(self.private, |piece| piece.middle);
        let served = accesses.min(self.private);
        let beyond = (self.all_lines(accesses) - self.all_lines(served)).max(0.0);
        served * missing + beyond
    }
}

#[cfg(test)]
mod tests {
    use reuse_sampler::{Line, LineSize, Outcome, ReuseDistance, SetReuseCounter};

    use super::*;

    /// Lines drawn at random from a table, behind a small private cache: what is estimated from reuse distances is what is
    /// counted set by set.
    #[test]
    fn estimated_times_are_those_counted() {
        const SETS: u64 = 64;
        let (lines, private) = (20 * SETS, 50);
        let mut counter = SetReuseCounter::new(SETS as usize, 16).unwrap();
        let mut profile = ReuseProfile::new(LineSize::B64);
        let (mut state, mut last, mut recent) = (7_u64, vec![0; lines as usize], Vec::new());
        for now in 1..=200_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let line = (state >> 33) % lines;
            let before = std::mem::replace(&mut last[line as usize], now);
            if before > 0 {
                profile.record(Outcome::Reused(ReuseDistance(now - before - 1)), 1);
            }
            match recent.iter().position(|&other| other == line) {
                Some(place) => drop(recent.remove(place)),
                None => counter.touch(Line(line), line % SETS, now),
            }
            recent.insert(0, line);
            recent.truncate(private);
            if now % 2000 == 0 {
                counter.look(now);
            }
        }
        let seen = counter.take();
        let estimated = ReuseTimes::estimated(SETS * 64, 16, CacheLines(private as u64), &profile).unwrap();
        let of = |reuses: &[SetReuse], distance: u32| {
            let here = reuses.iter().filter(|reuse| reuse.distance == distance);
            here.fold((0.0, 0.0), |sum, reuse| (sum.0 + reuse.count, sum.1 + reuse.count * reuse.accesses))
        };
        for distance in 1..14 {
            let (counted, guess) = (of(&seen.reuses, distance), of(estimated.reuses(), distance));
            assert!((guess.0 / counted.0 - 1.0).abs() < 0.15, "{distance}: {guess:?} {counted:?}");
            let waits = (guess.1 / guess.0) / (counted.1 / counted.0);
            assert!((waits - 1.0).abs() < 0.1, "{distance}: {waits}");
        }
        for lines in 2..16 {
            let (counted, guess) = (seen.variances[lines], estimated.variances()[lines]);
            assert!((guess / counted - 1.0).abs() < 0.25, "{lines}: {guess} {counted}");
        }
        let empty = ReuseProfile::new(LineSize::B64);
        let of = |ways, profile| ReuseTimes::estimated(SETS * 64, ways, CacheLines(8), profile);
        assert!(matches!(of(16, &empty), Err(Error::Samples { samples: 0, .. })));
        assert!(matches!(of(0, &profile), Err(Error::Count { .. })));
    }
}
