//! Stack distances counted, and the misses of every cache size read off.

use crate::{CacheLines, LineSize, MissRatioCurve, Scope, StackDistance};

/// How many accesses have each LRU stack distance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackHistogram {
    counts: Vec<u64>, // by stack distance
    cold: u64,
    accesses: u64,
}

impl StackHistogram {
    /// Counts one access; `None` is a first touch.
    #[inline]
    pub fn record(&mut self, distance: Option<StackDistance>) {
        self.accesses += 1;
        let Some(StackDistance(distance)) = distance else {
            self.cold += 1;
            return;
        };
        let distance = distance as usize;
        if distance >= self.counts.len() {
            self.counts.resize((distance + 1).next_power_of_two(), 0);
        }
        self.counts[distance] += 1;
    }

    /// Adds the accesses of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.cold += other.cold;
        self.accesses += other.accesses;
    }

    /// Accesses counted.
    #[must_use]
    pub const fn accesses(&self) -> u64 {
        self.accesses
    }

    /// First touches: the misses of an infinite cache.
    #[must_use]
    pub const fn cold(&self) -> u64 {
        self.cold
    }

    /// Misses of an LRU cache of each of `sizes`, in their order. One pass for all.
    #[must_use]
    pub fn misses(&self, sizes: &[CacheLines]) -> Vec<u64> {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_unstable_by_key(|&k| std::cmp::Reverse(sizes[k]));
        let mut misses = vec![0; sizes.len()];
        let (mut sum, mut counted) = (self.cold, self.counts.len());
        for k in order {
            let size = usize::try_from(sizes[k].0).unwrap_or(usize::MAX).min(counted);
            sum += self.counts[size..counted].iter().sum::<u64>();
            counted = size;
            misses[k] = sum;
        }
        misses
    }

    /// Miss ratio at each of `sizes`; 0 where no access was counted.
    #[must_use]
    pub fn curve(&self, line_size: LineSize, sizes: &[CacheLines]) -> MissRatioCurve {
        let accesses = self.accesses.max(1) as f64;
        let ratios = self.misses(sizes).into_iter().map(|misses| misses as f64 / accesses);
        let points = sizes.iter().copied().zip(ratios).collect();
        MissRatioCurve::new(line_size, Scope::Private, points)
    }
}
