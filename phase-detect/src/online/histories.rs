//! Predictors for many threads.
//!
//! All threads share one clusterer, so that the same code is the same phase in each. What they have done lately is
//! their own; what follows from it they may learn alone or together.

use std::collections::BTreeMap;

use crate::predict::{RunLengthHistory, RunLengthTable};
use crate::{PhaseId, Prediction, Predictor};

/// Predicts the next phase of each of many threads.
pub trait Histories<T> {
    /// Learns that the window of `thread` that has just ended belonged to `phase`.
    fn observe(&mut self, thread: T, phase: PhaseId);

    /// The phase of the next window of `thread`; `None` before the first was observed.
    fn predict(&self, thread: T) -> Option<Prediction>;

    /// Forgets a thread that has ended.
    fn forget(&mut self, thread: T);
}

/// Each thread has a predictor of its own, a copy of a prototype.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "SavedPrivate<P, T>", into = "SavedPrivate<P, T>"))]
#[cfg_attr(
    feature = "serde",
    serde(bound(
        serialize = "P: Clone + serde::Serialize, T: Copy + Ord + serde::Serialize",
        deserialize = "P: serde::Deserialize<'de>, T: Copy + Ord + serde::Deserialize<'de>"
    ))
)]
pub struct PrivateHistories<P, T = u64> {
    prototype: P,
    threads: BTreeMap<T, P>,
}

impl<P: Predictor + Clone, T: Copy + Ord> PrivateHistories<P, T> {
    /// Every thread starts with a copy of `prototype`.
    pub fn new(prototype: P) -> Self {
        Self { prototype, threads: BTreeMap::new() }
    }

    /// The predictor of a thread that has been observed.
    pub fn thread(&self, thread: T) -> Option<&P> {
        self.threads.get(&thread)
    }
}

impl<P: Predictor + Clone, T: Copy + Ord> Histories<T> for PrivateHistories<P, T> {
    fn observe(&mut self, thread: T, phase: PhaseId) {
        self.threads.entry(thread).or_insert_with(|| self.prototype.clone()).observe(phase);
    }

    fn predict(&self, thread: T) -> Option<Prediction> {
        self.threads.get(&thread)?.predict()
    }

    fn forget(&mut self, thread: T) {
        self.threads.remove(&thread);
    }
}

/// Threads share one run-length table: what one has gone through, the others need not learn again.
///
/// # References
/// Sembrant, Black-Schaffer, Hagersten, *Phase Behavior in Serial and Parallel Applications*, IISWC 2012, II.5 (which
/// found no advantage over private tables).
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "SavedShared<T>", into = "SavedShared<T>"))]
#[cfg_attr(
    feature = "serde",
    serde(bound(
        serialize = "T: Copy + Ord + serde::Serialize",
        deserialize = "T: Copy + Ord + serde::Deserialize<'de>"
    ))
)]
pub struct SharedHistories<T = u64> {
    table: RunLengthTable,
    threads: BTreeMap<T, RunLengthHistory>,
}

impl<T: Copy + Ord> SharedHistories<T> {
    /// All threads learn into `table`.
    pub fn new(table: RunLengthTable) -> Self {
        Self { table, threads: BTreeMap::new() }
    }
}

impl<T: Copy + Ord> Default for SharedHistories<T> {
    fn default() -> Self {
        Self::new(RunLengthTable::default())
    }
}

impl<T: Copy + Ord> Histories<T> for SharedHistories<T> {
    fn observe(&mut self, thread: T, phase: PhaseId) {
        self.table.observe(self.threads.entry(thread).or_default(), phase);
    }

    fn predict(&self, thread: T) -> Option<Prediction> {
        self.table.predict(self.threads.get(&thread)?)
    }

    fn forget(&mut self, thread: T) {
        self.threads.remove(&thread);
    }
}

// Saved as lists: keys of a map must be text in many formats, and threads need not be.

#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct SavedPrivate<P, T> {
    prototype: P,
    threads: Vec<(T, P)>,
}

#[cfg(feature = "serde")]
impl<P, T> From<PrivateHistories<P, T>> for SavedPrivate<P, T> {
    fn from(histories: PrivateHistories<P, T>) -> Self {
        Self { prototype: histories.prototype, threads: histories.threads.into_iter().collect() }
    }
}

#[cfg(feature = "serde")]
impl<P, T: Ord> From<SavedPrivate<P, T>> for PrivateHistories<P, T> {
    fn from(saved: SavedPrivate<P, T>) -> Self {
        Self { prototype: saved.prototype, threads: saved.threads.into_iter().collect() }
    }
}

#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct SavedShared<T> {
    table: RunLengthTable,
    threads: Vec<(T, RunLengthHistory)>,
}

#[cfg(feature = "serde")]
impl<T> From<SharedHistories<T>> for SavedShared<T> {
    fn from(histories: SharedHistories<T>) -> Self {
        Self { table: histories.table, threads: histories.threads.into_iter().collect() }
    }
}

#[cfg(feature = "serde")]
impl<T: Ord> From<SavedShared<T>> for SharedHistories<T> {
    fn from(saved: SavedShared<T>) -> Self {
        Self { table: saved.table, threads: saved.threads.into_iter().collect() }
    }
}
