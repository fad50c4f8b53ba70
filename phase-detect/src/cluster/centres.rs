//! The centres of an online clusterer, laid out for a fast search.
//!
//! Centres are kept in blocks of [`LANES`], entry by entry (all first entries, then all second entries, ...), in `f32`:
//! the inner loop is then a run of independent lanes that the compiler turns into vector instructions on any target,
//! without horizontal sums. The search begins with the block of the centre that was joined last, and leaves a block as
//! soon as none of its centres can be nearer than the best so far.
//! `f32` is enough to *rank* centres (its rounding moves a distance by about 1e-6 of its range); the distance to the
//! winner, which is compared with the threshold and reported, is recomputed from an exact `f64` copy, and so is the
//! mean. If two centres are equally near within 1e-5, either may win.
//!
//! Mostly one distance is enough. Windows of a phase have their largest entries in the same places, and the centre that was
//! nearest to the last one with these is tried first. Of a distance that obeys the triangle's inequality, a centre less
//! than half as far from the window as from every other centre is the nearest. How far the centres are apart is measured
//! now and then, and how far any of them has moved since is bounded. Only a search needs the copies in `f32`, which are made
//! anew then.

use super::distance::sum_over;
use super::metric::Metric;

/// Centres compared side by side: four vectors of four `f32` hide the latency of an addition.
pub(crate) const LANES: usize = 16;

/// Entries after which the search looks whether a block can still win.
const STRETCH: usize = 16;

/// How much a score may be off by rounding.
const ROUNDING: f32 = 1e-5;

/// Windows of a phase after which the distance of its centre from the others is measured.
const MEASURED: u64 = 8;

/// Searches that a measurement must have spared, or the next one waits twice as long.
const PAID: u64 = 16;

/// Windows for each centre in a stretch of the run for which one bound holds on how far any centre moves.
const EPOCH: usize = 8;

/// Places in which the centre of windows with certain largest entries is remembered.
const KEYS: usize = 1024;

/// How much sums of distances may be off by rounding, with room to spare.
const CARE: f64 = 1e-6;

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
    // the centre joined or replaced last; below members.len() if there are centres
    recent: usize,
    // whether the window before joined that centre, too, and whether the last one was searched for
    stays: bool,
    searched: bool,
    // the centre that was nearest to the last window with a key; empty if there are no centres
    likely: Vec<u32>,
    // one per centre: whether its lane is out of date, and whether any is
    stale: Vec<bool>,
    any_stale: bool,
    // one per centre
    apart: Vec<Apart>,
    // the two that centres have moved most in this epoch, and whose the first is; the sum of both, of each epoch before, added up
    most: [f64; 2],
    farthest: usize,
    before: f64,
    // windows that have joined in this epoch
    joined: usize,
}

/// How far a centre is from all others.
#[derive(Clone, Copy, Debug)]
struct Apart {
    /// Each is farther away than this less what centres have moved; 0 if that is not known.
    least: f64,
    /// How far the centre has moved in this epoch.
    moved: f64,
    /// Members with which it is measured, if it is searched for then, and how many more the next time.
    due: u64,
    wait: u64,
    /// Searches spared since it was measured.
    spared: u64,
}

