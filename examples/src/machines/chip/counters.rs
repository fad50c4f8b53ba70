//! What a core counts.

use std::iter::Sum;
use std::ops::{Add, Sub};

/// Counts of one core since it started. Subtract two readings to get those of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Instructions executed.
    pub instructions: f64,
    /// Cycles spent running; a suspended core spends none.
    pub cycles: f64,
    /// Memory references, an access that straddles lines counted once per line.
    pub accesses: u64,
    /// Those of the references that are stores.
    pub stores: u64,
    /// References that missed the private first level.
    pub l1_misses: u64,
    /// References that missed all private levels, which are those the shared cache sees.
    pub shared_accesses: u64,
    /// References that missed the shared cache and waited for memory.
    pub shared_misses: u64,
    /// Lines that the prefetcher brought into the shared cache.
    pub prefetches: u64,
    /// Lines that left the private caches because the shared one evicted them.
    pub inclusion_victims: u64,
    /// Cycles of the above that were spent waiting for memory bandwidth.
    pub bandwidth_stall: f64,
    /// Cycles of the above in which the core did nothing but wait for the shared cache or memory.
    pub stall_cycles: f64,
    /// Those of them in which it waited for memory.
    pub memory_stall_cycles: f64,
    /// Times the program ran to its end.
    pub passes: u64,
}

impl Counters {
    /// Lines fetched from memory, on demand or ahead.
    pub const fn fetches(&self) -> u64 {
        self.shared_misses + self.prefetches
    }

    /// Cycles per instruction; 0 before the first instruction.
    pub fn cpi(&self) -> f64 {
        ratio(self.cycles, self.instructions)
    }

    /// Shared-cache misses per memory reference.
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.shared_misses as f64, self.accesses as f64)
    }

    /// Lines fetched from memory per memory reference.
    pub fn fetch_ratio(&self) -> f64 {
        ratio(self.fetches() as f64, self.accesses as f64)
    }

    /// References per memory reference that reach the shared cache.
    pub fn shared_access_ratio(&self) -> f64 {
        ratio(self.shared_accesses as f64, self.accesses as f64)
    }

    /// Memory references per instruction.
    pub fn mix(&self) -> f64 {
        ratio(self.accesses as f64, self.instructions)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

impl Counters {
    /// Each count of both by `counts`, each amount by `amounts`.
    fn with(self, other: Self, counts: fn(u64, u64) -> u64, amounts: fn(f64, f64) -> f64) -> Self {
        Self {
            instructions: amounts(self.instructions, other.instructions),
            cycles: amounts(self.cycles, other.cycles),
            accesses: counts(self.accesses, other.accesses),
            stores: counts(self.stores, other.stores),
            l1_misses: counts(self.l1_misses, other.l1_misses),
            shared_accesses: counts(self.shared_accesses, other.shared_accesses),
            shared_misses: counts(self.shared_misses, other.shared_misses),
            prefetches: counts(self.prefetches, other.prefetches),
            inclusion_victims: counts(self.inclusion_victims, other.inclusion_victims),
            bandwidth_stall: amounts(self.bandwidth_stall, other.bandwidth_stall),
            stall_cycles: amounts(self.stall_cycles, other.stall_cycles),
            memory_stall_cycles: amounts(self.memory_stall_cycles, other.memory_stall_cycles),
            passes: counts(self.passes, other.passes),
        }
    }
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        self.with(earlier, Sub::sub, Sub::sub)
    }
}

impl Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, Add::add, Add::add)
    }
}

impl Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(counters: I) -> Self {
        counters.fold(Self::default(), |sum, next| sum + next)
    }
}
