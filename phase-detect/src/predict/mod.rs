//! Predictors: which phase the next window will belong to.

mod confidence;
mod last_value;
mod ppm;
mod run_length;
mod scored;

pub use last_value::LastValue;
pub use ppm::{Ppm, PpmHistory, PpmTable};
pub use run_length::{RunLengthHistory, RunLengthMarkov, RunLengthMarkovConfig, RunLengthTable};
pub use scored::{AnyPredictor, ScoredPredictors};

use crate::PhaseId;

/// Predicts the next phase from the phases so far.
pub trait Predictor {
    /// Learns that the window that has just ended belonged to `phase`.
    fn observe(&mut self, phase: PhaseId);

    /// The phase of the next window; `None` before the first was observed.
    fn predict(&self) -> Option<Prediction>;

    /// Windows within which the phase changes with a probability of at least `quantile`: 1 if already the next may be
    /// another. `None` if none is foreseen, and of predictors that know no run lengths.
    fn windows_to_change(&self, quantile: f64) -> Option<u32> {
        let _ = quantile;
        None
    }
}

impl<P: Predictor + ?Sized> Predictor for Box<P> {
    fn observe(&mut self, phase: PhaseId) {
        (**self).observe(phase);
    }
    fn predict(&self) -> Option<Prediction> {
        (**self).predict()
    }
    fn windows_to_change(&self, quantile: f64) -> Option<u32> {
        (**self).windows_to_change(quantile)
    }
}

/// The learned part of a predictor, apart from what any one thread has done lately: several threads may learn into one.
pub trait SharedTable {
    /// What one thread has done lately.
    type History: Default;

    /// Learns that `phase` followed `history`, and appends it to the history.
    fn observe(&mut self, history: &mut Self::History, phase: PhaseId);

    /// The phase that follows `history`; `None` before the first was observed.
    fn predict(&self, history: &Self::History) -> Option<Prediction>;
}

/// A predicted phase.
#[cfg_attr(
    feature = "serde",
    doc = r"
# Saving
With the feature `serde`, detectors, clusterers, predictors and what they say can be saved, read and gone on with.

```
use phase_detect::{PhaseId, Ppm, Predictor};

let mut predictor = Ppm::default();
for window in 0..60 {
    predictor.observe(PhaseId::new(window / 10 % 2));
}
let read: Ppm = serde_json::from_str(&serde_json::to_string(&predictor)?)?;
assert_eq!(read.predict(), predictor.predict());
# Ok::<(), Box<dyn std::error::Error>>(())
```
"
)]
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Prediction {
    /// The phase the next window is expected to belong to.
    pub phase: PhaseId,
    /// How sure the predictor is, in 0..=1. Of [`Ppm`] it is the probability of being right. The others say how well
    /// predictions from this place have done lately, by a saturating counter over its maximum: 0 after a wrong one or with
    /// no experience.
    pub confidence: f64,
}
