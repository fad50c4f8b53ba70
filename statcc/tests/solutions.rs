//! The solver against closed forms, a brute-force interleaving, and systems whose solutions are known.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;

use reuse_sampler::{
    CacheLines, CacheModel, Clock, Evaluator, LineSize, Outcome, ReuseDistance, ReuseProfile, Scope,
};
use statcache::StatCache;
use statcc::{CoRun, Error, LinearLatency, PrivateLevel, Program, SolveError, SolverSettings};
use statstack::StatStack;

fn reused(distances: impl IntoIterator<Item = (u64, u64)>, dangling: u64) -> ReuseProfile {
    let mut profile = ReuseProfile::new(LineSize::B64);
    for (distance, weight) in distances {
        profile.record(Outcome::Reused(ReuseDistance(distance)), weight);
    }
    profile.record(Outcome::Dangling, dangling);
    profile
}

fn linear(mix: f64, l1_hits: f64) -> LinearLatency {
    let l1 = PrivateLevel { hit_ratio: l1_hits, latency: 1.0 };
    LinearLatency::new(1.0, mix, &[l1], 10.0, 130.0).unwrap()
}

fn program(profile: &ReuseProfile, mix: f64) -> Program {
    Program::in_order(profile, mix, linear(mix, 0.0)).unwrap()
}

/// Accesses to one of `lines` lines, each with equal probability: distances are geometric.
fn uniform(lines: u64) -> ReuseProfile {
    let stays = 1.0 - 1.0 / lines as f64;
    let weight = |from: u64, to: u64| stays.powf(from as f64) - stays.powf(to as f64);
    let step = 1 + lines / 500;
    let distances = (0..lines * 20 / step).map(|k| k * step);
    reused(distances.map(|d| (d + step / 2, (1e12 * weight(d, d + step)) as u64)), 0)
}

/// Of W lines accessed at random at rate a, a line is in an LRU cache if it was accessed within the age T of
/// the cache: with probability 1 - exp(-a T / W) (Che's approximation, exact for large caches). T is where
/// all lines held add up to the cache. Solved here by nested bisection, which shares nothing with the solver.
#[test]
fn random_walkers_share_as_the_characteristic_time_says() {
    let cases = [(20_000, 0.3, 30_000, 0.5), (5_000, 0.2, 60_000, 0.4), (40_000, 0.35, 40_000, 0.35)];
    let capacity = 32_768.0;
    for (lines_a, mix_a, lines_b, mix_b) in cases {
        let corun =
            CoRun::new(vec![program(&uniform(lines_a), mix_a), program(&uniform(lines_b), mix_b)]).unwrap();
        let prediction = corun.solve(CacheLines(32_768), StatStack::fit).unwrap();
        let pace = |mix: f64, m: f64| 1.0 / mix + 10.0 + 120.0 * m;
        // In time T a program at pace w makes T / w accesses; its miss ratio m = exp(-T / (w W)) sets w.
        let misses = |lines: u64, mix: f64, time: f64| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..60 {
                let m = f64::midpoint(low, high);
                if (-time / (pace(mix, m) * lines as f64)).exp() > m { low = m } else { high = m }
            }
            low
        };
        let (mut short, mut long) = (0.0, 1e9);
        for _ in 0..80 {
            let time = f64::midpoint(short, long);
            let held: f64 = [(lines_a, mix_a), (lines_b, mix_b)]
                .iter()
                .map(|&(lines, mix)| lines as f64 * (1.0 - misses(lines, mix, time)))
                .sum();
            if held < capacity { short = time } else { long = time }
        }
        for (share, lines, mix) in
            [(prediction.programs()[0], lines_a, mix_a), (prediction.programs()[1], lines_b, mix_b)]
        {
            let expected = misses(lines, mix, short);
            // Bins of the profile are 0.2 % of the distances wide, and those of the merged one 0.8 %.
            assert!((share.miss_ratio - expected).abs() < 4e-3, "{share:?}, expected {expected}");
            let held = lines as f64 * (1.0 - expected);
            assert!((share.lines / held - 1.0).abs() < 0.02, "{share:?}, expected {held} lines");
        }
        assert!(prediction.solutions.len() == 1 && prediction.solution().converged);
    }
}

