//! What holds for every profile, and the equation checked by putting the solution in.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{AnyProfile, Random, profile_of};
use quickcheck::{Arbitrary, Gen, TestResult, quickcheck};
use reuse_sampler::{
    Bootstrap, CacheLines, CacheModel, Clock, Evaluator, Grouped, LineSize, Outcome, Reuse, ReuseDistance,
    ReuseProfile, Stratum, laws,
};
use statcache::{Error, StatCache};

fn sizes() -> impl Iterator<Item = CacheLines> {
    (0..40).map(|k| CacheLines(if k < 8 { k } else { 1 << (k - 5) }))
}

/// A run of a program: whole scans of several lengths and random accesses, by turns.
#[derive(Clone, Debug)]
struct AnyRun(Vec<u64>);

impl Arbitrary for AnyRun {
    fn arbitrary(g: &mut Gen) -> Self {
        let mut random = Random(u64::arbitrary(g));
        let mut stream = Vec::new();
        for _ in 0..u64::arbitrary(g) % 5 + 1 {
            let (length, lines) = (u64::arbitrary(g) % 2000 + 1, u64::arbitrary(g) % 600 + 1);
            match u8::arbitrary(g) % 3 {
                0 => stream.extend((0..length).map(|i| i % lines)),
                1 => stream.extend((0..length).map(|_| random.below(lines))),
                _ => stream.extend((0..length).map(|i| i / 8 + 1_000_000 * lines)),
            }
        }
        Self(stream)
    }
}

/// The right side of the equation at miss ratio `ratio`.
fn right_side(profile: &ReuseProfile, size: CacheLines, ratio: f64) -> f64 {
    let distribution = profile.distribution();
    let survives = 1.0 - 1.0 / size.0 as f64;
    let reused: f64 = distribution
        .masses()
        .iter()
        .map(|m| m.probability * (1.0 - survives.powf(m.middle() as f64 * ratio)))
        .sum();
    reused + distribution.dangling() + distribution.unresolved()
}

/// Intervals that are moved to the model they were drawn with stay where they are.
#[test]
fn intervals_around_their_own_model_do_not_move() {
    let mut random = Random(3);
    let windows: Vec<ReuseProfile> = [40, 400, 4000]
        .map(|lines| profile_of(&(0..3000).map(|_| random.below(lines)).collect::<Vec<_>>()))
        .to_vec();
    let sampled = |window: &ReuseProfile| {
        let mut sampled = ReuseProfile::new(LineSize::B64);
        for (distance, _, weight) in window.reused_bins() {
            sampled.record_many(Outcome::Reused(ReuseDistance(distance)), weight.div_ceil(20), 20);
        }
        sampled
    };
    let windows: Vec<ReuseProfile> = windows.iter().map(sampled).collect();
    let strata: Vec<Stratum<'_>> = windows.iter().map(Stratum::sampled).collect();
    let sizes = [30, 300, 3000].map(CacheLines);
    let bootstrap = Bootstrap::new(0.95, 200, 1).unwrap();
    let drawn = bootstrap.stratified(&strata, StatCache::fit, &sizes).unwrap().average;
    let model = Grouped::fit(&windows, StatCache::fit).unwrap();
    let around = bootstrap.around(&model, &drawn);
    assert!(drawn.iter().any(|interval| interval.high - interval.low > 0.02));
    for (moved, drawn) in around.iter().zip(&drawn) {
        for (moved, drawn) in [(moved.low, drawn.low), (moved.high, drawn.high)] {
            assert!((moved - drawn).abs() < 1e-9, "{moved} {drawn}");
        }
        assert!((moved.model_error - drawn.model_error).abs() < 1e-9, "{moved:?} {drawn:?}");
    }
    // A model without an error of its own leaves what the choice of samples does.
    struct Sure(Grouped<StatCache>);
    impl CacheModel for Sure {
        fn line_size(&self) -> LineSize {
            self.0.line_size()
        }
        fn at(&self, size: CacheLines) -> Evaluator<'_> {
            self.0.at(size)
        }
        fn miss_ratio(&self, size: CacheLines) -> f64 {
            self.0.miss_ratio(size)
        }
    }
    for (sure, drawn) in bootstrap.around(&Sure(model), &drawn).iter().zip(&drawn) {
        let reach = (sure.high - sure.miss_ratio).hypot(drawn.model_error);
        assert!(sure.model_error == 0.0 && (reach - (drawn.high - drawn.miss_ratio)).abs() < 1e-9);
    }
}

