//! Shares of programs that hold given bytes, whether or not those would stay as they are.

use super::probes::described;
use super::{Allocation, Share, memory};
use crate::{CacheCurve, SharedCache};

/// Leaves in `scratch` how fast programs are that hold `bytes` of a cache; answers how many bytes come in per unit of time.
pub(crate) fn holding(
    cache: &SharedCache,
    curves: &[&CacheCurve],
    bytes: &[f64],
    scratch: &mut Vec<Allocation>,
) -> f64 {
    scratch.resize(curves.len(), Allocation::default());
    for ((a, curve), &bytes) in scratch.iter_mut().zip(curves).zip(bytes) {
        curve.filling().at(bytes, &mut a.at);
        a.time = a.at.time;
        a.bytes = bytes;
    }
    if let Some(limit) = cache.memory() {
        memory::stretch(limit, scratch);
    }
    scratch.iter().map(|a| a.at.inflow / a.time).sum()
}

/// The same as shares, where lines leave at `age`.
pub(crate) fn shares_of(
    curves: &[&CacheCurve],
    age: f64,
    scratch: &mut [Allocation],
    shares: &mut Vec<Share>,
) {
    for a in &mut *scratch {
        a.sticky_bytes = (a.bytes - age * a.at.inflow / a.time).max(0.0);
    }
    shares.clear();
    shares.extend(scratch.iter().zip(curves).map(described));
}
