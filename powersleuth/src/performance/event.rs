//! How the count of an event changes with the clock.

use super::rescale;
use crate::Cycles;

/// What kind of thing an event counts, which says how its count depends on the frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Scaling {
    /// Things the program does: instructions, requests, misses. Their number stays.
    Fixed,
    /// Cycles without execution. The part due to memory keeps its time, the rest its number.
    ExecutionStalls,
    /// Cycles in which some resource (reorder buffer, reservation station, load buffer) is full. Only if there
    /// are more of them than the program waits for memory is a part taken to be that wait.
    ResourceStalls,
}

impl Scaling {
    /// The count at a clock `k` times slower than the one at which `count` was counted, in an interval with
    /// `memory` cycles of waiting for memory.
    ///
    /// # Formula
    /// Execution stalls: with `m' = min(m, count)`, `count - m' + m' / k`.
    /// Resource stalls: `count - m + m / k` if `count > m`, else `count`.
    ///
    /// # Accuracy
    /// The rule for resource stalls is the paper's educated guess: the overlap of the two is not counted.
    ///
    /// # References
    /// Thesis, Paper V, section V.5.1.
    #[must_use]
    pub fn rescale(self, count: f64, memory: Cycles, k: f64) -> f64 {
        let scaled = |part: f64| rescale(Cycles(count), Cycles(part), k).0;
        match self {
            Self::ExecutionStalls => scaled(memory.0.min(count)),
            Self::ResourceStalls if count > memory.0 => scaled(memory.0),
            Self::Fixed | Self::ResourceStalls => count,
        }
    }
}

/// An event that the power model reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Event {
    /// The processor's name for it.
    pub name: String,
    /// How its count depends on the frequency.
    pub scaling: Scaling,
}

impl Event {
    /// An event whose number does not depend on the frequency.
    #[must_use]
    pub fn fixed(name: impl Into<String>) -> Self {
        Self { name: name.into(), scaling: Scaling::Fixed }
    }

    /// An event that counts stalls.
    #[must_use]
    pub fn stalls(name: impl Into<String>, scaling: Scaling) -> Self {
        Self { name: name.into(), scaling }
    }
}
