//! Which ways of the shared cache should each program have? From the curve of each alone to masks of ways.
//!
//! The masks are written as `resctrl` takes them (`L3:0=7ff`), for the group that holds the cluster's programs.

use std::error::Error;

use cachesharing::partition::{Policy, partition};
use cachesharing::{CacheCurve, CurvePoint, EvictionAge, Program, SharedCache};

/// A program that needs `ways` of 128 KiB for its data, makes `reach` accesses to the shared cache per access, and
/// misses in proportion to what it lacks.
fn program_that_needs(name: &str, ways: f64, reach: f64) -> Result<Program<u32>, cachesharing::Error> {
    let point = |given: u64| {
        let misses = reach * (1.0 - given as f64 / ways).max(0.0); // per access
        let cpi = 1.0 + 130.0 * 0.3 * misses;
        let hit_rate = (reach - misses) * 0.3 / cpi; // hits in the shared cache per cycle
        CurvePoint::new(given << 17, cpi, misses).with_hit_rate(hit_rate)
    };
    let curve = CacheCurve::new((1..=16).map(point).collect(), 0.3, 64)?;
    Program::steady(name, 0, curve, 1e9)
}

fn main() -> Result<(), Box<dyn Error>> {
    let programs = [
        program_that_needs("index", 9.0, 0.08)?,
        program_that_needs("model", 6.0, 0.03)?,
        program_that_needs("backup", 1000.0, 0.1)?, // reuses nothing in time
        program_that_needs("proxy", 0.5, 0.01)?,
    ];
    let list: Vec<_> = programs.iter().collect();
    let cache = SharedCache::new(2 << 20)?.with_ways(16)?;
    for policy in [Policy::Free, Policy::Utility, Policy::Fair, Policy::Clusters] {
        let found = partition(&cache, &list, &EvictionAge::default(), policy)?;
        let mean = found.total() / programs.len() as f64;
        println!("{policy:?}: {mean:.3} times as slow as alone on average, {:.3} at worst", found.worst());
        for cluster in &found.clusters {
            let names: Vec<&str> = cluster.programs.iter().map(|&i| programs[i].name()).collect();
            println!("    L3:0={:x} ({} ways): {}", cluster.mask, cluster.ways, names.join(", "));
        }
    }
    Ok(())
}
