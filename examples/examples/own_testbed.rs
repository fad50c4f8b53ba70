//! Cache pirating on a machine of one's own: five methods, and the technique runs on it.
//!
//! The machine here is a formula: a target whose miss ratio falls in proportion to the cache that is left to it. On a
//! real one, `run` would let processes execute and `read` would read counters.

use std::convert::Infallible;
use std::error::Error;

use cache_pirate::{
    MemoryCounts, Outcome, PirateCounts, PirateParams, Reading, SharedCache, TargetCounts, Testbed, Until,
    Who, measure,
};

const CACHE: SharedCache = SharedCache { bytes: 1 << 20, line_size: 64 };
/// The target's data.
const DATA: f64 = 768.0 * 1024.0;

struct Formula {
    stolen: u64,
    seen: Reading,
    work_left: f64,
}

impl Testbed for Formula {
    type Error = Infallible;

    fn cache(&self) -> SharedCache {
        CACHE
    }

    fn steal(&mut self, bytes: u64, _threads: usize) -> Result<(), Infallible> {
        self.stolen = bytes;
        Ok(())
    }

    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, Infallible> {
        let lines = self.stolen as f64 / 64.0;
        if let (Who::Pirate, Until::Walks(walks)) = (who, until) {
            // It touches each stolen line, and fetches none: it is quick enough to keep them.
            let touched = PirateCounts { touches: lines * f64::from(walks), fetches: 0.0 };
            self.seen.pirate = self.seen.pirate + touched;
            self.seen.elapsed += touched.touches;
            return Ok(Outcome::Done);
        }
        let Until::Work(work) = until else { return Ok(Outcome::Done) };
        let work = work.min(self.work_left);
        self.work_left -= work;
        let left = (CACHE.bytes - self.stolen) as f64;
        let misses = work * (0.1 * (1.0 - left / DATA)).max(0.0);
        let time = work + 100.0 * misses;
        let memory = MemoryCounts { accesses: work, shared_accesses: work, misses, fetches: Some(misses) };
        self.seen.target =
            self.seen.target + TargetCounts { work, time, memory: Some(memory), traffic: None };
        self.seen.elapsed += time;
        if who == Who::Both {
            self.seen.pirate = self.seen.pirate + PirateCounts { touches: time, fetches: 0.0 };
        }
        Ok(if self.work_left > 0.0 { Outcome::Done } else { Outcome::TargetEnded })
    }

    fn read(&mut self) -> Result<Reading, Infallible> {
        Ok(self.seen)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let counts = TargetCounts { memory: Some(MemoryCounts::default()), ..TargetCounts::default() };
    let seen = Reading { target: counts, ..Reading::default() };
    let mut machine = Formula { stolen: 0, seen, work_left: 1e9 };
    let params = PirateParams { interval: Some(1e6), ..PirateParams::default() };
    let curve = measure(&mut machine, &params.check(CACHE)?)?.curve()?;
    println!("{:>8}  {:>5}  {:>10}", "KiB", "CPI", "miss ratio");
    for point in curve.trusted() {
        let miss_ratio = point.miss_ratio.unwrap_or(f64::NAN);
        println!("{:>8}  {:>5.2}  {miss_ratio:>10.4}", point.bytes >> 10, point.cpi);
    }
    Ok(())
}
