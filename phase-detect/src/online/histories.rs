//! Predictors for many threads.
//!
//! All threads share one clusterer, so that the same code is the same phase in each. What they have done lately is
//! their own; what follows from it they may learn alone or together.

use std::collections::BTreeMap;

use crate::predict::{PpmTable, SharedTable};
use crate::{PhaseId, Prediction, Predictor};

/// Predicts the next phase of each of many threads.
pub trait Histories<T> {
    /// Learns that the window of `thread` that has just ended belonged to `phase`.
    fn observe(&mut self, thread: T, phase: PhaseId);

    /// The phase of the next window of `thread`; `None` before the first was observed.
    fn predict(&self, thread: T) -> Option<Prediction>;

    /// Windows within which the phase of `thread` changes: see [`Predictor::windows_to_change`].
    fn windows_to_change(&self, thread: T, quantile: f64) -> Option<u32> {
        let _ = (thread, quantile);
        None
    }

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

    fn windows_to_change(&self, thread: T, quantile: f64) -> Option<u32> {
        self.threads.get(&thread)?.windows_to_change(quantile)
    }

    fn forget(&mut self, thread: T) {
        self.threads.remove(&thread);
    }
}

/// Threads share one table: what one has gone through, the others need not learn again.
///
/// # References
/// Sembrant, Black-Schaffer, Hagersten, *Phase Behavior in Serial and Parallel Applications*, IISWC 2012, II.5 (which
/// found no advantage over private tables).
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(from = "SavedShared<L, L::History, T>", into = "SavedShared<L, L::History, T>")
)]
#[cfg_attr(
    feature = "serde",
    serde(bound(
        serialize = "L: Clone + serde::Serialize, L::History: Clone + serde::Serialize, T: Copy + Ord + serde::Serialize",
        deserialize = "L: serde::Deserialize<'de>, L::History: serde::Deserialize<'de>, T: Copy + Ord + serde::Deserialize<'de>"
    ))
)]
pub struct SharedHistories<L: SharedTable = PpmTable, T = u64> {
    table: L,
    threads: BTreeMap<T, L::History>,
}

impl<L: SharedTable, T: Copy + Ord> SharedHistories<L, T> {
    /// All threads learn into `table`.
    pub fn new(table: L) -> Self {
        Self { table, threads: BTreeMap::new() }
    }
}

impl<T: Copy + Ord> Default for SharedHistories<PpmTable, T> {
    fn default() -> Self {
        Self::new(PpmTable::default())
    }
}

impl<L: SharedTable, T: Copy + Ord> Histories<T> for SharedHistories<L, T> {
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
struct SavedShared<L, H, T> {
    table: L,
    threads: Vec<(T, H)>,
}

#[cfg(feature = "serde")]
impl<L: SharedTable, T> From<SharedHistories<L, T>> for SavedShared<L, L::History, T> {
    fn from(histories: SharedHistories<L, T>) -> Self {
        Self { table: histories.table, threads: histories.threads.into_iter().collect() }
    }
}

#[cfg(feature = "serde")]
impl<L: SharedTable, T: Ord> From<SavedShared<L, L::History, T>> for SharedHistories<L, T> {
    fn from(saved: SavedShared<L, L::History, T>) -> Self {
        Self { table: saved.table, threads: saved.threads.into_iter().collect() }
    }
}