/// Two programs in lockstep: the merged profile is the profile of the interleaved trace, distance by distance.
#[test]
fn lockstep_interleaving_is_exact() {
    let traces: [Vec<u64>; 2] = [
        (0..4000).map(|i: u64| (i * i + i / 7) % 41).collect(),
        (0..4000).map(|i: u64| 1000 + (i * 3 + i / 11) % 57).collect(),
    ];
    let profile = |trace: &[u64]| {
        let mut last = HashMap::new();
        let distances =
            trace.iter().zip(0_u64..).map(|(&line, now)| last.insert(line, now).map(|t| now - t - 1));
        let distances: Vec<Option<u64>> = distances.collect();
        let cold = distances.iter().filter(|d| d.is_none()).count() as u64;
        reused(distances.into_iter().flatten().map(|d| (d, 1)), cold)
    };
    let interleaved: Vec<u64> = traces[0].iter().zip(&traces[1]).flat_map(|(&a, &b)| [a, b]).collect();
    let truth = profile(&interleaved).distribution();
    // Equal CPIs whatever the misses: lockstep. The factory sees the merged profile.
    let programs = traces.each_ref().map(|t| Program::new(&profile(t), 0.5, |_: f64| 1.0).unwrap());
    let corun = CoRun::new(programs.into()).unwrap();
    for size in [10, 40, 80, 97, 200] {
        let worst = std::cell::Cell::new(f64::INFINITY);
        let factory = |merged: &ReuseProfile| {
            let merged = merged.distribution();
            let off = truth.masses().iter().zip(merged.masses()).map(|(t, m)| {
                assert_eq!((t.low, t.high), (m.low, m.high));
                (t.probability - m.probability).abs()
            });
            // The profiles of each program alone come here too, and are of other lengths.
            if truth.masses().len() == merged.masses().len() {
                worst.set(off.fold(0.0, f64::max).min(worst.get()));
            }
            StatStack::fit(&profile(&interleaved))
        };
        let prediction = corun.solve_with(&SolverSettings::default(), CacheLines(size), factory).unwrap();
        assert!(worst.get() < 1e-12, "merged profile off by {}", worst.get());
        let mean = prediction.programs().iter().map(|s| s.miss_ratio).sum::<f64>() / 2.0;
        let whole = StatStack::fit(&profile(&interleaved)).unwrap().miss_ratio(CacheLines(size));
        assert!((mean - whole).abs() < 1e-9, "{mean} {whole}");
    }
}

/// Two equal programs under random replacement have half the cache each: in C lines a line survives twice as
/// many replacements as in C / 2, up to terms of order 1 / C.
#[test]
fn random_replacement_halves_the_cache_between_equals() {
    let profile = reused([(100, 50), (3_000, 20), (40_000, 20), (90_000, 10)], 3);
    let corun = CoRun::new(vec![program(&profile, 0.3); 2]).unwrap();
    for size in [4096_u64, 16_384, 65_536] {
        let prediction = corun.solve(CacheLines(size), StatCache::fit).unwrap();
        let half = StatCache::fit(&profile).unwrap().miss_ratio(CacheLines(size / 2));
        for share in prediction.programs() {
            assert!((share.miss_ratio - half).abs() < 2e-3, "{share:?}, half the cache: {half}");
            assert!((share.lines / (size as f64 / 2.0) - 1.0).abs() < 0.02, "{share:?}");
        }
    }
}

