//! Speeds and shares of programs that hold given bytes, whether or not those would stay as they are.

use super::probes::described;
use super::{Allocation, Share, memory};
use crate::{CacheCurve, SharedCache};

impl Allocation {
    /// A program that holds `bytes`, as fast as its curve says.
    pub(crate) fn holding(curve: &CacheCurve, bytes: f64) -> Self {
        let mut a = Self { bytes, ..Self::default() };
        curve.filling().at(bytes, &mut a.at);
        a.time = a.at.time;
        a
    }
}

/// Lets programs wait for `cache`'s memory; returns how many bytes come in per unit of time.
pub(crate) fn flow<'c>(
    cache: &SharedCache,
    curves: impl Iterator<Item = &'c CacheCurve>,
    allocations: &mut [Allocation],
) -> f64 {
    memory::stretch(cache, curves, allocations);
    allocations.iter().map(|a| a.inflow() / a.time).sum()
}

/// The same as shares, where lines leave at `age`.
pub(crate) fn shares_of<'c>(
    curves: impl Iterator<Item = &'c CacheCurve>,
    age: f64,
    allocations: &[Allocation],
    shares: &mut Vec<Share>,
) {
    shares.clear();
    shares.extend(allocations.iter().zip(curves).map(|(a, curve)| {
        let sticky_bytes = (a.bytes - age * a.inflow() / a.time).max(0.0);
        described((&Allocation { sticky_bytes, ..*a }, &curve))
    }));
}
