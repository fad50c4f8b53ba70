//! Shares of programs that hold given bytes, whether or not those would stay as they are.

use super::probes::described;
use super::{Allocation, Share, memory};
use crate::{CacheCurve, SharedCache};

/// Leaves in `shares` what programs do that hold `bytes` of a cache whose lines leave it at `age`; answers how many
/// bytes come in per unit of time.
pub(crate) fn holding(
    cache: &SharedCache,
    curves: &[&CacheCurve],
    bytes: &[f64],
    age: f64,
    scratch: &mut Vec<Allocation>,
    shares: &mut Vec<Share>,
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
    let mut inflow = 0.0;
    for a in &mut *scratch {
        let own = a.at.inflow / a.time;
        a.sticky_bytes = (a.bytes - age * own).max(0.0);
        inflow += own;
    }
    shares.clear();
    shares.extend(scratch.iter().zip(curves).map(described));
    inflow
}