/// A scan of 20,000 lines beside an endless stream, in 32,768 lines. Hitting, the scan takes 1 / 0.3 + 10 = 13.3
/// cycles an access and the stream 133.3, so that 2,000 lines come in per scan: all fits. Missing, both are
/// equally fast, 20,000 lines come in, and the scan is evicted before it returns. Either way it stays so.
#[test]
fn a_scan_beside_a_stream_has_two_solutions() {
    let scan = reused([(19_999, 1000)], 0);
    let stream = reused([], 1000);
    let corun = CoRun::new(vec![program(&scan, 0.3), program(&stream, 0.3)]).unwrap();
    let prediction = corun.solve(CacheLines(32_768), StatStack::fit).unwrap();
    let ratios: Vec<f64> = prediction.solutions.iter().map(|s| s.programs[0].miss_ratio).collect();
    assert_eq!(ratios, [1.0, 0.0], "from empty caches first");
    assert!(prediction.solutions.iter().all(|s| s.converged && s.programs[1].miss_ratio == 1.0));
    let [scan, stream] = prediction.outlook[..] else { panic!("two programs") };
    assert!(scan.cliff && !stream.cliff && !prediction.is_certain());
    assert!((scan.lowest_cpi - (1.0 + 0.3 * 10.0)).abs() < 1e-9 && (scan.highest_cpi - 40.0).abs() < 1e-9);
    // Alone there is one.
    let alone = CoRun::new(vec![corun.programs()[0].clone()]).unwrap();
    assert!(alone.solve(CacheLines(32_768), StatStack::fit).unwrap().is_certain());
    // And in a cache that holds both scans' reach there is one, far from any cliff.
    assert!(corun.solve(CacheLines(60_000), StatStack::fit).unwrap().is_certain());
}

/// A scan that just fits has one solution at its size, but none of the kind with 7 % less cache.
#[test]
fn a_cliff_near_the_cache_size_is_flagged() {
    let scan = reused([(29_999, 1000)], 0);
    let small = reused([(10, 1000)], 0);
    let corun = CoRun::new(vec![program(&scan, 0.3), program(&small, 0.3)]).unwrap();
    let near = corun.solve(CacheLines(30_500), StatStack::fit).unwrap();
    assert!(near.programs()[0].miss_ratio < 1e-6 && near.outlook[0].cliff, "{near:?}");
    assert!(!near.outlook[1].cliff);
    let settings = {
        let mut s = SolverSettings::default();
        s.margin = 0.0;
        s
    };
    assert!(!corun.solve_with(&settings, CacheLines(30_500), StatStack::fit).unwrap().outlook[0].cliff);
    assert!(!corun.solve(CacheLines(40_000), StatStack::fit).unwrap().outlook[0].cliff);
}

/// A model whose answer turns around: whoever is faster misses, so that no speeds agree.
#[test]
fn not_converging_is_an_answer() {
    struct Contrary;
    impl CacheModel for Contrary {
        fn line_size(&self) -> LineSize {
            LineSize::B64
        }
        fn at(&self, _: CacheLines) -> Evaluator<'_> {
            // Stretched more: a hit. Stretched less: a miss.
            Evaluator::function(|d| f64::from(u8::from(d.0 < 200)))
        }
        fn miss_ratio(&self, _: CacheLines) -> f64 {
            0.5
        }
    }
    // With w cycles per access of the one to those of the other, their distances of 99 become 100 w + 99 and
    // 100 / w + 99. Where either exceeds 200 it hits; so the slower one hits and becomes the faster one. If
    // both miss, their mixes make the first slower: 140 to 131 cycles.
    let profile = reused([(99, 10)], 0);
    let corun = CoRun::new(vec![program(&profile, 0.1), program(&profile, 1.0)]).unwrap();
    let prediction = corun.solve(CacheLines(100), |_: &ReuseProfile| Ok::<_, Error>(Contrary)).unwrap();
    let solution = prediction.solution();
    assert!(!solution.converged && solution.residual > 1e-4 && solution.iterations <= 60);
    assert!(solution.programs.iter().all(|s| s.cpi.is_finite() && s.cpi > 0.0));
    assert!(!prediction.is_certain());
}

