//! Programs whose reuse times are known, in company: each reuse is asked what others bring into its set meanwhile.

use super::Allocation;
use crate::curve::{Foreign, Met};
use crate::{CacheCurve, SharedCache};

/// Whether reuse times of any of `curves` were counted in the sets of `cache`.
pub(crate) fn tell_reuse(cache: &SharedCache, curves: &[&CacheCurve]) -> bool {
    curves.iter().any(|curve| curve.returns(cache.way()).is_some())
}

/// Sets how fast programs are whose reuse times are known, where program i takes `speeds(i)` per access and `brought`
/// tells how many bytes a program brings in within a time. Leaves the others as they are.
pub(crate) fn meet(
    cache: &SharedCache,
    curves: &[&CacheCurve],
    allocations: &mut [Allocation],
    speeds: impl Fn(&[Allocation], usize) -> f64,
    mut brought: impl FnMut(&[Allocation], usize, f64) -> f64,
) {
    let Some(way) = cache.way() else { return };
    for i in 0..curves.len() {
        let Some(returns) = curves[i].returns(Some(way)) else { continue };
        let speed = speeds(allocations, i);
        let met = returns.met(cache.bytes() / way, |accesses| {
            let mut all = Foreign::default();
            for (j, other) in curves.iter().enumerate().filter(|&(j, _)| j != i) {
                let lines = brought(allocations, j, accesses * speed) / way;
                all.lines += lines;
                all.variance += other.variance(way, lines);
            }
            all
        });
        allocations[i].take(met);
    }
}

impl Allocation {
    /// What the program's reuses met with, where they are known.
    pub(crate) const fn met(&self) -> Option<Met> {
        self.met
    }

    /// Goes on as `met` says.
    pub(crate) const fn take(&mut self, met: Met) {
        self.time = met.time;
        self.met = Some(met);
    }

    /// Bytes brought in per access.
    pub(super) fn inflow(&self) -> f64 {
        self.met.map_or(self.at.inflow, |met| met.inflow)
    }
}
