//! From a probability as a model sees it to one that has held.

/// Points of the curve, evenly spaced in log odds.
const POINTS: usize = 7;
/// Log odds of the outermost points: 0.25 % and 99.75 %.
const REACH: f64 = 6.0;
/// Observations that the starting value of a point counts for, and most that it remembers.
const PRIOR: f64 = 2.0;
const MEMORY: f64 = 40.0;

/// Learns how often what was given a probability came true: a curve over log odds, linear between its points.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Calibration {
    // right answers and answers near each point, fading
    points: [(f64, f64); POINTS],
}

impl Default for Calibration {
    /// Believes every probability.
    fn default() -> Self {
        let step = 2.0 * REACH / (POINTS - 1) as f64;
        let at = |point: usize| 1.0 / (1.0 + (REACH - point as f64 * step).exp());
        Self { points: std::array::from_fn(|point| (PRIOR * at(point), PRIOR)) }
    }
}

impl Calibration {
    /// How often it has come true.
    pub(super) fn corrected(&self, probability: f64) -> f64 {
        let (point, above) = place(probability);
        let share = |point: usize| self.points[point].0 / self.points[point].1;
        (1.0 - above) * share(point) + above * share(point + 1)
    }

    /// Something of this probability came true, or not.
    pub(super) fn learn(&mut self, probability: f64, came_true: bool) {
        let (point, above) = place(probability);
        for (point, weight) in [(point, 1.0 - above), (point + 1, above)] {
            let (right, all) = &mut self.points[point];
            *all += weight;
            *right += if came_true { weight } else { 0.0 };
            let fading = (MEMORY / *all).min(1.0);
            *all *= fading;
            *right *= fading;
        }
    }

    /// Whether a saved one can have come about.
    #[cfg(feature = "serde")]
    pub(super) fn is_valid(&self) -> bool {
        self.points
            .iter()
            .all(|&(right, all)| (0.0..=MEMORY).contains(&all) && all > 0.0 && (0.0..=all).contains(&right))
    }
}

/// The point below a probability, and how far it is on the way to the next.
fn place(probability: f64) -> (usize, f64) {
    let odds = (probability / (1.0 - probability)).ln().clamp(-REACH, REACH);
    let at = (odds + REACH) / (2.0 * REACH) * (POINTS - 1) as f64;
    let point = (at as usize).min(POINTS - 2);
    (point, at - point as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_as_the_identity_at_its_points_and_learns() {
        let mut curve = Calibration::default();
        for point in 0..POINTS {
            let odds = -REACH + point as f64 * 2.0;
            let probability = 1.0 / (1.0 + (-odds).exp());
            assert!((curve.corrected(probability) - probability).abs() < 1e-9);
        }
        assert!(curve.corrected(0.0) > 0.0 && curve.corrected(1.0) < 1.0);
        // what is given 80 % comes true every other time
        for turn in 0..400 {
            curve.learn(0.8, turn % 2 == 0);
        }
        assert!((curve.corrected(0.8) - 0.5).abs() < 0.03, "{}", curve.corrected(0.8));
        assert!((curve.corrected(0.01) - 0.01).abs() < 0.005, "far away it is as before");
    }
}
