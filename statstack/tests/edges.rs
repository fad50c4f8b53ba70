//! Extreme input: every value a caller can pass gives a number between 0 and 1, an interval with a width, or an error.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::AnyProfile;
use quickcheck::quickcheck;
use reuse_sampler::{
    Bootstrap, CacheLines, CacheModel, Error, Grouped, LineSize, Outcome, Redraw, ReuseDistance,
    ReuseOverlap, ReuseProfile, SetAssociative, Stratum, WindowIndex, laws,
};
use statstack::StatStack;

/// 0 and the largest number turn up as often as those between.
fn extreme(number: u64) -> u64 {
    match number % 4 {
        0 => u64::MAX,
        1 => number % 7,
        2 => number >> (number / 4 % 60),
        _ => number,
    }
}

fn sizes() -> Vec<CacheLines> {
    [0, 1, 2, 9, 64, 1 << 20, 1 << 40, u64::MAX - 1, u64::MAX].map(CacheLines).to_vec()
}

fn falls(ratios: &[f64]) -> bool {
    ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)) && ratios.windows(2).all(|w| w[0] >= w[1] - 1e-9)
}

fn any_samples(outcomes: &[(u8, u64, u64, u64)]) -> ReuseProfile {
    let mut profile = ReuseProfile::new(LineSize::B64);
    for &(kind, at, count, weight) in outcomes {
        let outcome = match kind % 4 {
            0 => Outcome::Dangling,
            2 => Outcome::Invalidated(ReuseDistance(extreme(at))),
            1 => Outcome::Censored { at_least: extreme(at) },
            _ => Outcome::Reused(ReuseDistance(extreme(at))),
        };
        profile.record_many(outcome, extreme(count), extreme(weight));
    }
    profile
}

/// A loop over 8 lines, one of which another thread takes halfway through each round.
#[test]
fn lines_that_another_thread_takes_miss_at_every_size() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    profile.record_many(Outcome::Reused(ReuseDistance(7)), 700, 1);
    profile.record_many(Outcome::Invalidated(ReuseDistance(3)), 100, 1);
    for fit in [StatStack::fit, StatStack::fit_distances, StatStack::fit_published] {
        let model = fit(&profile).unwrap();
        for (lines, expected) in [(2, 1.0), (8, 0.125), (1 << 30, 0.125)] {
            let found = model.miss_ratio(CacheLines(lines));
            assert!((found - expected).abs() < 1e-12, "{lines}: {found}");
            assert!((model.miss_ratio_of(&profile, CacheLines(lines)).unwrap() - expected).abs() < 1e-12);
        }
    }
    // Seven lines, and for three of seven accesses an eighth.
    let between = StatStack::fit(&profile).unwrap().expected_stack_distance(ReuseDistance(7));
    assert!((between - (7.0 - 4.0 / 8.0)).abs() < 1e-12, "{between}");
}

fn gives_ratios(outcomes: &[(u8, u64, u64, u64)], overlaps: &[(u64, u64, u64, u64)]) -> bool {
    let mut profile = any_samples(outcomes);
    profile.record(Outcome::Reused(ReuseDistance(5)), 1);
    for (distance, weight, open, pairs) in overlaps.iter().copied() {
        let shortest = ReuseDistance(extreme(distance));
        let (weight, open, pairs) = (extreme(weight), extreme(open), extreme(pairs));
        let samples = extreme(distance ^ pairs);
        profile.record_overlap(&ReuseOverlap {
            started_in: WindowIndex(0),
            shortest,
            longest: shortest,
            weight,
            samples,
            open,
            pairs,
        });
    }
    let bootstrap = Bootstrap::new(0.95, 100, 1).unwrap();
    let fits = [StatStack::fit, StatStack::fit_distances, StatStack::fit_published];
    fits.into_iter().all(|fit| {
        let model = fit(&profile).unwrap();
        let ratios: Vec<f64> = sizes().into_iter().map(|size| model.miss_ratio(size)).collect();
        falls(&ratios)
    }) && {
        let part =
            Stratum { weight: f64::MAX, windows: std::slice::from_ref(&profile), redraw: Redraw::Samples };
        let found = bootstrap.stratified(&[part, part], StatStack::fit_distances, &sizes()).unwrap();
        found.average.iter().all(|i| 0.0 <= i.low && i.low <= i.high && i.high <= 1.0)
    }
}

/// So much less than expected that rounding leaves nothing of the ratio.
#[test]
fn a_deviation_beyond_rounding_gives_ratios() {
    assert!(gives_ratios(&[(63, 13_699_695_961, 0, 0), (2, 0, 0, 0)], &[(0, 2_749, 0, 0), (127, 0, 0, 0)]));
}

