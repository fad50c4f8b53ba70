//! A core's private caches by themselves: what of a program gets past them.
//!
//! Where the levels evict independently of each other, that is the same whatever the shared cache is and whoever runs
//! beside: one pass through the private caches serves every size of the shared one.

use reuse_sampler::AccessKind;

use super::cache::Cache;
use super::config::{ChipSettings, Inclusion};
use super::prefetch::{Prefetcher, PrefetcherSettings};
use super::program::Reference;
use super::timing::CoreTiming;

/// References in a row that the private caches serve, up to the first one that they do not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// References, the last one included.
    pub accesses: u64,
    /// Those of them that are stores.
    pub stores: u64,
    /// Those of them that missed the first level, the last one included.
    pub l1_misses: u64,
    /// Instructions up to and with the last one.
    pub instructions: f64,
    /// The line of the last one; `None` if it was served, too, because the program went no further.
    pub beyond: Option<u64>,
    /// Lines that the prefetcher then asks for: so many after that one, or before it if below 0.
    pub ahead: i8,
}

impl Stretch {
    /// The lines that the prefetcher then asks for, nearest first.
    pub fn asks(&self) -> impl Iterator<Item = u64> + use<> {
        let (line, direction) = (self.beyond, i64::from(self.ahead.signum()));
        let far = 1..=i64::from(self.ahead.unsigned_abs());
        far.filter_map(move |far| Some(line?.wrapping_add_signed(direction * far)))
    }
}

/// The private caches of a core.
#[derive(Clone, Debug)]
pub struct PrivateCaches {
    l1: Cache,
    l2: Option<Cache>,
    prefetcher: Option<Prefetcher>, // sees nothing but what gets past the caches
}

impl PrivateCaches {
    /// Those of a chip, empty.
    pub fn new(settings: &ChipSettings) -> Self {
        let cache = |s: super::CacheSettings| Cache::new(s.geometry, s.policy);
        let line_bytes = settings.line_size().bytes();
        let prefetcher = |settings: PrefetcherSettings| Prefetcher::new(settings, line_bytes);
        Self {
            l1: cache(settings.l1),
            l2: settings.l2.map(cache),
            prefetcher: settings.prefetcher.map(prefetcher),
        }
    }

    /// Whether a core of such a chip may be played stretch by stretch ([`Chip::stretch`](super::Chip::stretch)) with
    /// what it counts unchanged: nobody else evicts its private lines, and time passes in order.
    pub fn stand_alone(settings: &ChipSettings, timing: CoreTiming) -> bool {
        settings.inclusion == Inclusion::None
            && settings.frames.is_none()
            && settings.prefetcher.is_none()
            && matches!(timing, CoreTiming::InOrder { .. })
    }

    /// Plays `references` and hands out their stretches.
    pub fn play(&mut self, references: &[Reference], mut stretch: impl FnMut(Stretch)) {
        let mut so_far = Stretch::default();
        for reference in references {
            so_far.accesses += 1;
            so_far.stores += u64::from(reference.kind == AccessKind::Store);
            so_far.instructions += reference.instructions;
            if self.l1.touch(reference.line) {
                continue;
            }
            so_far.l1_misses += 1;
            let served = self.l2.as_mut().is_some_and(|l2| l2.touch(reference.line));
            self.l1.insert(reference.line);
            if !served {
                if let Some(l2) = &mut self.l2 {
                    l2.insert(reference.line);
                }
                let ahead = self.prefetcher.as_mut().map_or(0, |it| ahead(it, reference.line));
                stretch(Stretch { beyond: Some(reference.line), ahead, ..so_far });
                so_far = Stretch::default();
            }
        }
        if so_far.accesses > 0 {
            stretch(so_far);
        }
    }
}

/// How many lines after `line`, or before it if below 0, a prefetcher asks for when it sees it.
fn ahead(prefetcher: &mut Prefetcher, line: u64) -> i8 {
    let mut furthest = line;
    prefetcher.observe(line, |ahead| furthest = ahead);
    furthest.wrapping_sub(line) as i64 as i8
}
