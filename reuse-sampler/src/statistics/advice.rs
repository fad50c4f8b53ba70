//! What a program could do about the code that misses, judged at all levels of a cache hierarchy at once.
//!
//! A hint that is right for one cache can be wrong for the next: lines that leave the first level unused may be what the
//! second level lives on. So every hint is weighed at every level, by the misses it removes there and those it adds, and
//! given only where it helps at one and, by the estimate, harms at none.

use std::collections::BTreeMap;

use super::hot_spots::{HotSpots, Tally};
use crate::engine::bins;
use crate::replay::Stride;
use crate::{CacheLines, CacheModel, Clock, Error, Evaluator, LineSize, Reuse, ReuseDistance, ReuseProfile};

/// Share of a level's misses below which a hint is not worth a line of code.
const WORTH: f64 = 0.01;
/// Share of a site's misses that must have one cause.
const MOSTLY: f64 = 0.7;
/// Share of the prefetches that must name a line which is wanted.
const RIGHT: f64 = 0.9;
/// Share of the lines leaving the first level that must leave the last one too.
const WASTED: f64 = 0.95;
/// Share of a site's reuses that must come at once after another site, for both to be in one loop.
const AT_ONCE: f64 = 0.1;
/// Misses that a hint may add at a level, by those it removes there: the estimates of both are rough.
const MARGIN: f64 = 0.5;

/// What could be done at a site.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Hint<K> {
    /// Prefetch for the site so many of its executions ahead: its stride leads to another line by then.
    Prefetch {
        /// Executions ahead.
        ahead: u64,
    },
    /// Keep the lines it brings in out of all levels but the first (`prefetchnta`, non-temporal stores).
    NonTemporal,
    /// Its loop comes back to its own lines, in order, after they have left: do all of that while they are there (loop
    /// blocking).
    Block,
    /// It comes, in order, to lines that `with`, in another loop, left, after they have left the cache: fuse the two loops, or
    /// block the one that holds both.
    Fuse {
        /// The other site.
        with: K,
    },
}

/// A hint and what it would do.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Advice<K> {
    /// Where.
    pub site: K,
    /// What.
    pub hint: Hint<K>,
    /// Share of all misses of each level that it would remove, as the levels were given; from 0 to 1. Of blocking and fusing
    /// the most that can be had; of prefetching about the least, but twice what it was in one level under a heap sort.
    /// Prefetched lines are fetched all the same, only earlier.
    pub removes: Vec<f64>,
}

/// A cache level, prepared.
struct Level<'a, M> {
    model: &'a M,
    size: CacheLines,
    at: Evaluator<'a>,
    misses: f64, // of all sites
}

/// Misses that a hint removes and adds at a level.
type Change = (f64, f64);

type Bins = BTreeMap<u16, u64>;

fn sum(bins: &Bins, probability: impl Fn(Reuse) -> f64) -> f64 {
    let middle = |bin: u16| Reuse::Distance(ReuseDistance(bins::middle(usize::from(bin))));
    bins.iter().map(|(&bin, &weight)| weight as f64 * probability(middle(bin))).sum()
}

impl<M: CacheModel> Level<'_, M> {
    fn missing(&self, bins: &Bins) -> f64 {
        sum(bins, |reuse| self.at.miss_probability(reuse))
    }

    /// Misses that there are fewer (below 0: more) of `bins` where the level is `factor` times as large.
    fn saved(&self, bins: &Bins, factor: f64) -> f64 {
        let lines = (self.size.0 as f64 * factor).max(1.0).round() as u64;
        let other = self.model.at(CacheLines(lines));
        sum(bins, |reuse| self.at.miss_probability(reuse) - other.miss_probability(reuse))
    }
}

