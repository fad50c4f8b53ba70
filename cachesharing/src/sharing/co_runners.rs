//! Programs whose reuse times are known, with co-runners: for each reuse, how many lines they insert into its set
//! meanwhile.

use super::Allocation;
use crate::curve::{Foreign, Met};
use crate::{CacheCurve, SharedCache};

/// Whether reuse times of any of `curves` were counted in the sets of `cache`.
pub(crate) fn any_reuse_times<'c>(
    cache: &SharedCache,
    mut curves: impl Iterator<Item = &'c CacheCurve>,
) -> bool {
    curves.any(|curve| curve.returns(cache.way()).is_some())
}

/// What an access of `curve` does if its program takes `time` per access and each of the `others` inserts
/// `inserted(j, t)` bytes within a time t; `None` where no reuse times are known.
pub(crate) fn meet<'c>(
    cache: &SharedCache,
    curve: &CacheCurve,
    time: f64,
    others: &(impl Iterator<Item = (usize, &'c CacheCurve)> + Clone),
    mut inserted: impl FnMut(usize, f64) -> f64,
) -> Option<Met> {
    let way = cache.way()?;
    let returns = curve.returns(Some(way))?;
    Some(returns.met(cache.bytes() / way, |accesses| {
        let mut all = Foreign::default();
        for (j, other) in others.clone() {
            let lines = inserted(j, accesses * time) / way;
            all.lines += lines;
            all.variance += other.variance(way, lines);
        }
        all
    }))
}

impl Allocation {
    /// Goes on as `met` says.
    pub(crate) const fn take(&mut self, met: Met) {
        self.time = met.time;
        self.met = Some(met);
    }

    /// Bytes fetched per access.
    pub(crate) fn inflow(&self) -> f64 {
        self.met.map_or(self.at.inflow, |met| met.inflow)
    }
}
