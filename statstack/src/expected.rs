//! The expected stack distance of a reuse distance, as a piecewise quadratic function that can be inverted.
//!
//! Looking back from an access, the access j places before it is the last one to its line before that access
//! exactly if its own (forward) reuse distance is at least j. Under the assumption that it has the
//! distribution of all accesses, adding up P(D >= j) over the r accesses of the epoch gives the expected
//! number of distinct lines in it. Within a bin of the profile the distances are taken to be spread evenly, so
//! that P(D >= j) falls linearly and its sum is a quadratic.

use reuse_sampler::ReuseDistribution;

/// From `start` up to the next segment's start: P(D >= start + n) = survival - slope * n.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    survival: f64, // in [0, 1]
    slope: f64,    // >= 0
    stack: f64,    // expected stack distance of reuse distance `start`
}

impl Segment {
    fn stack_at(&self, distance: u64) -> f64 {
        let n = (distance - self.start) as f64;
        self.stack + n * (self.survival - self.slope * (n + 1.0) / 2.0)
    }
}

/// Expected number of distinct lines among so many accesses.
#[derive(Clone, Debug, Default)]
pub struct ExpectedStack {
    segments: Vec<Segment>, // ascending by start, the first at 0; empty only before the first `fit`
}

impl ExpectedStack {
    /// Fits it anew in one pass over the distribution. `tails[k]` is the probability of its masses from k on, what
    /// dangles and what is unresolved included.
    pub fn fit(&mut self, distribution: &ReuseDistribution, tails: &[f64]) {
        let masses = distribution.masses();
        let segments = &mut self.segments;
        segments.clear();
        let mut last = Segment { start: 0, survival: 1.0, slope: 0.0, stack: 0.0 };
        let mut advance = |start: u64, survival: f64, slope: f64| {
            let stack = last.stack_at(start);
            if start > last.start {
                segments.push(last);
            }
            last = Segment { start, survival, slope, stack };
        };
        for (k, mass) in masses.iter().enumerate() {
            let width = (mass.high - mass.low) as f64 + 1.0;
            advance(mass.low, tails[k].min(1.0), mass.probability / width);
            advance(mass.high.saturating_add(1), tails[k + 1].min(1.0), 0.0);
        }
        segments.push(last);
    }

    /// Expected stack distance of an access with this reuse distance.
    pub fn at(&self, distance: u64) -> f64 {
        let next = self.segments.partition_point(|segment| segment.start <= distance);
        self.segments[next - 1].stack_at(distance)
    }

    /// The same, for distances that ascend from call to call: `from` is 0 at first and the segment found after that.
    pub fn at_next(&self, distance: u64, from: &mut usize) -> f64 {
        while self.segments.get(*from + 1).is_some_and(|segment| segment.start <= distance) {
            *from += 1;
        }
        self.segments[*from].stack_at(distance)
    }

    /// Smallest reuse distance whose expected stack distance is at least `stack`, or `u64::MAX` where none is.
    pub fn first_reaching(&self, stack: f64) -> u64 {
        // Sums of n probabilities are off by rounding; a cyclic scan must not miss its knee by one for that.
        let stack = stack * (1.0 - 1e-10);
        let next = self.segments.partition_point(|segment| segment.stack < stack);
        let Some(before) = next.checked_sub(1) else { return 0 };
        let segment = &self.segments[before];
        let end = self.segments.get(next).map_or(u64::MAX, |segment| segment.start);
        if segment.stack_at(end) < stack {
            return u64::MAX; // only in the last segment
        }
        let (mut low, mut high) = (segment.start, end); // stack_at(low) < stack <= stack_at(high)
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if segment.stack_at(middle) < stack {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}
