//! From a recorded trace of memory accesses to the miss ratio of LRU and random-replacement caches of every size.
//!
//! ```text
//! valgrind --tool=lackey --trace-mem=yes --log-file=ls.lackey ls
//! cargo run --release --example trace_to_curve -- ls.lackey
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{Cursor, Read};

use reuse_sampler::replay::{ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::trace::{TraceFormat, TraceReader};
use reuse_sampler::{CacheLines, CacheModel, LineSize, ReusePlan, ReuseProfile, Sampler, WindowPlan};
use statcache::StatCache;
use statstack::StatStack;

/// A trace in Dinero's format: a loop over 1,000 lines, then one over 100.
fn recorded_earlier() -> String {
    let lines = (0..50_000).map(|i| i % 1_000).chain((0..50_000).map(|i| i % 100));
    lines.map(|line| format!("0 {:x}\n", 0x10_0000 + 64 * line)).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let (format, input): (_, Box<dyn Read>) = match std::env::args().nth(1) {
        Some(path) => {
            let name = path.rsplit('.').next().unwrap_or_default();
            let format =
                TraceFormat::named(name).ok_or("end the file's name in .din, .lackey, .csv or .usf")?;
            (format, Box::new(File::open(&path)?))
        }
        None => (TraceFormat::Din, Box::new(Cursor::new(recorded_earlier()))),
    };
    let reader = TraceReader::new(format, input);
    let options = ReplayOptions::windows_of(WindowLength::Accesses(10_000));
    let mut sampler = ReplaySampler::new(reader, options)?;

    // A trace that is at hand is measured access by access. Sampling is for programs that run.
    let plan = WindowPlan::new(ReusePlan::Every);
    let mut profile = ReuseProfile::new(LineSize::B64);
    while let Some(window) = sampler.next_window(&plan)? {
        profile.record_window(&window)?;
    }

    let (lru, random) = (StatStack::fit(&profile)?, StatCache::fit(&profile)?);
    println!("{:>10}  {:>6}  {:>6}", "bytes", "LRU", "random");
    for power in 5..=12 {
        let size = CacheLines(1 << power);
        let bytes = size.bytes(LineSize::B64);
        println!("{bytes:>10}  {:>6.3}  {:>6.3}", lru.miss_ratio(size), random.miss_ratio(size));
    }
    Ok(())
}
