//! Which level of the hierarchy has a line, in program order.
//!
//! Three levels of LRU caches and the rows of memory. None of it depends on the clock, so it is asked once for
//! all frequencies.

use reuse_sampler::{Access, LineSize};

use crate::machines::chip::{Cache, CacheSettings, ChipError};

/// Where a line was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// First level.
    L1,
    /// Second level.
    L2,
    /// Third level.
    L3,
    /// Memory.
    Memory,
}

/// What an access met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The outermost level it had to go to.
    pub level: Level,
    /// Whether memory had the row open, if it went there.
    pub row_open: bool,
    /// If not memory's: how many requests to memory ago the line was asked for, if few. It may not be here yet.
    pub asked_ago: Option<usize>,
}

/// Requests to memory that are remembered as possibly on their way.
pub(super) const IN_FLIGHT: usize = 32;

const BANKS: u64 = 8;
const ROW_LINES: u64 = 128; // of 64 bytes: 8 KiB

/// Caches, and the rows that memory has open.
#[derive(Debug)]
pub struct Hierarchy {
    levels: [Cache; 3],
    line_size: LineSize,
    open: [u64; BANKS as usize],
    asked: [u64; IN_FLIGHT], // lines, by the number of the request
    requests: usize,
}

impl Hierarchy {
    /// 32 KiB, 256 KiB and 2 MiB, 8, 8 and 16 ways: Nehalem's, with a third level a quarter of its size so that
    /// the embedded workloads need not be as large as SPEC's.
    ///
    /// # Errors
    /// None: the shapes are valid.
    pub fn small_nehalem() -> Result<Self, ChipError> {
        let line_size = LineSize::B64;
        let cache = |bytes, ways| {
            let settings = CacheSettings::lru(bytes, ways, line_size)?;
            Ok(Cache::new(settings.geometry, settings.policy))
        };
        Ok(Self {
            levels: [cache(32 << 10, 8)?, cache(256 << 10, 8)?, cache(2 << 20, 16)?],
            line_size,
            open: [u64::MAX; BANKS as usize],
            asked: [u64::MAX; IN_FLIGHT],
            requests: 0,
        })
    }

    /// Looks the access up and brings its line in. Of an access that straddles lines the slower one counts.
    pub fn access(&mut self, access: &Access) -> Found {
        let (first, last) = self.line_size.span(access);
        let found = self.line(first);
        if last == first {
            return found;
        }
        let other = self.line(last);
        if other.level > found.level { other } else { found }
    }

    fn line(&mut self, line: u64) -> Found {
        let hit = self.levels.iter_mut().position(|cache| cache.touch(line));
        for cache in &mut self.levels[..hit.unwrap_or(3)] {
            cache.insert(line);
        }
        let level = match hit {
            Some(0) => Level::L1,
            Some(1) => Level::L2,
            Some(_) => Level::L3,
            None => Level::Memory,
        };
        if level == Level::Memory {
            let row = line / ROW_LINES;
            // Neighbouring rows go to different banks, and so do equal positions of large arrays.
            let bank = ((row ^ (row / BANKS) ^ (row / (BANKS * BANKS))) % BANKS) as usize;
            let row_open = std::mem::replace(&mut self.open[bank], row) == row;
            self.asked[self.requests % IN_FLIGHT] = line;
            self.requests += 1;
            return Found { level, row_open, asked_ago: None };
        }
        let slot = self.asked.iter().position(|&asked| asked == line);
        let asked_ago = slot.map(|slot| (self.requests + IN_FLIGHT - 1 - slot) % IN_FLIGHT + 1);
        Found { level, row_open: false, asked_ago }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_from_the_level_that_holds_them() {
        let mut hierarchy = Hierarchy::small_nehalem().unwrap();
        let mut level = |line: u64| hierarchy.access(&Access::load(line * 64, 8)).level;
        // Twice around 16 KiB, 128 KiB, 1 MiB and 8 MiB: the second time the smallest cache that holds all has it.
        for (lines, expected) in
            [(256, Level::L1), (2048, Level::L2), (16_384, Level::L3), (131_072, Level::Memory)]
        {
            let base = 1 << 30;
            for line in 0..lines {
                level(base + line);
            }
            assert!((0..lines).all(|line| level(base + line) == expected), "{expected:?}");
        }
    }

    #[test]
    fn a_line_just_asked_for_is_reported() {
        let mut hierarchy = Hierarchy::small_nehalem().unwrap();
        let mut found = |line: u64| hierarchy.access(&Access::load(line * 64, 8));
        assert_eq!(found(1).level, Level::Memory);
        assert_eq!((found(1).level, found(1).asked_ago), (Level::L1, Some(1)));
        for line in 2..=32 {
            assert_eq!(found(line).level, Level::Memory);
        }
        assert_eq!((found(1).asked_ago, found(32).asked_ago), (Some(32), Some(1)));
        found(33);
        assert_eq!(found(1).asked_ago, None);
        // Lines 1 to 33 are in one row: only the first request opened it.
        assert!(found(40).row_open && !found(40 + 128).row_open);
    }
}
