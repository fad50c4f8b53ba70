//! Clusters that are transitions between phases rather than phases.

use std::collections::BTreeMap;

use super::check_centres;
use crate::Error;

/// When a cluster is a transition.
///
/// The defaults are chosen on an embedded workload, xz and perl; `docs/phases.md` shows what they do to other programs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TransitionConfig {
    /// A cluster of fewer windows is a transition, if it also has less than [`share`](Self::share) of the run; default 3,
    /// as [`LeaderFollowerConfig::transition_threshold`](crate::LeaderFollowerConfig::transition_threshold).
    pub windows: usize,
    /// Share of the run, from 0 to 1, from which on a cluster is a phase however few its windows are; default 0.02. It
    /// keeps the phases of runs of less than a hundred windows.
    pub share: f64,
    /// How far the mean signature of a cluster may be from a mixture of two other phases, as a fraction of the largest
    /// possible Manhattan distance; default 0.05, half of leader-follower's threshold. 0 finds no mixtures.
    pub tolerance: f64,
}

impl Default for TransitionConfig {
    fn default() -> Self {
        Self { windows: 3, share: 0.02, tolerance: 0.05 }
    }
}

/// Why a cluster is a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Transition<P> {
    /// It has too few windows to be a phase.
    Rare,
    /// Its windows lie where two larger phases meet, and its code is that of both: each of its windows holds the end of
    /// one and the beginning of the other.
    Mixture(P, P),
}

/// Finds the clusters of a whole run that are transitions: windows that a phase change falls into, and clusters too
/// rare to matter.
///
/// `threads` gives the label of each window in order, one sequence per thread; `centres` the mean frequency signature of
/// each label, all of one length. A cluster without a centre can be rare, but not a mixture.
///
/// A mixture lies, within the tolerance, on the line between the centres of two larger phases, and at least half of its
/// windows have a window of one of the two right before or after them. A program that alternates between two kinds of
/// code faster than windows end keeps its phase: most of its windows follow each other.
///
/// Labels given online do not change: this is for the report at the end of a run. Cost: O(windows + clusters x pairs of
/// frequent neighbours x entries).
///
/// # Errors
/// [`Error::NoWindows`] without windows, [`Error::Parameter`] for a share or tolerance outside 0..=1, [`Error::Length`]
/// for centres of different lengths.
///
/// ```
/// use phase_detect::metrics::{Transition, TransitionConfig, transitions};
///
/// // 'x' holds half of phase 'a' and half of phase 'b' wherever one gives way to the other
/// let labels: Vec<char> = "aaaaaaaxbbbbbbbbxaaaaaaaaxbbbbbbbb".chars().collect();
/// let centres = [('a', vec![1.0, 0.0]), ('b', vec![0.0, 1.0]), ('x', vec![0.5, 0.5])].into();
/// let found = transitions(&[&labels], &centres, TransitionConfig::default())?;
/// assert_eq!(found.into_iter().collect::<Vec<_>>(), [('x', Transition::Mixture('a', 'b'))]);
/// # Ok::<(), phase_detect::Error>(())
/// ```
pub fn transitions<P: Clone + Ord>(
    threads: &[&[P]],
    centres: &BTreeMap<P, Vec<f64>>,
    config: TransitionConfig,
) -> Result<BTreeMap<P, Transition<P>>, Error> {
    check(threads, centres, config)?;
    let clusters = Clusters::of(threads);
    let mut found: BTreeMap<&P, Transition<P>> = BTreeMap::new();
    let all: usize = clusters.windows.values().sum();
    for (&label, &windows) in &clusters.windows {
        if windows < config.windows && (windows as f64) < config.share * all as f64 {
            found.insert(label, Transition::Rare);
        }
    }
    // The smallest first: what is a transition itself is no end of another.
    let mut order: Vec<(usize, &P)> = clusters.windows.iter().map(|(&label, &n)| (n, label)).collect();
    order.sort_unstable();
    for (windows, label) in order {
        if found.contains_key(label) {
            continue;
        }
        let larger = |other: &P| clusters.windows[other] > windows && !found.contains_key(other);
        if let Some((a, b)) = clusters.mixture(label, larger, centres, config.tolerance) {
            found.insert(label, Transition::Mixture(a.clone(), b.clone()));
        }
    }
    Ok(found.into_iter().map(|(label, transition)| (label.clone(), transition)).collect())
}

fn check<P: Ord>(
    threads: &[&[P]],
    centres: &BTreeMap<P, Vec<f64>>,
    config: TransitionConfig,
) -> Result<(), Error> {
    for (name, value) in [("share", config.share), ("tolerance", config.tolerance)] {
        if !(0.0..=1.0).contains(&value) {
            return Err(Error::Parameter { name, value, limit: "it is a fraction, from 0 to 1" });
        }
    }
    if threads.iter().all(|labels| labels.is_empty()) {
        return Err(Error::NoWindows);
    }
    check_centres(centres)
}

/// Neighbours of a cluster that are tried as ends of a mixture, the most frequent first.
const NEIGHBOURS: usize = 8;

/// Windows of each cluster, and what lies beside them.
struct Clusters<'a, P> {
    windows: BTreeMap<&'a P, usize>,
    /// The labels right before and after each window of a cluster.
    beside: BTreeMap<&'a P, Vec<[Option<&'a P>; 2]>>,
}

