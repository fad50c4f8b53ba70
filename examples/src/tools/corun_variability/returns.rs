//! When a program reuses its lines in the sets of the shared cache, window by window, beside its curves.

use cachesharing::ReuseTimes;
use reuse_sampler::{Line, SetReuseCounter};

use super::Ground;
use crate::cli::Failure;
use crate::machines::chip::{Geometry, Stretch};

/// Looks at how evenly lines lie over the sets, in a window: at least so many, and one for as many accesses as the cache
/// has lines.
const LOOKS: u64 = 4;

/// Parts of the cache's lines from and up to which footprints are kept.
const LEAST: f64 = 1e-3;
const MOST: f64 = 2.0;

/// Counts the reuse times of a program's lines as they get past the private caches.
pub(super) struct ReuseWatch {
    geometry: Geometry,
    counter: SetReuseCounter,
    now: u64,        // accesses so far
    accesses: u64,   // of the present window
    looks: Vec<u64>, // of the present window: after which accesses to look, the last one first
}

impl ReuseWatch {
    pub fn new(ground: &Ground) -> Result<Self, Failure> {
        let geometry = ground.settings.shared.geometry;
        let counter = SetReuseCounter::new(geometry.sets() as usize, geometry.ways() as u32)?;
        Ok(Self { geometry, counter, now: 0, accesses: 0, looks: Vec::new() })
    }

    /// A window of so many accesses begins.
    pub fn begin(&mut self, accesses: u64) {
        self.accesses = accesses;
        let looks = LOOKS.max(accesses / self.geometry.lines().0);
        self.looks = (1..=looks).rev().map(|part| self.now + accesses * part / looks).collect();
    }

    /// The program accesses its lines.
    pub fn follow(&mut self, stretches: &[Stretch]) {
        for stretch in stretches {
            self.now += stretch.accesses;
            self.look_before(self.now);
            let Some(line) = stretch.beyond else { continue };
            self.counter.touch(Line(line), self.set(line), self.now);
            let direction = i64::from(stretch.ahead.signum());
            for far in 1..=i64::from(stretch.ahead.unsigned_abs()) {
                let ahead = line.wrapping_add_signed(direction * far);
                self.counter.prefetch(Line(ahead), self.set(ahead), self.now);
            }
        }
    }

    fn set(&self, line: u64) -> u64 {
        self.geometry.index().set(line, self.geometry.sets())
    }

    fn look_before(&mut self, now: u64) {
        while let Some(&look) = self.looks.last().filter(|&&look| look < now) {
            self.counter.look(look);
            self.looks.pop();
        }
    }

    /// The reuse times since the last window ended.
    pub fn end(&mut self) -> Result<ReuseTimes, Failure> {
        self.look_before(u64::MAX);
        let seen = self.counter.take();
        let way = self.geometry.bytes() / self.geometry.ways();
        let (accesses, lines) = (self.accesses.max(1) as f64, self.counter.lines().0 as f64);
        let footprint = seen.footprint.iter().map(|&(time, sum)| (time as f64, sum / accesses));
        // Far fewer lines than a way has, and far more than the cache, push out nothing and all.
        let mut known: Vec<(f64, f64)> = footprint.take_while(|&(_, used)| used <= MOST * lines).collect();
        let few = known.partition_point(|&(_, used)| used < LEAST * lines);
        known.drain(..few.min(known.len().saturating_sub(1)));
        ReuseTimes::new(way, seen.variances, seen.reuses)
            .and_then(|times| times.with_prefetches(seen.prefetches)?.with_footprint(known))
            .map_err(Failure::run)
    }
}
