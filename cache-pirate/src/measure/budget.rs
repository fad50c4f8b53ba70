//! When the next cycle may begin if the measurement is to cost no more than a share of the target's time.
//!
//! The run is cut into stretches, one a cycle. A stretch is as long as it takes for the time lost so far, with what
//! a cycle loses on average, to be the allowed share of the time that the same work takes undisturbed. Its cycle
//! begins at a random place in it and stands for all of it.

use crate::counts::Reading;

use super::Interval;

/// What was lost, and what there is to lose it from.
pub(super) struct Budget {
    overhead: f64, // finite, > 0
    shortest: f64, // work in a gap at least, >= 0
    cycles: f64,
    lost: f64,             // time beyond that of the same work alone
    alone: f64,            // time that the work of cycles and gaps takes alone
    work: f64,             // of the cycles and gaps
    per_cycle: f64,        // work of all cycles
    pace: Option<f64>,     // time per unit of work alone, around the last cycle
    gap_pace: Option<f64>, // and in the last gap
}

impl Budget {
    /// `shortest`: work that a gap has at least, to learn how fast the target is alone; 0 where intervals with the
    /// whole cache show.
    pub(super) const fn new(overhead: f64, shortest: f64) -> Self {
        Self {
            overhead,
            shortest,
            cycles: 0.0,
            lost: 0.0,
            alone: 0.0,
            work: 0.0,
            per_cycle: 0.0,
            pace: None,
            gap_pace: None,
        }
    }

    /// Work in the gaps of the next stretch.
    ///
    /// # Formula
    /// With `n` cycles so far that lost `E` of the `B` their and the gaps' work takes alone, and in which the
    /// target did the work `W`, a gap of the time `(E + E / n) / overhead - B - b`, where `b` is the time that
    /// the work of a cycle takes alone, makes what is lost after the next cycle the allowed share.
    pub(super) fn gap(&self) -> f64 {
        if self.cycles == 0.0 || self.work <= 0.0 {
            return self.shortest;
        }
        let pace = self.alone / self.work;
        let coming = self.lost / self.cycles;
        let time = (self.lost + coming) / self.overhead - self.alone - pace * self.per_cycle / self.cycles;
        (time / pace).max(self.shortest)
    }

    /// Books a part of a gap: the target's warm-up, as long as it regains the cache, or the rest.
    pub(super) fn waited(&mut self, part: &Reading, warming: bool) {
        let work = part.target.work;
        if work <= 0.0 {
            return;
        }
        if !warming {
            self.gap_pace = Some(part.elapsed / work);
        }
        let alone = match self.pace.filter(|_| warming) {
            Some(pace) => (pace * work).min(part.elapsed),
            None => part.elapsed,
        };
        self.book(part.elapsed, alone, work);
    }

    /// Books a cycle: all that ran in it, and its intervals.
    pub(super) fn measured(&mut self, cycle: &Reading, intervals: &[Interval]) {
        let whole =
            intervals.iter().find(|interval| interval.stolen == 0 && interval.counts.target.work > 0.0);
        let whole = whole.map(|interval| interval.counts.elapsed / interval.counts.target.work);
        self.pace = whole.or(self.gap_pace);
        if let Some(pace) = self.pace {
            let work = cycle.target.work;
            self.cycles += 1.0;
            self.per_cycle += work;
            self.book(cycle.elapsed, (pace * work).min(cycle.elapsed), work);
        }
    }

    fn book(&mut self, elapsed: f64, alone: f64, work: f64) {
        self.lost += elapsed - alone;
        self.alone += alone;
        self.work += work;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::TargetCounts;

    fn reading(elapsed: f64, work: f64) -> Reading {
        let target = TargetCounts { work, time: elapsed, ..TargetCounts::default() };
        Reading { elapsed, target, ..Reading::default() }
    }

    #[test]
    fn what_is_lost_is_the_allowed_share_after_each_stretch() {
        // Cycles of 16 units of work at 2 to 6 units of time each, alone 2; gaps run at 2.
        let mut budget = Budget::new(0.05, 0.0);
        let (mut elapsed, mut work) = (0.0, 0.0);
        assert_eq!(budget.gap(), 0.0);
        for cycle in 0..100 {
            let gap = budget.gap();
            budget.waited(&reading(2.0 * gap, gap), false);
            let slow = if cycle < 50 { 2.2 } else { 6.0 };
            let whole = Interval {
                stolen: 0,
                threads: 1,
                cycle,
                counts: reading(2.0, 1.0),
                trust: crate::Trust::Trusted,
                weight: 1.0,
            };
            budget.measured(&reading(16.0 * slow, 16.0), &[whole]);
            elapsed += 2.0 * gap + 16.0 * slow;
            work += gap + 16.0;
            let overhead = elapsed / (2.0 * work) - 1.0;
            if (2..50).contains(&cycle) || cycle > 80 {
                // Within what the last cycle cost more than the average one.
                assert!((overhead - 0.05).abs() < 0.005, "cycle {cycle}: {overhead}");
            }
        }
    }

    #[test]
    fn a_target_that_loses_nothing_is_measured_all_the_time() {
        let mut budget = Budget::new(0.05, 0.0);
        for cycle in 0..10 {
            assert_eq!(budget.gap(), 0.0);
            let interval = Interval {
                stolen: 0,
                threads: 1,
                cycle,
                counts: reading(3.0, 1.0),
                trust: crate::Trust::Trusted,
                weight: 1.0,
            };
            budget.measured(&reading(48.0, 16.0), &[interval]);
        }
        // What the target loses while it regains the cache is booked, too.
        budget.waited(&reading(8.0, 1.0), true);
        assert_eq!(budget.lost, 5.0);
        // Where the whole cache is not among the sizes, gaps show how fast it is alone.
        let mut budget = Budget::new(0.05, 1.0);
        assert_eq!(budget.gap(), 1.0);
        budget.waited(&reading(3.0, 1.0), false);
        budget.measured(&reading(4.0 * 16.0, 16.0), &[]);
        // Lost 16 in a cycle; 32 after the next are 5 % of 640, of which 51 and 48 are not the gap's.
        assert!((budget.gap() - (640.0 - 51.0 - 48.0) / 3.0).abs() < 1e-9, "{}", budget.gap());
    }
}
