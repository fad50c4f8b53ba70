//! One classification tree: windows are split by a threshold on one feature until each part holds one class.
//!
//! Splits are those that lower the Gini impurity most. What each feature contributed is noted while the tree grows.
//!
//! Reference: Breiman, Friedman, Olshen, Stone, *Classification and Regression Trees*, 1984.

use crate::rng::SplitMix64;

/// The windows to grow from: one column per feature, one class per window, classes counted from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data<'a> {
    pub(super) columns: &'a [Vec<f64>],
    pub(super) classes: &'a [u32],
    pub(super) number_of_classes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TreeConfig {
    pub(super) features_per_split: usize, // at least 1
    pub(super) max_depth: usize,          // at least 1
    pub(super) min_leaf: usize,           // at least 1
}

#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Node {
    Leaf(u32),
    /// At most the threshold: left.
    Split {
        feature: usize,
        threshold: f64,
        left: usize,
        right: usize,
    },
}

#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Tree {
    // the root first
    nodes: Vec<Node>,
}

/// A split of a set of windows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Split {
    feature: usize,
    threshold: f64,
    // windows times impurity, before minus after; positive
    decrease: f64,
}

/// A part of the windows that is still to be split.
struct Part {
    node: usize,
    start: usize,
    end: usize,
    depth: usize,
}

impl Tree {
    /// Grows a tree from the windows in `sample` (which may repeat) and adds to `importance`, per feature, windows times
    /// the decrease in impurity of its splits.
    pub(super) fn grow(
        data: Data<'_>,
        config: TreeConfig,
        sample: &mut [usize],
        rng: &mut SplitMix64,
        importance: &mut [f64],
    ) -> Self {
        let mut tree = Self { nodes: vec![Node::Leaf(0)] };
        let mut open = vec![Part { node: 0, start: 0, end: sample.len(), depth: 0 }];
        while let Some(part) = open.pop() {
            let windows = &mut sample[part.start..part.end];
            let split = if part.depth < config.max_depth { choose(data, config, windows, rng) } else { None };
            let Some(split) = split else {
                tree.nodes[part.node] = Node::Leaf(majority(data, windows));
                continue;
            };
            importance[split.feature] += split.decrease;
            let column = &data.columns[split.feature];
            let middle = part.start + partition(windows, |w| column[w] <= split.threshold);
            let (left, right) = (tree.nodes.len(), tree.nodes.len() + 1);
            tree.nodes.extend([Node::Leaf(0), Node::Leaf(0)]);
            tree.nodes[part.node] =
                Node::Split { feature: split.feature, threshold: split.threshold, left, right };
            let depth = part.depth + 1;
            open.push(Part { node: left, start: part.start, end: middle, depth });
            open.push(Part { node: right, start: middle, end: part.end, depth });
        }
        tree
    }

    /// Whether a tree that was read ends in a leaf for every window, and knows only such features and classes.
    #[cfg(feature = "serde")]
    pub(super) fn is_sound(&self, features: usize, classes: usize) -> bool {
        let is_node = |at: usize, node: &Node| match *node {
            Node::Leaf(class) => (class as usize) < classes,
            Node::Split { feature, threshold, left, right } => {
                let after = |side: usize| side > at && side < self.nodes.len();
                feature < features && threshold.is_finite() && after(left) && after(right)
            }
        };
        !self.nodes.is_empty() && self.nodes.iter().enumerate().all(|(at, node)| is_node(at, node))
    }

    /// The class of a window, given by the value of each feature.
    pub(super) fn predict(&self, feature: impl Fn(usize) -> f64) -> u32 {
        let mut node = 0;
        loop {
            match &self.nodes[node] {
                Node::Leaf(class) => return *class,
                Node::Split { feature: f, threshold, left, right } => {
                    node = if feature(*f) <= *threshold { *left } else { *right };
                }
            }
        }
    }
}

