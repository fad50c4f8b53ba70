//! Prediction from run lengths: how long the program stayed in its last phases tells what comes next.
//!
//! A Markov table indexed by the last few (phase, run length) pairs, the current and unfinished one included. Loops
//! over phases make such histories recur exactly. Only histories that were followed by a change are remembered, so
//! that a long stable phase costs nothing; everything else falls back to the last value.

use super::confidence::Confidence;
use super::{LastValue, Prediction, Predictor};
use crate::rng::mix;
use crate::{Error, PhaseId};

/// Longest history a table can be indexed by.
const MAX_HISTORY: usize = 4;

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

/// A run: how many windows in a row belonged to a phase. Length 0: no run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Run {
    phase: u32,
    length: u32,
}

/// The last runs, the newest first; those beyond the configured history stay empty.
type History = [Run; MAX_HISTORY];

#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Entry {
    tag: History,
    next: PhaseId,
    confidence: Confidence,
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
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved", into = "Saved"))]
pub struct RunLengthMarkov {
    config: RunLengthMarkovConfig,
    // config.entries long
    table: Vec<Option<Entry>>,
    history: History,
    // place of `history` in the table
    index: usize,
    last: LastValue,
}

impl Default for RunLengthMarkov {
    fn default() -> Self {
        Self::empty(RunLengthMarkovConfig::default())
    }
}

impl RunLengthMarkov {
    /// A predictor that has seen nothing.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range.
    pub fn new(config: RunLengthMarkovConfig) -> Result<Self, Error> {
        config.check()?;
        Ok(Self::empty(config))
    }

    /// The parameters.
    pub fn config(&self) -> &RunLengthMarkovConfig {
        &self.config
    }

    fn empty(config: RunLengthMarkovConfig) -> Self {
        Self {
            config,
            table: vec![None; config.entries],
            history: History::default(),
            index: 0,
            last: LastValue::new(),
        }
    }

    /// Appends `phase` to the history and finds its new place.
    #[inline]
    fn advance(&mut self, phase: PhaseId) {
        let phase = phase.number();
        let depth = self.config.history;
        let current = &mut self.history[0];
        if current.length > 0 && current.phase == phase {
            current.length = current.length.saturating_add(1);
        } else {
            self.history.copy_within(0..depth - 1, 1);
            self.history[0] = Run { phase, length: 1 };
        }
        self.index = place(&self.history[..depth]) & (self.config.entries - 1);
    }
}

#[inline]
fn place(history: &[Run]) -> usize {
    let hash = history
        .iter()
        .fold(0, |hash: u64, run| mix(hash ^ (u64::from(run.phase) << 32 | u64::from(run.length))));
    hash as usize
}

impl Predictor for RunLengthMarkov {
    fn observe(&mut self, phase: PhaseId) {
        if let Some(last) = self.last.last() {
            let slot = &mut self.table[self.index];
            match slot {
                Some(entry) if entry.tag == self.history => {
                    let right = entry.next == phase;
                    entry.confidence.record(right);
                    entry.next = phase;
                }
                _ if last != phase => {
                    *slot = Some(Entry { tag: self.history, next: phase, confidence: Confidence::default() });
                }
                _ => {}
            }
        }
        self.advance(phase);
        self.last.observe(phase);
    }

    fn predict(&self) -> Option<Prediction> {
        if let Some(entry) = &self.table[self.index] {
            if entry.tag == self.history && entry.confidence.count() >= self.config.min_confidence {
                return Some(Prediction { phase: entry.next, confidence: entry.confidence.share() });
            }
        }
        self.last.predict()
    }
}

/// What is saved; the place is computed again.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Saved {
    config: RunLengthMarkovConfig,
    entries: Vec<(usize, Entry)>,
    history: History,
    last: LastValue,
}

#[cfg(feature = "serde")]
impl From<RunLengthMarkov> for Saved {
    fn from(predictor: RunLengthMarkov) -> Self {
        let entries = predictor.table.iter().enumerate();
        Self {
            config: predictor.config,
            entries: entries.filter_map(|(i, e)| e.map(|e| (i, e))).collect(),
            history: predictor.history,
            last: predictor.last,
        }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for RunLengthMarkov {
    type Error = Error;
    fn try_from(saved: Saved) -> Result<Self, Error> {
        let mut predictor = Self::new(saved.config)?;
        let depth = saved.config.history;
        for (index, entry) in saved.entries {
            let home = place(&entry.tag[..depth]) & (saved.config.entries - 1);
            if index != home {
                return Err(Error::SavedState { what: "a remembered history is not in its place" });
            }
            predictor.table[index] = Some(entry);
        }
        predictor.history = saved.history;
        predictor.last = saved.last;
        if saved.last.last().is_some() {
            predictor.index = place(&saved.history[..depth]) & (saved.config.entries - 1);
        }
        Ok(predictor)
    }
}
