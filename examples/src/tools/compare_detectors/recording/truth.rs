//! What really happened in a window: misses of the wavelet paper's caches, cycles and events of the reference chip in
//! two configurations.

use reuse_sampler::{Access, AccessKind, LineSize};

use crate::machines::chip::{
    Cache, CacheSettings, Chip, ChipError, ChipSettings, CoreSettings, Driven, Geometry, Policy,
    PrefetcherSettings, Reference,
};

/// The two levels that Huffmire and Sherwood simulate (PACT 2006, 3.4): 16 KiB 2-way with 32-byte lines, 1 MiB 4-way
/// with 64-byte lines, LRU.
pub struct TwoLevels {
    l1: Cache,
    l2: Cache,
}

impl TwoLevels {
    pub fn new() -> Result<Self, ChipError> {
        let cache = |bytes, ways, line: LineSize| {
            Ok::<_, ChipError>(Cache::new(Geometry::new(bytes, ways, line)?, Policy::Lru))
        };
        // The shape counts lines; whose bytes they hold is up to `access`.
        let half = |bytes: u64| bytes * 2; // 32-byte lines counted as lines of 64 bytes
        Ok(Self { l1: cache(half(16 << 10), 2, LineSize::B64)?, l2: cache(1 << 20, 4, LineSize::B64)? })
    }

    /// Answers the misses of an access in each level.
    #[inline]
    pub fn access(&mut self, access: &Access) -> (u64, u64) {
        let (mut in_l1, mut in_l2) = (0, 0);
        let last = access.address.wrapping_add(u64::from(access.bytes.max(1)) - 1);
        for line in access.address >> 5..=last.max(access.address) >> 5 {
            if self.l1.touch(line) {
                continue;
            }
            self.l1.insert(line);
            in_l1 += 1;
            if !self.l2.touch(line >> 1) {
                self.l2.insert(line >> 1);
                in_l2 += 1;
            }
        }
        (in_l1, in_l2)
    }
}

/// Cycles, stall cycles, L1 misses, L2 accesses, L2 misses, prefetches and TLB misses: the last of the counters.
pub type Events = [f64; 7];

/// A core of the reference chip, driven by the access stream.
pub struct Machine {
    chip: Chip<Driven>,
    tlb: Cache,
    tlb_misses: u64,
    pending: f64, // instructions since the last access
}

impl Machine {
    /// The StatCC paper's machine, with 32 translations; or one with a stream prefetcher, twice the first level and twice
    /// the translations.
    pub fn new(other: bool) -> Result<Self, ChipError> {
        let mut settings = ChipSettings::paper()?;
        if other {
            settings.prefetcher = Some(PrefetcherSettings::default());
            settings.l1 = CacheSettings::lru(64 << 10, 8, settings.line_size())?;
        }
        let translations = if other { 64 } else { 32 };
        Ok(Self {
            chip: Chip::new(&settings, vec![CoreSettings::new(Driven)])?,
            tlb: Cache::new(Geometry::new(translations * 64, translations, LineSize::B64)?, Policy::Lru),
            tlb_misses: 0,
            pending: 0.0,
        })
    }

    #[inline]
    pub fn instructions(&mut self, count: u32) {
        self.pending += f64::from(count);
    }

    #[inline]
    pub fn access(&mut self, address: u64, kind: AccessKind) {
        let instructions = std::mem::take(&mut self.pending);
        self.chip.reference(0, Reference { line: address >> 6, kind, instructions, dependent: false });
        if !self.tlb.touch(address >> 12) {
            self.tlb.insert(address >> 12);
            self.tlb_misses += 1;
        }
    }

    /// Counts since the start.
    pub fn events(&self) -> Events {
        let counters = self.chip.counters(0);
        let [l1, shared] = [counters.l1_misses, counters.shared_accesses];
        let counts = [l1, shared, counters.shared_misses, counters.prefetches, self.tlb_misses];
        let [l1, accesses, misses, prefetches, tlb] = counts.map(|count| count as f64);
        let cycles = counters.cycles + self.pending; // a cycle each
        [cycles, counters.stall_cycles, l1, accesses, misses, prefetches, tlb]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the definition: of two lines that fall into one set with others between them, those beyond the ways.
    #[test]
    fn the_papers_caches_miss_as_their_shapes_say() {
        let mut caches = TwoLevels::new().unwrap();
        let mut misses = |address: u64| caches.access(&Access::load(address, 4));
        assert_eq!(misses(0), (1, 1));
        assert_eq!(misses(28), (0, 0)); // the same 32 bytes
        assert_eq!(misses(32), (1, 0)); // the other half of the second level's line
        assert_eq!(misses(62), (1, 1)); // straddles into the next line; its first half is here
        // 8 KiB apart: one set of the first level, which holds two
        assert_eq!(misses(8 << 10), (1, 1));
        assert_eq!(misses(0), (0, 0));
        assert_eq!(misses(16 << 10), (1, 1));
        assert_eq!(misses(8 << 10), (1, 0));
        // 256 KiB apart: one set of the second level, which holds four
        for k in 1..=4 {
            assert_eq!(misses(k << 18), (1, 1));
        }
        assert_eq!(misses(0), (1, 1));
    }
}