/// The best split over a few random features. Features that do not help at all are replaced by others.
fn choose(data: Data<'_>, config: TreeConfig, windows: &[usize], rng: &mut SplitMix64) -> Option<Split> {
    let first = data.classes[*windows.first()?];
    if windows.iter().all(|&w| data.classes[w] == first) {
        return None;
    }
    let mut features: Vec<usize> = (0..data.columns.len()).collect();
    let mut best: Option<Split> = None;
    for tried in 0..features.len() {
        if tried >= config.features_per_split && best.is_some() {
            break;
        }
        let pick = tried + (rng.unit() * (features.len() - tried) as f64) as usize;
        features.swap(tried, pick.min(data.columns.len() - 1));
        let split = best_split(data, config.min_leaf, windows, features[tried]);
        if let Some(split) = split.filter(|s| best.is_none_or(|b| s.decrease > b.decrease)) {
            best = Some(split);
        }
    }
    best
}

/// The best threshold on one feature, if any lowers the impurity.
fn best_split(data: Data<'_>, min_leaf: usize, windows: &[usize], feature: usize) -> Option<Split> {
    let column = &data.columns[feature];
    let mut sorted: Vec<(f64, u32)> = windows.iter().map(|&w| (column[w], data.classes[w])).collect();
    sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut right = vec![0_u64; data.number_of_classes];
    for &(_, class) in &sorted {
        right[class as usize] += 1;
    }
    let mut left = vec![0_u64; data.number_of_classes];
    let n = sorted.len() as f64;
    // windows times impurity is n - squares / n, with the sum of squared class counts
    let squares = |counts: &[u64]| counts.iter().map(|&c| (c * c) as f64).sum::<f64>();
    let before = n - squares(&right) / n;
    let (mut left_squares, mut right_squares) = (0.0, squares(&right));
    let mut best: Option<Split> = None;
    for at in 1..sorted.len() {
        let class = sorted[at - 1].1 as usize;
        // (c + 1)^2 - c^2 on the left, c^2 - (c - 1)^2 on the right
        left_squares += (2 * left[class] + 1) as f64;
        right_squares -= (2 * right[class] - 1) as f64;
        left[class] += 1;
        right[class] -= 1;
        let (low, high) = (sorted[at - 1].0, sorted[at].0);
        if low == high || at < min_leaf || sorted.len() - at < min_leaf {
            continue;
        }
        let (in_left, in_right) = (at as f64, n - at as f64);
        let after = in_left - left_squares / in_left + in_right - right_squares / in_right;
        let decrease = before - after;
        if decrease > 1e-9 && best.is_none_or(|b| decrease > b.decrease) {
            let middle = f64::midpoint(low, high);
            // between neighbouring numbers the middle may round up to the higher one
            let threshold = if middle < high { middle } else { low };
            best = Some(Split { feature, threshold, decrease });
        }
    }
    best
}

/// The most frequent class, the lowest of several.
fn majority(data: Data<'_>, windows: &[usize]) -> u32 {
    let mut counts = vec![0_u64; data.number_of_classes];
    for &w in windows {
        counts[data.classes[w] as usize] += 1;
    }
    let mut best = 0;
    for (class, &count) in counts.iter().enumerate() {
        if count > counts[best] {
            best = class;
        }
    }
    best as u32
}

