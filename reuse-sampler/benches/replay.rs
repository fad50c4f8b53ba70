//! Accesses a second through the replay backend.
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{Access, ReusePlan, SampleGap, Sampler, WindowPlan};

/// 16 MiB of events: what a reader hands over comes from the cache, not from memory.
const ACCESSES: u64 = 500_000;
const ROUNDS: u64 = 8;

/// Three streams, a hot table and random accesses to 16 MiB: a mix with reuse at all scales.
fn trace() -> Vec<Event> {
    let mut state = 1_u64;
    (0..ACCESSES)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = state >> 33;
            let address = match i % 8 {
                0..=2 => (1 << 32) * (1 + i % 8) + i,
                3..=5 => (random % 512) * 64,
                6 => (1 << 30) + (random % 4096) * 64,
                _ => (1 << 36) + (random % (1 << 18)) * 64,
            };
            Event::Access(Access::load(address, 8).at(i % 97))
        })
        .collect()
}

fn run(events: &[Event], plan: ReusePlan) -> u64 {
    let options = ReplayOptions::windows_of(WindowLength::Accesses(1_000_000));
    let mut sampler = ReplaySampler::new((0..ROUNDS).flat_map(|_| events.iter().copied()), options).unwrap();
    let mut outcomes = 0;
    while let Some(window) = sampler.next_window(&WindowPlan::new(plan)).unwrap() {
        outcomes += window.outcomes().map(|o| o.2).sum::<u64>();
    }
    outcomes
}

fn replay(c: &mut Criterion) {
    let events = trace();
    let mut group = c.benchmark_group("replay");
    group.throughput(Throughput::Elements(ROUNDS * ACCESSES)).sample_size(10);
    let plans = [
        ("off", ReusePlan::Off),
        ("every", ReusePlan::Every),
        ("1:1000", ReusePlan::Sparse(SampleGap::mean(1e3).unwrap())),
        ("1:100", ReusePlan::Sparse(SampleGap::mean(1e2).unwrap())),
    ];
    for (name, plan) in plans {
        group.bench_with_input(BenchmarkId::from_parameter(name), &plan, |b, &plan| {
            b.iter(|| run(&events, plan));
        });
    }
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);
