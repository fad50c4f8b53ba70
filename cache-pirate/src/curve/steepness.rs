//! Whether a point can be trusted although the cache left to the target is known only within bounds.

use super::CurvePoint;
use crate::testbed::Bounds;
use crate::trust::{Distrust, Trust};

/// Most by which the fetch ratio may change between a point's size and its bounds, absolute. Chosen, as the next, on
/// the kernels of `cache_pirate --experiment machines --cache 256KiB`.
const FETCHES: f64 = 0.02;
/// Most by which the CPI may, relative.
const CPI: f64 = 0.05;

/// Takes back the trust in points at which the curve is steep: at their bounds, it differs too much.
///
/// The curve between points is taken to be straight. Beyond the smallest and the largest it is not known, which counts
/// as too much.
pub(super) fn judge(points: &mut [CurvePoint], bounds: &[Bounds]) {
    // Where the pirate may hold its lines elsewhere, neighbours may all show the same larger size: how steep the curve is, is
    // known only from the largest size at which it cannot.
    let known = points.iter().zip(bounds).filter(|(_, bounds)| !bounds.elsewhere);
    let below = |bytes| known.clone().map(|(point, _)| point.bytes).filter(|&known| known < bytes).max();
    let reach = |point: &CurvePoint, bounds: &Bounds| {
        let reach = point.bytes.saturating_sub(bounds.from).max(bounds.to.saturating_sub(point.bytes));
        let known = if bounds.elsewhere { point.bytes - below(point.bytes).unwrap_or(0) } else { 0 };
        reach.max(known)
    };
    let steep =
        points.iter().zip(bounds).map(|(point, bounds)| is_steep(point, reach(point, bounds), points));
    let steep: Vec<bool> = steep.collect();
    for ((point, &Bounds { from, to, .. }), steep) in points.iter_mut().zip(bounds).zip(steep) {
        if steep && point.is_trusted() {
            point.trust = Trust::Untrusted(Distrust::Steep { from, to });
        }
    }
}

/// Whether the curve changes much within `reach` bytes of a point. If more was left than the size says, then what was measured
/// is a larger size's, and this size's value is that of a smaller one: both ways.
fn is_steep(point: &CurvePoint, reach: u64, points: &[CurvePoint]) -> bool {
    let whole = points.last().map_or(0, |last| last.bytes);
    let (from, to) = (point.bytes.saturating_sub(reach), (point.bytes + reach).min(whole));
    // The values at both bounds, and whatever was measured between them.
    let between = points.iter().filter(|other| (from..=to).contains(&other.bytes)).map(|other| other.bytes);
    [from, to].into_iter().chain(between).any(|bytes| {
        let differs = |of: &dyn Fn(&CurvePoint) -> Option<f64>, limit: f64| {
            let Some(here) = of(point) else { return false };
            value_at(bytes, points, of).is_none_or(|there| (there - here).abs() > limit)
        };
        bytes != point.bytes
            && (differs(&|p| p.fetch_ratio, FETCHES) || differs(&|p| Some(p.cpi), CPI * point.cpi))
    })
}

/// The curve's value at a size, if it was measured from there or below to there or above.
fn value_at(bytes: u64, points: &[CurvePoint], of: &dyn Fn(&CurvePoint) -> Option<f64>) -> Option<f64> {
    let after = points.partition_point(|point| point.bytes < bytes);
    let above = points.get(after)?;
    let high = of(above)?;
    if above.bytes == bytes {
        return Some(high);
    }
    let below = points.get(after.checked_sub(1)?)?;
    let low = of(below)?;
    let part = (bytes - below.bytes) as f64 / (above.bytes - below.bytes) as f64;
    Some(low + part * (high - low))
}
