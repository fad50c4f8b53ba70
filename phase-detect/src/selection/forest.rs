//! A small random forest, for ranking features.
//!
//! Many trees, each grown from a random draw of the windows and, at every split, a random draw of the features. It
//! exists because the forests at hand in other crates do not report the importance of features (their single trees
//! do); it is not meant as a general classifier, and regression, categories and missing values are left out.
//!
//! Reference: Breiman, *Random forests*, Machine Learning 45, 2001.

use std::collections::BTreeMap;

use super::tree::{Data, Tree, TreeConfig};
use crate::Error;
use crate::cluster::kmeans::{at_least_one, restart_seed};
use crate::rng::SplitMix64;

/// Parameters of a [`Forest`]; checked by [`grow`](Self::grow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ForestConfig {
    /// Trees, at least 1.
    pub trees: usize,
    /// Features tried at each split, at least 1; `None`: the square root of their number.
    pub features_per_split: Option<usize>,
    /// Deepest level of splits, at least 1.
    pub max_depth: usize,
    /// Fewest windows on either side of a split, at least 1.
    pub min_leaf: usize,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Default for ForestConfig {
    /// 100 trees, the square root of the features at each split, full depth.
    fn default() -> Self {
        Self { trees: 100, features_per_split: None, max_depth: usize::MAX, min_leaf: 1, seed: 0 }
    }
}

/// A grown forest.
///
/// ```
/// use phase_detect::selection::ForestConfig;
///
/// // the first feature is the class, the second says nothing
/// let columns = vec![
///     (0..40).map(|w| f64::from(w % 2)).collect::<Vec<_>>(),
///     (0..40).map(|w| f64::from(w / 2 % 7)).collect(),
/// ];
/// let classes: Vec<char> = (0..40).map(|w| if w % 2 == 0 { 'a' } else { 'b' }).collect();
/// let forest = ForestConfig::default().grow(&columns, &classes)?;
/// assert!(forest.importance()[0] > 0.8);
/// assert_eq!(forest.predict(&[1.0, 3.0])?, 'b');
/// # Ok::<(), phase_detect::Error>(())
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "Saved<P>", bound(deserialize = "P: Clone + Ord + serde::Deserialize<'de>"))
)]
pub struct Forest<P> {
    // the classes, ascending; not empty
    classes: Vec<P>,
    trees: Vec<Tree>,
    importance: Vec<f64>,
    accuracy: f64,
}

/// A forest as it is read: its trees are not yet known to end.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved<P> {
    classes: Vec<P>,
    trees: Vec<Tree>,
    importance: Vec<f64>,
    accuracy: f64,
}

#[cfg(feature = "serde")]
impl<P: Clone + Ord> TryFrom<Saved<P>> for Forest<P> {
    type Error = Error;

    fn try_from(Saved { classes, trees, importance, accuracy }: Saved<P>) -> Result<Self, Error> {
        let damaged = |what| Err(Error::SavedState { what });
        if classes.is_empty() || !classes.is_sorted() {
            return damaged("the classes do not ascend");
        }
        if trees.is_empty() || !trees.iter().all(|tree| tree.is_sound(importance.len(), classes.len())) {
            return damaged("a tree has a split without sides, or a feature or class that is not there");
        }
        if !importance.iter().chain([&accuracy]).all(|share| (0.0..=1.0).contains(share)) {
            return damaged("an importance or accuracy is not from 0 to 1");
        }
        Ok(Self { classes, trees, importance, accuracy })
    }
}

impl ForestConfig {
    /// Grows a forest from `columns` (one per feature, each with one value per window) and the class of each window.
    ///
    /// # Errors
    /// [`Error::NoEntries`] without features, [`Error::NoWindows`] without windows, [`Error::Windows`] if the columns
    /// and classes are not equally long, [`Error::BadValue`] for a value that is not finite, [`Error::Parameter`] for a
    /// parameter outside its range.
    ///
    /// # Cost
    /// Trees x depth x features per split x windows x log windows.
    pub fn grow<P: Clone + Ord>(&self, columns: &[Vec<f64>], classes: &[P]) -> Result<Forest<P>, Error> {
        self.check()?;
        if columns.is_empty() {
            return Err(Error::NoEntries);
        }
        let windows = classes.len();
        if windows == 0 {
            return Err(Error::NoWindows);
        }
        for column in columns {
            if column.len() != windows {
                return Err(Error::Windows {
                    what: "values of a feature",
                    expected: windows,
                    got: column.len(),
                });
            }
            if let Some(window) = column.iter().position(|v| !v.is_finite()) {
                return Err(Error::BadValue {
                    window,
                    value: column[window],
                    limit: "features must be finite",
                });
            }
        }
        let numbers: BTreeMap<P, u32> = {
            let mut distinct: Vec<P> = classes.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            distinct.into_iter().zip(0..).collect()
        };
        let numbered: Vec<u32> = classes.iter().filter_map(|c| numbers.get(c).copied()).collect();
        let data = Data { columns, classes: &numbered, number_of_classes: numbers.len() };
        Ok(self.grow_numbered(data, numbers.into_keys().collect()))
    }

