//! How large should a key-value cache be? From the keys that it is asked for to a miss ratio for every size.
//!
//! A log line per request is enough. Objects count as one line each, so a size is a number of objects.
//!
//! ```text
//! cargo run --release --example cache_keys_to_curve                  # made-up requests
//! cut -d' ' -f3 requests.log | cargo run --release --example cache_keys_to_curve -- -
//! ```

use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead};

use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, CacheLines, CacheModel, LineSize, ReusePlan, ReuseProfile, SampleGap, Sampler, WindowPlan,
};
use statstack::StatStack;

/// Half of the requests are for 100 popular keys, the others for any of 100,000.
fn made_up() -> impl Iterator<Item = String> {
    let mut state = 1_u64;
    (0..500_000).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = state >> 33;
        format!("user:{}", if draw % 2 == 0 { draw / 2 % 100 } else { draw / 2 % 100_000 })
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let keys: Box<dyn Iterator<Item = String>> = match std::env::args().nth(1).as_deref() {
        Some("-") => Box::new(io::stdin().lock().lines().map_while(Result::ok)),
        _ => Box::new(made_up()),
    };
    // A key becomes an address. Objects are lines of one byte.
    let requests = keys.map(|key| {
        let mut hash = DefaultHasher::new();
        key.hash(&mut hash);
        Event::Access(Access::load(hash.finish(), 1))
    });
    let objects = LineSize::new(1)?;
    let options = ReplayOptions::windows_of(WindowLength::Accesses(100_000)).line_size(objects);
    let mut sampler = ReplaySampler::new(requests, options)?;

    // One request in 10 is followed until its key is asked for again.
    let plan = WindowPlan::new(ReusePlan::Sparse(SampleGap::mean(10.0)?));
    let mut profile = ReuseProfile::new(objects);
    while let Some(window) = sampler.next_window(&plan)? {
        profile.record_window(&window)?;
    }

    let model = StatStack::fit(&profile)?;
    println!("{} requests, {} samples", profile.accesses(), profile.samples());
    println!("{:>10}  hit ratio of an LRU cache", "objects");
    for objects in [10, 100, 1_000, 10_000, 50_000, 100_000] {
        println!("{objects:>10}  {:.3}", 1.0 - model.miss_ratio(CacheLines(objects)));
    }
    Ok(())
}
