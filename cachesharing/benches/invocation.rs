//! One invocation of each sharing model: 2 to 8 programs, curves of 16 sizes.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;

use cachesharing::{
    CacheCurve, CurvePoint, EvictionAge, LruPartition, Probes, Random, ReuseTimes, SetReuse, SharedCache,
    Sharing, SharingModel, share,
};
use criterion::{Criterion, criterion_group, criterion_main};

const WAYS: u64 = 16;
const WAY: u64 = 128 << 10;

/// A program whose misses fall from `reach` to `floor` as its cache approaches `knee` ways.
fn program(reach: f64, floor: f64, knee: f64, mix: f64) -> CacheCurve {
    let point = |way: u64| {
        let part = (way as f64 / knee).powi(2);
        let misses = floor + (reach - floor) * (-part).exp();
        let cpi = 1.0 + mix * (1.0 + 9.0 * reach + 120.0 * misses);
        CurvePoint::new(way * WAY, cpi, misses).with_hit_rate((reach - misses) * mix / cpi)
    };
    CacheCurve::new((1..=WAYS).map(point).collect(), mix, 64).unwrap()
}

/// The same with reuse times of an octave and more past each number of lines.
fn timed(curve: &CacheCurve) -> CacheCurve {
    let reuse = |distance: u32, octave: i32| SetReuse {
        distance,
        accesses: 3e4 * f64::from(distance + 1) * f64::from(octave).exp2(),
        count: f64::from(4 - octave),
    };
    let reuses = (0..16).flat_map(|distance| (0..4).map(move |octave| reuse(distance, octave)));
    let variances = (1..=16).map(|lines| 0.3 * f64::from(lines)).collect();
    curve.clone().with_reuse_times(ReuseTimes::new(WAY, variances, reuses).unwrap()).unwrap()
}

fn models() -> Vec<(&'static str, Box<dyn SharingModel>)> {
    vec![
        ("eviction_age", Box::new(EvictionAge::default())),
        ("lru_partition", Box::new(LruPartition::default())),
        ("random", Box::new(Random)),
    ]
}

fn invocation(c: &mut Criterion) {
    let cache = SharedCache::new(WAYS * WAY).unwrap();
    let sets = cache.with_ways(WAYS as u32).unwrap();
    let programs: Vec<CacheCurve> = (0..8)
        .map(|i| {
            let i = f64::from(i);
            program(0.05 + 0.02 * i, 0.002 * i, 3.0 + 2.0 * i, 0.3 + 0.02 * i)
        })
        .collect();
    for (name, model) in models() {
        for count in [2, 4, 8] {
            let curves: Vec<&CacheCurve> = programs.iter().skip(2).chain(&programs).take(count).collect();
            let kinds = [
                (cache, Probes::One, "one"),
                (cache, Probes::Cliffs, "cliffs"),
                (sets, Probes::One, "one, of sets"),
                (sets, Probes::Cliffs, "cliffs, of sets"),
                (sets, Probes::One, "one, of sets, reuse times"),
            ];
            for (cache, probes, label) in kinds {
                let with: Vec<CacheCurve> = curves.iter().map(|curve| timed(curve)).collect();
                let with: Vec<&CacheCurve> = with.iter().collect();
                let curves = if label.ends_with("reuse times") { &with } else { &curves };
                let mut sharing = Sharing::default();
                c.bench_function(&format!("{name}/{count} programs/{label}"), |b| {
                    b.iter(|| {
                        share(&model, &cache, black_box(curves), probes, &mut sharing).unwrap();
                        sharing.residual()
                    });
                });
            }
        }
    }
}

criterion_group!(benches, invocation);
criterion_main!(benches);
