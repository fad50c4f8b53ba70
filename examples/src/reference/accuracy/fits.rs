//! The models that are compared, each under a name.

use crate::cli::Failure;
use reuse_sampler::{
    Bootstrap, CacheLines, CacheModel, Error, Grouped, Interval, ReuseProfile, Stratum, merge_alike,
};
use statcache::StatCache;
use statstack::{PooledCorrection, StatStack};

/// The samples of a run.
#[derive(Clone, Debug)]
pub struct Samples {
    /// All together.
    pub whole: ReuseProfile,
    /// By window, in order.
    pub windows: Vec<ReuseProfile>,
    /// By phase.
    pub phases: Vec<ReuseProfile>,
}

/// A model's curve.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Name of the model.
    pub model: &'static str,
    /// What it was fitted to: the windows, those that the samples distinguish, the phases, or the run.
    pub grouping: &'static str,
    /// Whether it models random replacement; LRU otherwise.
    pub random: bool,
    /// Miss ratio at each size.
    pub ratios: Vec<f64>,
}

/// Fits every model to `samples`; the first of each kind of cache is the default.
///
/// # Errors
/// Those of the models: a run without samples.
pub fn fits(samples: &Samples, sizes: &[CacheLines]) -> Result<Vec<Fit>, Failure> {
    let lru = [
        ("StatStack, each by itself", StatStack::fit as fn(&ReuseProfile) -> _),
        ("StatStack, distances alone", StatStack::fit_distances),
        ("StatStack, published", StatStack::fit_published),
    ];
    let random = [
        ("StatCache", StatCache::fit as fn(&ReuseProfile) -> _),
        ("StatCache, from empty", StatCache::fit_from_empty),
    ];
    let mut fits = Vec::from(grouped("StatStack", false, pooled, samples, sizes)?);
    for (model, fit) in lru {
        fits.extend(grouped(model, false, |groups| Grouped::fit(groups, fit), samples, sizes)?);
    }
    for (model, fit) in random {
        // Only a run begins with an empty cache.
        let all = grouped(model, true, |groups| Grouped::fit(groups, fit), samples, sizes)?;
        fits.extend(all.into_iter().filter(|fit| model == "StatCache" || fit.grouping == "run"));
    }
    let in_time = StatCache::fit_in_time(&samples.windows)?;
    let ratios = in_time.curve(sizes).points.into_iter().map(|point| point.1).collect();
    fits.push(Fit { model: "StatCache, in time", grouping: "merged windows", random: true, ratios });
    Ok(fits)
}

/// The windows, or phases, of a run modelled apart, with what they have in common.
pub fn pooled(groups: &[ReuseProfile]) -> Result<Grouped<StatStack>, statstack::Error> {
    let pooled = PooledCorrection::of(groups)?;
    Grouped::fit(groups, |profile| pooled.fit(profile))
}

fn grouped<M: CacheModel, E: From<Error> + std::error::Error + 'static>(
    model: &'static str,
    random: bool,
    fit: impl Fn(&[ReuseProfile]) -> Result<Grouped<M>, E>,
    samples: &Samples,
    sizes: &[CacheLines],
) -> Result<[Fit; 4], E> {
    let ratios =
        |model: &dyn CacheModel| model.curve(sizes).points.into_iter().map(|point| point.1).collect();
    let windows = fit(&samples.windows)?;
    let alike = fit(&merge_alike(&samples.windows)?)?;
    let phases = fit(&samples.phases)?;
    let whole = fit(std::slice::from_ref(&samples.whole))?;
    Ok([
        Fit { model, grouping: "windows", random, ratios: ratios(&windows) },
        Fit { model, grouping: "merged windows", random, ratios: ratios(&alike) },
        Fit { model, grouping: "phases", random, ratios: ratios(&phases) },
        Fit { model, grouping: "run", random, ratios: ratios(&whole) },
    ])
}

/// Intervals around StatStack's and StatCache's curves by merged windows, and around StatCache's in time.
///
/// # Errors
/// Those of the models: a run without samples.
pub fn intervals(
    samples: &Samples,
    sizes: &[CacheLines],
    bootstrap: &Bootstrap,
) -> Result<[Vec<Interval>; 3], Failure> {
    let parts = merge_alike(&samples.windows)?;
    let strata: Vec<Stratum<'_>> = parts.iter().map(Stratum::sampled).collect();
    let random = bootstrap.stratified(&strata, StatCache::fit, sizes)?.average;
    let in_time = StatCache::fit_in_time(&samples.windows)?;
    let in_time = bootstrap.around(&in_time, &random);
    let pooled = PooledCorrection::of(&parts)?;
    let lru = bootstrap.stratified(&strata, |profile| pooled.fit(profile), sizes)?.average;
    Ok([lru, random, in_time])
}