impl Apart {
    const fn unknown(members: u64) -> Self {
        Self { least: 0.0, moved: 0.0, due: members.saturating_add(MEASURED), wait: MEASURED, spared: PAID }
    }
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
        self.likely.resize(KEYS, 0);
        self.exact.extend_from_slice(values);
        self.members.push(members);
        self.apart.push(Apart::unknown(members));
        self.stale.push(true);
        self.any_stale = true;
    }

    /// Puts a new centre of one member where an old one was.
    pub(crate) fn replace(&mut self, index: usize, values: &[f64]) {
        self.exact[index * self.entries..][..self.entries].copy_from_slice(values);
        self.members[index] = 1;
        self.recent = index;
        self.stays = false;
        // How far the old one moved is in the bound: the new one goes on from there.
        self.apart[index] = Apart { moved: self.apart[index].moved, ..Apart::unknown(1) };
        self.mark_stale(index);
    }

    /// Keeps the others' distances from all centres right after `index` was put where it is.
    pub(crate) fn keep_apart<M: Metric>(&mut self, index: usize) {
        for other in 0..self.len() {
            if self.apart[other].least > self.before && other != index {
                let distance = M::exact(self.centre(index), self.centre(other));
                // Not `moved()`: one that has moved less in this epoch than others may still catch up with them.
                let least = &mut self.apart[other].least;
                *least = least.min(distance + self.before);
            }
        }
    }

    /// Moves a centre to the mean of its members and this one, at `distance`.
    pub(crate) fn join<M: Metric>(&mut self, index: usize, values: &[f64], distance: f64) {
        self.members[index] += 1;
        self.stays = self.recent == index;
        self.recent = index;
        let weight = 1.0 / self.members[index] as f64;
        for (centre, value) in self.exact[index * self.entries..][..self.entries].iter_mut().zip(values) {
            *centre += (value - *centre) * weight;
        }
        if self.searched {
            self.copy_to_lane(index);
        } else {
            self.mark_stale(index);
        }
        if M::IS_METRIC {
            self.moved_by::<M>(index, distance * weight);
        }
    }

    /// A centre has moved so far.
    fn moved_by<M: Metric>(&mut self, index: usize, distance: f64) {
        let members = self.members[index];
        if members < MEASURED {
            // New ones move far, and are few.
            self.keep_apart::<M>(index);
            return;
        }
        if self.searched && members >= self.apart[index].due {
            let centre = self.centre(index);
            let others = (0..self.len()).filter(|&other| other != index);
            let least = others.map(|other| M::exact(centre, self.centre(other))).fold(1.0, f64::min);
            let Apart { moved, wait, spared, .. } = self.apart[index];
            let wait = if spared >= PAID { MEASURED } else { wait.saturating_mul(2) };
            let (least, due) = (least + self.before, members.saturating_add(wait));
            self.apart[index] = Apart { least, moved, due, wait, spared: 0 };
        }
        self.apart[index].moved += distance;
        let (moved, [first, second]) = (self.apart[index].moved, self.most);
        if index == self.farthest {
            self.most[0] = moved;
        } else if moved > first {
            (self.most, self.farthest) = ([moved, first], index);
        } else {
            self.most[1] = second.max(moved);
        }
        self.joined += 1;
        if self.joined >= EPOCH * self.len() {
            self.before += self.most[0] + self.most[1];
            (self.most, self.joined) = ([0.0; 2], 0);
            self.apart.iter_mut().for_each(|apart| apart.moved = 0.0);
        }
    }

    /// No two centres have come nearer to each other by more since the beginning.
    fn moved(&self) -> f64 {
        self.before + self.most[0] + self.most[1]
    }

    /// The nearest centre, if it is one that is likely to be, and must be; else the key of the window.
    #[inline]
    fn foreseen<M: Metric>(&self, values: &[f64]) -> Result<(usize, f64), usize> {
        if !M::IS_METRIC || self.len() == 0 {
            return Err(0);
        }
        let moved = self.moved();
        let if_nearest = |index: usize| {
            let distance = M::exact(values, self.centre(index));
            (2.0 * distance + CARE < self.apart[index].least - moved).then_some((index, distance))
        };
        if let Some(found) = self.stays.then(|| if_nearest(self.recent)).flatten() {
            return Ok(found);
        }
        let key = key(values);
        let likely = self.likely[key] as usize;
        let other = !self.stays || likely != self.recent;
        other.then(|| if_nearest(likely)).flatten().ok_or(key)
    }

    fn mark_stale(&mut self, index: usize) {
        self.stale[index] = true;
        self.any_stale = true;
    }

    fn copy_to_lane(&mut self, index: usize) {
        let block = &mut self.lanes[index / LANES * self.entries * LANES..][..self.entries * LANES];
        let centre = &self.exact[index * self.entries..][..self.entries];
        for (row, value) in block.chunks_exact_mut(LANES).zip(centre) {
            row[index % LANES] = *value as f32;
        }
    }

    /// Brings the lanes up to date.
    fn copy_to_lanes(&mut self) {
        if std::mem::take(&mut self.any_stale) {
            for index in 0..self.members.len() {
                if std::mem::take(&mut self.stale[index]) {
                    self.copy_to_lane(index);
                }
            }
        }
    }

    /// The nearest centre and its exact distance.
    pub(crate) fn nearest<M: Metric>(&self, values: &[f64]) -> Option<(usize, f64)> {
        match self.foreseen::<M>(values) {
            Ok(found) => Some(found),
            Err(_) if self.any_stale => {
                let all = (0..self.len()).map(|index| (index, M::exact(values, self.centre(index))));
                all.min_by(|a, b| a.1.total_cmp(&b.1))
            }
            Err(_) => self.search::<M>(values),
        }
    }

    /// The same, for a clusterer that learns.
    pub(crate) fn find<M: Metric>(&mut self, values: &[f64]) -> Option<(usize, f64)> {
        let foreseen = self.foreseen::<M>(values);
        self.searched = foreseen.is_err();
        match foreseen {
            Ok(found) => {
                self.apart[found.0].spared += 1;
                Some(found)
            }
            Err(key) => {
                self.copy_to_lanes();
                let found = self.search::<M>(values)?;
                self.likely[key] = found.0 as u32;
                Some(found)
            }
        }
    }

    /// The nearest of all, by lanes that are up to date.
    fn search<M: Metric>(&self, values: &[f64]) -> Option<(usize, f64)> {
        let size = self.entries * LANES;
        let blocks = self.len().div_ceil(LANES);
        let first = self.recent / LANES;
        let (mut best, mut best_score) = (None, f32::NEG_INFINITY);
        for number in (first..blocks).chain(0..first.min(blocks)) {
            let block = &self.lanes[number * size..][..size];
            let used = (self.len() - number * LANES).min(LANES);
            let scores = match used {
                0..=4 => scan::<M, 4>(block, values, best_score),
                5..=8 => scan::<M, 8>(block, values, best_score),
                9..=12 => scan::<M, 12>(block, values, best_score),
                _ => scan::<M, LANES>(block, values, best_score),
            };
            let Some(mut scores) = scores else { continue };
            scores[used..].fill(f32::NEG_INFINITY);
            let top = largest(&scores);
            if top > best_score {
                best_score = top;
                best = scores.iter().position(|&s| s == top).map(|lane| number * LANES + lane);
            }
        }
        best.map(|index| (index, M::exact(values, self.centre(index))))
    }
}

