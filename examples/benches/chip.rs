//! Accesses a second that the reference chip plays on one core. Target: 20 million.

#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use examples::machines::chip::{Chip, ChipSettings, CoreSettings, Player, Recorder, Recording};
use examples::workloads::Workload;
use reuse_sampler::LineSize;
use reuse_sampler::replay::Event;

const ACCESSES: u64 = 2_000_000;

/// The first accesses of an embedded workload.
fn recorded(name: &str) -> Arc<Recording> {
    let mut recorder = Recorder::new(LineSize::B64);
    Workload::by_name(name, 1, 1).unwrap().run(&mut |event| {
        if let Event::Access(access) = event {
            if recorder.references() < ACCESSES {
                recorder.access(&access);
            }
        }
    });
    Arc::new(recorder.finish().unwrap())
}

fn play(c: &mut Criterion) {
    let settings = ChipSettings::paper().unwrap();
    let mut group = c.benchmark_group("chip");
    group.sample_size(10);
    for programs in [&["matmul_naive"][..], &["pagerank"], &["quicksort", "pagerank"]] {
        let recordings: Vec<Arc<Recording>> = programs.iter().map(|name| recorded(name)).collect();
        // Until the core that is ahead has made its share; the other has made less.
        let limit = recordings.iter().map(|r| r.references()).min().unwrap();
        let chip = || {
            let player = |r: &Arc<Recording>| CoreSettings::new(Player::new(Arc::clone(r), 0.35).unwrap());
            Chip::new(&settings, recordings.iter().map(player).collect()).unwrap()
        };
        let made = {
            let mut chip = chip();
            chip.advance(&vec![limit; programs.len()]);
            (0..programs.len()).map(|core| chip.counters(core).accesses).sum()
        };
        group.throughput(Throughput::Elements(made));
        group.bench_function(programs.join(" beside "), |b| {
            b.iter_batched(
                chip,
                |mut chip| {
                    chip.advance(&vec![limit; programs.len()]);
                    chip
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, play);
criterion_main!(benches);
