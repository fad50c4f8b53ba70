//! Which windows of a phase are profiled.
//!
//! The first window that is expected to belong to a phase is profiled, and from then on windows at exponentially
//! distributed gaps whose mean doubles after each profiled window up to a limit: short phases are caught, long ones are
//! sampled ever more thinly. Gaps count windows of the phase, not time, so that a phase that recurs continues its gap.

use std::collections::BTreeMap;

use crate::PhaseId;
use crate::rng::SplitMix64;

/// Decides for each phase when its next window is due.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    phases: BTreeMap<PhaseId, Gap>,
    first: f64, // mean gap after a phase's first profiled window, in 1..=limit
    limit: f64, // largest mean gap in windows, at least 1
    random: SplitMix64,
}

#[derive(Clone, Debug)]
struct Gap {
    profiled: u64, // at least 1
    mean: f64,     // in first..=limit
    windows_left: u64,
}

impl Gaps {
    /// Gaps whose mean grows from `first` to `limit` windows, both at least 1; 1 leaves no window out.
    pub(super) fn new(first: f64, limit: f64, seed: u64) -> Self {
        Self { phases: BTreeMap::new(), first: first.min(limit), limit, random: SplitMix64::new(seed) }
    }

    /// Whether the next window is to be profiled if it belongs to `expected`.
    pub(super) fn is_due(&self, expected: PhaseId) -> bool {
        self.phases.get(&expected).is_none_or(|gap| gap.windows_left == 0)
    }

    /// Notes a window that turned out to belong to `phase`, and whether it was profiled. Returns how many windows of the
    /// phase a profiled one represents: the mean gap at which it was chosen.
    pub(super) fn note(&mut self, phase: PhaseId, profiled: bool) -> f64 {
        let represents = self.phases.get(&phase).map_or(1.0, |gap| gap.mean);
        if profiled {
            let new = Gap { profiled: 0, mean: self.first / 2.0, windows_left: 0 };
            let gap = self.phases.entry(phase).or_insert(new);
            gap.profiled += 1;
            gap.mean = (gap.mean * 2.0).min(self.limit);
            // a gap of mean 1 leaves no window out, one of mean m leaves m - 1 out on average
            gap.windows_left = (-(1.0 - self.random.unit()).ln() * (gap.mean - 1.0)).round() as u64;
        } else if let Some(gap) = self.phases.get_mut(&phase) {
            gap.windows_left = gap.windows_left.saturating_sub(1);
        }
        represents
    }

    /// Profiled windows of `phase`.
    pub(super) fn profiled(&self, phase: PhaseId) -> u64 {
        self.phases.get(&phase).map_or(0, |gap| gap.profiled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASE: PhaseId = PhaseId::new(0);

    fn profiled(limit: f64, windows: u64) -> u64 {
        let mut gaps = Gaps::new(1.0, limit, 1);
        for _ in 0..windows {
            let due = gaps.is_due(PHASE);
            gaps.note(PHASE, due);
        }
        gaps.profiled(PHASE)
    }

    #[test]
    fn an_unknown_phase_is_due_and_a_limit_of_one_profiles_everything() {
        assert!(Gaps::new(1.0, 8.0, 1).is_due(PhaseId::new(3)));
        assert_eq!(profiled(1.0, 100), 100);
    }

    #[test]
    fn a_wider_first_gap_spares_the_second_window() {
        let second = |first: f64| -> u64 {
            let due = |seed| {
                let mut gaps = Gaps::new(first, 64.0, seed);
                gaps.note(PHASE, true);
                u64::from(gaps.is_due(PHASE))
            };
            (0..1_000).map(due).sum()
        };
        assert_eq!(second(1.0), 1_000);
        // a gap of mean 8 - 1 rounds to none with probability 1 - exp(-0.5 / 7) = 0.069; five standard deviations
        assert!(second(8.0).abs_diff(69) < 40, "{}", second(8.0));
    }

    #[test]
    fn the_gap_grows_to_its_limit() {
        // in the long run one window in `limit`; 6,250 of them have a standard error of 1.3 %
        let found = profiled(16.0, 100_000) as f64;
        assert!((found / (100_000.0 / 16.0) - 1.0).abs() < 0.07, "{found}");
        // at first gaps of 1, 2, 4, 8: about 4 + (100 - 15) / 16 = 9 of 100 windows
        assert!((5..=16).contains(&profiled(16.0, 100)));
    }
}
