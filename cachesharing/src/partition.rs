//! Ways of a shared cache given to programs or groups of programs, from the curves measured of each alone.
//!
//! Hardware keeps programs apart by masks of ways (Intel CAT, Arm MPAM). A program in a partition of its own runs as its
//! curve shows; programs that share a partition are predicted by a [`SharingModel`].
//!
//! # References
//! Qureshi and Patt, *Utility-Based Cache Partitioning*, MICRO 2006: its lookahead algorithm approximates the optimum that
//! the dynamic programme here finds exactly. El-Sayed and others, *KPart: A Hybrid Cache Partitioning-Sharing Technique for
//! Commodity Multicores*, HPCA 2018: clusters merged pair by pair. García-García and others, *LFOC: A Lightweight Fairness-
//! Oriented Cache Clustering Policy for Commodity Multicores*, ICPP 2019.

use std::collections::HashMap;
use std::hash::Hash;

use crate::error::Error;
use crate::{CacheCurve, Probes, Program, SharedCache, Sharing, SharingModel};

/// How ways are given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// All programs share all ways.
    Free,
    /// A partition for each program: the least sum of slowdowns.
    #[default]
    Utility,
    /// A partition for each program: the least largest slowdown, and of these the least sum.
    Fair,
    /// Programs share partitions where that lowers the sum of slowdowns. The clusters are merged greedily, so that a
    /// better grouping may exist; a partition for each program and free sharing are among those compared.
    Clusters,
}

/// Programs that share the same ways.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Cluster {
    /// Numbers of the programs, rising.
    pub programs: Vec<usize>,
    /// Ways, at least 1.
    pub ways: u32,
    /// The ways as a mask of adjacent bits. Masks of different clusters do not overlap.
    pub mask: u64,
}

/// A cache divided by ways.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Partition {
    /// The clusters, by their first program. Together they have all ways.
    pub clusters: Vec<Cluster>,
    /// Predicted time of each program over its time alone with the whole cache.
    pub slowdowns: Vec<f64>,
}

impl Partition {
    /// Sum of the slowdowns.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.slowdowns.iter().sum()
    }

    /// Largest slowdown.
    #[must_use]
    pub fn worst(&self) -> f64 {
        self.slowdowns.iter().copied().fold(0.0, f64::max)
    }
}

/// Divides the ways of `cache` among `programs`.
///
/// A cluster with several stable states counts as the mean of them. Phases are averaged, as a mask is set once; memory
/// bandwidth, which partitions share, is left out.
///
/// # Errors
/// [`Error::Value`] unless the cache has 1 to 64 ways; [`Error::Count`] without programs, or for more programs than ways
/// if each is to have its own; [`Error::MixedUnits`] and [`Error::MixedLineSizes`] for programs that count differently.
///
/// # Cost
/// Of n programs and w ways, n w^2 for partitions of their own; clusters need n^2 w solutions of the model and
/// n^4 w^2 steps.
pub fn partition<P: Clone + Eq + Hash, M: SharingModel + ?Sized>(
    cache: &SharedCache,
    programs: &[&Program<P>],
    model: &M,
    policy: Policy,
) -> Result<Partition, Error> {
    let ways = cache.ways().filter(|ways| (1.0..=64.0).contains(ways)).ok_or(Error::Value {
        what: "a number of ways",
        value: cache.ways().unwrap_or(0.0),
        remedy: "1 to 64: each is a bit of a mask",
    })? as u32;
    let count = programs.len();
    if count == 0 {
        return Err(Error::Count { what: "programs", count, remedy: "at least one" });
    }
    if count > ways as usize && matches!(policy, Policy::Utility | Policy::Fair) {
        return Err(Error::Count {
            what: "programs",
            count,
            remedy: "at most one for each way, or clusters",
        });
    }
    crate::program::of_one_unit(programs)?;
    let averages = programs.iter().map(|program| program.average()).collect::<Result<Vec<_>, _>>()?;
    let cache = SharedCache::new(cache.bytes() as u64)?.with_ways(ways)?;
    let mut costs = Costs { cache, ways, programs, averages, model, known: HashMap::new() };
    let own: Vec<Vec<usize>> = (0..count).map(|i| vec![i]).collect();
    let groups = match policy {
        Policy::Free => vec![(0..count).collect()],
        Policy::Utility | Policy::Fair => own,
        Policy::Clusters => costs.merged(own),
    };
    Ok(costs.divided(groups, policy))
}

/// What groups of programs lose with any number of ways.
struct Costs<'a, P, M: ?Sized> {
    cache: SharedCache,
    ways: u32,
    programs: &'a [&'a Program<P>],
    averages: Vec<CacheCurve>,
    model: &'a M,
    known: HashMap<Vec<usize>, Vec<Vec<f64>>>, // by ways less 1, slowdowns of the members
}