/// Where the largest entries are: of the first half, and of the second.
#[inline]
fn key(values: &[f64]) -> usize {
    let (front, back) = values.split_at(values.len() / 2);
    (strongest(front) * 61 + strongest(back)) % KEYS
}

/// Where the largest of some numbers from 0 to 1 is.
#[inline]
fn strongest(values: &[f64]) -> usize {
    // The place is in the last bits of the number itself, and the largest brings it along.
    const PLACES: u64 = 0xFFFF;
    let mut largest = [1.0_f64; 4];
    for (place, chunk) in (0..).zip(values.chunks_exact(4)) {
        for (largest, value) in largest.iter_mut().zip(chunk) {
            let marked = f64::from_bits((value + 1.0).to_bits() & !PLACES | place);
            *largest = if marked > *largest { marked } else { *largest };
        }
    }
    let lanes = largest.iter().enumerate();
    let (lane, most) =
        lanes.fold((0, 0.0), |best, (lane, &most)| if most > best.1 { (lane, most) } else { best });
    (most.to_bits() & PLACES) as usize * 4 + lane
}

/// The scores of the first `N` centres of a block, unless all stay below `beat`; of the others 0.
#[inline]
fn scan<M: Metric, const N: usize>(block: &[f32], values: &[f64], beat: f32) -> Option<[f32; LANES]> {
    let mut scores = [0.0_f32; N];
    let mut left = 1.0 + ROUNDING;
    for (rows, values) in block.chunks(STRETCH * LANES).zip(values.chunks(STRETCH)) {
        for (row, &value) in rows.chunks_exact(LANES).zip(values) {
            // Few lanes take less than a branch that is not foreseen.
            if N == LANES && M::SKIPS_ZEROS && value == 0.0 {
                continue;
            }
            if let Some(row) = row.first_chunk::<N>() {
                M::add(value as f32, row, &mut scores);
            }
        }
        if beat > f32::NEG_INFINITY {
            left -= sum_over(values, values, |value, _| value) as f32;
            if M::bound(largest(&scores), left) + ROUNDING < beat {
                return None;
            }
        }
    }
    let mut all = [0.0; LANES];
    all[..N].copy_from_slice(&scores);
    Some(all)
}

