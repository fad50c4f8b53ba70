//! What one window costs online: building its signature, classifying it, predicting the next.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use phase_detect::online::PrivateHistories;
use phase_detect::signature::{StrideConfig, StrideScope, StrideVector, WorkingSet, WorkingSetForm};
use phase_detect::{
    Clusterer, CodeVector, Detector, LeaderFollower, LeaderFollowerConfig, PhaseId, Pop, PopConfig, Ppm,
    Predictor, RunLengthMarkov, Signature, Wavelet, WaveletConfig,
};

/// A small generator, so that inputs are the same in every run.
fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64
    }
}

/// `n` code signatures of 32 entries, far apart: a few entries dominate each.
fn code_signatures(n: usize) -> Vec<Signature> {
    let mut next = numbers(1);
    (0..n)
        .map(|_| {
            let values: Vec<f64> = (0..32).map(|_| next().powi(20)).collect();
            Signature::frequency(values).unwrap()
        })
        .collect()
}

fn classify(c: &mut Criterion) {
    let signatures = code_signatures(32);
    let config = LeaderFollowerConfig { threshold: 0.1, ..LeaderFollowerConfig::default() };
    let mut clusterer = LeaderFollower::new(config).unwrap();
    for s in &signatures {
        assert!(clusterer.classify(s).unwrap().founded);
    }
    let mut turn = signatures.iter().cycle();
    c.bench_function("leader-follower: classify, 32 entries, 32 phases", |b| {
        b.iter(|| clusterer.classify(black_box(turn.next().unwrap())).unwrap());
    });
    let mut turn = signatures.iter().flat_map(|s| std::iter::repeat_n(s, 8)).cycle();
    c.bench_function("leader-follower: classify, 32 entries, 32 phases, 8 windows in a row", |b| {
        b.iter(|| clusterer.classify(black_box(turn.next().unwrap())).unwrap());
    });
    let frozen = clusterer.freeze().unwrap();
    let mut turn = signatures.iter().cycle();
    c.bench_function("frozen: nearest, 32 entries, 32 phases", |b| {
        b.iter(|| frozen.nearest(black_box(turn.next().unwrap())).unwrap());
    });
}

fn pop(c: &mut Criterion) {
    let mut next = numbers(2);
    let signatures: Vec<Signature> = (0..32)
        .map(|_| Signature::raw((0..8).map(|_| 10_f64.powf(3.0 + 5.0 * next())).collect::<Vec<_>>()).unwrap())
        .collect();
    let mut clusterer = Pop::new(PopConfig::default()).unwrap();
    for s in &signatures {
        assert!(clusterer.classify(s).unwrap().founded);
    }
    let mut turn = signatures.iter().cycle();
    c.bench_function("POP: classify, 8 counters, 32 phases", |b| {
        b.iter(|| clusterer.classify(black_box(turn.next().unwrap())).unwrap());
    });
}

fn predictor(c: &mut Criterion) {
    let round = [0, 0, 0, 1, 2, 2, 0, 3, 3, 3, 3, 5, 4, 4, 4, 4, 4];
    let mut turn = round.iter().map(|&p| PhaseId::new(p)).cycle();
    let mut runs = RunLengthMarkov::default();
    c.bench_function("run length: observe and predict", |b| {
        b.iter(|| {
            runs.observe(black_box(turn.next().unwrap()));
            runs.predict()
        });
    });
    let mut matching = Ppm::default();
    c.bench_function("partial matching: observe and predict", |b| {
        b.iter(|| {
            matching.observe(black_box(turn.next().unwrap()));
            matching.predict()
        });
    });
}

fn build(c: &mut Criterion) {
    let mut next = numbers(3);
    let addresses: Vec<u64> = (0..200).map(|_| 0x40_0000 + (next() * 65536.0) as u64).collect();
    let mut code = CodeVector::new(32, 1).unwrap();
    let mut signature = code_signatures(1).remove(0);
    c.bench_function("code vector: 200 samples and finish", |b| {
        b.iter(|| {
            for &address in &addresses {
                code.add(black_box(address), 1.0);
            }
            code.finish_into(&mut signature).unwrap();
        });
    });
}

/// 300,000 accesses of a window of a million instructions, with the transform at its end.
fn wavelet(c: &mut Criterion) {
    let mut next = numbers(4);
    let addresses: Vec<u64> = (0..4096).map(|i| 0x7f00_0000 + i * 8 + (next() * 65536.0) as u64).collect();
    let mut wavelet = Wavelet::new(WaveletConfig::default(), 1_000_000).unwrap();
    let mut signature = wavelet_signature(&mut wavelet);
    let mut group = c.benchmark_group("wavelet");
    group.throughput(Throughput::Elements(300_000));
    group.bench_function("image and transform, per access", |b| {
        b.iter(|| {
            for access in 0..300_000_u64 {
                wavelet.add(addresses[(access % 4096) as usize], access * 10 / 3);
            }
            wavelet.finish_into(&mut signature).unwrap();
        });
    });
    group.finish();
}

fn wavelet_signature(wavelet: &mut Wavelet) -> Signature {
    wavelet.add(0, 0);
    wavelet.finish().unwrap()
}

/// All of it for one window that is already a signature: classify, predict, decide the sample rate.
fn detector(c: &mut Criterion) {
    let signatures = code_signatures(32);
    let config = LeaderFollowerConfig { threshold: 0.1, ..LeaderFollowerConfig::default() };
    let histories = PrivateHistories::new(Ppm::default());
    let mut detector: Detector = Detector::new(LeaderFollower::new(config).unwrap(), histories);
    let mut turn = signatures.iter().cycle();
    c.bench_function("detector: observe, 32 entries, 32 phases, 4 threads", |b| {
        let mut window = 0;
        b.iter(|| {
            window += 1;
            detector.observe(window % 4, black_box(turn.next().unwrap())).unwrap()
        });
    });
}

/// Per access: what the memory signatures cost.
fn memory(c: &mut Criterion) {
    let mut next = numbers(5);
    let accesses: Vec<(u64, u64)> =
        (0..4096).map(|i| (0x40_0000 + i % 37 * 4, 0x7f00_0000 + (next() * 65536.0) as u64)).collect();
    let mut group = c.benchmark_group("memory signatures, per access");
    group.throughput(Throughput::Elements(4096));
    let mut set = WorkingSet::new(WorkingSetForm::Frequency, 1024, 64, 1).unwrap();
    group.bench_function("working set", |b| {
        b.iter(|| {
            for &(_, address) in &accesses {
                set.add(black_box(address));
            }
        });
    });
    for scope in [StrideScope::Local, StrideScope::Global] {
        let config = StrideConfig { scope, entries: 10_000, ..StrideConfig::default() };
        let mut strides = StrideVector::new(config).unwrap();
        group.bench_function(format!("{scope:?} stride"), |b| {
            b.iter(|| {
                for &(pc, address) in &accesses {
                    strides.add(pc, black_box(address));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, detector, memory, wavelet, classify, pop, predictor, build);
criterion_main!(benches);
