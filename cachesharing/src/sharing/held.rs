//! Shares of programs that hold given bytes, whether or not those would stay as they are.

use super::probes::described;
use super::{Allocation, Share, memory};
use crate::{CacheCurve, SharedCache};

/// Leaves in `scratch` how fast programs are that hold `bytes`, by their curves alone.
pub(crate) fn holding(curves: &[&CacheCurve], bytes: &[f64], scratch: &mut Vec<Allocation>) {
    scratch.resize(curves.len(), Allocation::default());
    for ((a, curve), &bytes) in scratch.iter_mut().zip(curves).zip(bytes) {
        curve.filling().at(bytes, &mut a.at);
        a.time = a.at.time;
        a.bytes = bytes;
        a.met = None;
    }
}

/// Lets programs wait for `cache`'s memory; answers how many bytes come in per unit of time.
pub(crate) fn flow(cache: &SharedCache, scratch: &mut [Allocation]) -> f64 {
    if let Some(limit) = cache.memory() {
        memory::stretch(limit, scratch);
    }
    scratch.iter().map(|a| a.inflow() / a.time).sum()
}

/// The same as shares, where lines leave at `age`.
pub(crate) fn shares_of(
    curves: &[&CacheCurve],
    age: f64,
    scratch: &mut [Allocation],
    shares: &mut Vec<Share>,
) {
    for a in &mut *scratch {
        a.sticky_bytes = (a.bytes - age * a.inflow() / a.time).max(0.0);
    }
    shares.clear();
    shares.extend(scratch.iter().zip(curves).map(described));
}
