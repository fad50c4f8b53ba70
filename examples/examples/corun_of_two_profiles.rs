//! May these two programs share a cache? From a profile of each alone, saved earlier, to the speed of both together.
//!
//! The profiles are JSON files that `ReuseProfile` writes with the feature `serde`.

use std::error::Error;
use std::fs;

use reuse_sampler::{CacheLines, LineSize, Outcome, ReuseDistance, ReuseProfile};
use statcc::{CoRun, LinearLatency, PrivateLevel, Program};
use statstack::StatStack;

/// Saves a profile, as a profiler would have done on another day.
fn save(path: &std::path::Path, distances: &[(u64, u64)]) -> Result<(), Box<dyn Error>> {
    let mut profile = ReuseProfile::new(LineSize::B64);
    for &(distance, accesses) in distances {
        profile.record(Outcome::Reused(ReuseDistance(distance)), accesses);
    }
    fs::write(path, serde_json::to_string(&profile)?)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("corun-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (table, stream) = (folder.join("table.json"), folder.join("stream.json"));
    save(&table, &[(5, 600), (20_000, 300), (200_000, 100)])?; // uses much data again
    save(&stream, &[(0, 875), (1_000_000, 125)])?; // runs through more than any cache holds

    let load =
        |path| -> Result<ReuseProfile, Box<dyn Error>> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    let profiles = [load(&table)?, load(&stream)?];
    fs::remove_dir_all(&folder)?;

    // An in-order core: a cycle per instruction, and the latencies of L1, shared cache and memory.
    let accesses_per_instruction = 0.35;
    let l1 = PrivateLevel { hit_ratio: 0.6, latency: 1.0 };
    let cpi = LinearLatency::new(1.0, accesses_per_instruction, &[l1], 10.0, 130.0)?;
    let program = |profile| Program::in_order(profile, accesses_per_instruction, cpi.clone());

    let cache = CacheLines(32_768); // 2 MiB
    let together = CoRun::new(vec![program(&profiles[0])?, program(&profiles[1])?])?;
    let together = together.solve(cache, StatStack::fit)?;
    for (number, name) in ["table", "stream"].into_iter().enumerate() {
        let alone = CoRun::new(vec![program(&profiles[number])?])?.solve(cache, StatStack::fit)?;
        let (alone, shared) = (alone.programs()[0].cpi, &together.programs()[number]);
        let slowdown = 100.0 * (shared.cpi / alone - 1.0);
        println!(
            "{name:>6}: CPI {alone:.2} alone, {:.2} together ({slowdown:+.0} %), holds {:.0} % of the cache",
            shared.cpi,
            100.0 * shared.lines / 32_768.0
        );
    }
    Ok(())
}
