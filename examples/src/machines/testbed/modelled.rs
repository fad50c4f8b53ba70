//! The curve without a pirate: from a cache model and a model of time, for people who have no
//! machine to measure on and want to go on to co-run predictions all the same.

use cache_pirate::{CacheCurve, CurvePoint, PirateError, SharedCache, Trust};
use reuse_sampler::{CacheLines, CacheModel};

use crate::machines::chip::{ChipSettings, Latencies};

/// Builds the curve of a program with `mix` accesses per instruction on the chip's in-order core of `base_cpi`, at the given
/// sizes in bytes (ascending).
///
/// # Formula
/// With `m1` and `m` the miss ratios that `model` gives for the private cache and for `c` bytes of the shared
/// one (never above `m1`): `CPI(c) = base + mix * ((1 - m1) * l1 + (m1 - m) * shared + m * memory)`.
///
/// # Errors
/// [`PirateError`] if a size is out of range.
///
/// # Accuracy
/// That of the model, times what a miss costs. No bandwidth limit, no prefetching, no inclusion: fetches are misses.
pub fn modelled_curve(
    settings: &ChipSettings,
    model: &impl CacheModel,
    mix: f64,
    base_cpi: f64,
    sizes: &[u64],
) -> Result<CacheCurve, PirateError> {
    let Latencies { l1, shared, memory, .. } = settings.latencies;
    let line_size = settings.line_size();
    let beyond = model.miss_ratio(settings.l1.geometry.lines());
    let cache = SharedCache { bytes: settings.shared.geometry.bytes(), line_size: line_size.bytes() };
    let points = sizes.iter().map(|&bytes| {
        let misses = model.miss_ratio(CacheLines::from_bytes(bytes, line_size)).min(beyond);
        let hits = beyond - misses;
        let cpi = base_cpi + mix * ((1.0 - beyond) * l1 + hits * shared + misses * memory);
        CurvePoint {
            bytes,
            effective_bytes: (bytes, bytes),
            cpi,
            cpi_error: None,
            miss_ratio_error: None,
            fetch_ratio_error: None,
            bandwidth_error: None,
            mix: Some(mix),
            miss_ratio: Some(misses),
            fetch_ratio: Some(misses),
            hit_rate: Some(hits * mix / cpi),
            bandwidth: Some(misses * mix * f64::from(line_size.bytes()) / cpi),
            spared: None,
            pirate_fetch_ratio: 0.0,
            intervals: 0,
            trust: Trust::Trusted,
        }
    });
    CacheCurve::from_points(cache, points.collect())
}
