//! What clustering a whole run costs.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use phase_detect::{KMeans, Signature, SimPointConfig};

/// 1,200 windows of 32 entries: 12 phases with 10 % noise, and every eighth window a mixture of two phases, as
/// transitions are. Without those k-means would converge at once.
fn run() -> Vec<Signature> {
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64
    };
    let mixes: Vec<Vec<f64>> = (0..12).map(|_| (0..32).map(|_| next().powi(6)).collect()).collect();
    (0..1200)
        .map(|w: usize| {
            let (a, b) = (&mixes[w / 10 % 12], &mixes[(w / 10 + 1) % 12]);
            let part = if w % 8 == 0 { next() } else { 0.0 };
            let values: Vec<f64> =
                a.iter().zip(b).map(|(x, y)| (x * (1.0 - part) + y * part) * (0.9 + 0.2 * next())).collect();
            Signature::frequency(values).unwrap()
        })
        .collect()
}

fn batch(c: &mut Criterion) {
    let windows = run();
    let mut group = c.benchmark_group("batch");
    group.sample_size(20);
    let config = SimPointConfig { max_clusters: 20, ..SimPointConfig::default() };
    group.bench_function("SimPoint search: 1200 windows, k <= 20, 5 seeds", |b| {
        b.iter(|| config.fit(black_box(&windows)).unwrap());
    });
    let config = KMeans::default();
    group.bench_function("k-means: 1200 windows, k = 10, 5 seeds", |b| {
        b.iter(|| config.fit(black_box(&windows)).unwrap());
    });
    group.finish();
}

criterion_group!(benches, batch);
criterion_main!(benches);