/// The largest score, by halves: a chain of comparisons would wait for each.
#[inline]
fn largest<const N: usize>(scores: &[f32; N]) -> f32 {
    let mut halves = *scores;
    let mut width = N;
    while width > 1 {
        let rest = width / 2;
        let half = width - rest;
        for lane in 0..rest {
            let other = halves[lane + half];
            if other > halves[lane] {
                halves[lane] = other;
            }
        }
        width = half;
    }
    halves[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::metric::Share;

    /// Whatever happens to centres, each is as far from all others as is claimed.
    #[test]
    fn centres_are_as_far_apart_as_is_known() {
        let mut state = 5_u64;
        let mut below = move |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        let mut known = 0;
        for round in 0..200 {
            let mut centres = Centres::new(3);
            let step = 1 + below(30);
            let mut window = |step: usize, from: Option<&[f64]>| -> Vec<f64> {
                let noise: Vec<f64> = (0..3).map(|_| below(100) as f64).collect();
                let sum: f64 = noise.iter().sum::<f64>().max(1.0);
                let share = from.map_or(1.0, |_| step as f64 / 100.0);
                (0..3)
                    .map(|at| share * noise[at] / sum + (1.0 - share) * from.map_or(0.0, |f| f[at]))
                    .collect()
            };
            for time in 0..600 {
                let founds = if centres.len() < 3 { 0 } else { time * 7919 % 53 };
                if founds == 0 && centres.len() < 6 {
                    centres.push(&window(step, None), 1);
                    centres.keep_apart::<Share>(centres.len() - 1);
                } else if founds == 0 {
                    let index = (time / 53) % centres.len();
                    centres.replace(index, &window(step, None));
                    centres.keep_apart::<Share>(index);
                }
                // Most windows are of the same few centres, which drift.
                let index = time / (1 + round % 40) % centres.len();
                let joining = window(step, Some(centres.centre(index)));
                let distance = Share::exact(&joining, centres.centre(index));
                centres.searched = time % 3 == 0;
                centres.apart[index].spared += 9;
                centres.join::<Share>(index, &joining, distance);
                for (one, apart) in centres.apart.iter().enumerate() {
                    let claimed = apart.least - centres.moved();
                    let others = (0..centres.len()).filter(|&other| other != one);
                    let really = others.map(|other| Share::exact(centres.centre(one), centres.centre(other)));
                    assert!(really.fold(1.0, f64::min) > claimed - 1e-9, "round {round}, time {time}, {one}");
                    known += usize::from(claimed > 0.0);
                }
            }
        }
        assert!(known > 50_000, "{known}");
    }
}