/// Parts that are not of a run are alike, and one part is the whole of a run.
#[test]
fn parts_make_up_the_run() {
    let windows =
        [profile_of(&[1, 2, 1, 2, 1, 2]), profile_of(&(0..100).map(|i| i % 20).collect::<Vec<_>>())];
    let (plain, run) = (StatCache::fit(&windows[1]).unwrap(), StatCache::fit_in_time(&windows).unwrap());
    let distances = [0, 1, 5, 19, 60].map(|distance| Reuse::Distance(ReuseDistance(distance)));
    for lines in [0, 1, 2, 7, 15] {
        let size = CacheLines(lines);
        let parts = plain.by_part(size, &[6, 100]);
        let whole = &run.by_part(size, &[106])[0];
        for distance in distances {
            let expected = plain.miss_probability(distance, size);
            assert!(parts.iter().all(|part| part.miss_probability(distance) == expected));
            let expected = run.miss_probability(distance, size);
            assert!((whole.miss_probability(distance) - expected).abs() < 1e-12, "{lines} {distance:?}");
        }
    }
}

quickcheck! {
    fn keeps_the_laws_of_cache_models(profile: AnyProfile, seed: u64) -> bool {
        laws::cache_model(&StatCache::fit(&profile.0).unwrap(), seed).unwrap();
        true
    }

    fn keeps_them_in_time(profile: AnyProfile, run: AnyRun, seed: u64) -> bool {
        let windows: Vec<ReuseProfile> = run.0.chunks(run.0.len().div_ceil(10)).map(profile_of).collect();
        for windows in [std::slice::from_ref(&profile.0), &windows] {
            laws::cache_model(&StatCache::fit_in_time(windows).unwrap(), seed).unwrap();
        }
        true
    }

    fn miss_ratio_from_an_empty_cache_never_rises_with_size(profile: AnyProfile, run: AnyRun, windows: u8) -> bool {
        let falls = |model: &StatCache| {
            let ratios: Vec<f64> = sizes().map(|size| model.miss_ratio(size)).collect();
            ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio))
                && ratios.windows(2).all(|w| w[0] >= w[1] - 1e-9)
        };
        let length = run.0.len().div_ceil(usize::from(windows % 30) + 1);
        let windows: Vec<ReuseProfile> = run.0.chunks(length).map(profile_of).collect();
        falls(&StatCache::fit_from_empty(&profile.0).unwrap()) && falls(&StatCache::fit_in_time(&windows).unwrap())
    }

    /// From an empty cache, between the first touches and the model of the full cache.
    fn starting_empty_only_takes_misses_away(run: AnyRun) -> bool {
        let profile = profile_of(&run.0);
        let (full, empty) = (StatCache::fit(&profile).unwrap(), StatCache::fit_from_empty(&profile).unwrap());
        let accesses = run.0.len() as f64;
        let first = profile.dangling_weight() as f64 / accesses;
        sizes().all(|size| {
            let (full, empty) = (full.miss_ratio(size), empty.miss_ratio(size));
            // The two models weight long distances differently: by at most a few of so short a run's accesses.
            first - 1e-9 <= empty && empty <= full + 0.02
        })
    }

    fn what_fits_misses_only_first_touches(run: AnyRun) -> bool {
        let profile = profile_of(&run.0);
        let model = StatCache::fit_from_empty(&profile).unwrap();
        let first = profile.dangling_weight() as f64 / run.0.len() as f64;
        let lines = profile.dangling_weight();
        [lines, lines + 1, 10 * lines].iter().all(|&l| (model.miss_ratio(CacheLines(l)) - first).abs() < 1e-12)
    }

    fn no_cache_misses_everything_and_an_endless_one_what_is_never_reused(profile: AnyProfile) -> bool {
        let distribution = profile.0.distribution();
        let never = distribution.dangling() + distribution.unresolved();
        let model = StatCache::fit(&profile.0).unwrap();
        model.miss_ratio(CacheLines(0)) == 1.0
            && (model.miss_ratio(CacheLines(u64::MAX >> 1)) - never).abs() < 1e-6
    }

    /// The solution solves the equation as the papers write it, and no larger one does.
    fn the_largest_solution_is_found(profile: AnyProfile) -> bool {
        let model = StatCache::fit(&profile.0).unwrap();
        sizes().filter(|size| (2..1 << 40).contains(&size.0)).all(|size| {
            let ratio = model.miss_ratio(size);
            let residual = |ratio: f64| right_side(&profile.0, size, ratio) - ratio;
            let larger = (1..20).map(|k| ratio + (1.0 - ratio) * f64::from(k) / 20.0);
            residual(ratio).abs() < 1e-7 && larger.filter(|r| r - ratio > 1e-5).all(|r| residual(r) < 1e-9)
        })
    }

    fn samples_may_stand_for_any_number_of_accesses(profile: AnyProfile, weight: u16) -> bool {
        let mut scaled = ReuseProfile::new(LineSize::B64);
        let weight = u64::from(weight) + 1;
        for (low, high, w) in profile.0.reused_bins() {
            scaled.record(Outcome::Reused(ReuseDistance(low + (high - low) / 2)), w * weight);
        }
        for (low, _, w) in profile.0.censored_bins() {
            scaled.record(Outcome::Censored { at_least: low }, w * weight);
        }
        scaled.record(Outcome::Dangling, profile.0.dangling_weight() * weight);
        let (a, b) = (StatCache::fit(&profile.0).unwrap(), StatCache::fit(&scaled).unwrap());
        sizes().all(|size| (a.miss_ratio(size) - b.miss_ratio(size)).abs() < 1e-9)
    }

    fn single_accesses_add_up_to_the_miss_ratio(profile: AnyProfile) -> bool {
        let model = StatCache::fit(&profile.0).unwrap();
        sizes().all(|size| (model.miss_ratio(size) - model.miss_ratio_of(&profile.0, size).unwrap()).abs() < 1e-7)
    }

    fn single_accesses_add_up_from_an_empty_cache(run: AnyRun) -> bool {
        let profile = profile_of(&run.0);
        let model = StatCache::fit_from_empty(&profile).unwrap();
        sizes().all(|size| {
            // Similar distances are put together for the miss ratio; a single access has its own probability.
            let (ratio, sum) = (model.miss_ratio(size), model.miss_ratio_of(&profile, size).unwrap());
            (ratio - sum).abs() <= 0.1 * ratio
        })
    }

    fn curve_asks_each_size(profile: AnyProfile) -> bool {
        let sizes: Vec<_> = sizes().collect();
        let model = StatCache::fit_from_empty(&profile.0).unwrap();
        [model].iter().all(|model| {
            let curve = model.curve(&sizes);
            curve.points.iter().all(|&(size, ratio)| {
                (0.0..=1.0).contains(&ratio) && (ratio - model.miss_ratio(size)).abs() < 1e-9
            })
        })
    }

    fn bounds_hold_the_truth(profile: AnyProfile, cut: u16) -> TestResult {
        let cut = u64::from(cut % 1000);
        if profile.0.censored_weight() > 0 {
            return TestResult::discard();
        }
        let mut seen = ReuseProfile::new(LineSize::B64);
        for (low, high, weight) in profile.0.reused_bins() {
            let distance = low + (high - low) / 2;
            let reused = Outcome::Reused(ReuseDistance(distance));
            seen.record(if distance < cut { reused } else { Outcome::Censored { at_least: cut } }, weight);
        }
        seen.record(Outcome::Censored { at_least: cut }, profile.0.dangling_weight());
        let (whole, part) = (StatCache::fit(&profile.0).unwrap(), StatCache::fit(&seen).unwrap());
        TestResult::from_bool(sizes().all(|size| {
            let (low, high) = part.miss_ratio_bounds(size);
            let ratio = whole.miss_ratio(size);
            // The horizon is the lower edge of its bin: the bound is that much too low, never too high.
            low - 1e-9 <= ratio && ratio <= high + 1e-9 && high == part.miss_ratio(size)
        }))
    }

    fn bounds_meet_where_nothing_was_lost(profile: AnyProfile) -> TestResult {
        if profile.0.censored_weight() > 0 {
            return TestResult::discard();
        }
        let models = [StatCache::fit(&profile.0).unwrap(), StatCache::fit_from_empty(&profile.0).unwrap()];
        TestResult::from_bool(models.iter().all(|model| {
            sizes().all(|size| {
                model.miss_ratio_bounds(size) == (model.miss_ratio(size), model.miss_ratio(size))
            })
        }))
    }
}