impl<'a, P: Ord> Clusters<'a, P> {
    fn of(threads: &[&'a [P]]) -> Self {
        let (mut windows, mut beside) = (BTreeMap::new(), BTreeMap::new());
        for labels in threads {
            for (at, label) in labels.iter().enumerate() {
                *windows.entry(label).or_default() += 1;
                let before = at.checked_sub(1).map(|at| &labels[at]);
                let after = labels.get(at + 1);
                beside.entry(label).or_insert_with(Vec::new).push([before, after]);
            }
        }
        Self { windows, beside }
    }

    /// The two larger phases that `label` is a mixture of.
    fn mixture(
        &self,
        label: &'a P,
        larger: impl Fn(&P) -> bool,
        centres: &BTreeMap<P, Vec<f64>>,
        tolerance: f64,
    ) -> Option<(&'a P, &'a P)> {
        let own = centres.get(label)?;
        let mut neighbours: BTreeMap<&P, usize> = BTreeMap::new();
        for other in self.beside[label].iter().copied().flatten().flatten() {
            if other != label && larger(other) && centres.contains_key(other) {
                *neighbours.entry(other).or_default() += 1;
            }
        }
        let mut neighbours: Vec<(usize, &P)> = neighbours.into_iter().map(|(p, n)| (n, p)).collect();
        neighbours.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        neighbours.truncate(NEIGHBOURS);
        let mut best: Option<(f64, (&P, &P))> = None;
        for (at, &(_, a)) in neighbours.iter().enumerate() {
            for &(_, b) in &neighbours[at + 1..] {
                let distance = from_line(own, &centres[a], &centres[b]);
                let nearer = distance <= tolerance && best.is_none_or(|(nearest, _)| distance < nearest);
                if nearer && self.at_borders(label, a, b) {
                    best = Some((distance, (a.min(b), a.max(b))));
                }
            }
        }
        best.map(|(_, ends)| ends)
    }

    /// Whether at least half of the windows touch one of the two phases.
    fn at_borders(&self, label: &P, a: &P, b: &P) -> bool {
        let beside = &self.beside[label];
        let touching = |pair: &&[Option<&P>; 2]| pair.iter().flatten().any(|&p| p == a || p == b);
        2 * beside.iter().filter(touching).count() >= beside.len()
    }
}

/// Manhattan distance of `own` from the nearest true mixture of `a` and `b`, over its largest possible value, 2;
/// infinite where the nearest point of the line is one of its ends.
fn from_line(own: &[f64], a: &[f64], b: &[f64]) -> f64 {
    let along = |f: &dyn Fn(f64, f64, f64) -> f64| -> f64 {
        own.iter().zip(a).zip(b).map(|((&own, &a), &b)| f(own, a, b)).sum()
    };
    let length = along(&|_, a, b| (b - a) * (b - a));
    let t = along(&|own, a, b| (own - a) * (b - a)) / length;
    if !(t > 0.0 && t < 1.0) {
        return f64::INFINITY;
    }
    along(&|own, a, b| (own - a - t * (b - a)).abs()) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    fn centres() -> BTreeMap<char, Vec<f64>> {
        [
            ('a', vec![1.0, 0.0, 0.0]),
            ('b', vec![0.0, 1.0, 0.0]),
            ('c', vec![0.0, 0.0, 1.0]),
            ('x', vec![0.3, 0.7, 0.0]),
        ]
        .into()
    }

    fn found(text: &str) -> Vec<(char, Transition<char>)> {
        let labels = labels(text);
        transitions(&[&labels], &centres(), TransitionConfig::default()).unwrap().into_iter().collect()
    }

    #[test]
    fn mixtures_lie_between_the_phases_they_mix() {
        let between = "aaaaaaxbbbbbbxaaaaaaxbbbbbb";
        assert_eq!(found(between), [('x', Transition::Mixture('a', 'b'))]);
        // beside another phase, of its own code, or for long
        assert_eq!(found("aaaaaaxccccccxaaaaaaxcccccc"), []);
        assert_eq!(found("aaaaaacbbbbbbcaaaaaacbbbbbb"), []);
        assert_eq!(found("aaaaaaaxxxxxxbbbbbbbb"), []);
    }

    #[test]
    fn an_end_of_the_line_is_no_mixture() {
        let mut centres = centres();
        centres.insert('x', vec![1.0, 0.0, 0.0]);
        let labels = labels("aaaaaaxbbbbbbxaaaaaaxbbbbbb");
        assert!(transitions(&[&labels], &centres, TransitionConfig::default()).unwrap().is_empty());
    }

    #[test]
    fn rare_clusters_are_transitions_of_long_runs_only() {
        let long = "a".repeat(150) + "cc";
        assert_eq!(found(&long), [('c', Transition::Rare)]);
        assert_eq!(found("aaaaaaaaaaaacc"), []);
        assert_eq!(found(&("a".repeat(150) + "ccc")), []);
    }

    #[test]
    fn windows_of_threads_do_not_touch() {
        let (one, two) = (labels("aaaaaax"), labels("bbbbbbb"));
        let together = transitions(&[&one, &two], &centres(), TransitionConfig::default()).unwrap();
        assert!(together.is_empty(), "{together:?}");
    }

    #[test]
    fn bad_input_is_refused() {
        let labels = labels("ab");
        for config in [
            TransitionConfig { share: 1.5, ..Default::default() },
            TransitionConfig { tolerance: f64::NAN, ..Default::default() },
        ] {
            assert!(matches!(transitions(&[&labels], &centres(), config), Err(Error::Parameter { .. })));
        }
        assert!(matches!(
            transitions::<char>(&[&[]], &centres(), TransitionConfig::default()),
            Err(Error::NoWindows)
        ));
        let uneven = [('a', vec![1.0]), ('b', vec![0.5, 0.5])].into();
        assert!(matches!(
            transitions(&[&labels], &uneven, TransitionConfig::default()),
            Err(Error::Length { expected: 1, got: 2 })
        ));
    }
}