impl<K: Ord + Clone> HotSpots<K> {
    /// What could be done at each site about misses in a hierarchy of caches of these sizes, the smallest first. `model` is
    /// of all accesses; `stride` gives the most frequent stride of a site.
    ///
    /// # Formula
    /// - Prefetch: the share of the most frequent stride, to the power of the executions ahead, is at least 0.9. It removes
    ///   the site's misses but for one at each execution that it does not foresee, where a jump leads to a new line, and adds
    ///   those of all sites in a cache smaller by the lines brought in vain.
    /// - Non-temporal: of the lines that leave the first level between a touch here and the next, 95 % leave the last one
    ///   too. It removes the misses of all other reuses in a cache larger by the lines kept out, and adds the reuses that
    ///   hit between the first level and this one.
    /// - Block, fuse: 70 % of the site's misses are reuses of lines that its own loop left, or one site of another loop did, all
    ///   in strides. Sites are in one loop where a tenth of the reuses of one come within 64 accesses of the other.
    ///
    /// A hint is given if it removes 1 % of the misses of some level, and adds at most half of what it removes at each.
    ///
    /// # Limits
    /// Associativity, write-backs, time and what hardware prefetchers do already are not looked at, nor whether the loops may
    /// be rearranged. Samples that were censored count as reused: an interrupted run makes nothing non-temporal.
    ///
    /// # Cost
    /// For each site the evaluation of its distances at three sizes a level.
    ///
    /// # References
    /// Sandberg, Eklöv and Hagersten, *Reducing Cache Pollution Through Detection and Elimination of Non-Temporal Memory
    /// Accesses*, SC 2010; Khan, Sandberg and Hagersten, ICPP 2014 (strides).
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`], [`Error::MixedClocks`] and [`Error::MixedScopes`] for a model of other units than the samples.
    pub fn advise(
        &self,
        model: &impl CacheModel,
        levels: &[CacheLines],
        stride: impl Fn(&K) -> Option<Stride>,
    ) -> Result<Vec<Advice<K>>, Error> {
        if let Some(units) = &self.units {
            ReuseProfile::with_units(model.line_size(), Clock::Accesses, model.scope()).check_alike(units)?;
        }
        let mut all = Bins::new();
        for (&bin, &weight) in self.sites.values().flat_map(|tally| &tally.backward) {
            *all.entry(bin).or_default() += weight;
        }
        let level = |&size: &CacheLines| {
            let mut level = Level { model, size, at: model.at(size), misses: 0.0 };
            level.misses = (level.missing(&all) + self.unended as f64).max(1.0);
            level
        };
        let levels: Vec<_> = levels.iter().map(level).collect();
        // Scaled up, the first touches of sites without a significant surplus would be credited to others.
        let scale = self.first_scale().min(1.0);
        let loops = self.loops();
        let mut advice = Vec::new();
        for (site, tally) in &self.sites {
            let first = scale * self.first_touches(tally);
            let own: Vec<f64> = levels.iter().map(|level| level.missing(&tally.backward) + first).collect();
            if levels.iter().zip(&own).all(|(level, own)| *own < WORTH * level.misses) {
                continue;
            }
            let mut found = Vec::new();
            let regular = |site: &K| stride(site).filter(Stride::is_regular);
            if let Some(stride) = regular(site) {
                found.extend(prefetched(tally, &levels, &own, &all, &stride, model.line_size()));
                let strided = |other: &K| regular(other).is_some_and(|other| other.bytes == stride.bytes);
                let in_loop = |other: &K| loops.get(other) == loops.get(site);
                found.extend(rearranged(tally, &levels, &own, in_loop, strided));
            }
            found.extend(kept_out(tally, &levels, &own, &all));
            for (hint, change) in found {
                let worth = |(level, change): (&Level<'_, _>, &Change)| change.0 >= WORTH * level.misses;
                let is_worth_it = levels.iter().zip(&change).any(worth);
                if is_worth_it && change.iter().all(|(removed, added)| *added <= MARGIN * removed) {
                    let share =
                        |(level, change): (&Level<'_, _>, &Change)| (change.0 - change.1) / level.misses;
                    let removes = levels.iter().zip(&change).map(share).collect();
                    advice.push(Advice { site: site.clone(), hint, removes });
                }
            }
        }
        Ok(advice)
    }

    /// A number for each site: the same for those that touch the same lines at once after each other.
    fn loops(&self) -> BTreeMap<&K, usize> {
        let mut numbers: BTreeMap<&K, usize> = self.sites.keys().zip(0..).collect();
        let mut joined: Vec<usize> = (0..numbers.len()).collect(); // each with another of its loop, the last with itself
        let find = |joined: &mut Vec<usize>, mut at: usize| {
            while joined[at] != at {
                joined[at] = joined[joined[at]];
                at = joined[at];
            }
            at
        };
        for (site, tally) in &self.sites {
            let at_once =
                tally.near.iter().filter(|(_, weight)| **weight as f64 >= AT_ONCE * tally.ended as f64);
            for (other, _) in at_once {
                if let (Some(&own), Some(&other)) = (numbers.get(site), numbers.get(other)) {
                    let (own, other) = (find(&mut joined, own), find(&mut joined, other));
                    joined[other] = own;
                }
            }
        }
        for number in numbers.values_mut() {
            *number = find(&mut joined, *number);
        }
        numbers
    }
}

fn prefetched<K, M: CacheModel>(
    tally: &Tally<K>,
    levels: &[Level<'_, M>],
    own: &[f64],
    all: &Bins,
    stride: &Stride,
    line_size: LineSize,
) -> Option<(Hint<K>, Vec<Change>)> {
    let (line, bytes) = (f64::from(line_size.bytes()), stride.bytes.unsigned_abs() as f64);
    let ahead = (line / bytes).ceil();
    let right = stride.share.powf(ahead);
    let unforeseen = (1.0 - right) * tally.begun as f64;
    let in_vain = unforeseen * (bytes / line).min(1.0);
    let change = |(level, own): (&Level<'_, M>, &f64)| {
        let more = -level.saved(all, 1.0 / (1.0 + in_vain / level.misses));
        ((own - unforeseen).max(0.0), more.max(0.0))
    };
    (right >= RIGHT)
        .then(|| (Hint::Prefetch { ahead: ahead as u64 }, levels.iter().zip(own).map(change).collect()))
}

fn kept_out<K, M: CacheModel>(
    tally: &Tally<K>,
    levels: &[Level<'_, M>],
    own: &[f64],
    all: &Bins,
) -> Option<(Hint<K>, Vec<Change>)> {
    let left: Vec<f64> =
        levels.iter().map(|level| level.missing(&tally.forward) + tally.dangling as f64).collect();
    let (first, last) = (left.first()?, left.last()?);
    let mut others = all.clone();
    for (bin, weight) in &tally.forward {
        others.entry(*bin).and_modify(|all| *all = all.saturating_sub(*weight));
    }
    // The first level is filled as before.
    let change = |(number, level): (usize, &Level<'_, M>)| {
        if number == 0 {
            return (0.0, 0.0);
        }
        let kept_out = (own[number] / level.misses).min(0.9);
        (level.saved(&others, 1.0 / (1.0 - kept_out)).max(0.0), (first - left[number]).max(0.0))
    };
    (*first > 0.0 && *last >= WASTED * first)
        .then(|| (Hint::NonTemporal, levels.iter().enumerate().map(change).collect()))
}

fn rearranged<K: Ord + Clone, M: CacheModel>(
    tally: &Tally<K>,
    levels: &[Level<'_, M>],
    own: &[f64],
    in_loop: impl Fn(&K) -> bool,
    is_strided: impl Fn(&K) -> bool,
) -> Option<(Hint<K>, Vec<Change>)> {
    let misses = |bins: &Bins| levels.iter().map(|level| level.missing(bins)).collect::<Vec<f64>>();
    let mostly = |part: &[f64]| part.iter().zip(own).any(|(part, own)| *part > 0.0 && *part >= MOSTLY * own);
    let left_by = tally.far.iter().filter(|(other, _)| is_strided(other));
    let (same, others): (Vec<_>, Vec<_>) = left_by.partition(|(other, _)| in_loop(other));
    let mut by_loop = Bins::new();
    for (bin, weight) in same.into_iter().flat_map(|(_, bins)| bins) {
        *by_loop.entry(*bin).or_default() += weight;
    }
    let others = others.into_iter().map(|(other, bins)| (Hint::Fuse { with: other.clone() }, misses(bins)));
    let (hint, removed) = others
        .chain([(Hint::Block, misses(&by_loop))])
        .filter(|(_, removed)| mostly(removed))
        .max_by(|a, b| a.1.iter().sum::<f64>().total_cmp(&b.1.iter().sum()))?;
    Some((hint, removed.into_iter().map(|removed| (removed, 0.0)).collect()))
}