#[test]
fn profiles_that_cannot_be_modelled_are_refused() {
    assert_eq!(StatCache::fit(&ReuseProfile::new(LineSize::B64)).unwrap_err(), Error::EmptyProfile);
    let mut profile = ReuseProfile::with_clock(LineSize::B64, Clock::Time);
    profile.record(Outcome::Dangling, 1);
    assert_eq!(StatCache::fit_from_empty(&profile).unwrap_err(), Error::Clock { found: Clock::Time });
}

#[test]
fn a_program_that_reuses_nothing_always_misses() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    profile.record(Outcome::Dangling, 100);
    for model in [StatCache::fit(&profile).unwrap(), StatCache::fit_from_empty(&profile).unwrap()] {
        for size in sizes() {
            assert_eq!(model.miss_ratio(size), 1.0, "{size:?}");
            assert_eq!(model.miss_probability(Reuse::Dangling, size), 1.0);
        }
    }
}

#[test]
fn one_line_is_evicted_by_whatever_comes_between() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    profile.record(Outcome::Reused(ReuseDistance(0)), 6);
    profile.record(Outcome::Reused(ReuseDistance(1)), 3);
    profile.record(Outcome::Dangling, 1);
    let model = StatCache::fit(&profile).unwrap();
    assert_eq!(model.miss_ratio(CacheLines(1)), 0.4);
    assert_eq!(model.miss_probability(Reuse::Distance(ReuseDistance(0)), CacheLines(1)), 0.0);
    assert_eq!(model.miss_probability(Reuse::Distance(ReuseDistance(1)), CacheLines(1)), 1.0);
}

/// Where all lines come to fit, the miss ratio is 0 and not the sums' rounding: else a reuse at a distance beyond any run
/// would miss, and more often in a larger cache.
#[test]
fn a_cache_that_holds_everything_never_misses() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    for (distance, count) in [(3, 8734), (1012, 20_160), (10_813_450, 30_282), (103_000_000, 50_274)] {
        profile.record_many(Outcome::Reused(ReuseDistance(distance)), count, 1);
        profile.add_accesses(count);
    }
    let model = StatCache::fit(&profile).unwrap();
    for lines in [67_201_815, 71_857_034, 79_424_543, 90_951_970] {
        let size = CacheLines(lines);
        assert_eq!(model.miss_ratio(size), 0.0, "{size:?}");
        assert_eq!(model.miss_probability(Reuse::Distance(ReuseDistance(u64::MAX)), size), 0.0, "{size:?}");
    }
}
