//! How long until each line is reused, and how many of the program's own lines come between: what a solo curve cannot
//! show about co-runners.
//!
//! A curve shows how many accesses reuse a line after `d` other lines of its set, for every `d`: those that miss with `d`
//! ways and hit with one more. With co-runners their reuse time decides, for that is how long co-runners insert lines into
//! the set; and how evenly the co-runners' lines fall on the sets.

use reuse_sampler::SetReuse;

use crate::error::{Error, above_zero};

/// A program's reuse times, counted in the sets of a cache that it had alone.
///
/// With them, [`EvictionAge`](crate::EvictionAge) computes for each reuse whether co-runners insert enough lines into the
/// set meanwhile; without them, all sets evict at a common age. It holds for a cache of as many sets
/// ([`SharedCache::with_ways`](crate::SharedCache::with_ways)), however many ways that has.
///
/// # Accuracy
/// See the crate's front page. Times are sorted into thirds of an octave, of which the mean is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct ReuseTimes {
    way_bytes: u64,
    line_size: Option<u32>,     // of the profile, where it was estimated from one
    variances: Vec<f64>,        // finite, >= 0
    reuses: Vec<SetReuse>,      // by time, then distance; of one time all in one bin
    prefetches: Vec<SetReuse>,  // likewise
    footprint: Vec<(f64, f64)>, // times in accesses, rising, and lines used within them, which do not fall
}

/// Bins of reuse times per octave.
const BINS: f64 = 3.0;

impl ReuseTimes {
    /// Reuses in a cache of which a way has `way_bytes` bytes: a line for each set.
    ///
    /// `variances` are those of the number of different lines used in a set within some time, from set to set, where its
    /// mean is 1, 2, 3, ... lines. Nothing for a walk in order; for lines of random sets used at random
    /// moments, as many more lines as are used in twice the time. Beyond the last it stays as it is.
    ///
    /// # Errors
    /// [`Error::Count`] for a way of no bytes, [`Error::Value`] for numbers outside of the ranges given.
    pub fn new(
        way_bytes: u64,
        variances: Vec<f64>,
        reuses: impl IntoIterator<Item = SetReuse>,
    ) -> Result<Self, Error> {
        if way_bytes == 0 {
            return Err(Error::Count { what: "bytes of a way", count: 0, remedy: "a line for each set" });
        }
        if let Some(&value) = variances.iter().find(|v| !(0.0..=1e24).contains(*v)) {
            let remedy = "a number from 0 to 1e24";
            return Err(Error::Value { what: "a variance of lines in a set", value, remedy });
        }
        let reuses = checked(reuses)?;
        Ok(Self {
            way_bytes,
            line_size: None,
            variances,
            reuses: binned(reuses),
            prefetches: Vec::new(),
            footprint: Vec::new(),
        })
    }

    /// The same, with the reuses of lines by a prefetcher, which nobody waits for: they are fetched again where they are gone.
    ///
    /// # Errors
    /// [`Error::Value`] for numbers that are not above 0.
    pub fn with_prefetches(self, prefetches: impl IntoIterator<Item = SetReuse>) -> Result<Self, Error> {
        Ok(Self { prefetches: binned(checked(prefetches)?), ..self })
    }

    /// The reuses by a prefetcher, as [`reuses`](Self::reuses).
    #[must_use]
    pub fn prefetches(&self) -> &[SetReuse] {
        &self.prefetches
    }

    /// The same, with how many different lines the program uses on average within rising times, in accesses: its footprint
    /// ([`SetUse::footprint`](reuse_sampler::SetUse) over the accesses of the stretch). Beyond the last it goes on as before it.
    ///
    /// Without it, as many as a cache of a size that misses as often as the curve says would have to load: sets make lines
    /// miss that were used within the time, and who walks round and round uses nothing new after the first round.
    ///
    /// # Formula
    /// With P(R > n) the probability that a line was last used more than n accesses ago, n accesses use the sum over i < n of
    /// P(R > i) lines.
    ///
    /// # Errors
    /// [`Error::Value`] unless times are above 0 and rise, and lines do not fall and are at most 1e15, and 1e9 an access.
    ///
    /// # References
    /// Xiang, Bao, Ding and Gao, *Linear-time Modeling of Program Working Set in Shared Cache*, PACT 2011.
    pub fn with_footprint(self, footprint: impl IntoIterator<Item = (f64, f64)>) -> Result<Self, Error> {
        let footprint: Vec<(f64, f64)> = footprint.into_iter().collect();
        let mut before = (0.0, 0.0);
        for &(time, lines) in &footprint {
            if !(time > before.0 && time <= 1e24) {
                let (what, remedy) = ("a time of a footprint", "rising times above 0, in accesses");
                return Err(Error::Value { what, value: time, remedy });
            }
            if !(before.1..=1e15_f64.min(1e9 * time)).contains(&lines) {
                let (what, remedy) =
                    ("lines of a footprint", "no fewer than within shorter times, at most 1e9 an access");
                return Err(Error::Value { what, value: lines, remedy });
            }
            before = (time, lines);
        }
        Ok(Self { footprint, ..self })
    }