#[test]
fn misses_of_chosen_accesses_only() {
    // A stream with a tenth of far reuses; asked for those alone, all miss, and asked for the others, none.
    let all = reused([(10, 900), (50_000, 100)], 0);
    let other = program(&reused([(5_000, 10)], 0), 0.3);
    let ask = |distance| {
        let asked = program(&all, 0.3).asking_for(&reused([(distance, 1)], 0)).unwrap();
        let corun = CoRun::new(vec![asked, other.clone()]).unwrap();
        corun.solve(CacheLines(1024), StatStack::fit).unwrap().programs()[0].miss_ratio
    };
    assert_eq!((ask(50_000), ask(10)), (1.0, 0.0));
    let coarse = ReuseProfile::new(LineSize::new(128).unwrap());
    assert_eq!(program(&all, 0.3).asking_for(&coarse).unwrap_err(), Error::EmptyProfile);
}

#[test]
fn private_hits_bound_the_misses() {
    let stream = reused([], 10);
    let program = Program::in_order(&stream, 0.3, linear(0.3, 0.875)).unwrap();
    let corun = CoRun::new(vec![program.clone(), program]).unwrap();
    let prediction = corun.solve(CacheLines(1024), StatStack::fit).unwrap();
    for share in prediction.programs() {
        assert_eq!(share.miss_ratio, 0.125);
        assert!((share.cpi - (1.0 + 0.3 * (0.875 + 0.125 * 130.0))).abs() < 1e-12);
    }
}

#[test]
fn sensitivity_brackets_the_answer() {
    let (a, b) = (uniform(30_000), uniform(20_000));
    let corun = CoRun::new(vec![program(&a, 0.3), program(&b, 0.4)]).unwrap();
    let ranges = corun.sensitivity(CacheLines(32_768), 0.1, StatStack::fit).unwrap();
    for (k, range) in ranges.iter().enumerate() {
        let (low, high) = range.miss_ratio;
        assert!(low < range.expected.miss_ratio && range.expected.miss_ratio < high, "{range:?}");
        // A program that seems 10 % slower beside one that seems 10 % faster is given less cache.
        let mut factors = [0.9, 0.9];
        factors[k] = 1.1;
        let wrong = corun.clone().with_cpi_errors(&factors).unwrap();
        let wrong = wrong.solve(CacheLines(32_768), StatStack::fit).unwrap().programs()[k];
        assert!((wrong.miss_ratio - high).abs() < 1e-3, "{wrong:?} {range:?}");
        let truth = 1.0 + corun.programs()[k].mix() * (10.0 + 120.0 * wrong.miss_ratio);
        assert!((wrong.cpi - truth).abs() < 1e-9, "the CPI reported is the true model's");
        assert!(range.cpi.0 < range.expected.cpi && range.expected.cpi < range.cpi.1, "{range:?}");
    }
}

