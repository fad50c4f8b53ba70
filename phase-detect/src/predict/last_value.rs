//! The simplest predictor: the program stays in the phase it is in.

use super::confidence::Confidence;
use super::{Prediction, Predictor};
use crate::PhaseId;

/// Predicts that the next window belongs to the phase of the last one.
///
/// Right as often as windows are followed by their like, which for most programs is most of the time; blind to every
/// change. Costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LastValue {
    last: Option<PhaseId>,
    confidence: Confidence,
}

impl LastValue {
    /// A predictor that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn last(&self) -> Option<PhaseId> {
        self.last
    }
}

impl Predictor for LastValue {
    #[inline]
    fn observe(&mut self, phase: PhaseId) {
        if let Some(last) = self.last.replace(phase) {
            self.confidence.record(last == phase);
        }
    }

    #[inline]
    fn predict(&self) -> Option<Prediction> {
        self.last.map(|phase| Prediction { phase, confidence: self.confidence.share() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_what_it_saw() {
        let mut last = LastValue::new();
        assert_eq!(last.predict(), None);
        // two right answers, then one wrong: 1 of 10
        for (phase, confidence) in [(3, 0.0), (3, 0.1), (3, 0.2), (5, 0.1)] {
            let phase = PhaseId::new(phase);
            last.observe(phase);
            assert_eq!(last.predict(), Some(Prediction { phase, confidence }));
        }
    }
}
