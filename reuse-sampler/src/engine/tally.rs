//! What the accesses of a window in which every one is a sample found: how far back their line was touched last.
//!
//! Two questions are answered from the same counts: how far the data of each window lives, by the window of the
//! earlier touch, and how far back the accesses of this window reach, by whether they are stores.

use super::bins;
use super::starts::Starts;

/// A row wider than this gives its memory back at the end of a window.
const NARROW: usize = 512;

/// Counts of accesses by the distance to the touch before.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    within: Vec<u64>, // touched before in this window, by bin: first loads, then stores; empty if not in use
    rows: Vec<Row>,   // touched before in earlier windows: the first `crossed` are in use
    crossed: usize,   // how many windows were crossed from
    row_of: Vec<u32>, // by index of an earlier window: its row's number plus 1, 0 without
    lost: Vec<u64>,   // taken away by another thread since they were touched, by the bin of that; as `within`
    unseen: Vec<u64>, // not touched since observation began, by the bin of its age; as `within`
    first: [u64; 2],  // never touched before, though all was observed: loads and stores
}

/// Counts of accesses whose lines were touched before in the window.
pub struct Within<'a>(&'a mut [u64]);

impl Within<'_> {
    /// An access found its line touched `distance` accesses ago.
    #[inline]
    pub fn within(&mut self, distance: u64, store: bool) {
        if let Some(count) = self.0.get_mut(bins::bin_of(distance) + bins::BINS * usize::from(store)) {
            *count += 1;
        }
    }

    /// So many stores found their line loaded by the access before.
    pub fn updated(&mut self, stores: u64) {
        if let Some(count) = self.0.get_mut(bins::BINS) {
            *count += stores;
        }
    }
}

/// Reuses from one earlier window. Its distances are at least those to that window's end, so that few bins hold them.
#[derive(Clone, Debug, Default)]
struct Row {
    start: usize,          // index of the window
    base: usize,           // bin of the first count
    counts: Vec<[u64; 2]>, // loads and stores
}

impl Tally {
    /// Makes room for a window. Without it, accesses of [`within`](Self::within) are not counted.
    pub fn prepare(&mut self) {
        self.within.resize(2 * bins::BINS, 0);
    }

