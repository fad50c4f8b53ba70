//! When hierarchical sampling chooses accesses.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reuse_sampler::Hierarchy;

/// The accesses that one repetition of hierarchical sampling chooses, in order. Begins at a random moment of a cycle.
#[derive(Debug)]
pub struct Schedule {
    hierarchy: Hierarchy,
    random: StdRng,
    burst: Range<u64>, // of accesses
    number: u32,       // of the burst
    next: u64,
}

impl Schedule {
    /// The choices that `seed` makes.
    pub fn new(hierarchy: Hierarchy, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let cycle = (hierarchy.burst() + hierarchy.hibernation()) as f64;
        let position = (random.random::<f64>() * cycle) as u64;
        let mut schedule = Self { hierarchy, random, burst: 0..0, number: 0, next: 0 };
        schedule.burst = if position < hierarchy.burst() {
            0..hierarchy.burst() - position
        } else {
            let start = schedule.exponential(hierarchy.hibernation() as f64);
            start..start + hierarchy.burst()
        };
        schedule.next = schedule.burst.start;
        schedule.advance(0);
        schedule
    }

    fn exponential(&mut self, mean: f64) -> u64 {
        (-(1.0 - self.random.random::<f64>()).ln() * mean).round() as u64
    }

    /// Number of the next access that is chosen, counted from 0.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The burst it belongs to, and the accesses of that burst.
    pub const fn burst(&self) -> (u32, &Range<u64>) {
        (self.number, &self.burst)
    }

    /// Goes on to the access chosen after this one.
    pub fn step(&mut self) {
        self.advance(1);
    }

    fn advance(&mut self, at_least: u64) {
        let gap = self.hierarchy.burst() as f64 / self.hierarchy.samples() as f64;
        let mut from = self.next + at_least;
        loop {
            // Failures before the next success: each access of the burst has the same chance.
            let failures = if gap <= 1.0 {
                0
            } else {
                ((1.0 - self.random.random::<f64>()).ln() / (-1.0 / gap).ln_1p()) as u64
            };
            self.next = from.saturating_add(failures);
            if self.next < self.burst.end {
                return;
            }
            let start = self.burst.end + self.exponential(self.hierarchy.hibernation() as f64);
            self.burst = start..start + self.hierarchy.burst();
            self.number += 1;
            from = start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_and_samples_are_as_many_as_asked_for() {
        let hierarchy = Hierarchy::new(10_000, 40_000, 100).unwrap();
        let mut schedule = Schedule::new(hierarchy, 3);
        let (mut chosen, mut last) = (0_u64, None);
        while schedule.next() < 500_000_000 {
            let (_, burst) = schedule.burst();
            assert!(burst.contains(&schedule.next()) && Some(schedule.next()) > last);
            last = Some(schedule.next());
            chosen += 1;
            schedule.step();
        }
        // 10,000 cycles, each with 100 samples: standard errors of 1 % (hibernation, 80 % of it random) and 0.1 %.
        let bursts = f64::from(schedule.burst().0);
        assert!((bursts / 10_000.0 - 1.0).abs() < 0.04, "{bursts}");
        assert!((chosen as f64 / bursts - 100.0).abs() < 0.5, "{chosen} {bursts}");
    }
}
