//! How fast the pirate walks beside how fast this core can read its lines at all, and what a measurement costs besides
//! the running of both sides.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use cache_pirate::native::{NativeParams, NativeTestbed, Placement, Progress};
use cache_pirate::simple::{SimpleMachine, SimpleTestbed};
use cache_pirate::{PirateParams, Testbed, Until, Who, measure};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const LINE: usize = 64;
/// Beyond the private caches of most processors, within the shared one.
const BYTES: [usize; 2] = [4 << 20, 16 << 20];

/// Reads one word of each line, as many lines at a time as `N` sums keep apart.
fn read_all<const N: usize>(words: &[u64]) -> u64 {
    let mut sums = [0_u64; N];
    for lines in words.chunks_exact(N * LINE / 8) {
        for (sum, line) in sums.iter_mut().zip(lines.chunks_exact(LINE / 8)) {
            *sum ^= line[0];
        }
    }
    sums.iter().fold(0, |all, sum| all ^ sum)
}

/// The quickest of so many runs, times their number: others on the machine only ever add.
fn quickest(runs: u64, mut run: impl FnMut() -> Duration) -> Duration {
    let best = (0..runs.max(8)).map(|_| run()).min().unwrap_or_default();
    best.mul_f64(runs as f64)
}

/// Compare the time of `pirate` with the best of the `reads`: they read the same number of lines.
fn walks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lines");
    for bytes in BYTES {
        group.throughput(Throughput::Elements((bytes / LINE) as u64));
        let words: Vec<u64> = (0..bytes as u64 / 8).collect();
        group.bench_with_input(BenchmarkId::new("reads, 4 at a time", bytes), &words, |b, words| {
            b.iter_custom(|runs| {
                quickest(runs, || {
                    let begin = Instant::now();
                    black_box(read_all::<4>(words));
                    begin.elapsed()
                })
            });
        });
        group.bench_with_input(BenchmarkId::new("reads, 16 at a time", bytes), &words, |b, words| {
            b.iter_custom(|runs| {
                quickest(runs, || {
                    let begin = Instant::now();
                    black_box(read_all::<16>(words));
                    begin.elapsed()
                })
            });
        });
        drop(words);
        let Ok(mut testbed) = sleeper(bytes as u64) else {
            eprintln!("the pirate is left out: no processor shares its last-level cache with another");
            continue;
        };
        testbed.steal(bytes as u64, 1).unwrap();
        group.bench_function(BenchmarkId::new("pirate", bytes), |b| {
            b.iter_custom(|walks| {
                // Many at once, so that starting and probing do not count.
                quickest(walks, || {
                    let begin = Instant::now();
                    testbed.run(Who::Pirate, Until::Walks(64)).unwrap();
                    begin.elapsed() / 64
                })
            });
        });
    }
    group.finish();
}

fn sleeper(bytes: u64) -> Result<NativeTestbed, cache_pirate::PirateError> {
    let mut command = Command::new("sleep");
    command.arg("600");
    let params = NativeParams {
        cache_bytes: Some(bytes),
        placement: Placement::Beside,
        progress: Progress::TaskClock,
        shared_round_trip: None,
        ..NativeParams::default()
    };
    NativeTestbed::spawn(command, params)
}

/// Sixteen sizes of a toy machine, where running costs next to nothing.
fn measurement(criterion: &mut Criterion) {
    criterion.bench_function("a cycle of 16 sizes on the simple machine", |b| {
        b.iter(|| {
            let target = (0..512).cycle().take(1_000_000);
            let mut testbed = SimpleTestbed::new(SimpleMachine::default(), target).unwrap();
            let params = PirateParams { interval: Some(1_000.0), cycles: Some(1), ..PirateParams::default() };
            let plan = params.check(testbed.cache()).unwrap();
            black_box(measure(&mut testbed, &plan).unwrap().curve().unwrap())
        });
    });
}

criterion_group!(benches, walks, measurement);
criterion_main!(benches);
