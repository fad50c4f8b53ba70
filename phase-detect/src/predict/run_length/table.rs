//! The table of histories and what followed them, apart from any one history: several threads may learn into one.

use super::RunLengthMarkovConfig;
use crate::predict::confidence::Confidence;
use crate::predict::{LastValue, Prediction, Predictor, SharedTable};
use crate::rng::mix;
use crate::{Error, PhaseId};

/// Longest history a table can be indexed by.
pub(super) const MAX_HISTORY: usize = 4;

/// A run: how many windows in a row belonged to a phase. Length 0: no run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Run {
    phase: u32,
    length: u32,
}

/// The last runs, the newest first; those beyond the configured history stay empty.
type Runs = [Run; MAX_HISTORY];

#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Entry {
    tag: Runs,
    next: PhaseId,
    confidence: Confidence,
}

/// What one thread has done lately: its last runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RunLengthHistory {
    runs: Runs,
    // of `runs`; a wrong one would only miss the table
    hash: u64,
    last: LastValue,
}

impl RunLengthHistory {
    #[inline]
    fn advance(&mut self, phase: PhaseId, depth: usize) {
        let number = phase.number();
        let current = &mut self.runs[0];
        if current.length > 0 && current.phase == number {
            current.length = current.length.saturating_add(1);
        } else {
            self.runs.copy_within(0..depth - 1, 1);
            self.runs[0] = Run { phase: number, length: 1 };
        }
        self.hash = hash(&self.runs[..depth]);
        self.last.observe(phase);
    }
}

/// The learned part of [`RunLengthMarkov`](super::RunLengthMarkov): which phase followed which history.
///
/// Use it with one [`RunLengthHistory`] per thread to let threads learn from each other.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved", into = "Saved"))]
pub struct RunLengthTable {
    config: RunLengthMarkovConfig,
    // config.entries long
    entries: Vec<Option<Entry>>,
}

impl Default for RunLengthTable {
    fn default() -> Self {
        let config = RunLengthMarkovConfig::default();
        Self { config, entries: vec![None; config.entries] }
    }
}

impl RunLengthTable {
    /// An empty table.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range.
    pub fn new(config: RunLengthMarkovConfig) -> Result<Self, Error> {
        config.check()?;
        Ok(Self { config, entries: vec![None; config.entries] })
    }

    /// The parameters.
    pub fn config(&self) -> &RunLengthMarkovConfig {
        &self.config
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        hash as usize & (self.entries.len() - 1)
    }
}

impl SharedTable for RunLengthTable {
    type History = RunLengthHistory;

    fn observe(&mut self, history: &mut RunLengthHistory, phase: PhaseId) {
        if let Some(last) = history.last.last() {
            let place = self.place(history.hash);
            let slot = &mut self.entries[place];
            match slot {
                Some(entry) if entry.tag == history.runs => {
                    entry.confidence.record(entry.next == phase);
                    entry.next = phase;
                }
                _ if last != phase => {
                    *slot = Some(Entry { tag: history.runs, next: phase, confidence: Confidence::default() });
                }
                _ => {}
            }
        }
        history.advance(phase, self.config.history);
    }

    fn predict(&self, history: &RunLengthHistory) -> Option<Prediction> {
        if let Some(entry) = &self.entries[self.place(history.hash)] {
            if entry.tag == history.runs && entry.confidence.count() >= self.config.min_confidence {
                return Some(Prediction { phase: entry.next, confidence: entry.confidence.share() });
            }
        }
        history.last.predict()
    }
}

/// What a history is found by.
#[inline]
fn hash(runs: &[Run]) -> u64 {
    runs.iter().fold(0, |hash, run| mix(hash ^ (u64::from(run.phase) << 32 | u64::from(run.length))))
}

/// What is saved: the occupied places.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Saved {
    config: RunLengthMarkovConfig,
    entries: Vec<Entry>,
}

#[cfg(feature = "serde")]
impl From<RunLengthTable> for Saved {
    fn from(table: RunLengthTable) -> Self {
        Self { config: table.config, entries: table.entries.into_iter().flatten().collect() }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for RunLengthTable {
    type Error = Error;
    fn try_from(saved: Saved) -> Result<Self, Error> {
        let mut table = Self::new(saved.config)?;
        for entry in saved.entries {
            let place = table.place(hash(&entry.tag[..saved.config.history]));
            table.entries[place] = Some(entry);
        }
        Ok(table)
    }
}
