//! From a million samples to a curve, and single answers.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use reuse_sampler::{CacheLines, CacheModel, LineSize, Outcome, Reuse, ReuseDistance, ReuseProfile};
use statcache::StatCache;

/// Distances over seven decades, some never reused.
fn outcomes() -> Vec<Outcome> {
    let mut state = 1_u64;
    (0..1_000_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = (state >> 11) as f64 / (1_u64 << 53) as f64;
            if random < 0.01 {
                Outcome::Dangling
            } else {
                Outcome::Reused(ReuseDistance(random.powi(-3) as u64))
            }
        })
        .collect()
}

fn profile_of(outcomes: &[Outcome]) -> ReuseProfile {
    let mut profile = ReuseProfile::new(LineSize::B64);
    for &outcome in outcomes {
        profile.record(outcome, 100);
    }
    profile
}

/// The same in 64 windows; the reuses of each quarter of the run are longer than those of the one before.
fn windows(outcomes: &[Outcome]) -> Vec<ReuseProfile> {
    let window = |(k, outcomes): (usize, &[Outcome])| {
        let later = |outcome: &Outcome| match *outcome {
            Outcome::Reused(distance) => Outcome::Reused(ReuseDistance(distance.0 * (1 + k as u64 / 16))),
            other => other,
        };
        let mut profile = profile_of(&outcomes.iter().map(later).collect::<Vec<_>>());
        profile.add_accesses(100 * outcomes.len() as u64);
        profile
    };
    outcomes.chunks(outcomes.len().div_ceil(64)).enumerate().map(window).collect()
}

fn sizes() -> Vec<CacheLines> {
    (0..64).map(|k| CacheLines((64.0 * 1.15_f64.powi(k)) as u64)).collect()
}

fn benches(c: &mut Criterion) {
    let outcomes = outcomes();
    let profile = profile_of(&outcomes);
    let model = StatCache::fit(&profile).unwrap();
    let sizes = sizes();
    c.bench_function("record 1 M samples and fit", |b| {
        b.iter(|| StatCache::fit(&profile_of(black_box(&outcomes))).unwrap());
    });
    c.bench_function("fit", |b| b.iter(|| StatCache::fit(black_box(&profile)).unwrap()));
    c.bench_function("curve of 64 sizes", |b| b.iter(|| model.curve(black_box(&sizes))));
    let from_empty = StatCache::fit_from_empty(&profile).unwrap();
    c.bench_function("curve of 64 sizes from empty", |b| b.iter(|| from_empty.curve(black_box(&sizes))));
    let windows = windows(&outcomes);
    let octaves: Vec<CacheLines> = (6..20).map(|octave| CacheLines(1 << octave)).collect();
    c.bench_function("fit in time and curve of 14 sizes, 64 windows", |b| {
        b.iter(|| StatCache::fit_in_time(black_box(&windows)).unwrap().curve(&octaves));
    });
    let at = model.at(CacheLines(4096));
    c.bench_function("miss probability at a prepared size", |b| {
        b.iter(|| at.miss_probability(black_box(Reuse::Distance(ReuseDistance(100_000)))));
    });
}

criterion_group!(all, benches);
criterion_main!(all);
