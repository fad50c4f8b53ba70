//! Which windows of a phase are profiled.
//!
//! The first window that is expected to belong to a phase is profiled, and from then on windows at
//! exponentially distributed gaps whose mean doubles after each profiled window up to a limit: short phases are
//! caught, long ones are sampled ever more thinly (CGO 2012, section 4.3, on sampling within phases). Gaps are
//! counted in windows of the phase, not in time, so that a phase that recurs goes on where it left off.

use std::collections::HashMap;

use phase_detect::PhaseId;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Decides for each phase when its next window is due.
#[derive(Debug)]
pub struct GapPolicy {
    phases: HashMap<PhaseId, Gap>,
    first: f64, // mean gap after a phase's first profiled window, in [1, limit]
    limit: f64, // largest mean gap in windows, >= 1
    random: StdRng,
}

#[derive(Debug)]
struct Gap {
    mean: f64,
    windows_left: u64,
}

impl GapPolicy {
    /// Gaps that grow to a mean of `limit` windows (at least 1: every window is profiled), drawn by `seed`.
    #[must_use]
    pub fn new(limit: f64, seed: u64) -> Self {
        let limit = limit.max(1.0);
        Self { phases: HashMap::new(), first: 1.0, limit, random: StdRng::seed_from_u64(seed) }
    }

    /// The same with gaps that begin with a mean of `windows` (taken into 1 to the limit) instead of 1. The first
    /// windows of a phase are neighbours and tell much the same.
    #[must_use]
    pub const fn beginning_with(mut self, windows: f64) -> Self {
        self.first = windows.clamp(1.0, self.limit);
        self
    }

    /// Whether the next window is to be profiled if it belongs to `expected`; always while nothing is expected.
    #[must_use]
    pub fn is_due(&self, expected: Option<PhaseId>) -> bool {
        expected.and_then(|phase| self.phases.get(&phase)).is_none_or(|gap| gap.windows_left == 0)
    }

    /// Notes a window that turned out to belong to `phase`, and whether it was profiled.
    pub fn note(&mut self, phase: PhaseId, profiled: bool) {
        if profiled {
            let first = self.first / 2.0;
            let gap = self.phases.entry(phase).or_insert(Gap { mean: first, windows_left: 0 });
            gap.mean = (gap.mean * 2.0).min(self.limit);
            // A gap of mean 1 leaves no window out, one of mean m leaves m - 1 out on average.
            let draw: f64 = 1.0 - self.random.random::<f64>();
            gap.windows_left = (-draw.ln() * (gap.mean - 1.0)).round() as u64;
        } else if let Some(gap) = self.phases.get_mut(&phase) {
            gap.windows_left = gap.windows_left.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiled(limit: f64, windows: u64) -> u64 {
        let mut policy = GapPolicy::new(limit, 1);
        let phase = PhaseId::new(0);
        let mut count = 0;
        for _ in 0..windows {
            let due = policy.is_due(Some(phase));
            count += u64::from(due);
            policy.note(phase, due);
        }
        count
    }

    #[test]
    fn an_unknown_phase_is_due_and_a_limit_of_one_profiles_everything() {
        let policy = GapPolicy::new(8.0, 1);
        assert!(policy.is_due(None) && policy.is_due(Some(PhaseId::new(3))));
        assert_eq!(profiled(1.0, 100), 100);
    }

    #[test]
    fn a_wider_first_gap_spares_the_second_window() {
        let second = |first: f64| -> u64 {
            let due = |seed| {
                let mut policy = GapPolicy::new(64.0, seed).beginning_with(first);
                policy.note(PhaseId::new(0), true);
                u64::from(policy.is_due(Some(PhaseId::new(0))))
            };
            (0..1_000).map(due).sum()
        };
        assert_eq!(second(1.0), 1_000);
        // A gap of mean 8 - 1 rounds to none with probability 1 - exp(-0.5 / 7) = 0.069; five standard deviations.
        assert!(second(8.0).abs_diff(69) < 40, "{}", second(8.0));
    }

    #[test]
    fn the_gap_grows_to_its_limit() {
        // In the long run one window in `limit`; 6,250 of them have a standard error of 1.3 %.
        let found = profiled(16.0, 100_000) as f64;
        assert!((found / (100_000.0 / 16.0) - 1.0).abs() < 0.07, "{found}");
        // At first gaps of 1, 2, 4, 8: about 4 + (100 - 15) / 16 = 9 of 100 windows.
        assert!((5..=16).contains(&profiled(16.0, 100)));
    }
}
