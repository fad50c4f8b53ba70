//! Time to solve for two and for eight programs whose profiles fill every bin there is (7,936; a profile keeps
//! no more whatever it is given).
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{Criterion, criterion_group, criterion_main};
use reuse_sampler::{CacheLines, LineSize, Outcome, ReuseDistance, ReuseProfile};
use statcache::StatCache;
use statcc::{CoRun, LinearLatency, PrivateLevel, Program};
use statstack::StatStack;

/// Distances in every bin below `octaves` octaves, falling off as a power law whose exponent grows with `kind`.
fn profile(kind: u32, octaves: u32) -> ReuseProfile {
    let mut profile = ReuseProfile::new(LineSize::B64);
    let exponent = 1.4 + 0.05 * f64::from(kind);
    let mut distance = 0_u64;
    while distance >> octaves == 0 {
        let width = 1_u64 << distance.checked_ilog2().map_or(0, |octave| octave.saturating_sub(7));
        let weight = 1e15 * width as f64 * (distance as f64 + 10.0).powf(-exponent);
        profile.record(Outcome::Reused(ReuseDistance(distance)), weight as u64 + 1);
        distance += if distance < 1024 { 1 } else { width };
    }
    profile.record(Outcome::Dangling, 1_000_000_000);
    profile
}

fn programs(count: u32, octaves: u32) -> CoRun {
    let programs = (0..count).map(|kind| {
        let mix = 0.3 + 0.02 * f64::from(kind);
        let l1 = PrivateLevel { hit_ratio: 0.6, latency: 1.0 };
        let cpi = LinearLatency::new(1.0, mix, &[l1], 10.0, 130.0).unwrap();
        Program::in_order(&profile(kind, octaves), mix, cpi).unwrap()
    });
    CoRun::new(programs.collect()).unwrap()
}

fn solve(c: &mut Criterion) {
    let size = CacheLines(32 << 10);
    for (name, octaves) in [("all bins", 63), ("up to a billion", 30)] {
        for count in [2, 4, 8] {
            let corun = programs(count, octaves);
            let mut group = c.benchmark_group(format!("solve, {name}"));
            group.bench_function(format!("{count} programs, LRU"), |b| {
                b.iter(|| corun.solve(size, StatStack::fit).unwrap());
            });
            if count == 2 {
                group.sample_size(20);
                group.bench_function(format!("{count} programs, random"), |b| {
                    b.iter(|| corun.solve(size, StatCache::fit).unwrap());
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, solve);
criterion_main!(benches);
