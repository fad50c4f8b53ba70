//! How samples lie over each other: for each sample, how many others were started during it and are still
//! open when it ends.
//!
//! Each of those others is the last touch of another line, so that their number estimates a [stack distance](OpenStarts). One
//! sample's estimate is worth little; thousands of them say by how much accesses of some reuse distance deviate from what
//! the distances alone let one expect.
//!
//! The sums are kept for each window that starts samples, by distance in quarters of octaves. Samples during
//! which the sampling rate changed do not count.

use super::bins;
use super::hash::FastMap;
use super::open::OpenStarts;

/// Sums over samples of similar distance that were started in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Overlap {
    /// The window that started them.
    pub window: u64,
    /// Which distances: a [coarse bin](bins::coarse_of).
    pub bin: u32,
    /// Accesses each sample stands for.
    pub weight: u64,
    /// How many samples there are.
    pub samples: u64,
    /// Sum of the numbers of samples started during each and open at its end.
    pub open: u64,
    /// Sum of n (n - 1) over those numbers n.
    pub pairs: u64,
}

/// The samples open under the present sampling rate, in the order in which they were started, and the sums.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    open: OpenStarts,               // under the present rate
    window: u64,                    // the present one
    near: Vec<Sums>,                // by coarse bin, of samples started in it
    far: FastMap<(u64, u32), Sums>, // of the others
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    weight: u64,
    samples: u64,
    open: u64,
    pairs: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.weight = other.weight;
        self.samples += other.samples;
        self.open += other.open;
        self.pairs = self.pairs.saturating_add(other.pairs);
    }
}

impl Overlaps {
    /// The sampling rate changes: what is open now does not count any more.
    pub fn restart(&mut self) {
        self.open.clear();
    }

    /// Window number `window` begins: most samples that end in it will be its own.
    pub fn begin_window(&mut self, window: u64) {
        self.put_away();
        self.window = window;
    }

    /// A sample is started by access number `at`, which is later than any before.
    pub fn start(&mut self, at: u64) {
        self.open.push(at);
    }

    /// The sample started by access number `at` in `window` ends after `distance` accesses.
    pub fn end(&mut self, at: u64, window: u64, weight: u64, distance: u64) {
        let Some(open) = self.open.end(at) else { return };
        let bin = bins::coarse_of(distance);
        let pairs = open.saturating_mul(open.saturating_sub(1));
        let sums = Sums { weight, samples: 1, open, pairs };
        if window == self.window {
            if bin as usize >= self.near.len() {
                self.near.resize(bin as usize + 1, Sums::default());
            }
            self.near[bin as usize].add(&sums);
        } else {
            self.far.entry((window, bin)).or_default().add(&sums);
        }
    }

    /// The sample started by access number `at` ends in a way that does not count; its line is among the lines touched in
    /// between no longer.
    pub fn forget(&mut self, at: u64) {
        self.open.end(at);
    }

    fn put_away(&mut self) {
        for (bin, sums) in self.near.iter_mut().enumerate().filter(|(_, sums)| sums.samples > 0) {
            self.far.entry((self.window, bin as u32)).or_default().add(&std::mem::take(sums));
        }
    }

    /// The sums since they were last taken, by window and distance.
    pub fn take(&mut self) -> Vec<Overlap> {
        self.put_away();
        let overlap = |((window, bin), sums): ((u64, u32), Sums)| {
            let Sums { weight, samples, open, pairs } = sums;
            Overlap { window, bin, weight, samples, open, pairs }
        };
        let mut sums: Vec<Overlap> = self.far.drain().map(overlap).collect();
        sums.sort_unstable();
        sums
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        /// Against a list that is searched: samples are started and ended in any order.
        fn agrees_with_a_list(steps: Vec<(bool, u16)>, restart: u16) -> bool {
            let mut overlaps = Overlaps::default();
            overlaps.begin_window(u64::from(restart % 2) * 7);
            let mut list: Vec<u64> = Vec::new();
            let mut sums: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
            let mut now = 0;
            for round in 0..60_u64 {
                for (step, &(start, pick)) in steps.iter().enumerate() {
                    now += 1 + u64::from(pick % 5);
                    if round == 30 && step == usize::from(restart) {
                        overlaps.restart();
                        list.clear();
                    }
                    if start || pick % 3 == 0 {
                        overlaps.start(now);
                        list.push(now);
                    } else if !list.is_empty() {
                        let position = usize::from(pick) % list.len();
                        let at = list.remove(position);
                        let open = (list.len() - position) as u64;
                        overlaps.end(at, 7, 3, now - at - 1);
                        let sums = sums.entry(bins::coarse_of(now - at - 1)).or_default();
                        *sums = (sums.0 + 1, sums.1 + open, sums.2 + open * open.saturating_sub(1));
                    }
                    overlaps.end(now + 1, 7, 3, 0); // never started
                }
            }
            let expected: Vec<Overlap> = sums
                .into_iter()
                .map(|(bin, (samples, open, pairs))| Overlap { window: 7, bin, weight: 3, samples, open, pairs })
                .collect();
            overlaps.take() == expected && overlaps.take().is_empty()
        }
    }
}
