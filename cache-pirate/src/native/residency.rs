//! How much of the pirate's lines came from memory, by the time that random ones of them take.
//!
//! Without counters the pirate has only its clock. A walk in order does not show lost lines: prefetchers hide memory
//! behind it. So after each run some thousand random lines are read, each waiting for the one before, and their time
//! is compared with that of lines known to be in the cache and of lines just flushed from it.
//!
//! What is known to be in the cache is a small working set walked alone; a larger one must not be compared with
//! itself, because a pirate that never held its lines always takes equally long.

/// Lines read by a probe.
pub(super) const PROBES: usize = 4096;
/// Least ratio of the two times for a probe to distinguish them.
const DISTINCT: f64 = 1.5;

/// Nanoseconds per random line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    /// Of one in the cache.
    pub held: f64,
    /// Of one in memory.
    pub lost: f64,
}

impl Times {
    /// Whether they differ enough to distinguish held lines from lost ones.
    pub(super) fn are_distinct(self) -> bool {
        self.lost > DISTINCT * self.held
    }

    /// Share of lines that were in memory if a probe took `time` nanoseconds a line; 1 if nothing can be said.
    ///
    /// # Formula
    /// `(time - held) / (lost - held)`, within 0 and 1.
    pub(super) fn lost_share(self, time: f64) -> f64 {
        if self.are_distinct() { ((time - self.held) / (self.lost - self.held)).clamp(0.0, 1.0) } else { 1.0 }
    }

    /// The pirate's fetches per line that it touches, if `share` of its lines is lost at the end of a run.
    ///
    /// # Formula
    /// A line is lost at any moment between two touches, so that it is absent for half of that time on average: the
    /// fetch ratio is twice the share that is absent at one moment, and at most 1.
    pub(super) fn fetch_ratio(self, time: f64) -> f64 {
        (2.0 * self.lost_share(time)).min(1.0)
    }
}

/// `None` without values.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetches_lie_between_held_and_lost() {
        let times = Times { held: 10.0, lost: 110.0 };
        for (time, ratio) in [(5.0, 0.0), (10.0, 0.0), (20.0, 0.2), (60.0, 1.0), (300.0, 1.0)] {
            assert_eq!(times.fetch_ratio(time), ratio, "{time} ns");
        }
    }

    #[test]
    fn where_times_do_not_differ_nothing_counts_as_held() {
        assert_eq!(Times { held: 10.0, lost: 14.0 }.fetch_ratio(10.0), 1.0);
        assert_eq!(Times { held: 10.0, lost: f64::NAN }.fetch_ratio(10.0), 1.0);
    }
}