/// Moves what satisfies `first` to the front and says how much that is.
fn partition(windows: &mut [usize], first: impl Fn(usize) -> bool) -> usize {
    let mut front = 0;
    for at in 0..windows.len() {
        if first(windows[at]) {
            windows.swap(front, at);
            front += 1;
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: TreeConfig = TreeConfig { features_per_split: usize::MAX, max_depth: usize::MAX, min_leaf: 1 };

    /// Windows times Gini impurity, from shares.
    fn impurity(classes: &[u32]) -> f64 {
        let n = classes.len() as f64;
        let share = |c: u32| classes.iter().filter(|&&x| x == c).count() as f64 / n;
        n * (1.0 - (0..4).map(|c| share(c).powi(2)).sum::<f64>())
    }

    fn columns(rows: &[(u8, u8, u8)]) -> (Vec<Vec<f64>>, Vec<u32>) {
        let columns = vec![
            rows.iter().map(|r| f64::from(r.0 % 16)).collect(),
            rows.iter().map(|r| f64::from(r.1)).collect(),
        ];
        (columns, rows.iter().map(|r| u32::from(r.2 % 4)).collect())
    }

    /// Against every threshold between any two values, impurity recomputed from scratch.
    #[test]
    fn splits_are_the_best_there_are() {
        fn law(rows: Vec<(u8, u8, u8)>, min_leaf: u8) -> bool {
            let min_leaf = 1 + usize::from(min_leaf % 3);
            let (columns, classes) = columns(&rows);
            let data = Data { columns: &columns, classes: &classes, number_of_classes: 4 };
            let windows: Vec<usize> = (0..rows.len()).collect();
            (0..2).all(|feature| {
                let mut best: f64 = 0.0;
                for threshold in &columns[feature] {
                    let side = |left: bool| -> Vec<u32> {
                        windows
                            .iter()
                            .filter(|&&w| (columns[feature][w] <= *threshold) == left)
                            .map(|&w| classes[w])
                            .collect()
                    };
                    let (left, right) = (side(true), side(false));
                    if left.len() >= min_leaf && right.len() >= min_leaf {
                        best = best.max(impurity(&classes) - impurity(&left) - impurity(&right));
                    }
                }
                match best_split(data, min_leaf, &windows, feature) {
                    Some(split) => (split.decrease - best).abs() < 1e-9,
                    None => best < 1e-8,
                }
            })
        }
        quickcheck::quickcheck(law as fn(Vec<(u8, u8, u8)>, u8) -> bool);
    }

    /// A fully grown tree separates every pair of distinguishable windows. Its leaves are then pure, and since every split's
    /// decrease is what the impurity lost, importances add up to the impurity of the whole.
    #[test]
    fn importances_add_up_to_the_impurity() {
        fn law(rows: Vec<(u8, u8, u8)>, seed: u64) -> bool {
            let (mut columns, classes) = columns(&rows);
            columns.push((0..rows.len()).map(|w| w as f64).collect()); // separates all windows
            let data = Data { columns: &columns, classes: &classes, number_of_classes: 4 };
            let mut importance = [0.0; 3];
            let mut sample: Vec<usize> = (0..rows.len()).collect();
            let tree = Tree::grow(data, ALL, &mut sample, &mut SplitMix64::new(seed), &mut importance);
            let pure = (0..rows.len()).all(|w| tree.predict(|f| columns[f][w]) == classes[w]);
            let whole = if rows.is_empty() { 0.0 } else { impurity(&classes) };
            pure && (importance.iter().sum::<f64>() - whole).abs() < 1e-9 * (1.0 + whole)
        }
        quickcheck::quickcheck(law as fn(Vec<(u8, u8, u8)>, u64) -> bool);
    }

    #[test]
    fn limits_on_depth_and_leaves_are_kept() {
        let columns = vec![(0..64).map(f64::from).collect::<Vec<_>>()];
        let classes: Vec<u32> = (0..64).map(|w| w % 4).collect();
        let data = Data { columns: &columns, classes: &classes, number_of_classes: 4 };
        for (config, most_leaves) in
            [(TreeConfig { max_depth: 3, ..ALL }, 8), (TreeConfig { min_leaf: 8, ..ALL }, 8)]
        {
            let mut sample: Vec<usize> = (0..64).collect();
            let tree = Tree::grow(data, config, &mut sample, &mut SplitMix64::new(1), &mut [0.0]);
            let leaves = tree.nodes.iter().filter(|n| matches!(n, Node::Leaf(_))).count();
            assert!(leaves <= most_leaves, "{leaves}");
        }
    }
}
