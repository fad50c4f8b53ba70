//! What a chip is made of. The default is the machine of the StatCC paper.

use reuse_sampler::{LineSize, MemoryQueue};

use super::geometry::{Geometry, Policy};
use super::machine::PREFETCH_BACKLOG;
use super::prefetch::PrefetcherSettings;
use super::{ChipError, owner::Owners};
use crate::machines::random;

/// One cache of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// Size and shape.
    pub geometry: Geometry,
    /// How it chooses a victim.
    pub policy: Policy,
}

impl CacheSettings {
    /// An LRU cache of `bytes` bytes in `ways` ways.
    ///
    /// # Errors
    /// As [`Geometry::new`].
    pub fn lru(bytes: u64, ways: u64, line_size: LineSize) -> Result<Self, ChipError> {
        Ok(Self { geometry: Geometry::new(bytes, ways, line_size)?, policy: Policy::Lru })
    }

    /// The same cache with another policy.
    pub const fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }
}

/// Whether the shared cache holds everything the private ones hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Inclusion {
    /// The levels evict independently
    #[default]
    None,
    /// The shared cache holds whatever the private ones hold
    Inclusive,
    /// The shared cache holds what has left the private ones
    #[value(name = "exclusive")]
    Victim,
}

/// Page frames of 4 KiB, a random one for each page of each core: where an operating system without huge pages puts
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Seed of the choice.
    pub seed: u64,
}

impl Frames {
    /// The line of memory behind `core`'s `line`, of which a page has `1 << lines_shift`.
    #[inline]
    pub(super) const fn line(self, core: usize, line: u64, lines_shift: u32) -> u64 {
        let page = line >> lines_shift;
        // Of 2^40 frames, no two pages get the same in practice.
        let frame = random::nth(self.seed, page ^ (core as u64) << 52) >> 24;
        frame << lines_shift | line & ((1 << lines_shift) - 1)
    }
}

/// Cycles that an access takes at the level that serves it, all levels before it included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// Hit in the private first level.
    pub l1: f64,
    /// Hit in the private second level, where there is one.
    pub l2: f64,
    /// Hit in the shared cache.
    pub shared: f64,
    /// Miss in the shared cache.
    pub memory: f64,
}

impl Default for Latencies {
    /// 1, 10 and 130 cycles (StatCC paper, table 1); 4 cycles for a private second level.
    fn default() -> Self {
        Self { l1: 1.0, l2: 4.0, shared: 10.0, memory: 130.0 }
    }
}

impl Latencies {
    /// How lines wait before memory of limited bandwidth, as predictions know it.
    pub fn queue(&self, prefetches: bool) -> MemoryQueue {
        let mut queue = MemoryQueue::new();
        let latency = self.memory - self.shared;
        if latency > 0.0 {
            queue = queue.with_latency(latency);
        }
        if prefetches { queue.with_prefetch_backlog(PREFETCH_BACKLOG) } else { queue }
    }
}

/// A chip: each core has the private caches, all share the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipSettings {
    /// Private first level of each core.
    pub l1: CacheSettings,
    /// Private second level of each core, if there is one.
    pub l2: Option<CacheSettings>,
    /// The shared cache.
    pub shared: CacheSettings,
    /// Whether the shared cache includes the private ones.
    pub inclusion: Inclusion,
    /// Page frames over which the programs' pages are scattered; addresses are taken as they are if `None`.
    pub frames: Option<Frames>,
    /// Cycles of each level.
    pub latencies: Latencies,
    /// Stream prefetcher between each core and the shared cache, if there is one.
    pub prefetcher: Option<PrefetcherSettings>,
    /// Lines per cycle that memory delivers to the whole chip; without a limit if `None`.
    pub lines_per_cycle: Option<f64>,
}

impl ChipSettings {
    /// The machine of the StatCC paper's table 1: private 32 KiB 8-way L1, shared 2 MiB 16-way cache, 64-byte
    /// lines, LRU, 1 / 10 / 130 cycles; no prefetcher, no bandwidth limit, and no inclusion (the paper's is
    /// inclusive: set [`inclusion`](Self::inclusion)).
    ///
    /// # Errors
    /// None: the paper's numbers are valid.
    pub fn paper() -> Result<Self, ChipError> {
        Ok(Self {
            l1: CacheSettings::lru(32 << 10, 8, LineSize::B64)?,
            l2: None,
            shared: CacheSettings::lru(2 << 20, 16, LineSize::B64)?,
            inclusion: Inclusion::None,
            frames: None,
            latencies: Latencies::default(),
            prefetcher: None,
            lines_per_cycle: None,
        })
    }

    /// Line size of all caches.
    pub const fn line_size(&self) -> LineSize {
        self.shared.geometry.line_size()
    }

    /// Checks everything but the programs.
    pub(super) fn check(&self, cores: usize) -> Result<(), ChipError> {
        let line_size = self.line_size();
        for cache in [Some(self.l1), self.l2].into_iter().flatten() {
            let other = cache.geometry.line_size();
            if other != line_size {
                return Err(ChipError::MixedLineSizes { left: other.bytes(), right: line_size.bytes() });
            }
        }
        let limit = Owners::limit(line_size);
        if cores == 0 || cores > limit {
            return Err(ChipError::Cores { cores, limit, line_bytes: line_size.bytes() });
        }
        let Latencies { l1, l2, shared, memory } = self.latencies;
        for (what, value) in [
            ("L1 latency", l1),
            ("L2 latency", l2),
            ("shared-cache latency", shared),
            ("memory latency", memory),
        ] {
            not_negative(what, value)?;
        }
        if let Some(value) = self.lines_per_cycle {
            if !(value.is_finite() && value > 0.0) {
                let remedy = "a finite number of lines per cycle above 0, or no limit";
                return Err(ChipError::Timing { what: "memory bandwidth", value, remedy });
            }
        }
        self.prefetcher.as_ref().map_or(Ok(()), PrefetcherSettings::check)
    }
}

pub(super) fn not_negative(what: &'static str, value: f64) -> Result<(), ChipError> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(ChipError::Timing { what, value, remedy: "a finite number of cycles, 0 or more" })
    }
}