    /// Times in accesses, each with how many different lines are used within it, where they are known.
    #[must_use]
    pub fn footprint(&self) -> &[(f64, f64)] {
        &self.footprint
    }

    /// Lines used within a time.
    fn used_within(&self, accesses: f64) -> f64 {
        let above = self.footprint.partition_point(|&(time, _)| time < accesses);
        let last = self.footprint.len().saturating_sub(1);
        let (right, left) = (above.min(last), above.min(last).checked_sub(1));
        let (right, left) = (self.footprint[right], left.map_or((0.0, 0.0), |left| self.footprint[left]));
        left.1 + (accesses - left.0) / (right.0 - left.0) * (right.1 - left.1)
    }

    /// Variance of how many lines come into a set where `lines` do on average.
    pub(super) fn variance(&self, lines: f64) -> f64 {
        variance(&self.variances, lines)
    }

    /// The same, of lines of so many bytes.
    pub(super) fn of_lines(self, bytes: u32) -> Self {
        Self { line_size: Some(bytes), ..self }
    }

    /// Bytes of the lines, where they are known.
    pub(super) const fn line_size(&self) -> Option<u32> {
        self.line_size
    }

    /// Bytes of a way of the cache it was counted in.
    #[must_use]
    pub const fn way_bytes(&self) -> u64 {
        self.way_bytes
    }

    /// Variances, from set to set, of the number of lines used within a time in which it is 1, 2, 3, ... on average.
    #[must_use]
    pub fn variances(&self) -> &[f64] {
        &self.variances
    }

    /// The reuses, by time and then by distance, those of about the same time and distance together.
    #[must_use]
    pub fn reuses(&self) -> &[SetReuse] {
        &self.reuses
    }

    /// Those of several windows together, each with the accesses it represents; nothing if they were counted in
    /// different sets.
    pub(super) fn together<'a>(parts: impl Iterator<Item = (f64, Option<&'a Self>)>) -> Option<Self> {
        let parts: Vec<(f64, &Self)> =
            parts.map(|(weight, part)| Some((weight, part?))).collect::<Option<_>>()?;
        let (_, first) = parts.first()?;
        if parts.iter().any(|(_, part)| part.way_bytes != first.way_bytes) {
            return None;
        }
        let accesses: f64 = parts.iter().map(|(weight, _)| weight).sum();
        let most = parts.iter().map(|(_, part)| part.variances.len()).max().unwrap_or(0);
        let mean = |value: &dyn Fn(&Self) -> f64| {
            parts.iter().map(|(weight, part)| weight * value(part)).sum::<f64>() / accesses
        };
        let variances = (1..=most).map(|lines| mean(&|part| part.variance(lines as f64))).collect();
        let reuses = parts.iter().flat_map(|(_, part)| part.reuses.iter().copied()).collect();
        let prefetches = parts.iter().flat_map(|(_, part)| part.prefetches.iter().copied()).collect();
        let mut times: Vec<f64> = Vec::new();
        if parts.iter().all(|(_, part)| !part.footprint.is_empty()) {
            times.extend(parts.iter().flat_map(|(_, part)| part.footprint.iter().map(|&(time, _)| time)));
            times.sort_by(f64::total_cmp);
            times.dedup();
        }
        let mut most = 0.0_f64;
        let footprint = times.into_iter().map(|time| {
            // Rounding must not make lines fall.
            most = most.max(mean(&|part| part.used_within(time)));
            (time, most)
        });
        let footprint = footprint.collect();
        // All are of curves of one line size.
        Some(Self {
            way_bytes: first.way_bytes,
            line_size: first.line_size,
            variances,
            reuses: binned(reuses),
            prefetches: binned(prefetches),
            footprint,
        })
    }
}

/// Reuses after times and of numbers above 0.
fn checked(reuses: impl IntoIterator<Item = SetReuse>) -> Result<Vec<SetReuse>, Error> {
    let reuses: Vec<SetReuse> = reuses.into_iter().collect();
    for reuse in &reuses {
        above_zero("a reuse time in accesses", reuse.accesses)?;
        above_zero("a number of reuses", reuse.count)?;
    }
    Ok(reuses)
}

/// Variance where the mean is `lines`.
fn variance(variances: &[f64], lines: f64) -> f64 {
    between(lines, |whole| known(variances, whole).copied().unwrap_or(0.0))
}

