//! How many different lines a program uses within a time: its footprint, from how long ago the line of each use was used
//! before.

use std::collections::HashMap;

use crate::Line;

/// Time spans in which lines are counted: per octave, and octaves of accesses.
pub(super) const TIMES: (usize, usize) = (4, 40);

/// How long ago the line of each use was used before.
#[derive(Clone, Debug)]
pub(super) struct Ages {
    spans: Vec<u64>,       // the times
    used: Vec<(u64, u64)>, // uses of lines used before, by the first of the times that is longer ago: how many, times of all
    new: u64,              // uses of other lines
}

impl Ages {
    pub(super) fn new() -> Self {
        Self {
            spans: (0..TIMES.0 * TIMES.1).map(|n| (n as f64 / TIMES.0 as f64).exp2() as u64).collect(),
            used: vec![(0, 0); TIMES.0 * TIMES.1 + 1],
            new: 0,
        }
    }

    /// The number of the first time span that is longer than `age`; some number that there is none of if there is none.
    pub(super) fn first_above(&self, age: u64) -> usize {
        let Some(octave) = age.checked_ilog2() else { return 0 };
        let begin = TIMES.0 * octave as usize;
        let within = self.spans.get(begin..begin + TIMES.0).unwrap_or_default();
        begin + within.iter().filter(|&&span| span <= age).count()
    }

    /// A use of a line that was used so many accesses ago, or never.
    pub(super) fn count(&mut self, ago: Option<u64>) {
        let Some(ago) = ago else {
            self.new += 1;
            return;
        };
        let age = self.first_above(ago).min(self.used.len() - 1);
        let (uses, all) = &mut self.used[age];
        *uses += 1;
        *all += ago;
    }

    /// The time since the line of each use was used, or at most each of the times, of all uses together. Nothing is left.
    pub(super) fn take(&mut self) -> Vec<(u64, f64)> {
        let mut longer = self.new + self.used.iter().map(|&(uses, _)| uses).sum::<u64>();
        let mut shorter = 0.0;
        let mut footprint: Vec<(u64, f64)> = Vec::new();
        for (&span, &(uses, all)) in self.spans.iter().zip(&self.used) {
            longer -= uses;
            shorter += all as f64;
            let sum = shorter + span as f64 * longer as f64;
            // Short times are the same in whole accesses.
            match footprint.last_mut().filter(|last| last.0 == span) {
                Some(last) => last.1 = sum,
                None => footprint.push((span, footprint.last().map_or(sum, |last| last.1.max(sum)))),
            }
        }
        self.used.fill((0, 0));
        self.new = 0;
        footprint
    }
}

/// Counts a program's footprint, whatever the cache: of a shared one, from the accesses that get past the private caches.
///
/// [`SetReuseCounter`](crate::SetReuseCounter) counts it, too, of the lines that it remembers in each set.
///
/// # Cost
/// Memory for every line ever used; per use, a lookup.
///
/// ```
/// use reuse_sampler::{FootprintCounter, Line};
///
/// let mut counter = FootprintCounter::default();
/// for (now, line) in (1..).zip((0..500).cycle().take(10_000)) {
///     counter.touch(Line(line), now);
/// }
/// // Within 256 accesses, 256 lines; within 1024 all there are.
/// let within = |span| counter.clone().take().iter().find(|(time, _)| *time == span).map(|at| at.1 / 10_000.0);
/// assert!((within(256).unwrap() - 256.0).abs() < 1e-9 && (within(1024).unwrap() - 500.0).abs() < 50.0);
/// ```
#[derive(Clone, Debug)]
pub struct FootprintCounter {
    last: HashMap<Line, u64>, // when each line was used
    ages: Ages,
}

impl Default for FootprintCounter {
    fn default() -> Self {
        Self { last: HashMap::new(), ages: Ages::new() }
    }
}

impl FootprintCounter {
    /// The program uses `line`, with its access number `now`, which rises.
    pub fn touch(&mut self, line: Line, now: u64) {
        let before = self.last.insert(line, now);
        self.ages.count(before.map(|before| now.saturating_sub(before)));
    }

    /// A prefetcher asks for `line`: the program waits for nothing, so that this is no use. Who uses the line then reuses it
    /// at once.
    pub fn prefetch(&mut self, line: Line, now: u64) {
        self.last.insert(line, now);
    }

    /// Returns the footprint of the uses since the last call, as [`SetUse::footprint`](crate::SetUse::footprint). Lines stay
    /// where they are.
    pub fn take(&mut self) -> Vec<(u64, f64)> {
        self.ages.take()
    }
}