    /// Counts accesses whose lines were touched before in this window.
    #[inline]
    pub fn counting(&mut self) -> Within<'_> {
        Within(&mut self.within)
    }

    /// An access found its line touched in an earlier window, by access number `before`; `began` accesses were made
    /// before this window.
    pub fn across(&mut self, before: u64, distance: u64, store: bool, starts: &Starts, began: u64) {
        let start = starts.index_of(before);
        if start >= self.row_of.len() {
            self.row_of.resize(start + 1, 0);
        }
        if self.row_of[start] == 0 {
            if self.crossed == self.rows.len() {
                self.rows.push(Row::default());
            }
            // The nearest touch is the last one before the next window began, by the first access of this one.
            let ended = starts.began(start + 1).unwrap_or(began);
            self.rows[self.crossed].start = start;
            self.rows[self.crossed].base = bins::bin_of(began.saturating_sub(ended));
            self.crossed += 1;
            self.row_of[start] = self.crossed as u32;
        }
        let row = &mut self.rows[self.row_of[start] as usize - 1];
        let at = bins::bin_of(distance).saturating_sub(row.base);
        if at >= row.counts.len() {
            row.counts.resize(at + 1, [0; 2]);
        }
        row.counts[at][usize::from(store)] += 1;
    }

    /// An access touched a line for the first time since the thread began.
    pub fn first(&mut self, store: bool) {
        self.first[usize::from(store)] += 1;
    }

    /// An access found a line that another thread had taken away since it was touched, `distance` accesses ago.
    pub fn lost(&mut self, distance: u64, store: bool) {
        self.lost.resize(2 * bins::BINS, 0);
        self.lost[bins::bin_of(distance) + bins::BINS * usize::from(store)] += 1;
    }

    /// An access found its line untouched since observation began, `age` accesses ago.
    pub fn unseen(&mut self, age: u64, store: bool) {
        self.unseen.resize(2 * bins::BINS, 0);
        self.unseen[bins::bin_of(age) + bins::BINS * usize::from(store)] += 1;
    }

    /// Number of first touches by loads and by stores.
    #[must_use]
    pub const fn first_touches(&self) -> [u64; 2] {
        self.first
    }

    /// Calls `each` with the index of the earlier window, the bin of the distance, and the numbers of loads and of
    /// stores that found their line so far back; by ascending index and bin.
    pub fn for_each_crossing(&mut self, mut each: impl FnMut(usize, usize, [u64; 2])) {
        self.rows[..self.crossed].sort_unstable_by_key(|row| row.start);
        for (number, row) in self.rows[..self.crossed].iter().enumerate() {
            self.row_of[row.start] = number as u32 + 1;
            for (bin, &counts) in row.counts.iter().enumerate().filter(|(_, counts)| **counts != [0; 2]) {
                each(row.start, row.base + bin, counts);
            }
        }
    }

    /// Calls `each` with the bin of the distance and the numbers of loads and of stores that found their line so far
    /// back in this window; by ascending bin.
    pub fn for_each_within(&self, each: impl FnMut(usize, [u64; 2])) {
        for_each(&self.within, each);
    }

    /// The same for lines not touched since observation began, by the bin of its age.
    pub fn for_each_unseen(&self, each: impl FnMut(usize, [u64; 2])) {
        for_each(&self.unseen, each);
    }

    /// The same for lines that another thread had taken away, by the bin of the distance to their touch.
    pub fn for_each_lost(&self, each: impl FnMut(usize, [u64; 2])) {
        for_each(&self.lost, each);
    }

    /// The same for all lines touched before, in this window or in an earlier one.
    pub fn for_each_reuse(&mut self, each: impl FnMut(usize, [u64; 2])) {
        let mut all = self.within.clone();
        if self.crossed > 0 {
            all.resize(2 * bins::BINS, 0);
        }
        self.for_each_crossing(|_, bin, [loads, stores]| {
            all[bin] += loads;
            all[bin + bins::BINS] += stores;
        });
        for_each(&all, each);
    }

    /// Forgets all counts.
    pub fn clear(&mut self) {
        self.within.fill(0);
        for row in &mut self.rows[..self.crossed] {
            self.row_of[row.start] = 0;
            if row.counts.len() > NARROW {
                row.counts = Vec::new();
            }
            row.counts.clear();
        }
        self.crossed = 0;
        self.unseen = Vec::new();
        self.lost.fill(0);
        self.first = [0; 2];
    }
}

fn for_each(counts: &[u64], mut each: impl FnMut(usize, [u64; 2])) {
    let (loads, stores) = counts.split_at(counts.len() / 2);
    for (bin, (&loads, &stores)) in loads.iter().zip(stores).enumerate().filter(|(_, (l, s))| **l + **s > 0) {
        each(bin, [loads, stores]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        /// Against a map, over several windows.
        fn agrees_with_a_map(lengths: Vec<u16>, steps: Vec<(u32, bool)>) -> bool {
            let mut starts = Starts::default();
            let mut tally = Tally::default();
            let (mut began, mut random) = (0, 1_u64);
            lengths.iter().enumerate().all(|(index, &length)| {
                starts.push(began, index as u64);
                let mut expected: BTreeMap<(usize, usize), [u64; 2]> = BTreeMap::new();
                for (i, &(step, store)) in steps.iter().enumerate().filter(|_| began > 0) {
                    let now = began + 1 + i as u64;
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(step) | 1);
                    let before = 1 + (random >> 32) % began;
                    tally.across(before, now - before - 1, store, &starts, began);
                    let key = (starts.index_of(before), bins::bin_of(now - before - 1));
                    expected.entry(key).or_default()[usize::from(store)] += 1;
                }
                let mut found = Vec::new();
                tally.for_each_crossing(|start, bin, counts| found.push(((start, bin), counts)));
                let total: u64 = found.iter().flat_map(|(_, counts)| counts).sum();
                let mut reuses = 0;
                tally.for_each_reuse(|_, counts| reuses += counts.iter().sum::<u64>());
                tally.clear();
                let mut left = 0;
                tally.for_each_crossing(|_, _, _| left += 1);
                began += 1 + u64::from(length);
                found == expected.into_iter().collect::<Vec<_>>() && reuses == total && left == 0
            })
        }
    }
}