quickcheck! {
    /// Weights, counts and distances up to the largest number, with and without overlaps.
    fn saturated_weights_give_ratios(outcomes: Vec<(u8, u64, u64, u64)>, overlaps: Vec<(u64, u64, u64, u64)>) -> bool {
        gives_ratios(&outcomes, &overlaps)
    }

    fn sets_return_for_every_size_and_never_rise(profile: AnyProfile, ways: u8) -> bool {
        let model = SetAssociative::new(StatStack::fit(&profile.0).unwrap(), u32::from(ways) + 1).unwrap();
        falls(&sizes().into_iter().map(|size| model.miss_ratio(size)).collect::<Vec<_>>())
    }

    /// Where accesses were left out, what was not sampled may differ from what was.
    fn no_interval_without_a_width_unless_every_access_was_measured(samples: u8, miss: bool, gap: u8) -> bool {
        let (samples, gap) = (u64::from(samples) + 1, u64::from(gap) + 1);
        let mut profile = ReuseProfile::new(LineSize::B64);
        let outcome = if miss { Outcome::Dangling } else { Outcome::Reused(ReuseDistance(3)) };
        profile.record_many(outcome, samples, gap);
        let windows = std::slice::from_ref(&profile);
        let part = Stratum { weight: 1.0, windows, redraw: Redraw::Samples };
        let bootstrap = Bootstrap::new(0.95, 100, 1).unwrap();
        let found = bootstrap.stratified(&[part], StatStack::fit, &[CacheLines(64)]).unwrap();
        // n samples that are all alike leave a share of 1 - 0.05^(1/n) of others likely; those that were measured are
        // none of them.
        let width = found.average[0].high - found.average[0].low;
        let open = samples as f64 / (1.0 - 1.0 / gap as f64);
        let likely = 1.0 - 0.05_f64.powf(1.0 / open);
        if gap == 1 { width == 0.0 } else { width >= likely }
    }
}

#[test]
fn a_share_of_observed_windows_that_is_no_share_is_refused() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    profile.record(Outcome::Dangling, 1);
    let windows = [profile.clone(), profile];
    let bootstrap = Bootstrap::new(0.95, 100, 1).unwrap();
    for covered in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
        let part = Stratum { weight: 1.0, windows: &windows, redraw: Redraw::Windows { covered } };
        let refused = bootstrap.stratified(&[part], StatStack::fit, &[CacheLines(64)]).unwrap_err();
        let statstack::Error::Grouping(Error::CoveredShare { covered: found }) = refused else {
            panic!("{refused}")
        };
        assert_eq!(found.to_bits(), covered.to_bits());
    }
}

quickcheck! {
    /// One sample, of any weight at any distance, in caches of any size.
    fn models_of_any_samples_keep_the_laws(outcomes: Vec<(u8, u64, u64, u64)>, shares: Vec<u64>, seed: u64) -> bool {
        let profile = any_samples(&outcomes);
        if profile.is_empty() {
            return StatStack::fit(&profile).is_err();
        }
        [StatStack::fit, StatStack::fit_distances, StatStack::fit_published].into_iter().all(|fit| {
            let model = fit(&profile).unwrap();
            laws::cache_model(&model, seed).unwrap();
            let shares = shares.iter().map(|&share| f64::from_bits(share >> 1)).filter(|share| share.is_finite());
            let grouped = Grouped::new(shares.chain([1.0]).map(|share| (share, &model))).unwrap();
            laws::cache_model(&grouped, seed).unwrap();
            grouped.parts().iter().all(|part| part.0 > 0.0)
                && sizes().into_iter().all(|size| {
                    let (low, high) = model.miss_ratio_bounds(size);
                    (0.0..=high).contains(&low) && high <= 1.0
                })
                && falls(&sizes().into_iter().map(|size| model.miss_ratio_bounds(size).0).collect::<Vec<_>>())
                && [0, 1, seed, u64::MAX].iter().all(|&distance| {
                    let between = model.expected_stack_distance(ReuseDistance(distance));
                    (0.0..=distance as f64).contains(&between)
                })
        })
    }
}

/// Found by the property above: one access more than the distance is rounded up by two.
#[test]
fn no_more_lines_than_accesses_lie_between_touches_however_many() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    profile.record(Outcome::Dangling, 1);
    let model = StatStack::fit_published(&profile).unwrap();
    for distance in [(1 << 53) - 1, (1 << 53) + 2, u64::MAX] {
        let between = model.expected_stack_distance(ReuseDistance(distance));
        assert!(between <= distance as f64, "{distance}: {between}");
    }
}

#[test]
fn every_level_gives_an_interval_around_the_ratio() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    profile.record_many(Outcome::Dangling, 20, 100);
    profile.record_many(Outcome::Reused(ReuseDistance(3)), 20, 100);
    let mut before = 0.0;
    for level in [f64::MIN_POSITIVE, 1e-9, 0.01, 0.5, 0.95, 1.0 - 1e-9, 1.0 - f64::EPSILON / 2.0] {
        let bootstrap = Bootstrap::new(level, 100, 1).unwrap();
        let part = Stratum::sampled(&profile);
        let found = bootstrap.stratified(&[part], StatStack::fit, &[CacheLines(64)]).unwrap().average[0];
        assert!(found.model_error >= 0.0 && found.low <= 0.5 && found.high >= 0.5, "{level}: {found:?}");
        assert!(found.high - found.low >= before, "{level}: {found:?}");
        before = found.high - found.low;
    }
}
