//! The baseline: time is inversely proportional to frequency.

use super::{Counts, PerformanceModel};
use crate::{Cycles, Hertz};

/// The number of cycles does not depend on the clock, whatever the program waits for.
///
/// Right for programs that never leave the caches, and wrong by up to `k - 1` (66 % from 2.66 to 1.6 GHz) for
/// those that do nothing else. It is here to be compared with.
///
/// # References
/// Thesis, Paper V, section V.4 and figure V.4, leftmost bars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Linear;

impl PerformanceModel for Linear {
    fn memory_cycles(&self, _: &Counts, _: Hertz) -> Cycles {
        Cycles(0.0)
    }
}
