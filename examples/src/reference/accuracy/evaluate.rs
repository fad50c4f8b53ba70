//! One stream of accesses: exact curves, and samples of it.

use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, CacheLines, GroupedProfiles, Line, LineSize, ReusePlan, Sampler, SamplerError, WindowPlan,
};

use super::Samples;
use crate::reference::exact::{ExactLru, ExactRandom, RandomCachesError};

/// What is compared, and how it is sampled.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Cache sizes.
    pub sizes: Vec<CacheLines>,
    /// Windows of equal length that the run is divided into.
    pub windows: u64,
    /// Which accesses are sampled.
    pub plan: ReusePlan,
    /// Seed of the sampler and of the random caches.
    pub seed: u64,
    /// Simulations of each random cache that are averaged.
    pub simulations: u64,
}

/// Miss ratios by exact simulation, at each size.
#[derive(Clone, Debug)]
pub struct Exact {
    /// Accesses simulated.
    pub accesses: u64,
    /// Different lines touched.
    pub lines: u64,
    /// Least recently used.
    pub lru: Vec<f64>,
    /// Random replacement, averaged over simulations.
    pub random: Vec<f64>,
}

/// Plays `lines` to exact caches.
///
/// # Errors
/// [`RandomCachesError`] if the sizes cannot be simulated.
pub fn exact(lines: &[Line], settings: &Settings) -> Result<Exact, RandomCachesError> {
    let accesses = lines.len() as u64;
    let mut lru = ExactLru::new();
    for &line in lines {
        lru.access(line);
    }
    let lru = lru.total();
    let seeds: Vec<u64> = (0..settings.simulations).map(|k| settings.seed.wrapping_add(k)).collect();
    let at_once = (64 / seeds.len().clamp(1, 64)).max(1);
    let mut random = Vec::new();
    for sizes in settings.sizes.chunks(at_once) {
        let mut caches = ExactRandom::new(sizes, &seeds)?;
        for &line in lines {
            caches.access(line);
        }
        random.extend(caches.take_window().misses());
    }
    let ratio = |misses: f64| misses / accesses.max(1) as f64;
    Ok(Exact {
        accesses,
        lines: lru.cold(),
        lru: lru.misses(&settings.sizes).into_iter().map(|misses| ratio(misses as f64)).collect(),
        random: random.into_iter().map(ratio).collect(),
    })
}

/// Plays `lines` to the sampler. Each sample belongs to the window that started it.
///
/// # Errors
/// Those of the sampler.
pub fn samples(lines: &[Line], settings: &Settings) -> Result<Samples, SamplerError> {
    let line_size = LineSize::B64;
    let length = (lines.len() as u64).div_ceil(settings.windows.max(1)).max(1);
    let options = ReplayOptions::windows_of(WindowLength::Accesses(length)).seed(settings.seed);
    let event = |line: &Line| Event::Access(Access::load(line.0 << line_size.shift(), 1));
    let mut sampler = ReplaySampler::new(lines.iter().map(event), options)?;
    let mut bursts = GroupedProfiles::new(line_size);
    while let Some(window) = sampler.next_window(&WindowPlan::new(settings.plan))? {
        bursts.add(&window, window.index)?;
    }
    let windows = bursts.iter().map(|(_, profile)| profile.clone()).collect();
    Ok(Samples { whole: bursts.all(), windows })
}
