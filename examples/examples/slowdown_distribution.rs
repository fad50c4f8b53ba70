//! How much slower does my program run next to another, and how much does that depend on who started when?
//!
//! Each program is a list of windows with the phase of each, and for each phase its performance alone over cache size
//! (measured with a cache pirate, for example).

use std::error::Error;
use std::num::NonZeroUsize;

use cachesharing::{
    CacheCurve, CoRun, CurvePoint, EvictionAge, Offsets, Program, Settings, SharedCache, Window, variability,
};

/// A phase that needs `ways` of 128 KiB for its data, and misses in proportion to what it lacks.
fn phase_that_needs(ways: f64) -> Result<CacheCurve, cachesharing::Error> {
    let point = |given: u64| {
        let misses = 0.1 * (1.0 - given as f64 / ways).max(0.0); // per access
        let cpi = 1.0 + 130.0 * 0.3 * misses;
        let hit_rate = (0.1 - misses) * 0.3 / cpi; // hits in the shared cache per cycle
        CurvePoint::new(given << 17, cpi, misses).with_hit_rate(hit_rate)
    };
    CacheCurve::new((1..=16).map(point).collect(), 0.3, 64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let phases = [(0, phase_that_needs(6.0)?), (1, phase_that_needs(40.0)?)];
    let program = |name: &str, windows: &[i32]| {
        let windows = windows.iter().map(|&phase| Window::of_phase(1e8, phase)); // instructions
        Program::new(name, phases.clone(), windows)
    };
    let target = program("target", &[0, 0, 0, 1, 0, 1])?;
    let cache = SharedCache::new(2 << 20)?.with_ways(16)?;
    let threads = NonZeroUsize::MIN;
    println!("slowdown of the target next to another program, over 100 random offsets of the start");
    for (name, windows) in [("calm", [0, 0, 0]), ("mixed", [1, 1, 0]), ("greedy", [1, 1, 1])] {
        let other = program(name, &windows)?;
        let run = CoRun::new(cache, &[&target, &other], EvictionAge::followed(), Settings::default())?;
        let slowdown = variability(&run, &Offsets::random(100, 1), threads)?.distribution;
        println!(
            "{name:>8}: mean {:.3}, from {:.3} to {:.3} in nine of ten runs",
            slowdown.mean(),
            slowdown.quantile(0.05),
            slowdown.quantile(0.95)
        );
    }
    Ok(())
}