#[test]
fn bad_values_are_refused_by_name() {
    let good = reused([(10, 1)], 0);
    let new = |profile: &ReuseProfile, mix: f64| Program::new(profile, mix, |_: f64| 1.0);
    for mix in [0.0, -0.3, f64::NAN, f64::INFINITY] {
        let error = new(&good, mix).unwrap_err();
        assert!(error.to_string().starts_with(&format!("mix of {mix} accesses per instruction")), "{error}");
    }
    assert!(new(&good, 3.0).is_ok(), "several accesses per instruction are legal");
    assert_eq!(new(&ReuseProfile::new(LineSize::B64), 0.3).unwrap_err(), Error::EmptyProfile);
    let mut timed = ReuseProfile::with_clock(LineSize::B64, Clock::Time);
    timed.record(Outcome::Dangling, 1);
    assert_eq!(new(&timed, 0.3).unwrap_err(), Error::Clock { found: Clock::Time });

    let error = Program::new(&good, 0.3, |m: f64| if m > 0.5 { f64::NAN } else { 1.0 }).unwrap_err();
    assert!(matches!(error, Error::CpiValue { miss_ratio, cpi } if miss_ratio > 0.5 && cpi.is_nan()));
    assert!(matches!(Program::new(&good, 0.3, |_: f64| 0.0), Err(Error::CpiValue { .. })));
    let error = Program::new(&good, 0.3, |m: f64| 2.0 - m).unwrap_err();
    assert!(matches!(error, Error::FallingCpi { from, to, .. } if from > to), "{error}");

    assert_eq!(CoRun::new(Vec::new()).unwrap_err(), Error::NoPrograms);
    let mut coarse = ReuseProfile::new(LineSize::new(128).unwrap());
    coarse.record(Outcome::Dangling, 1);
    let mixed = CoRun::new(vec![new(&good, 0.3).unwrap(), new(&coarse, 0.3).unwrap()]);
    assert_eq!(mixed.unwrap_err(), Error::MixedLineSizes { left: 64, right: 128 });
    assert!(matches!(new(&good, 0.3).unwrap().asking_for(&coarse), Err(Error::MixedLineSizes { .. })));
    let mut all = ReuseProfile::with_units(LineSize::B64, Clock::Accesses, Scope::Shared);
    all.record(Outcome::Dangling, 1);
    assert!(matches!(new(&good, 0.3).unwrap().asking_for(&all), Err(Error::MixedScopes { .. })));
    assert!(matches!(
        new(&good, 0.3).unwrap().with_private_hits(1.5),
        Err(Error::PrivateHits { ratio: 1.5 })
    ));

    let corun = || CoRun::new(vec![new(&good, 0.3).unwrap()]).unwrap();
    for ratio in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(new(&good, 0.3).unwrap().counted_alone(ratio), Err(Error::MissRatio { .. })));
    }
    assert_eq!(corun().with_cpi_errors(&[]).unwrap_err(), Error::FactorCount { given: 0, programs: 1 });
    assert_eq!(corun().with_cpi_errors(&[0.0]).unwrap_err(), Error::Factor { factor: 0.0 });

    let level = |hit_ratio, latency| PrivateLevel { hit_ratio, latency };
    let linear =
        |levels: &[PrivateLevel], shared, memory| LinearLatency::new(1.0, 0.3, levels, shared, memory);
    assert_eq!(linear(&[], 10.0, 9.0).unwrap_err(), Error::LatencyOrder { memory: 9.0, shared: 10.0 });
    assert!(matches!(linear(&[], f64::NAN, 9.0), Err(Error::Cycles { what: "shared-cache latency", .. })));
    assert!(matches!(linear(&[level(-0.1, 1.0)], 10.0, 130.0), Err(Error::PrivateHits { .. })));
    let error = linear(&[level(0.7, 1.0), level(0.5, 4.0)], 10.0, 130.0).unwrap_err();
    assert!(matches!(error, Error::PrivateHitSum { sum } if sum > 1.0));
}

#[test]
fn errors_of_the_factory_come_through() {
    let corun = CoRun::new(vec![program(&reused([(10, 1)], 0), 0.3)]).unwrap();
    let refuse = |_: &ReuseProfile| Err::<StatStack, &str>("not today");
    assert_eq!(corun.solve(CacheLines(10), refuse).unwrap_err(), SolveError::Fit("not today"));
    // A cache without lines misses everything.
    let none = corun.solve(CacheLines(0), StatStack::fit).unwrap();
    assert_eq!((none.programs()[0].miss_ratio, none.programs()[0].lines), (1.0, 0.0));
}

#[test]
fn a_cpi_model_that_fails_between_the_points_it_was_checked_at_is_an_error() {
    // Valid at all multiples of 1 / 128, where programs are checked.
    fn holed(m: f64) -> f64 {
        if (m * 128.0).fract() == 0.0 { 1.0 + 100.0 * m } else { f64::NAN }
    }
    let pair = |cpi: fn(f64) -> f64| {
        let holed = Program::new(&uniform(30_000), 0.35, cpi).unwrap();
        CoRun::new(vec![program(&uniform(50_000), 0.35), holed]).unwrap()
    };
    let error = pair(holed).solve(CacheLines(32_768), StatStack::fit).unwrap_err();
    assert!(matches!(error, SolveError::Cpi { program: 1, cpi, .. } if cpi.is_nan()), "{error}");
    assert!(error.to_string().contains("program 1 returns NaN"), "{error}");
    assert!(pair(holed).sensitivity(CacheLines(32_768), 0.1, StatStack::fit).is_err());
    assert!(
        pair(|m| 1.0 + 100.0 * m).solve(CacheLines(32_768), StatStack::fit).unwrap().solution().converged
    );
}
