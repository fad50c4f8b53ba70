//! From a million samples to a curve, and single answers.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use reuse_sampler::{
    CacheLines, CacheModel, LineSize, Outcome, Reuse, ReuseDistance, ReuseOverlap, ReuseProfile, WindowIndex,
};
use statstack::StatStack;

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

/// Overlaps of a tenth of the samples, at 1 in 100: stack distances that scatter by a factor of two.
fn with_overlaps(profile: &ReuseProfile, outcomes: &[Outcome]) -> ReuseProfile {
    let plain = StatStack::fit(profile).unwrap();
    let mut profile = profile.clone();
    for (k, outcome) in outcomes.iter().enumerate().step_by(10) {
        if let Outcome::Reused(distance) = *outcome {
            let factor = if k % 20 == 0 { 0.5 } else { 1.5 };
            let open = (plain.expected_stack_distance(distance) * factor / 100.0) as u64;
            profile.record_overlap(&ReuseOverlap {
                started_in: WindowIndex(0),
                shortest: distance,
                longest: distance,
                weight: 100,
                samples: 1,
                open,
                pairs: open * open.saturating_sub(1),
            });
        }
    }
    profile
}

fn sizes() -> Vec<CacheLines> {
    (0..64).map(|k| CacheLines((64.0 * 1.15_f64.powi(k)) as u64)).collect()
}

fn benches(c: &mut Criterion) {
    let outcomes = outcomes();
    let profile = profile_of(&outcomes);
    let model = StatStack::fit(&profile).unwrap();
    let sizes = sizes();
    c.bench_function("record 1 M samples and fit", |b| {
        b.iter(|| StatStack::fit(&profile_of(black_box(&outcomes))).unwrap());
    });
    c.bench_function("fit", |b| b.iter(|| StatStack::fit(black_box(&profile)).unwrap()));
    c.bench_function("curve of 64 sizes", |b| b.iter(|| model.curve(black_box(&sizes))));
    let at = model.at(CacheLines(4096));
    c.bench_function("miss probability at a prepared size", |b| {
        b.iter(|| at.miss_probability(black_box(Reuse::Distance(ReuseDistance(100_000)))));
    });
    let profile = with_overlaps(&profile, &outcomes);
    let model = StatStack::fit(&profile).unwrap();
    c.bench_function("fit, corrected", |b| b.iter(|| StatStack::fit(black_box(&profile)).unwrap()));
    c.bench_function("curve of 64 sizes, corrected", |b| b.iter(|| model.curve(black_box(&sizes))));
    let at = model.at(CacheLines(4096));
    c.bench_function("miss probability at a prepared size, corrected", |b| {
        b.iter(|| at.miss_probability(black_box(Reuse::Distance(ReuseDistance(100_000)))));
    });
}

criterion_group!(all, benches);
criterion_main!(all);