impl<P: Clone + Eq + Hash, M: SharingModel + ?Sized> Costs<'_, P, M> {
    fn of(&mut self, group: &[usize]) -> &[Vec<f64>] {
        if !self.known.contains_key(group) {
            let costs = (1..=self.ways).map(|ways| self.slowdowns(group, ways)).collect();
            self.known.insert(group.to_vec(), costs);
        }
        &self.known[group]
    }

    fn slowdowns(&self, group: &[usize], ways: u32) -> Vec<f64> {
        let (part, whole) = (f64::from(ways) / f64::from(self.ways), self.cache.bytes());
        if let [only] = group {
            let program = self.programs[*only];
            return vec![program.time_alone(part * whole) / program.time_alone(whole)];
        }
        let curves: Vec<&CacheCurve> = group.iter().map(|&i| &self.averages[i]).collect();
        let mut sharing = Sharing::default();
        let cache = self.cache.resized(part);
        crate::sharing::share_alike(self.model, &cache, &curves, None, Probes::Starts, &mut sharing);
        let states = sharing.solutions() as f64;
        let cpi = |i: usize| {
            let others = sharing.other_solutions().map(|shares| shares[i].cpi);
            (sharing.shares()[i].cpi + others.sum::<f64>()) / states
        };
        curves.iter().enumerate().map(|(i, curve)| cpi(i) / curve.cpi(whole)).collect()
    }

    /// Sum of the slowdowns of the best division; of more groups than ways, of a way each, to compare merges by.
    fn total(&mut self, groups: &[Vec<usize>]) -> f64 {
        let sums: Vec<Vec<f64>> = groups
            .iter()
            .map(|group| self.of(group).iter().map(|members| members.iter().sum()).collect())
            .collect();
        if groups.len() > self.ways as usize {
            return sums.iter().map(|by_ways| by_ways[0]).sum();
        }
        let given = give(&sums, self.ways, |a, b| a + b);
        given.iter().zip(&sums).map(|(&ways, sums)| sums[ways as usize - 1]).sum()
    }

    /// Merges the two groups whose union is best until one is left; the best of all those groupings.
    fn merged(&mut self, mut groups: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
        let mut best: Option<(f64, Vec<Vec<usize>>)> = None;
        loop {
            let total = self.total(&groups);
            let is_better = best.as_ref().is_none_or(|(least, _)| total < least * (1.0 - 1e-9));
            if groups.len() <= self.ways as usize && is_better {
                best = Some((total, groups.clone()));
            }
            let mut next: Option<(f64, Vec<Vec<usize>>)> = None;
            for a in 0..groups.len() {
                for b in a + 1..groups.len() {
                    let mut merged = groups.clone();
                    let other = merged.remove(b);
                    merged[a].extend(other);
                    merged[a].sort_unstable();
                    let total = self.total(&merged);
                    if next.as_ref().is_none_or(|(least, _)| total < *least) {
                        next = Some((total, merged));
                    }
                }
            }
            match next {
                Some((_, merged)) => groups = merged,
                None => return best.map_or(groups, |(_, best)| best),
            }
        }
    }

    /// Gives the ways to these groups, of which there are at most as many.
    fn divided(&mut self, groups: Vec<Vec<usize>>, policy: Policy) -> Partition {
        let by =
            |costs: &[Vec<f64>], of: fn(&[f64]) -> f64| costs.iter().map(|c| of(c)).collect::<Vec<f64>>();
        let (mut sums, mut worst) = (Vec::new(), Vec::new());
        for group in &groups {
            let costs = self.of(group);
            sums.push(by(costs, |members| members.iter().sum()));
            worst.push(by(costs, |members| members.iter().copied().fold(0.0, f64::max)));
        }
        if policy == Policy::Fair {
            let given = give(&worst, self.ways, f64::max);
            let at = |(&ways, worst): (&u32, &Vec<f64>)| worst[ways as usize - 1];
            let least = given.iter().zip(&worst).map(at).fold(0.0, f64::max);
            // Of all that are as fair, the least sum.
            for (sum, worst) in sums.iter_mut().flatten().zip(worst.iter().flatten()) {
                if *worst > least * (1.0 + 1e-9) {
                    *sum = f64::INFINITY;
                }
            }
        }
        let given = give(&sums, self.ways, |a, b| a + b);
        let mut slowdowns = vec![1.0; self.programs.len()];
        let mut first = 0;
        let mut clusters = Vec::new();
        for (programs, ways) in groups.into_iter().zip(given) {
            for (&program, &slowdown) in programs.iter().zip(&self.of(&programs)[ways as usize - 1]) {
                slowdowns[program] = slowdown;
            }
            let mask = (u64::MAX >> (64 - ways)) << first;
            first += ways;
            clusters.push(Cluster { programs, ways, mask });
        }
        Partition { clusters, slowdowns }
    }
}

/// Ways for each of at most `ways` groups that together cost least, at least one each and all of them given: `costs[i][w - 1]`
/// is the cost of group i with w ways, and `together` combines costs.
fn give(costs: &[Vec<f64>], ways: u32, together: impl Fn(f64, f64) -> f64) -> Vec<u32> {
    let ways = ways as usize;
    // By ways given out so far: least cost, and what each group has of them in that case.
    let mut best: Vec<Option<(f64, Vec<u32>)>> = vec![None; ways + 1];
    best[0] = Some((0.0, Vec::new()));
    for costs in costs {
        let mut next: Vec<Option<(f64, Vec<u32>)>> = vec![None; ways + 1];
        for (before, known) in best.iter().enumerate() {
            let Some((cost, given)) = known else { continue };
            for (own, more) in (1..=ways - before).zip(costs) {
                let cost = together(*cost, *more);
                if next[before + own].as_ref().is_none_or(|(least, _)| cost < *least) {
                    let mut given = given.clone();
                    given.push(own as u32);
                    next[before + own] = Some((cost, given));
                }
            }
        }
        best = next;
    }
    best.pop().flatten().map_or_else(Vec::new, |(_, given)| given)
}
