//! How unevenly a program's lines fall on the sets of a cache, and what that does to a line's chance to stay.
//!
//! A set-associative cache evicts a line when its own set has filled up, which happens earlier for some lines
//! and later for others. A line is gone if at least as many other lines as there are ways were touched in its
//! set since. Lines in a row fill sets evenly; scattered ones do as independent throws would; most programs lie
//! between. What is measured of each is the index of dispersion, variance over mean, of its lines per set.

use std::collections::HashSet;

use crate::{Error, Line};

/// Points on the way to twice the cache.
const POINTS: u64 = 16;

/// Index of dispersion of a program's lines per set, as a function of the number of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct SetDispersion {
    spacing: f64,     // lines between two points
    points: Vec<f64>, // at 1, 2, 3... times the spacing
}

/// Counts how the last different lines that a program used fall on the sets of a cache, from several places in the
/// program.
#[derive(Clone, Debug)]
pub struct SetDispersionCounter {
    sets: u64, // >= 1
    spacing: u64,
    sums: Vec<(f64, u32)>, // of the index of dispersion, and places, for each point
}

impl SetDispersionCounter {
    /// For a cache of so many sets and ways.
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
        let sets = sets as u64;
        let spacing = (2 * sets * u64::from(ways)).div_ceil(POINTS).max(1);
        Ok(Self { sets, spacing, sums: vec![(0.0, 0); POINTS as usize] })
    }

    /// Looks back from one place: `accesses` are the lines of the accesses before it, the latest first, with the sets
    /// that they belong in. Reads no further than to twice the lines of the cache.
    pub fn look_back(&mut self, accesses: impl IntoIterator<Item = (Line, u64)>) {
        let mut counts = vec![0_u32; self.sets as usize];
        let mut seen = HashSet::new();
        let mut squares = 0_u64; // sum over sets of count^2
        for (line, set) in accesses {
            if !seen.insert(line) {
                continue;
            }
            let count = &mut counts[(set % self.sets) as usize];
            squares += 2 * u64::from(*count) + 1;
            *count += 1;
            let lines = seen.len() as u64;
            if lines % self.spacing == 0 {
                let Some(sum) = self.sums.get_mut((lines / self.spacing - 1) as usize) else { break };
                let mean = lines as f64 / self.sets as f64;
                let variance = squares as f64 / self.sets as f64 - mean * mean;
                *sum = (sum.0 + variance / mean, sum.1 + 1);
            }
        }
    }

    /// The mean over all places.
    #[must_use]
    pub fn finish(self) -> SetDispersion {
        let sums = self.sums.iter().take_while(|sum| sum.1 > 0);
        let points = sums.map(|sum| (sum.0 / f64::from(sum.1)).max(0.0)).collect();
        SetDispersion { spacing: self.spacing as f64, points }
    }
}

impl SetDispersion {
    /// Variance of the number of lines in a set where `lines` lines fall on `sets` sets.
    #[must_use]
    pub fn variance(&self, lines: f64, sets: f64) -> f64 {
        let mean = lines / sets;
        let at = lines / self.spacing;
        let point = |k: usize| match k {
            // One line after the other: each set has it or not.
            0 => Some(1.0),
            _ => self.points.get(k - 1).copied(),
        };
        let below = at.floor() as usize;
        let last = || self.points.last().copied();
        let low = point(below).or_else(last).unwrap_or(1.0);
        let high = point(below + 1).or_else(last).unwrap_or(low);
        let between = low + (high - low) * (at - at.floor());
        // Whole numbers with this mean vary at least so much.
        let whole = (mean - mean.floor()) * (1.0 - (mean - mean.floor()));
        (between * mean).max(whole)
    }
}

/// Probability that a count of lines in a set, of `mean` and `variance`, is at least `ways`.
///
/// A count that varies less than independent throws is modelled as a constant plus a Poisson variable, one that
/// varies more as negative binomial.
#[must_use]
pub fn probability_of_at_least(ways: u64, mean: f64, variance: f64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    let dispersion = variance / mean;
    if dispersion <= 1.0 {
        // A threshold between two whole numbers is as likely to be reached as they are on average.
        let threshold = ways as f64 - (mean - variance);
        if threshold <= 0.0 {
            return 1.0;
        }
        let below = threshold.floor();
        let part = threshold - below;
        let tail = |least: u64| tail(least, -variance, 0.0, variance);
        return tail(below as u64) * (1.0 - part) + tail(below as u64 + 1) * part;
    }
    let a = 1.0 - dispersion.recip();
    tail(ways, -mean / (dispersion - 1.0) * dispersion.ln(), a, mean / dispersion - a)
}

/// Probability of `least` or more where that of none has logarithm `none` and each next one is `a + b / k`
/// times that of the one before.
fn tail(least: u64, none: f64, a: f64, b: f64) -> f64 {
    let (mut log, mut fewer) = (none, 0.0);
    for k in 0..least {
        if k > 0 {
            log += (a + b / k as f64).ln();
        }
        fewer += log.exp();
    }
    (1.0 - fewer).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::probability_of_at_least as at_least;
    use super::*;

    #[test]
    fn tails_are_those_of_the_distributions() {
        // Poisson of mean 2, by hand: 1 - e^-2 (1 + 2 + 2).
        assert!((at_least(3, 2.0, 2.0) - (1.0 - 5.0 * (-2.0_f64).exp())).abs() < 1e-9);
        // Binomial of 4 throws at 1/2: mean 2, variance 1; 5 of 16 have three or more. Here it is 1 + Poisson.
        assert!((at_least(3, 2.0, 1.0) - 5.0 / 16.0).abs() < 0.06);
        // Geometric from 0 with success 1/3: mean 2, variance 6; (2/3)^3 reach three.
        assert!((at_least(3, 2.0, 6.0) - 8.0 / 27.0).abs() < 1e-9);
        // 15 everywhere, 16 everywhere, 16 in nine of ten.
        assert_eq!((at_least(16, 15.0, 0.0), at_least(16, 16.0, 0.0)), (0.0, 1.0));
        assert!((at_least(16, 15.9, 0.09) - 0.9).abs() < 0.1);
        assert_eq!(at_least(1, 0.0, 0.0), 0.0);
    }

    #[test]
    fn rows_are_even_and_scattered_lines_are_throws() {
        let of = |lines: &[u64]| {
            let mut counter = SetDispersionCounter::new(64, 16).unwrap();
            for place in 1..=6 {
                let before = lines[..lines.len() * place / 6].iter().rev().chain(lines.iter().rev());
                counter.look_back(before.map(|&line| (Line(line), line % 64)));
            }
            counter.finish()
        };
        let row = of(&(0..5_000).map(|i| i % 1_500).collect::<Vec<_>>());
        // All sets have 16, give or take the one where the loop closes; throws would vary by 16.
        assert!(row.variance(1_024.0, 64.0) < 1.0, "{row:?}");
        let mut state = 1_u64;
        let scattered: Vec<u64> = (0..5_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 40
            })
            .collect();
        let scattered = of(&scattered);
        // 1,024 throws on 64 sets: mean and variance 16; six places of 64 sets know it to within a tenth or two.
        let variance = scattered.variance(1_024.0, 64.0);
        assert!((variance - 16.0).abs() < 6.0, "{variance}");
    }
}
