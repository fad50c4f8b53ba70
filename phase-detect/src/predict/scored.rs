//! Several predictors, of which the one that has done best lately is believed.
//!
//! No predictor is best for every program, nor for all of one program. All see all phases; each prediction is
//! scored when the window it was made for has ended, with a memory that fades.

use super::{LastValue, Ppm, Prediction, Predictor, RunLengthMarkov};
use crate::metrics::PredictionScore;
use crate::{Error, PhaseId};

/// Any of this crate's predictors, where several kinds are kept together.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum AnyPredictor {
    /// The phase of the last window.
    LastValue(LastValue),
    /// The run-length Markov table.
    RunLength(RunLengthMarkov),
    /// Prediction by partial matching.
    Ppm(Box<Ppm>),
}

impl From<LastValue> for AnyPredictor {
    fn from(predictor: LastValue) -> Self {
        Self::LastValue(predictor)
    }
}

impl From<RunLengthMarkov> for AnyPredictor {
    fn from(predictor: RunLengthMarkov) -> Self {
        Self::RunLength(predictor)
    }
}

impl From<Ppm> for AnyPredictor {
    fn from(predictor: Ppm) -> Self {
        Self::Ppm(Box::new(predictor))
    }
}

impl Predictor for AnyPredictor {
    fn observe(&mut self, phase: PhaseId) {
        match self {
            Self::LastValue(p) => p.observe(phase),
            Self::RunLength(p) => p.observe(phase),
            Self::Ppm(p) => p.observe(phase),
        }
    }

    fn predict(&self) -> Option<Prediction> {
        match self {
            Self::LastValue(p) => p.predict(),
            Self::RunLength(p) => p.predict(),
            Self::Ppm(p) => p.predict(),
        }
    }

    fn windows_to_change(&self, quantile: f64) -> Option<u32> {
        match self {
            Self::LastValue(_) | Self::RunLength(_) => None,
            Self::Ppm(p) => p.windows_to_change(quantile),
        }
    }
}

/// A table of predictors, scored while they run.
///
/// ```
/// use phase_detect::predict::{LastValue, RunLengthMarkov, ScoredPredictors};
/// use phase_detect::{PhaseId, Predictor};
///
/// let predictors = vec![LastValue::new().into(), RunLengthMarkov::default().into()];
/// let mut table: ScoredPredictors = ScoredPredictors::new(predictors, 32)?;
/// for window in 0..100 {
///     table.observe(PhaseId::new(u32::from(window % 5 == 4))); // a change every few windows
/// }
/// assert_eq!(table.best(), 1); // the run-length predictor
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # Formula
/// After each window, `score <- score + (hit - score) / memory` with `hit` 1 if the predictor had foreseen its phase
/// and 0 if not; the highest score predicts next, the first of several.
///
/// # Cost
/// That of all predictors together.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved<P>"))]
#[cfg_attr(
    feature = "serde",
    serde(bound(serialize = "P: Clone + serde::Serialize", deserialize = "P: serde::Deserialize<'de>"))
)]
pub struct ScoredPredictors<P = AnyPredictor> {
    memory: u32, // at least 1
    // not empty
    entries: Vec<Scored<P>>,
    best: usize, // below entries.len()
    last: Option<PhaseId>,
}

#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Scored<P> {
    predictor: P,
    recent: f64, // in 0..=1
    total: PredictionScore,
}

impl<P: Predictor> ScoredPredictors<P> {
    /// A table of `predictors` whose scores look back over about `memory` windows.
    ///
    /// # Errors
    /// [`Error::Parameter`] without predictors or memory.
    pub fn new(predictors: Vec<P>, memory: u32) -> Result<Self, Error> {
        at_least_one("predictors", predictors.len())?;
        at_least_one("memory", memory as usize)?;
        let entries = predictors
            .into_iter()
            .map(|predictor| Scored { predictor, recent: 0.0, total: PredictionScore::default() })
            .collect();
        Ok(Self { memory, entries, best: 0, last: None })
    }

    /// Position of the predictor that is believed now.
    pub fn best(&self) -> usize {
        self.best
    }

