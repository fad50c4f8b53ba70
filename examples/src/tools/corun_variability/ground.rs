//! What all runs on the chip have in common: the chip, how windows are cut, and how programs are warmed up.

use cachesharing::{MemoryLimit, SharedCache};

use crate::cli::Failure;
use crate::machines::chip::{ChipSettings, CoreSettings, CoreTiming, Latencies, Player};
use crate::machines::testbed::programs::Recorded;

/// The chip and how programs are played on it.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    pub settings: ChipSettings,
    pub timing: CoreTiming,
    pub window: u64,       // accesses, at least 1
    pub threshold: f64,    // of phases: mean relative difference of CPI
    pub sizes: u64,        // of a curve, at most; at least 1
    pub reuse_times: bool, // whether they are counted, too
    pub estimated: bool,   // whether they are estimated where curves are modelled
}

/// Accesses of a warm-up, per line of the shared cache.
const WARM_UP: u64 = 32;

/// Windows of the longest program, unless something else is asked for: short beside the time in which the cache's lines
/// are exchanged, so that what programs do between is not averaged.
const WINDOWS: u64 = 500;

/// A chip's shared cache of `bytes` in `ways`, and the memory behind it, which delivers so many bytes per cycle if that is
/// limited, as a prediction sees them.
pub(super) fn shared_cache(
    (bytes, ways): (u64, u64),
    bandwidth: Option<f64>,
    latencies: Latencies,
    prefetches: bool,
) -> Result<SharedCache, cachesharing::Error> {
    let cache = SharedCache::new(bytes)?.with_ways(u32::try_from(ways).unwrap_or(u32::MAX))?;
    let Some(bandwidth) = bandwidth else { return Ok(cache) };
    let limit = MemoryLimit::new(bandwidth)?.with_queue(latencies.queue(prefetches))?;
    Ok(cache.with_memory(limit))
}

impl Ground {
    /// Accesses in a window, where the longest program makes so many.
    pub fn window(longest: u64) -> u64 {
        (longest / WINDOWS).max(1)
    }

    /// Accesses that a program makes before it is counted, so that it finds the cache as it leaves it: those at the
    /// end of its recording, since programs start over.
    pub fn warm_up(&self, played: &Recorded) -> u64 {
        played.recording.references().min(WARM_UP * self.settings.shared.geometry.lines().0)
    }

    /// Cycles per instruction while nothing is waited for.
    pub const fn base_cpi(&self) -> f64 {
        match self.timing {
            CoreTiming::InOrder { base_cpi } | CoreTiming::OutOfOrder { base_cpi, .. } => base_cpi,
        }
    }

    /// The shared cache and the memory behind it as a prediction sees them.
    pub fn cache(&self) -> Result<SharedCache, Failure> {
        let settings = &self.settings;
        let geometry = settings.shared.geometry;
        let bandwidth = settings.lines_per_cycle.map(|lines| lines * f64::from(settings.line_size().bytes()));
        let prefetches = settings.prefetcher.is_some();
        shared_cache((geometry.bytes(), geometry.ways()), bandwidth, settings.latencies, prefetches)
            .map_err(Failure::usage)
    }

    /// Sizes of the shared cache that are measured, rising to all of it: whole ways.
    pub fn sizes(&self) -> Vec<u64> {
        let geometry = self.settings.shared.geometry;
        let way = geometry.bytes() / geometry.ways();
        let count = geometry.ways().min(self.sizes);
        (1..=count).map(|i| i * geometry.ways() / count * way).collect()
    }

    /// Accesses of each window of a pass. A last window of less than half the length goes with the one before it.
    pub fn windows(&self, played: &Recorded) -> impl Iterator<Item = u64> + use<> {
        let (all, window) = (played.recording.references(), self.window);
        let count = ((all + window / 2) / window).max(1);
        (0..count).map(move |number| if number + 1 < count { window } else { all - number * window })
    }

    /// A core that plays `played` from reference number `from`, over and over.
    pub fn core(&self, played: &Recorded, from: u64) -> Result<CoreSettings<Player>, Failure> {
        Ok(CoreSettings { timing: self.timing, ..CoreSettings::new(played.player()?.starting_at(from)) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reuse_sampler::LineSize;

    use super::*;
    use crate::machines::chip::Recording;

    #[test]
    fn windows_cover_a_pass() {
        let settings = ChipSettings::paper().unwrap();
        for (accesses, expected) in [(9, vec![9]), (14, vec![14]), (15, vec![10, 5]), (30, vec![10, 10, 10])]
        {
            let ground = Ground {
                settings: settings.clone(),
                timing: CoreTiming::default(),
                window: 10,
                threshold: 0.1,
                sizes: 16,
                reuse_times: false,
                estimated: false,
            };
            let recording = Arc::new(Recording::of_lines(0..accesses, LineSize::B64).unwrap());
            let played = Recorded { name: String::new(), recording, mix: 1.0 };
            assert_eq!(ground.windows(&played).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn sizes_are_whole_ways_and_end_with_the_cache() {
        let settings = ChipSettings::paper().unwrap();
        let way = settings.shared.geometry.bytes() / 16;
        for (sizes, expected) in
            [(1, vec![16]), (3, vec![5, 10, 16]), (16, (1..=16).collect()), (99, (1..=16).collect())]
        {
            let ground = Ground {
                settings: settings.clone(),
                timing: CoreTiming::default(),
                window: 10,
                threshold: 0.1,
                sizes,
                reuse_times: false,
                estimated: false,
            };
            assert_eq!(ground.sizes(), expected.iter().map(|ways| ways * way).collect::<Vec<u64>>());
        }
    }
}
