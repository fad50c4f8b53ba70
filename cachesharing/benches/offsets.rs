//! A hundred start offsets of a pair of programs of 4,000 windows each, by every method, on two threads.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::num::NonZeroUsize;

use cachesharing::{
    CacheCurve, CoRun, CurvePoint, EvictionAge, Method, Offsets, Probes, Program, ReuseTimes, SetReuse,
    Settings, SharedCache, Window, variability,
};
use criterion::{Criterion, criterion_group, criterion_main};

const WAY: u64 = 128 << 10;

fn curve(reach: f64, knee: f64, mix: f64) -> CacheCurve {
    let point = |way: u64| {
        let misses = reach * (0.02 + 0.98 * (-(way as f64 / knee).powi(2)).exp());
        let cpi = 1.0 + mix * (1.0 + 9.0 * reach + 120.0 * misses);
        CurvePoint::new(way * WAY, cpi, misses).with_hit_rate((reach - misses) * mix / cpi)
    };
    CacheCurve::new((1..=16).map(point).collect(), mix, 64).unwrap()
}

/// The same with reuse times of an octave and more past each number of lines.
fn timed(curve: CacheCurve, knee: f64) -> CacheCurve {
    let reuse = |distance: u32, octave: i32| SetReuse {
        distance,
        accesses: 3e4 * f64::from(distance + 1) * f64::from(octave).exp2() / knee,
        count: f64::from(4 - octave),
    };
    let reuses = (0..16).flat_map(|distance| (0..4).map(move |octave| reuse(distance, octave)));
    let variances = (1..=16).map(|lines| 0.3 * f64::from(lines)).collect();
    curve.with_reuse_times(ReuseTimes::new(WAY, variances, reuses).unwrap()).unwrap()
}

/// 4,000 windows in runs of `run`, over `phases` phases that come in turn; with a curve of its own for every window
/// where `measured` says so, and reuse times where `reuse` does.
fn program(phases: u32, run: u32, seed: u32, measured: bool, reuse: bool) -> Program<u32> {
    let of_phase = |phase: u32| {
        let x = f64::from((phase * 7 + seed * 3) % 11) / 11.0;
        let knee = 2.0 + 12.0 * f64::from((phase * 5 + seed) % 7) / 7.0;
        let curve = curve(0.03 + 0.2 * x, knee, 0.25 + 0.2 * x);
        if reuse { timed(curve, knee) } else { curve }
    };
    let curves: Vec<(u32, CacheCurve)> = (0..phases).map(|p| (p, of_phase(p))).collect();
    let windows = (0..4000).map(|w| {
        let phase = w / run % phases;
        let own = measured.then(|| of_phase(phase));
        Window { work: 1e6 + f64::from(w % 17), phase, curve: own }
    });
    Program::new("p", curves.clone(), windows).unwrap()
}

fn offsets(c: &mut Criterion) {
    let cache = SharedCache::new(16 * WAY).unwrap().with_ways(16).unwrap();
    let hundred = Offsets::random(100, 1);
    let threads = NonZeroUsize::new(2).unwrap();
    let mut group = c.benchmark_group("100 offsets of 4000 windows");
    group.sample_size(10);
    for (shape, run) in [("runs of 20", 20), ("every window another phase", 1)] {
        let (settled, followed) = (EvictionAge::default(), EvictionAge::followed());
        for (name, method, probes, model, reuse) in [
            ("phase, settled", Method::Phase, Probes::Cliffs, settled, false),
            ("dynamic, settled", Method::DynamicWindow, Probes::One, settled, false),
            ("window, settled", Method::Window, Probes::One, settled, false),
            ("phase, followed", Method::Phase, Probes::Cliffs, followed, false),
            ("dynamic, followed", Method::DynamicWindow, Probes::One, followed, false),
            ("window, followed", Method::Window, Probes::One, followed, false),
            ("phase, followed, reuse times", Method::Phase, Probes::Cliffs, followed, true),
            ("dynamic, followed, reuse times", Method::DynamicWindow, Probes::One, followed, true),
            ("window, followed, reuse times", Method::Window, Probes::One, followed, true),
        ] {
            let measured = method != Method::Phase;
            let (a, b) = (program(8, run, 1, measured, reuse), program(5, run, 2, measured, reuse));
            let settings = Settings { method, probes, extrapolate: false };
            group.bench_function(format!("{name}/{shape}"), |bench| {
                bench.iter(|| {
                    // From the programs on: nothing is remembered from one iteration to the next.
                    let co_run = CoRun::new(cache, &[&a, &b], model, settings).unwrap();
                    variability(black_box(&co_run), &hundred, threads).unwrap().distribution.mean()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, offsets);
criterion_main!(benches);
