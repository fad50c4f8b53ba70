//! What is recommended against trying it out.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::num::NonZeroUsize;

use cachesharing::{
    CoRun, Error, EvictionAge, Objective, Offsets, Program, Settings, SharedCache, Until, Window,
    co_schedule, way_sensitivity,
};
use common::{stream, uniform};

const CACHE: u64 = 1 << 18;

/// Two programs that need the cache and two that only pollute it.
fn programs() -> Vec<Program<u64>> {
    let cache = CACHE as f64;
    let curves = [
        uniform(0.2, 0.4, 0.8 * cache, CACHE),
        uniform(0.15, 0.3, 0.9 * cache, CACHE),
        stream(0.1, 0.3, CACHE),
        stream(0.12, 0.35, CACHE),
    ];
    let program =
        |(i, curve)| Program::new(format!("p{i}"), [(0, curve)], [Window::of_phase(1e6, 0)]).unwrap();
    curves.into_iter().enumerate().map(program).collect()
}

#[test]
fn the_matrix_holds_what_each_pair_does() {
    let programs = programs();
    let list: Vec<&Program<u64>> = programs.iter().collect();
    let cache = SharedCache::new(CACHE).unwrap();
    let (model, offsets) = (EvictionAge::default(), Offsets::random(3, 1));
    let matrix =
        co_schedule(cache, &list, &model, Settings::default(), &offsets, NonZeroUsize::new(2).unwrap())
            .unwrap();
    for (i, a) in list.iter().enumerate() {
        for (j, b) in list.iter().enumerate() {
            let run = CoRun::new(cache, &[a, b], model, Settings::default()).unwrap();
            // One steady phase each: every offset is alike.
            let slowdown = run.run(&[], Until::TargetEnds, |_| {}).slowdown();
            assert!((matrix.slowdown(i, j).unwrap().mean() / slowdown - 1.0).abs() < 1e-9);
            assert!((matrix.means()[i][j] / slowdown - 1.0).abs() < 1e-9);
            let range = matrix.range(i, j).unwrap();
            assert!((range.slowdown / slowdown - 1.0).abs() < 1e-9, "{range:?}");
            assert!(range.low <= slowdown + 1e-9 && slowdown <= range.high + 1e-9, "{range:?}");
        }
    }
    assert!(matrix.slowdown(4, 0).is_none() && matrix.range(0, 4).is_none());
    let best = matrix.best_pairing(Objective::Total);
    let worst = matrix.worst_pairing(Objective::Total);
    let pair = |i: usize, j: usize| matrix.means()[i][j] + matrix.means()[j][i];
    let all = [pair(0, 1) + pair(2, 3), pair(0, 2) + pair(1, 3), pair(0, 3) + pair(1, 2)];
    assert!((best.total - all.into_iter().fold(f64::INFINITY, f64::min)).abs() < 1e-9 && best.exact);
    assert!((worst.total - all.into_iter().fold(0.0, f64::max)).abs() < 1e-9 && worst.exact);
    // Two streams cannot hurt each other: whoever knows that pairs the needy with each other or with them,
    // whichever costs less, and the two pairings differ.
    assert!(best.total < worst.total);
}

#[test]
fn a_way_is_worth_the_slope_of_the_curve() {
    let cache = CACHE as f64;
    // CPI falls in a straight line: 1 + mix (1 - reach + 10 reach + 120 misses), misses = reach (1 - c / footprint).
    let (reach, mix, footprint) = (0.2, 0.4, 2.0 * cache);
    let steady = uniform(reach, mix, footprint, CACHE);
    let flat = stream(0.1, 0.4, CACHE);
    let program =
        Program::new("p", [(0, steady), (1, flat)], [Window::of_phase(1e6, 0), Window::of_phase(3e6, 1)])
            .unwrap();
    let (bytes, way) = (0.5 * cache, cache / 16.0);
    let s = way_sensitivity(&program, bytes, way).unwrap();
    let slope = mix * 120.0 * reach / footprint;
    let cpi = program.phases()[0].1.cpi(bytes);
    assert!((s.phases[0].1 - (1.0 + slope * way / cpi)).abs() < 1e-9);
    assert!((s.phases[0].2 - (1.0 - slope * way / cpi)).abs() < 1e-9);
    assert_eq!((s.phases[1].1, s.phases[1].2), (1.0, 1.0));
    assert!((s.one_less - (s.phases[0].0 * s.phases[0].1 + s.phases[1].0)).abs() < 1e-9);
    assert!((s.time / program.time_alone(bytes) - 1.0).abs() < 1e-12 && !s.extrapolated);
    assert!(way_sensitivity(&program, cache, way).unwrap().extrapolated);
    assert!(matches!(way_sensitivity(&program, 0.0, way), Err(Error::Value { .. })));
    assert!(matches!(way_sensitivity(&program, bytes, f64::NAN), Err(Error::Value { .. })));
}
