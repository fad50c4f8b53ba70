//! One curve for several windows: what a program that is now in one and now in another does on average.

use super::{CacheCurve, CurvePoint, ReuseTimes};
use crate::error::Error;

/// The average of `curves`, each weighted by its work.
///
/// # Formula
/// At every size of any curve that all of them cover: CPI and mix are means over work, ratios means over
/// accesses (work * mix), hits and misses per access. If no size is covered by all, those of the first curve. Reuses are
/// put together as they were counted, where all have them.
///
/// # Errors
/// [`Error::NoPoints`] for no curves, [`Error::MixedLineSizes`].
pub(crate) fn average(curves: &[(f64, &CacheCurve)]) -> Result<CacheCurve, Error> {
    let Some((_, first)) = curves.first() else { return Err(Error::NoPoints) };
    let line_size = first.line_size();
    let (mut work, mut accesses) = (0.0, 0.0);
    for (weight, curve) in curves {
        if curve.line_size() != line_size {
            return Err(Error::MixedLineSizes { left: line_size, right: curve.line_size() });
        }
        work += weight;
        accesses += weight * curve.mix();
    }
    let mix = accesses / work;
    let all_know_hits = curves.iter().all(|(_, c)| c.reaching().is_some());
    let all_know_stalls = curves.iter().all(|(_, c)| c.stalls);
    let points = sizes(first, curves).into_iter().map(|bytes| {
        let (mut time, mut misses, mut fetches, mut hits, mut stalled) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (weight, curve) in curves {
            let (at, touched) = (bytes as f64, weight * curve.mix());
            time += weight * curve.cpi(at);
            misses += touched * curve.miss_ratio(at);
            fetches += touched * curve.fetch_ratio(at);
            hits += touched * curve.hit_ratio(at);
            stalled += touched * curve.stalled(at).unwrap_or(0.0);
        }
        CurvePoint {
            hit_rate: all_know_hits.then_some(hits / time),
            stall_rate: all_know_stalls.then_some((stalled / time).min(1.0)),
            ..CurvePoint::new(bytes, time / work, misses / accesses).with_fetch_ratio(fetches / accesses)
        }
    });
    let whole = CacheCurve::new(points.collect(), mix, line_size)?;
    let parts = curves.iter().map(|(weight, curve)| (weight * curve.mix(), curve.reuse_times()));
    match ReuseTimes::together(parts) {
        Some(reuse) => whole.with_reuse_times(reuse),
        None => Ok(whole),
    }
}

fn sizes(first: &CacheCurve, curves: &[(f64, &CacheCurve)]) -> Vec<u64> {
    let smallest = curves.iter().map(|(_, c)| c.smallest()).max().unwrap_or(0);
    let largest = curves.iter().map(|(_, c)| c.largest()).min().unwrap_or(0);
    let mut sizes: Vec<u64> = curves
        .iter()
        .flat_map(|(_, c)| c.points().iter().map(|p| p.bytes))
        .filter(|bytes| (smallest..=largest).contains(bytes))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() { first.points().iter().map(|p| p.bytes).collect() } else { sizes }
}
