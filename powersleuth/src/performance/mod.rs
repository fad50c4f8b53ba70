//! Time at a frequency at which the program never ran.
//!
//! Cycles split into those that the clock paces, whose number stays, and those spent waiting for memory, whose
//! *time* stays. The models differ only in how they find the second part in what was counted, so that is what
//! [`PerformanceModel`] asks of them. Cache levels that follow the core's clock count as part of the core.

mod counts;
mod event;
mod linear;
mod miss;
mod overlap;
mod quadratic;
mod slowdown;
mod stall;

pub use counts::{Counts, InOrderCore};
pub use event::{Event, Scaling};
pub use linear::Linear;
pub use miss::MissBased;
pub use overlap::OverlappingStalls;
pub use quadratic::QuadraticStalls;
pub use slowdown::SlowdownErrors;
pub use stall::StallBased;

use crate::{Cycles, Hertz, Seconds};

/// Finds the cycles of an interval that memory sets the length of.
pub trait PerformanceModel {
    /// Cycles spent waiting for memory, of those counted in an interval at clock frequency `at`: between 0 and
    /// all.
    fn memory_cycles(&self, counts: &Counts, at: Hertz) -> Cycles;

    /// Names a count that the model reads and `counts` does not have.
    fn missing(&self, counts: &Counts) -> Option<&'static str> {
        let _ = counts;
        None
    }

    /// How far the memory cycles of this interval are to be doubted, against others of the same model: a margin is
    /// measured and applied in these units. 1 everywhere for models that cannot tell.
    fn doubt(&self, counts: &Counts, at: Hertz) -> f64 {
        let _ = (counts, at);
        1.0
    }

    /// Cycles that the interval counted at `from` takes at `to`.
    ///
    /// # Formula
    /// `c1 = c0 - m + m / k` with `k = from / to` and `m` the [memory cycles](Self::memory_cycles).
    ///
    /// # References
    /// Thesis, Paper V, equation V.3.
    fn cycles_at(&self, counts: &Counts, from: Hertz, to: Hertz) -> Cycles {
        rescale(counts.cycles(), self.memory_cycles(counts, from), from / to)
    }

    /// Time that the interval counted at `from` takes at `to`: its [cycles](Self::cycles_at) there, at that
    /// frequency.
    fn time_at(&self, counts: &Counts, from: Hertz, to: Hertz) -> Seconds {
        self.cycles_at(counts, from, to) / to
    }
}

impl<M: PerformanceModel + ?Sized> PerformanceModel for &M {
    fn memory_cycles(&self, counts: &Counts, at: Hertz) -> Cycles {
        (**self).memory_cycles(counts, at)
    }

    fn missing(&self, counts: &Counts) -> Option<&'static str> {
        (**self).missing(counts)
    }

    fn doubt(&self, counts: &Counts, at: Hertz) -> f64 {
        (**self).doubt(counts, at)
    }
}

impl<M: PerformanceModel + ?Sized> PerformanceModel for Box<M> {
    fn memory_cycles(&self, counts: &Counts, at: Hertz) -> Cycles {
        (**self).memory_cycles(counts, at)
    }

    fn missing(&self, counts: &Counts) -> Option<&'static str> {
        (**self).missing(counts)
    }

    fn doubt(&self, counts: &Counts, at: Hertz) -> f64 {
        (**self).doubt(counts, at)
    }
}

/// `cycles` of which `memory` keep their time when the clock becomes `k` times slower.
pub(crate) fn rescale(cycles: Cycles, memory: Cycles, k: f64) -> Cycles {
    cycles - memory + memory / k
}
