//! Which events to count: POP's selection of counters.
//!
//! A machine can count hundreds of events and only a few at a time. A good choice shows what the program does and not
//! how the machine takes it: first, counters that change when the machine is configured differently are dropped; then
//! the rest are ranked by how much they contribute to recognising reference phases.

mod forest;
mod tree;

pub use forest::{Forest, ForestConfig};

use crate::cluster::Shape;
use crate::cluster::distance::percentage;
use crate::{Error, Signature};

/// Parameters of the selection; checked by [`select`](Self::select). The defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CounterSelection {
    /// A counter must change by less than this between machine configurations: 0.01 is 1 %. Positive.
    pub max_change: f64,
    /// Counters to choose, at least 1; fewer are chosen if fewer pass the first step.
    pub keep: usize,
    /// The forest that ranks them.
    pub forest: ForestConfig,
}

impl Default for CounterSelection {
    /// Less than 1 % of change, the 8 best.
    fn default() -> Self {
        Self { max_change: 0.01, keep: 8, forest: ForestConfig::default() }
    }
}

/// A counter that passed the first step.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RankedCounter {
    /// Its position in the signatures.
    pub counter: usize,
    /// Its Gini importance as a percentage of the highest.
    pub score: f64,
    /// Its average percentage difference between configurations.
    pub change: f64,
}

/// What the selection found.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Selected {
    /// Average percentage difference of every counter between configurations (the largest, if there are several), in
    /// the order of the signatures.
    pub changes: Vec<f64>,
    /// The counters that passed the first step, the most important first.
    pub ranked: Vec<RankedCounter>,
    /// Positions of the chosen counters, the most important first.
    pub chosen: Vec<usize>,
    /// How well the forest recognises the phase of windows it was not grown from, 0 to 1. If this is low, the counters
    /// at hand do not separate the phases, and the ranking means little.
    pub accuracy: f64,
}

impl Selected {
    /// The chosen entries of a signature.
    ///
    /// # Errors
    /// [`Error::Length`] if the signature is not of those the selection was made from.
    pub fn project(&self, signature: &Signature) -> Result<Signature, Error> {
        if signature.len() != self.changes.len() {
            return Err(Error::Length { expected: self.changes.len(), got: signature.len() });
        }
        let values = self.chosen.iter().filter_map(|&c| signature.values().get(c).copied());
        Signature::raw(values.collect::<Vec<_>>())
    }
}

impl CounterSelection {
    /// Chooses counters.
    ///
    /// `base` holds the counts of each window in the machine's normal configuration; each element of `others` those of
    /// the same windows in another one (prefetchers off, say). `labels` is the reference phase of each window, from
    /// [`SimPoint`](crate::SimPoint) for example.
    ///
    /// # Formula
    /// Step 1: keep counter `c` if `(1/N) sum_i |a_ic - b_ic| / ((a_ic + b_ic) / 2) < max_change` for every other
    /// configuration (0/0 = 0). Step 2: rank by the mean decrease in Gini impurity over the forest's splits.
    ///
    /// # Limits
    /// Counters that say the same share their importance, so that two good ones may each look half as good.
    ///
    /// # Errors
    /// [`Error::NoWindows`] without windows, [`Error::Windows`] if a configuration or the labels have another number of
    /// windows, [`Error::Kind`] and [`Error::Length`] if signatures do not compare, [`Error::Parameter`] for a
    /// parameter outside its range, [`Error::NoInvariantCounter`] if no counter passes the first step.
    ///
    /// # Cost
    /// Dominated by the forest: trees x windows x log windows x counters tried per split.
    ///
    /// # References
    /// The POP detector paper, section III and table I.
    pub fn select<P: Clone + Ord>(
        &self,
        base: &[Signature],
        others: &[&[Signature]],
        labels: &[P],
    ) -> Result<Selected, Error> {
        self.check()?;
        let shape = Shape::of(base.first().ok_or(Error::NoWindows)?);
        same_windows("labels", base.len(), labels.len())?;
        for other in others {
            same_windows("windows of another configuration", base.len(), other.len())?;
        }
        for signature in others.iter().copied().flatten().chain(base) {
            shape.check(signature)?;
        }
        let changes: Vec<f64> = (0..shape.len)
            .map(|c| others.iter().map(|other| change(base, other, c)).fold(0.0, f64::max))
            .collect();
        let kept: Vec<usize> = (0..shape.len).filter(|&c| changes[c] < self.max_change).collect();
        if kept.is_empty() {
            let least = changes.iter().copied().fold(f64::INFINITY, f64::min);
            return Err(Error::NoInvariantCounter { least, limit: self.max_change });
        }
        let columns: Vec<Vec<f64>> =
            kept.iter().map(|&c| base.iter().map(|s| s.values()[c]).collect()).collect();
        let forest = self.forest.grow(&columns, labels)?;
        let highest = forest.importance().iter().copied().fold(0.0, f64::max);
        let mut ranked: Vec<RankedCounter> = kept
            .iter()
            .zip(forest.importance())
            .map(|(&counter, importance)| RankedCounter {
                counter,
                score: if highest > 0.0 { 100.0 * (importance / highest) } else { 0.0 },
                change: changes[counter],
            })
            .collect();
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        let chosen = ranked.iter().take(self.keep).map(|r| r.counter).collect();
        Ok(Selected { changes, ranked, chosen, accuracy: forest.out_of_bag_accuracy() })
    }

    fn check(&self) -> Result<(), Error> {
        if !(self.max_change > 0.0 && self.max_change.is_finite()) {
            return Err(Error::Parameter {
                name: "max_change",
                value: self.max_change,
                limit: "it must be positive and finite",
            });
        }
        crate::cluster::kmeans::at_least_one("keep", self.keep)
    }
}

fn same_windows(what: &'static str, expected: usize, got: usize) -> Result<(), Error> {
    if expected == got { Ok(()) } else { Err(Error::Windows { what, expected, got }) }
}

/// Average percentage difference of one counter over all windows.
fn change(base: &[Signature], other: &[Signature], counter: usize) -> f64 {
    let sum: f64 =
        base.iter().zip(other).map(|(a, b)| percentage(a.values()[counter], b.values()[counter])).sum();
    sum / base.len() as f64
}