    /// Recent score (0 to 1) and total score of each predictor, in the order given.
    pub fn scores(&self) -> impl Iterator<Item = (f64, PredictionScore)> {
        self.entries.iter().map(|e| (e.recent, e.total))
    }
}

fn at_least_one(name: &'static str, value: usize) -> Result<(), Error> {
    if value > 0 {
        return Ok(());
    }
    Err(Error::Parameter { name, value: 0.0, limit: "it must be at least 1" })
}

impl<P: Predictor> Predictor for ScoredPredictors<P> {
    fn observe(&mut self, phase: PhaseId) {
        let fading = 1.0 / f64::from(self.memory);
        for entry in &mut self.entries {
            if let Some(prediction) = entry.predictor.predict() {
                entry.total.record(prediction.phase, phase, self.last);
                let hit = f64::from(u8::from(prediction.phase == phase));
                entry.recent += (hit - entry.recent) * fading;
            }
            entry.predictor.observe(phase);
        }
        self.last = Some(phase);
        let mut best = 0;
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.recent > self.entries[best].recent {
                best = index;
            }
        }
        self.best = best;
    }

    fn predict(&self) -> Option<Prediction> {
        self.entries[self.best].predictor.predict()
    }

    /// What the best of those say that foresee changes at all.
    fn windows_to_change(&self, quantile: f64) -> Option<u32> {
        let mut ranked: Vec<&Scored<P>> = self.entries.iter().collect();
        ranked.sort_by(|a, b| b.recent.total_cmp(&a.recent));
        ranked.iter().find_map(|entry| entry.predictor.windows_to_change(quantile))
    }
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved<P> {
    memory: u32,
    entries: Vec<Scored<P>>,
    best: usize,
    last: Option<PhaseId>,
}

#[cfg(feature = "serde")]
impl<P> TryFrom<Saved<P>> for ScoredPredictors<P> {
    type Error = Error;
    fn try_from(saved: Saved<P>) -> Result<Self, Error> {
        let scores_fit = saved.entries.iter().all(|e| (0.0..=1.0).contains(&e.recent));
        if saved.memory == 0 || saved.best >= saved.entries.len() || !scores_fit {
            return Err(Error::SavedState { what: "the table of predictors does not hold together" });
        }
        Ok(Self { memory: saved.memory, entries: saved.entries, best: saved.best, last: saved.last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::score_predictor;

    fn table() -> ScoredPredictors {
        ScoredPredictors::new(vec![LastValue::new().into(), RunLengthMarkov::default().into()], 16).unwrap()
    }

    /// The totals are those each predictor has on its own.
    #[test]
    fn totals_equal_separate_runs() {
        fn law(labels: Vec<u8>) -> bool {
            let labels: Vec<PhaseId> = labels.iter().map(|l| PhaseId::new(u32::from(l % 3))).collect();
            let mut table = table();
            for &label in &labels {
                table.observe(label);
            }
            let last = score_predictor(&mut LastValue::new(), labels.iter().copied());
            let runs = score_predictor(&mut RunLengthMarkov::default(), labels.iter().copied());
            table.scores().map(|s| s.1).eq([last, runs])
        }
        quickcheck::quickcheck(law as fn(Vec<u8>) -> bool);
    }

    /// First a loop that only the run lengths foresee, then one long phase in which both are right, then random jumps:
    /// the table follows the better one, and over the loop it comes close to the best of both.
    #[test]
    fn follows_the_better_predictor() {
        let mut table = table();
        let round = [0, 0, 1, 2, 2, 2];
        let score = score_predictor(&mut table, round.iter().copied().cycle().take(600).map(PhaseId::new));
        assert_eq!(table.best(), 1);
        // all but the first rounds, until the table has learned and the scores have crossed
        assert!(score.right >= 560, "{score:?}");
    }

    #[test]
    fn parameters_are_checked() {
        assert!(ScoredPredictors::<LastValue>::new(vec![], 3).is_err());
        assert!(ScoredPredictors::new(vec![LastValue::new()], 0).is_err());
    }
}