/// What is known of so many ways, of 1, 2, 3, ... in order: beyond the last as of the last, of none nothing.
fn known<T>(values: &[T], ways: usize) -> Option<&T> {
    ways.checked_sub(1).and_then(|way| values.get(way).or(values.last()))
}

/// Straight between whole numbers.
fn between(number: f64, at: impl Fn(usize) -> f64) -> f64 {
    let whole = number as usize;
    let (below, above) = (at(whole), at(whole.saturating_add(1)));
    below + (number - whole as f64) * (above - below)
}

/// Puts reuses of about the same time together, at their mean time, and of these those of one distance.
fn binned(mut reuses: Vec<SetReuse>) -> Vec<SetReuse> {
    let bin = |reuse: &SetReuse| (BINS * reuse.accesses.log2()).floor() as i32;
    reuses.sort_by(|a, b| {
        bin(a).cmp(&bin(b)).then(a.distance.cmp(&b.distance)).then(a.accesses.total_cmp(&b.accesses))
    });
    let mut all: Vec<SetReuse> = Vec::new();
    for bin in reuses.chunk_by(|a, b| bin(a) == bin(b)) {
        let count: f64 = bin.iter().map(|reuse| reuse.count).sum();
        let all_of = bin.iter().map(|reuse| reuse.count * reuse.accesses).sum::<f64>();
        // What was sorted before stays as it is to the last digit.
        let same = bin.iter().all(|reuse| reuse.accesses == bin[0].accesses);
        let accesses = if same { bin[0].accesses } else { all_of / count };
        for alike in bin.chunk_by(|a, b| a.distance == b.distance) {
            let count = alike.iter().map(|reuse| reuse.count).sum();
            all.push(SetReuse { distance: alike[0].distance, accesses, count });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    const WAY: u64 = 4096;

    #[test]
    fn variances_follow_straight_lines() {
        for (lines, expected) in [(0.0, 0.0), (0.5, 1.0), (1.0, 2.0), (1.25, 2.25), (2.0, 3.0), (9.5, 3.0)] {
            assert!((variance(&[2.0, 3.0], lines) - expected).abs() < 1e-12, "{lines}");
            assert_eq!(variance(&[], lines), 0.0);
        }
    }

    quickcheck! {
        /// What was put together can be read: rounding makes no lines fall.
        fn footprints_put_together_are_footprints(steps: Vec<(u8, u8)>, weight: u8) -> bool {
            let footprint = |unit: f64| {
                let (mut time, mut lines) = (0.0, 0.0);
                steps
                    .iter()
                    .map(|&(wait, new)| {
                        time += unit * (f64::from(wait) + 1.0) / 3.0;
                        lines += (f64::from(new % 4) / 7.0).min(unit / 3.0);
                        (time, lines)
                    })
                    .collect::<Vec<_>>()
            };
            let times = || ReuseTimes::new(WAY, Vec::new(), []).unwrap();
            let [a, b] = [1.0, 1.3].map(|unit| times().with_footprint(footprint(unit)).unwrap());
            let parts = [(f64::from(weight) + 0.1, Some(&a)), (3.7, Some(&b))];
            let together = ReuseTimes::together(parts.into_iter()).unwrap();
            times().with_footprint(together.footprint().iter().copied()).is_ok()
                && (together.footprint().is_empty() == steps.is_empty())
        }

        fn sorting_keeps_what_was_counted(all: Vec<(u8, u16, u8)>) -> bool {
            let reuses: Vec<SetReuse> = all
                .iter()
                .map(|&(distance, accesses, count)| SetReuse {
                    distance: u32::from(distance % 16),
                    accesses: f64::from(accesses) + 1.0,
                    count: f64::from(count) + 1.0,
                })
                .collect();
            let times = ReuseTimes::new(WAY, Vec::new(), reuses.clone()).unwrap();
            let again = ReuseTimes::new(WAY, Vec::new(), times.reuses().to_vec()).unwrap();
            let count = |of: &[SetReuse], distance: u32| -> f64 {
                of.iter().filter(|r| r.distance == distance).map(|r| r.count).sum()
            };
            let waited = |of: &[SetReuse]| of.iter().map(|r| r.count * r.accesses).sum::<f64>();
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
            // Twice the same is the same twice.
            let parts = [(1.0, Some(&times)), (3.0, Some(&times))];
            let together = ReuseTimes::together(parts.into_iter()).unwrap();
            (0..16).all(|d| near(count(times.reuses(), d), count(&reuses, d)))
                && near(waited(times.reuses()), waited(&reuses))
                && again.reuses().len() == times.reuses().len()
                && together.reuses().iter().zip(times.reuses()).all(|(a, b)| near(a.count, 2.0 * b.count))
        }
    }
}
