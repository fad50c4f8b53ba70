//! When a program reuses its lines in the sets of the shared cache, window by window, beside its curves.

use cachesharing::ReuseTimes;
use reuse_sampler::{FootprintCounter, Line, SetReuseCounter};

use super::Ground;
use crate::cli::Failure;
use crate::machines::chip::{Geometry, Policy, Stretch};

/// Looks at how evenly lines lie over the sets, in a window: at least so many, and one for as many accesses as the cache
/// has lines.
const LOOKS: u64 = 4;

/// Parts of the cache's lines from and up to which footprints are kept: far fewer and far more push out nothing and all.
const LEAST: f64 = 1e-3;
const MOST: f64 = 2.0;
/// Where any line may leave, some stay for much longer.
const MOST_AT_RANDOM: f64 = 32.0;

/// What is counted of a program's uses.
enum Uses {
    /// How they follow each other in the sets of the cache.
    InSets(Box<SetReuseCounter>),
    /// The footprint alone: where any line may leave, which come between does not matter.
    AtAll(FootprintCounter),
}

/// Counts the reuse times of a program's lines as they get past the private caches.
pub(super) struct ReuseWatch {
    geometry: Geometry,
    uses: Uses,
    now: u64,        // accesses so far
    accesses: u64,   // of the present window
    looks: Vec<u64>, // of the present window: after which accesses to look, the last one first
}

impl ReuseWatch {
    pub fn new(ground: &Ground) -> Result<Self, Failure> {
        let geometry = ground.settings.shared.geometry;
        let uses = if matches!(ground.settings.shared.policy, Policy::Random { .. }) {
            Uses::AtAll(FootprintCounter::default())
        } else {
            let counter = SetReuseCounter::new(geometry.sets() as usize, geometry.ways() as u32)?;
            Uses::InSets(Box::new(counter))
        };
        Ok(Self { geometry, uses, now: 0, accesses: 0, looks: Vec::new() })
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
            match &mut self.uses {
                Uses::InSets(counter) => {
                    let set = |line| self.geometry.index().set(line, self.geometry.sets());
                    counter.touch(Line(line), set(line), self.now);
                    for ahead in stretch.asks() {
                        counter.prefetch(Line(ahead), set(ahead), self.now);
                    }
                }
                Uses::AtAll(counter) => {
                    counter.touch(Line(line), self.now);
                    for ahead in stretch.asks() {
                        counter.prefetch(Line(ahead), self.now);
                    }
                }
            }
        }
    }

    fn look_before(&mut self, now: u64) {
        while let Some(&look) = self.looks.last().filter(|&&look| look < now) {
            if let Uses::InSets(counter) = &mut self.uses {
                counter.look(look);
            }
            self.looks.pop();
        }
    }

    /// The reuse times since the last window ended.
    pub fn end(&mut self) -> Result<ReuseTimes, Failure> {
        self.look_before(u64::MAX);
        let way = self.geometry.bytes() / self.geometry.ways();
        let (footprint, most, times) = match &mut self.uses {
            Uses::InSets(counter) => {
                let seen = counter.take();
                let times = ReuseTimes::new(way, seen.variances, seen.reuses);
                (seen.footprint, MOST, times.and_then(|times| times.with_prefetches(seen.prefetches)))
            }
            Uses::AtAll(counter) => (counter.take(), MOST_AT_RANDOM, ReuseTimes::new(way, Vec::new(), [])),
        };
        let (accesses, lines) = (self.accesses.max(1) as f64, self.geometry.lines().0 as f64);
        let footprint = footprint.iter().map(|&(time, sum)| (time as f64, sum / accesses));
        let mut known: Vec<(f64, f64)> = footprint.take_while(|&(_, used)| used <= most * lines).collect();
        let few = known.partition_point(|&(_, used)| used < LEAST * lines);
        known.drain(..few.min(known.len().saturating_sub(1)));
        times.and_then(|times| times.with_footprint(known)).map_err(Failure::run)
    }
}
