//! When hierarchical sampling chooses accesses.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reuse_sampler::Hierarchy;

/// How bursts are spread over a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// At exponentially distributed gaps, as in the paper. The run begins at a random moment of a burst or a gap.
    Gaps,
    /// One in each stretch, drawn anew from the places that a stretch has for whole bursts. A stretch has as many of
    /// them as there are burst lengths in a burst and a gap. Nothing is sampled less often than anything else, and no
    /// part of the run is passed over for long.
    Stretches,
}

/// The accesses that one repetition of hierarchical sampling chooses, in order.
#[derive(Debug)]
pub struct Schedule {
    hierarchy: Hierarchy,
    spacing: Spacing,
    random: StdRng,
    burst: Range<u64>, // of accesses
    number: u32,       // of the burst
    next: u64,
}

impl Schedule {
    /// The choices that `seed` makes.
    pub fn new(hierarchy: Hierarchy, spacing: Spacing, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let mut schedule = Self { hierarchy, spacing, random, burst: 0..0, number: 0, next: 0 };
        schedule.burst = schedule.first();
        schedule.next = schedule.burst.start;
        schedule.advance(0);
        schedule
    }

    fn first(&mut self) -> Range<u64> {
        let (burst, cycle) = (self.hierarchy.burst(), self.hierarchy.burst() + self.hierarchy.hibernation());
        match self.spacing {
            Spacing::Gaps => {
                let position = (self.random.random::<f64>() * cycle as f64) as u64;
                if position < burst { 0..burst - position } else { self.after_gap(0) }
            }
            Spacing::Stretches => self.in_stretch(0),
        }
    }

    fn after_gap(&mut self, from: u64) -> Range<u64> {
        let start = from + self.exponential(self.hierarchy.hibernation() as f64);
        start..start + self.hierarchy.burst()
    }

    fn in_stretch(&mut self, stretch: u64) -> Range<u64> {
        let burst = self.hierarchy.burst();
        let places = (burst + self.hierarchy.hibernation()) / burst;
        let start = (stretch * places + self.random.random_range(0..places)) * burst;
        start..start + burst
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
            self.number += 1;
            self.burst = match self.spacing {
                Spacing::Gaps => self.after_gap(self.burst.end),
                Spacing::Stretches => self.in_stretch(self.number.into()),
            };
            from = self.burst.start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_and_samples_are_as_many_as_asked_for() {
        let hierarchy = Hierarchy::new(10_000, 40_000, 100).unwrap();
        let mut schedule = Schedule::new(hierarchy, Spacing::Gaps, 3);
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

    #[test]
    fn every_place_of_a_stretch_is_as_likely() {
        let hierarchy = Hierarchy::new(1_000, 4_500, 100).unwrap(); // places for five bursts
        let mut schedule = Schedule::new(hierarchy, Spacing::Stretches, 3);
        let (mut places, mut last) = ([0_u32; 5], None);
        while schedule.burst().0 < 5_000 {
            let (number, burst) = schedule.burst();
            assert!(burst.contains(&schedule.next()) && burst.end - burst.start == 1_000);
            assert_eq!((burst.start % 1_000, burst.start / 5_000), (0, number.into()), "its own stretch");
            if last != Some(number) {
                places[(burst.start / 1_000 % 5) as usize] += 1;
                last = Some(number);
            }
            schedule.step();
        }
        // 1,000 each with a standard deviation of 28.
        assert!(places.iter().all(|&count| count.abs_diff(1_000) < 140), "{places:?}");
    }
}
