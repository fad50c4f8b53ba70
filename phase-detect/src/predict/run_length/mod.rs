//! Prediction from run lengths: how long the program stayed in its last phases predicts what comes next.
//!
//! A Markov table indexed by the last few (phase, run length) pairs, the current and unfinished one included. Loops
//! over phases make such histories recur exactly. Only histories that were followed by a change are remembered, so
//! that a long stable phase costs nothing; everything else falls back to the last value.

mod table;

use table::MAX_HISTORY;
pub use table::{RunLengthHistory, RunLengthTable};

use super::confidence::Confidence;
use super::{Prediction, Predictor, SharedTable};
use crate::{Error, PhaseId};

/// Parameters of [`RunLengthMarkov`]; checked by [`RunLengthMarkov::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RunLengthMarkovConfig {
    /// Entries of the direct-mapped table: a power of two, at most 2^20.
    pub entries: usize,
    /// Pairs of phase and run length an entry is found by, from 1 to 4. The last pair is the run under way.
    pub history: usize,
    /// Right answers, less wrong ones, that an entry needs before it is believed, from 0 to 10.
    pub min_confidence: u8,
}

impl Default for RunLengthMarkovConfig {
    /// 256 entries, the last two runs, one right answer.
    fn default() -> Self {
        Self { entries: 256, history: 2, min_confidence: 1 }
    }
}

impl RunLengthMarkovConfig {
    fn check(&self) -> Result<(), Error> {
        if !self.entries.is_power_of_two() || self.entries > 1 << 20 {
            return Err(Error::Parameter {
                name: "entries",
                value: self.entries as f64,
                limit: "the table must have a power of two of entries, at most 2^20",
            });
        }
        if !(1..=MAX_HISTORY).contains(&self.history) {
            return Err(Error::Parameter {
                name: "history",
                value: self.history as f64,
                limit: "a history is 1 to 4 runs long",
            });
        }
        if self.min_confidence > Confidence::MAX {
            return Err(Error::Parameter {
                name: "min_confidence",
                value: f64::from(self.min_confidence),
                limit: "the counter ends at 10",
            });
        }
        Ok(())
    }
}

/// The run-length Markov predictor.
///
/// Learning, when a window of phase `p` ends after history `h`: if the table holds `h`, a right prediction raises the
/// entry's saturating counter and a wrong one lowers it and is replaced by `p`; if it does not, an entry is made only
/// if `p` is a change of phase. Predicting: the entry of the current history if its counter has reached the minimum,
/// otherwise the last value. Tags are whole histories, so that two histories never share an entry by accident; one
/// that maps to an occupied place evicts what is there.
///
/// ```
/// use phase_detect::{PhaseId, Predictor, RunLengthMarkov};
///
/// let mut runs = RunLengthMarkov::default();
/// // phases 0 0 0 1, over and over
/// for window in 0..40 {
///     runs.observe(PhaseId::new(u32::from(window % 4 == 3)));
/// }
/// // after 0 0 0 1 comes 0: a change, which the last value would miss
/// assert_eq!(runs.predict().map(|p| p.phase), Some(PhaseId::new(0)));
/// ```
///
/// # Cost
/// One hash of the history and one table entry for each of observe and predict; nothing is allocated.
///
/// # References
/// Sherwood, Sair, Calder, *Phase Tracking and Prediction*, ISCA 2003; Lau, Schoenmackers, Calder, *Transition Phase
/// Classification and Prediction*, HPCA 2005; used by ScarPhase (Sembrant, thesis 2012, 2.4 and Paper I, I.6).
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RunLengthMarkov {
    table: RunLengthTable,
    history: RunLengthHistory,
}

impl RunLengthMarkov {
    /// A predictor that has seen nothing.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range.
    pub fn new(config: RunLengthMarkovConfig) -> Result<Self, Error> {
        Ok(Self { table: RunLengthTable::new(config)?, history: RunLengthHistory::default() })
    }

    /// The parameters.
    pub fn config(&self) -> &RunLengthMarkovConfig {
        self.table.config()
    }
}

impl Predictor for RunLengthMarkov {
    fn observe(&mut self, phase: PhaseId) {
        self.table.observe(&mut self.history, phase);
    }

    fn predict(&self) -> Option<Prediction> {
        self.table.predict(&self.history)
    }
}
