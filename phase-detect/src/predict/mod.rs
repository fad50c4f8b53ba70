//! Predictors: which phase the next window will belong to.

mod confidence;
mod last_value;
mod run_length;
mod scored;

pub use last_value::LastValue;
pub use run_length::{RunLengthHistory, RunLengthMarkov, RunLengthMarkovConfig, RunLengthTable};
pub use scored::{AnyPredictor, ScoredPredictors};

use crate::PhaseId;

/// Tells the next phase from the phases so far.
pub trait Predictor {
    /// Learns that the window that has just ended belonged to `phase`.
    fn observe(&mut self, phase: PhaseId);

    /// The phase of the next window; `None` before the first was observed.
    fn predict(&self) -> Option<Prediction>;
}

impl<P: Predictor + ?Sized> Predictor for Box<P> {
    fn observe(&mut self, phase: PhaseId) {
        (**self).observe(phase);
    }
    fn predict(&self) -> Option<Prediction> {
        (**self).predict()
    }
}

/// A predicted phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The phase the next window is expected to belong to.
    pub phase: PhaseId,
    /// How well predictions from this place have done lately, in 0..=1: the predictor's saturating counter over its
    /// maximum. 0 after a wrong one or with no experience; it is not a probability.
    pub confidence: f64,
}
