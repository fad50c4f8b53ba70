//! Accesses a second through the exact references: LRU caches of all sizes in one pass, and random replacement.
//! Target: 15 M accesses a second for LRU.

#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use examples::workloads::Workload;
use reuse_sampler::reference::{ExactLru, ExactRandom};
use reuse_sampler::replay::Event;
use reuse_sampler::{CacheLines, Line, LineSize};

const ACCESSES: usize = 2_000_000;

/// The lines that the first accesses of an embedded workload touch.
fn lines_of(name: &str) -> Vec<Line> {
    let mut lines = Vec::with_capacity(ACCESSES + 1);
    for event in Workload::by_name(name, 1, 1).unwrap().events().unwrap() {
        if let Event::Access(access) = event {
            lines.extend(LineSize::B64.lines(&access));
        }
        if lines.len() >= ACCESSES {
            break;
        }
    }
    lines
}

fn reference(c: &mut Criterion) {
    let sizes: Vec<CacheLines> = (6..15).map(|power| CacheLines(1 << power)).collect();
    for name in ["quicksort", "pagerank", "btree"] {
        let lines = lines_of(name);
        let mut group = c.benchmark_group("reference");
        group.sample_size(10).throughput(Throughput::Elements(lines.len() as u64));
        group.bench_function(BenchmarkId::new("LRU, all sizes", name), |b| {
            b.iter(|| {
                let mut lru = ExactLru::new();
                for &line in &lines {
                    lru.access(line);
                }
                black_box(lru.total())
            });
        });
        group.bench_function(BenchmarkId::new("random, 9 sizes", name), |b| {
            b.iter(|| {
                let mut caches = ExactRandom::new(&sizes, &[1]).unwrap();
                for &line in &lines {
                    caches.access(line);
                }
                black_box(caches.take_window().misses())
            });
        });
        group.finish();
    }
}

criterion_group!(benches, reference);
criterion_main!(benches);
