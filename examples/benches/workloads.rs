//! How fast the embedded workloads deliver their events: directly to a closure, and as a lazy stream from their
//! own thread. Target: 50 M events a second through the stream.

#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use examples::workloads::Workload;

fn events(c: &mut Criterion) {
    let mut group = c.benchmark_group("events");
    group.sample_size(10);
    for name in ["quicksort", "pagerank", "matmul_naive"] {
        let workload = Workload::by_name(name, 1, 1).unwrap();
        let mut count = 0;
        workload.run(&mut |_| count += 1);
        group.throughput(Throughput::Elements(count));
        group.bench_function(format!("{name}/closure"), |b| {
            b.iter(|| {
                workload.run(&mut |event| {
                    black_box(event);
                });
            });
        });
        group.bench_function(format!("{name}/stream"), |b| {
            b.iter(|| {
                for event in workload.events().unwrap() {
                    black_box(event);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
