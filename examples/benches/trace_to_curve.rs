//! A whole trace to its curve, single thread: what is read, sampled, fitted by windows and evaluated.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use reuse_sampler::replay::{Event, EventSource, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::trace::{TraceFormat, TraceReader};
use reuse_sampler::{
    Access, CacheLines, CacheModel, Grouped, GroupedProfiles, LineSize, MissRatioCurve, ReusePlan, SampleGap,
    Sampler, WindowPlan,
};
use statstack::StatStack;

const ACCESSES: u64 = 4_000_000;

/// Lines by access: three streams, two tables and random accesses to 16 MiB, a mix with reuse at all scales.
fn lines() -> Vec<u64> {
    let mut state = 1_u64;
    (0..ACCESSES)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = state >> 33;
            match i % 8 {
                0..=2 => (1 << 26) * (1 + i % 8) + i % 500_000 / 64,
                3..=5 => random % 512,
                6 => (1 << 24) + random % 4096,
                _ => (1 << 30) + random % (1 << 18),
            }
        })
        .collect()
}

fn curve(source: impl EventSource, plan: ReusePlan, line_size: LineSize) -> MissRatioCurve {
    let windows = ReplayOptions::windows_of(WindowLength::Accesses(ACCESSES / 20));
    let mut sampler = ReplaySampler::new(source, windows.line_size(line_size)).unwrap();
    let mut groups = GroupedProfiles::new(line_size);
    while let Some(window) = sampler.next_window(&WindowPlan::new(plan)).unwrap() {
        groups.add(&window, window.index).unwrap();
    }
    let model = Grouped::fit(groups.iter().map(|(_, profile)| profile), StatStack::fit).unwrap();
    let sizes: Vec<CacheLines> = (6..20).map(|power| CacheLines(1 << power)).collect();
    model.curve(&sizes)
}

fn trace_to_curve(c: &mut Criterion) {
    let lines = lines();
    let events: Vec<Event> = lines.iter().map(|line| Event::Access(Access::load(line * 64, 8))).collect();
    let text: String = lines.iter().map(|line| format!("0 {:x}\n", line * 64)).collect();
    // Seconds, object, bytes, next request.
    let binary: Vec<u8> = lines
        .iter()
        .flat_map(|line| [&[0; 4][..], &line.to_le_bytes(), &[1, 0, 0, 0], &[0; 8]].concat())
        .collect();
    let mut group = c.benchmark_group("whole trace to curve");
    group.throughput(Throughput::Elements(ACCESSES)).sample_size(10);
    let one = LineSize::new(1).unwrap();
    for (rate, plan) in [
        ("every access", ReusePlan::Every),
        ("1:100", ReusePlan::Sparse(SampleGap::mean(100.0).unwrap())),
        ("1:1000", ReusePlan::Sparse(SampleGap::mean(1000.0).unwrap())),
    ] {
        group.bench_function(BenchmarkId::new("memory", rate), |b| {
            b.iter(|| curve(black_box(&events).iter().copied(), plan, LineSize::B64));
        });
        group.bench_function(BenchmarkId::new("oracleGeneral", rate), |b| {
            let reader = || TraceReader::new(TraceFormat::OracleGeneral, black_box(binary.as_slice()));
            b.iter(|| curve(reader(), plan, one));
        });
        group.bench_function(BenchmarkId::new("din", rate), |b| {
            let reader = || TraceReader::new(TraceFormat::Din, black_box(text.as_bytes()));
            b.iter(|| curve(reader(), plan, LineSize::B64));
        });
    }
    group.finish();
}

criterion_group!(benches, trace_to_curve);
criterion_main!(benches);