    fn check(&self) -> Result<(), Error> {
        at_least_one("trees", self.trees)?;
        at_least_one("features_per_split", self.features_per_split.unwrap_or(1))?;
        at_least_one("max_depth", self.max_depth)?;
        at_least_one("min_leaf", self.min_leaf)
    }

    fn grow_numbered<P>(&self, data: Data<'_>, classes: Vec<P>) -> Forest<P> {
        let (windows, features) = (data.classes.len(), data.columns.len());
        let config = TreeConfig {
            features_per_split: self
                .features_per_split
                .unwrap_or((features as f64).sqrt().round() as usize)
                .max(1),
            max_depth: self.max_depth,
            min_leaf: self.min_leaf,
        };
        let mut importance = vec![0.0; features];
        // votes of the trees that were not grown from a window
        let mut votes = vec![0_u32; windows * classes.len()];
        let trees: Vec<Tree> = (0..self.trees)
            .map(|number| {
                let mut rng = SplitMix64::new(restart_seed(self.seed, number));
                let mut sample: Vec<usize> =
                    (0..windows).map(|_| ((rng.unit() * windows as f64) as usize).min(windows - 1)).collect();
                let mut drawn = vec![false; windows];
                for &window in &sample {
                    drawn[window] = true;
                }
                let tree = Tree::grow(data, config, &mut sample, &mut rng, &mut importance);
                for window in (0..windows).filter(|&w| !drawn[w]) {
                    let class = tree.predict(|f| data.columns[f][window]);
                    votes[window * classes.len() + class as usize] += 1;
                }
                tree
            })
            .collect();
        let total: f64 = importance.iter().sum();
        if total > 0.0 {
            for value in &mut importance {
                *value /= total;
            }
        }
        let accuracy = out_of_bag(&votes, data.classes, classes.len());
        Forest { classes, trees, importance, accuracy }
    }
}

/// Share of the windows left out by at least one tree whose class most such trees gave.
fn out_of_bag(votes: &[u32], classes: &[u32], number_of_classes: usize) -> f64 {
    let (mut judged, mut right) = (0_u32, 0_u32);
    for (votes, &class) in votes.chunks_exact(number_of_classes).zip(classes) {
        if votes.iter().any(|&v| v > 0) {
            judged += 1;
            right += u32::from(winner(votes) == class as usize);
        }
    }
    if judged == 0 { 0.0 } else { f64::from(right) / f64::from(judged) }
}

/// The class with most votes, the lowest of several.
fn winner(votes: &[u32]) -> usize {
    let mut best = 0;
    for (class, &count) in votes.iter().enumerate() {
        if count > votes[best] {
            best = class;
        }
    }
    best
}

impl<P: Clone> Forest<P> {
    /// The Gini importance of each feature; they sum to 1, or are all 0 if nothing could be split.
    ///
    /// # Formula
    /// Over all splits of all trees by feature `f`: the sum of `n (G - G_left n_left / n - G_right n_right / n)` with
    /// `n` windows and `G = 1 - sum_c p_c^2`; divided by the sum over all features.
    ///
    /// # Limits
    /// Features of many different values are favoured over those of few.
    pub fn importance(&self) -> &[f64] {
        &self.importance
    }

    /// Share of windows that the trees not grown from them classify rightly. 0 if every tree saw every window.
    pub fn out_of_bag_accuracy(&self) -> f64 {
        self.accuracy
    }

    /// The class most trees give a window with these features.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is one value per feature.
    pub fn predict(&self, features: &[f64]) -> Result<P, Error> {
        if features.len() != self.importance.len() {
            return Err(Error::Length { expected: self.importance.len(), got: features.len() });
        }
        let mut votes = vec![0; self.classes.len()];
        for tree in &self.trees {
            votes[tree.predict(|f| features[f]) as usize] += 1;
        }
        Ok(self.classes[winner(&votes)].clone())
    }
}
