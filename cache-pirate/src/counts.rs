//! What is counted on either side. Subtract two readings to get an interval's.

use std::ops::{Add, Mul, Sub};

/// The memory counters of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryCounts {
    /// Memory accesses.
    pub accesses: f64,
    /// Those that reached the shared cache.
    pub shared_accesses: f64,
    /// Those that missed it and waited for memory.
    pub misses: f64,
    /// Lines brought from memory, on demand or by a prefetcher; `None` where prefetches cannot be counted: misses
    /// are fewer than fetches then, by an unknown number.
    pub fetches: Option<f64>,
}

/// What the target did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TargetCounts {
    /// Work done: instructions, or whatever the testbed counts progress in.
    pub work: f64,
    /// Time spent executing, without suspensions: cycles or nanoseconds.
    pub time: f64,
    /// Memory counters, where there are any.
    pub memory: Option<MemoryCounts>,
    /// Bytes moved between the shared cache and memory on its behalf, as the processor's bandwidth monitoring counts
    /// them: reads, and on some processors writes too. `None` where that is not counted.
    pub traffic: Option<f64>,
}

/// What the pirate did, all its threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PirateCounts {
    /// Lines touched.
    pub touches: f64,
    /// Lines that had to come from memory: counted, or inferred from the time they took.
    pub fetches: f64,
}

impl PirateCounts {
    /// Fetches per touched line; 0 for a pirate that touched nothing.
    #[must_use]
    pub fn fetch_ratio(&self) -> f64 {
        if self.touches > 0.0 { self.fetches / self.touches } else { 0.0 }
    }
}

/// Both sides at one moment, counted from the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Time on the machine's axis, suspensions included, in the unit of the target's time.
    pub elapsed: f64,
    /// The target.
    pub target: TargetCounts,
    /// The pirate.
    pub pirate: PirateCounts,
}

impl TargetCounts {
    /// Time per unit of work; not a number where no work was done.
    #[must_use]
    pub fn cpi(&self) -> f64 {
        self.time / self.work
    }
}

macro_rules! fieldwise {
    ($type:ident { $($field:ident),+ }) => {
        impl Sub for $type {
            type Output = Self;

            fn sub(self, earlier: Self) -> Self {
                Self { $($field: self.$field - earlier.$field),+ }
            }
        }

        impl Add for $type {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $($field: self.$field + other.$field),+ }
            }
        }
    };
}

fieldwise!(PirateCounts { touches, fetches });
fieldwise!(Reading { elapsed, target, pirate });

impl MemoryCounts {
    /// Lines brought from memory as far as they were counted: misses where prefetches were not.
    #[must_use]
    pub fn fetches_at_least(&self) -> f64 {
        self.fetches.unwrap_or(self.misses)
    }

    /// Both, field by field; fetches are known only where both sides have them.
    fn with(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            accesses: of(self.accesses, other.accesses),
            shared_accesses: of(self.shared_accesses, other.shared_accesses),
            misses: of(self.misses, other.misses),
            fetches: self.fetches.zip(other.fetches).map(|(one, two)| of(one, two)),
        }
    }
}

impl Sub for MemoryCounts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        self.with(earlier, Sub::sub)
    }
}

impl Add for MemoryCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, Add::add)
    }
}

impl Sub for TargetCounts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let memory = self.memory.zip(earlier.memory).map(|(now, before)| now - before);
        let traffic = self.traffic.zip(earlier.traffic).map(|(now, before)| now - before);
        Self { work: self.work - earlier.work, time: self.time - earlier.time, memory, traffic }
    }
}

impl Add for TargetCounts {
    type Output = Self;

    /// Sums; without memory counters where one side has none.
    fn add(self, other: Self) -> Self {
        let memory = self.memory.zip(other.memory).map(|(one, two)| one + two);
        let traffic = self.traffic.zip(other.traffic).map(|(one, two)| one + two);
        Self { work: self.work + other.work, time: self.time + other.time, memory, traffic }
    }
}

impl Mul<f64> for TargetCounts {
    type Output = Self;

    /// Everything times a factor.
    fn mul(self, by: f64) -> Self {
        let memory = self.memory.map(|memory| memory.with(memory, |count, _| count * by));
        Self {
            work: self.work * by,
            time: self.time * by,
            memory,
            traffic: self.traffic.map(|bytes| bytes * by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetches_are_unknown_where_one_side_does_not_count_prefetches() {
        let counts = |fetches| MemoryCounts { accesses: 10.0, shared_accesses: 5.0, misses: 2.0, fetches };
        assert_eq!((counts(Some(7.0)) - counts(Some(3.0))).fetches, Some(4.0));
        let sum = counts(Some(7.0)) + counts(None);
        assert_eq!((sum.misses, sum.fetches, sum.fetches_at_least()), (4.0, None, 4.0));
    }
}
