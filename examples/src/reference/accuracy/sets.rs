//! Caches of few ways: what dividing a cache into sets, and replacing by less than LRU, does to the models' error.

use reuse_sampler::{CacheModel, Grouped, Line, LineSize, SetAssociative};
use serde::Serialize;
use statcache::StatCache;

use super::fits::pooled;
use super::{Samples, Settings};
use crate::cli::Failure;
use crate::machines::chip::{Cache, Geometry, Policy};

/// One policy at one number of ways.
#[derive(Clone, Debug, Serialize)]
pub struct Sets {
    /// Lines in a set.
    pub ways: u32,
    /// How a set chooses its victim.
    pub policy: &'static str,
    /// Simulated miss ratio at each size.
    pub simulated: Vec<f64>,
    /// Error of the model that takes the cache for a fully associative one, in points.
    pub errors: Vec<f64>,
    /// Error of the model that throws lines into sets at random; only for policies that are or come near to LRU.
    pub errors_in_sets: Option<Vec<f64>>,
}

/// Simulates caches of the settings' sizes with `ways` ways, and holds the models by windows against them.
///
/// # Errors
/// Those of the models and of impossible geometries.
pub fn sets(lines: &[Line], samples: &Samples, settings: &Settings, ways: u32) -> Result<Vec<Sets>, Failure> {
    let lru = pooled(&samples.windows)?;
    let random = Grouped::fit(&samples.windows, StatCache::fit)?;
    let ratios =
        |model: &dyn CacheModel| model.curve(&settings.sizes).points.into_iter().map(|p| p.1).collect();
    let (whole, any): (Vec<f64>, Vec<f64>) = (ratios(&lru), ratios(&random));
    let divided: Vec<f64> = ratios(&SetAssociative::new(lru, ways)?);
    let policies = [
        ("lru", Policy::Lru),
        ("tree-plru", Policy::TreePlru),
        ("nehalem", Policy::Nehalem),
        ("random", Policy::Random { seed: settings.seed }),
    ];
    let mut all = Vec::new();
    for (policy, replacement) in policies {
        let simulated = simulate(lines, settings, ways, replacement)?;
        let errors = |modelled: &[f64]| -> Vec<f64> {
            modelled.iter().zip(&simulated).map(|(found, exact)| 100.0 * (found - exact)).collect()
        };
        let by_chance = policy == "random";
        all.push(Sets {
            ways,
            policy,
            errors: errors(if by_chance { &any } else { &whole }),
            errors_in_sets: (!by_chance).then(|| errors(&divided)),
            simulated,
        });
    }
    Ok(all)
}

fn simulate(lines: &[Line], settings: &Settings, ways: u32, policy: Policy) -> Result<Vec<f64>, Failure> {
    let mut ratios = Vec::new();
    for size in &settings.sizes {
        let line_size = LineSize::B64;
        let geometry = Geometry::new(size.bytes(line_size), u64::from(ways).min(size.0), line_size)?;
        let mut cache = Cache::new(geometry, policy);
        let mut misses = 0_u64;
        for line in lines {
            if !cache.touch(line.0) {
                cache.insert(line.0);
                misses += 1;
            }
        }
        ratios.push(misses as f64 / lines.len().max(1) as f64);
    }
    Ok(ratios)
}
