//! What it costs a program to profile itself, per access.

#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use reuse_sampler::in_process::{Profiler, ProfilerOptions, Traced, record, start};
use reuse_sampler::{AccessKind, ReusePlan, SampleGap};

const ELEMENTS: usize = 1 << 18;
/// A step that visits every element once, 17 lines on each time.
const STEP: usize = 137;

fn indices() -> impl Iterator<Item = usize> {
    (0..ELEMENTS).map(|i| i.wrapping_mul(STEP) % ELEMENTS)
}

fn in_process(c: &mut Criterion) {
    let data: Vec<u64> = (0..ELEMENTS as u64).collect();
    let mut group = c.benchmark_group("in_process");
    group.sample_size(20).throughput(Throughput::Elements(ELEMENTS as u64));
    group.bench_function("untraced", |b| {
        b.iter(|| indices().map(|i| black_box(&data[..])[i]).fold(0, u64::wrapping_add));
    });
    let sparse = ReusePlan::Sparse(SampleGap::mean(1000.0).unwrap());
    for (name, plan) in
        [("traced_off", ReusePlan::Off), ("traced_1_in_1000", sparse), ("traced_every", ReusePlan::Every)]
    {
        group.bench_function(name, |b| {
            let profiler = Profiler::new(ProfilerOptions::new(plan)).unwrap();
            let recorder = profiler.recorder();
            let traced = Traced::new(&data[..], &recorder);
            b.iter(|| {
                drop(profiler.take_windows());
                indices().map(|i| black_box(&traced)[i]).fold(0, u64::wrapping_add)
            });
        });
    }
    let say = |i: usize| record(data.as_ptr().addr() as u64 + 8 * i as u64, 8, AccessKind::Load);
    group.bench_function("record_without_session", |b| {
        b.iter(|| indices().for_each(|i| say(black_box(i))));
    });
    group.bench_function("record_1_in_1000", |b| {
        let session = start(ProfilerOptions::new(sparse)).unwrap();
        b.iter(|| {
            drop(session.profiler().take_windows());
            indices().for_each(|i| say(black_box(i)));
        });
    });
    group.finish();
}

criterion_group!(benches, in_process);
criterion_main!(benches);
