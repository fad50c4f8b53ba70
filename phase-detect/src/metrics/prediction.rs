//! How often a predictor is right.

use crate::{PhaseId, Predictor};

/// Right answers of a predictor, in all and at changes of phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PredictionScore {
    /// Windows for which there was a prediction.
    pub windows: u64,
    /// Of those, windows whose phase was the predicted one.
    pub right: u64,
    /// Predicted windows whose phase differed from that of the window before.
    pub changes: u64,
    /// Of those, windows whose phase was the predicted one.
    pub right_changes: u64,
}

impl PredictionScore {
    /// Adds one window: what was predicted for it, what it was, and what the window before was.
    pub fn record(&mut self, predicted: PhaseId, actual: PhaseId, before: Option<PhaseId>) {
        let right = u64::from(predicted == actual);
        self.windows += 1;
        self.right += right;
        if before.is_some_and(|b| b != actual) {
            self.changes += 1;
            self.right_changes += right;
        }
    }

    /// Share of predictions that were right; `None` without predictions.
    pub fn accuracy(&self) -> Option<f64> {
        (self.windows > 0).then(|| self.right as f64 / self.windows as f64)
    }

    /// Share of changes of phase that were foreseen; `None` without changes.
    pub fn change_accuracy(&self) -> Option<f64> {
        (self.changes > 0).then(|| self.right_changes as f64 / self.changes as f64)
    }
}

/// Plays a sequence of phases to a predictor and counts how often it foresaw the next one.
///
/// # References
/// Paper II, II.4.2, figure II.5.
pub fn score_predictor(
    predictor: &mut impl Predictor,
    phases: impl IntoIterator<Item = PhaseId>,
) -> PredictionScore {
    let mut score = PredictionScore::default();
    let mut before = None;
    for phase in phases {
        if let Some(prediction) = predictor.predict() {
            score.record(prediction.phase, phase, before);
        }
        predictor.observe(phase);
        before = Some(phase);
    }
    score
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LastValue;

    /// Last value is right exactly where the phase does not change.
    #[test]
    fn last_value_misses_the_changes_and_nothing_else() {
        fn law(labels: Vec<u8>) -> bool {
            let labels: Vec<PhaseId> = labels.iter().map(|l| PhaseId::new(u32::from(l % 4))).collect();
            let changes = labels.windows(2).filter(|w| w[0] != w[1]).count() as u64;
            let score = score_predictor(&mut LastValue::new(), labels.iter().copied());
            score.windows == labels.len().saturating_sub(1) as u64
                && score.changes == changes
                && score.right == score.windows - changes
                && score.right_changes == 0
        }
        quickcheck::quickcheck(law as fn(Vec<u8>) -> bool);
        assert_eq!(PredictionScore::default().accuracy(), None);
    }
}
