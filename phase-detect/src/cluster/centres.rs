//! The centres of an online clusterer, laid out for a fast search.
//!
//! The search wants to compare one signature with all centres at once. Centres are therefore kept in blocks of
//! [`LANES`], entry by entry (all first entries, then all second entries, ...), in `f32`: the inner loop is then a
//! run of independent lanes that the compiler turns into vector instructions on any target, without horizontal sums.
//! `f32` is enough to *rank* centres (its rounding moves a distance by about 1e-6 of its range); the distance to the
//! winner, which is compared with the threshold and reported, is recomputed from an exact `f64` copy, and so is the
//! mean. If two centres are equally near within 1e-6, either may win.

use super::distance::{percentage, sum_over};

/// Centres compared side by side: eight vectors of four `f32` hide the latency of an addition.
pub(crate) const LANES: usize = 32;

/// A distance as the search sees it: a score that grows with nearness, and the exact value.
pub(crate) trait Metric {
    /// Adds the score of one entry for all lanes.
    fn add(entry: f32, centres: &[f32; LANES], scores: &mut [f32; LANES]);
    /// The exact distance, in the unit of the clusterer's threshold.
    fn exact(signature: &[f64], centre: &[f64]) -> f64;
}

/// Manhattan distance of frequency vectors as a fraction of the largest possible one.
///
/// For vectors that sum to 1, `sum |a - b| = 2 - 2 sum min(a, b)`, so the search only sums minima.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share;

impl Metric for Share {
    #[inline]
    fn add(entry: f32, centres: &[f32; LANES], scores: &mut [f32; LANES]) {
        for (score, &centre) in scores.iter_mut().zip(centres) {
            // not f32::min: its care for NaN costs two more instructions, and there are none
            *score += if centre < entry { centre } else { entry };
        }
    }

    #[inline]
    fn exact(signature: &[f64], centre: &[f64]) -> f64 {
        sum_over(signature, centre, |x, y| (x - y).abs()) / 2.0
    }
}

/// Average percentage difference of non-negative vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percentage;

impl Metric for Percentage {
    #[inline]
    fn add(entry: f32, centres: &[f32; LANES], scores: &mut [f32; LANES]) {
        for (score, &centre) in scores.iter_mut().zip(centres) {
            let sum = entry + centre;
            // where the sum is 0 so is the difference, and 0 over anything is the 0 that is wanted
            let sum = if sum > f32::MIN_POSITIVE { sum } else { f32::MIN_POSITIVE };
            *score -= (entry - centre).abs() / sum;
        }
    }

    #[inline]
    fn exact(signature: &[f64], centre: &[f64]) -> f64 {
        sum_over(signature, centre, percentage) / signature.len() as f64
    }
}

/// Centres of equal length with the number of windows each is the mean of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Centres {
    entries: usize,
    // entries * LANES per block; lanes without a centre hold 0
    lanes: Vec<f32>,
    // one row of `entries` per centre
    exact: Vec<f64>,
    // one per centre, at least 1
    members: Vec<u64>,
}

impl Centres {
    pub(crate) fn new(entries: usize) -> Self {
        Self { entries, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    pub(crate) fn members(&self, index: usize) -> u64 {
        self.members[index]
    }

    pub(crate) fn centre(&self, index: usize) -> &[f64] {
        &self.exact[index * self.entries..][..self.entries]
    }

    /// Adds a centre with the given weight at the end.
    pub(crate) fn push(&mut self, values: &[f64], members: u64) {
        if self.len() % LANES == 0 {
            self.lanes.resize(self.lanes.len() + self.entries * LANES, 0.0);
        }
        self.exact.extend_from_slice(values);
        self.members.push(members);
        self.copy_to_lanes(self.len() - 1);
    }

    /// Puts a new centre of one member where an old one was.
    pub(crate) fn replace(&mut self, index: usize, values: &[f64]) {
        self.exact[index * self.entries..][..self.entries].copy_from_slice(values);
        self.members[index] = 1;
        self.copy_to_lanes(index);
    }

    /// Moves a centre to the mean of its members and this one.
    pub(crate) fn join(&mut self, index: usize, values: &[f64]) {
        self.members[index] += 1;
        let weight = 1.0 / self.members[index] as f64;
        for (centre, value) in self.exact[index * self.entries..][..self.entries].iter_mut().zip(values) {
            *centre += (value - *centre) * weight;
        }
        self.copy_to_lanes(index);
    }

    fn copy_to_lanes(&mut self, index: usize) {
        let block = &mut self.lanes[index / LANES * self.entries * LANES..][..self.entries * LANES];
        let centre = &self.exact[index * self.entries..][..self.entries];
        for (row, value) in block.chunks_exact_mut(LANES).zip(centre) {
            row[index % LANES] = *value as f32;
        }
    }

    /// The nearest centre and its exact distance.
    pub(crate) fn nearest<M: Metric>(&self, values: &[f64]) -> Option<(usize, f64)> {
        let mut best: Option<usize> = None;
        let mut best_score = f32::NEG_INFINITY;
        let blocks = self.lanes.chunks_exact((self.entries * LANES).max(1));
        for (number, block) in blocks.enumerate() {
            let mut scores = [0.0_f32; LANES];
            for (row, &value) in block.chunks_exact(LANES).zip(values) {
                if let Ok(row) = <&[f32; LANES]>::try_from(row) {
                    M::add(value as f32, row, &mut scores);
                }
            }
            let first = number * LANES;
            let used = (self.len() - first).min(LANES);
            scores[used..].fill(f32::NEG_INFINITY);
            let top = largest(&scores);
            if top > best_score {
                best_score = top;
                best = scores.iter().position(|&s| s == top).map(|lane| first + lane);
            }
        }
        best.map(|index| (index, M::exact(values, self.centre(index))))
    }
}

/// The largest score, by halves: a chain of 32 comparisons would take longer than the search.
#[inline]
fn largest(scores: &[f32; LANES]) -> f32 {
    let mut halves = *scores;
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            let other = halves[lane + width];
            if other > halves[lane] {
                halves[lane] = other;
            }
        }
        width /= 2;
    }
    halves[0]
}
