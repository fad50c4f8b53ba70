//! The table of histories and what followed them, apart from any one history: several threads may learn into one.

use super::RunLengthMarkovConfig;
use crate::predict::confidence::Confidence;
use crate::predict::{LastValue, Prediction, Predictor};
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
    // of the last run, the last two, ...; a wrong one would only miss the table
    hashes: [u64; MAX_HISTORY],
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
        let mut hash = 0;
        for (run, place) in self.runs.iter().zip(&mut self.hashes) {
            hash = extend(hash, run);
            *place = hash;
        }
        self.last.observe(phase);
    }

    /// The last `depth` runs, if there are as many.
    #[inline]
    fn tag(&self, depth: usize) -> Option<Runs> {
        let mut tag = Runs::default();
        tag[..depth].copy_from_slice(&self.runs[..depth]);
        (tag[depth - 1].length > 0).then_some(tag)
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

    /// Learns that `phase` followed `history`, and appends it to the history.
    pub fn observe(&mut self, history: &mut RunLengthHistory, phase: PhaseId) {
        if let Some(last) = history.last.last() {
            for depth in 1..=self.config.history {
                let Some(tag) = history.tag(depth) else { break };
                let place = self.place(history.hashes[depth - 1]);
                let slot = &mut self.entries[place];
                match slot {
                    Some(entry) if entry.tag == tag => {
                        entry.confidence.record(entry.next == phase);
                        entry.next = phase;
                    }
                    _ if last != phase => {
                        *slot = Some(Entry { tag, next: phase, confidence: Confidence::default() });
                    }
                    _ => {}
                }
            }
        }
        history.advance(phase, self.config.history);
    }

    /// What follows `history`.
    pub fn predict(&self, history: &RunLengthHistory) -> Option<Prediction> {
        let believed = (1..=self.config.history).rev().find_map(|depth| {
            let tag = history.tag(depth)?;
            let entry = self.entries[self.place(history.hashes[depth - 1])].as_ref()?;
            (entry.tag == tag && entry.confidence.count() >= self.config.min_confidence)
                .then(|| Prediction { phase: entry.next, confidence: entry.confidence.share() })
        });
        believed.or_else(|| history.last.predict())
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        hash as usize & (self.entries.len() - 1)
    }
}

/// What a history is found by, one run longer.
#[inline]
fn extend(hash: u64, run: &Run) -> u64 {
    mix(hash ^ (u64::from(run.phase) << 32 | u64::from(run.length)))
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
            let runs = entry.tag.iter().take_while(|run| run.length > 0);
            let place = table.place(runs.fold(0, extend));
            table.entries[place] = Some(entry);
        }
        Ok(table)
    }
}
