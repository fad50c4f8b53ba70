//! Extreme input: every value a caller can pass gives a number between 0 and 1, or an error.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use quickcheck::quickcheck;
use reuse_sampler::{
    Bootstrap, CacheLines, CacheModel, Grouped, LineSize, Outcome, Redraw, Reuse, ReuseDistance,
    ReuseProfile, SetAssociative, Stratum, laws,
};
use statcache::StatCache;

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
    [0, 1, 2, 3, 9, 64, 1 << 20, 1 << 40, u64::MAX - 1, u64::MAX].map(CacheLines).to_vec()
}

fn falls(ratios: &[f64]) -> bool {
    ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)) && ratios.windows(2).all(|w| w[0] >= w[1] - 1e-9)
}

type Drawn = Vec<(u8, u64, u64, u64)>;

/// A window of any samples, and of so many accesses.
fn window(outcomes: &Drawn, accesses: u64) -> ReuseProfile {
    let mut profile = ReuseProfile::new(LineSize::B64);
    for &(kind, at, count, weight) in outcomes {
        let at = extreme(at);
        let outcome = match kind % 4 {
            0 => Outcome::Dangling,
            1 => Outcome::Censored { at_least: at },
            2 => Outcome::Invalidated(ReuseDistance(at)),
            _ => Outcome::Reused(ReuseDistance(at)),
        };
        profile.record_many(outcome, extreme(count), extreme(weight));
    }
    profile.add_accesses(extreme(accesses));
    profile
}

fn check(model: &StatCache, distance: u64) {
    let sizes = sizes();
    let ratios: Vec<f64> = sizes.iter().map(|&size| model.miss_ratio(size)).collect();
    assert!(falls(&ratios), "{ratios:?}");
    let backwards: Vec<CacheLines> = sizes.iter().rev().copied().collect();
    for (size, ratio) in model.curve(&sizes).points.into_iter().chain(model.curve(&backwards).points) {
        let single = model.miss_ratio(size);
        assert!((ratio - single).abs() < 1e-8, "{ratio} on the curve, {single} in {size:?}");
    }
    for size in sizes {
        let (low, high) = model.miss_ratio_bounds(size);
        assert!(0.0 <= low && low <= high && high == model.miss_ratio(size), "{low} to {high} in {size:?}");
        let error = model.standard_error(size);
        assert!((0.0..=1.0).contains(&error), "{error} in {size:?}");
        let at = model.at(size);
        for distance in [0, 1, distance, u64::MAX] {
            let missed = at.miss_probability(Reuse::Distance(ReuseDistance(distance)));
            assert!((0.0..=1.0).contains(&missed), "{missed} at {distance} in {size:?}");
        }
    }
}

quickcheck! {
    fn saturated_weights_give_ratios(outcomes: Drawn, accesses: u64, seed: u64) -> bool {
        let profile = window(&outcomes, accesses);
        if profile.is_empty() {
            return StatCache::fit(&profile).is_err() && StatCache::fit_from_empty(&profile).is_err();
        }
        let full = StatCache::fit(&profile).unwrap();
        laws::cache_model(&full, seed).unwrap();
        let mut refitted = full.clone();
        refitted.refit(&profile).unwrap();
        let sets = SetAssociative::new(&full, seed as u32 % 256 + 1).unwrap();
        check(&full, seed);
        check(&StatCache::fit_from_empty(&profile).unwrap(), seed);
        falls(&sizes().into_iter().map(|size| sets.miss_ratio(size)).collect::<Vec<_>>())
            && sizes().into_iter().all(|size| refitted.miss_ratio(size) == full.miss_ratio(size))
    }

    /// Windows of any length beside each other, one of them longer than all others by 2^60.
    fn windows_of_any_length_give_ratios(windows: Vec<(Drawn, u64)>, seed: u64) -> bool {
        let windows: Vec<ReuseProfile> = windows.iter().map(|(drawn, accesses)| window(drawn, *accesses)).collect();
        if windows.iter().all(ReuseProfile::is_empty) {
            return StatCache::fit_in_time(&windows).is_err();
        }
        let sizes = sizes();
        let grouped = Grouped::fit(&windows, StatCache::fit).unwrap();
        laws::cache_model(&grouped, seed).unwrap();
        check(&StatCache::fit_in_time(&windows).unwrap(), seed);
        falls(&grouped.curve(&sizes).points.iter().map(|point| point.1).collect::<Vec<_>>())
    }

    fn intervals_hold_their_ratio(windows: Vec<(Drawn, u64)>, weight: u64, covered: u8) -> bool {
        let windows: Vec<ReuseProfile> = windows.iter().map(|(drawn, accesses)| window(drawn, *accesses)).collect();
        if windows.iter().all(ReuseProfile::is_empty) {
            return true;
        }
        let windows = &windows[..windows.len().min(5)];
        let weight = f64::from_bits(weight >> 1);
        let covered = f64::from(covered) / 255.0;
        for redraw in [Redraw::Samples, Redraw::Windows { covered }] {
            let parts = [Stratum { weight, windows, redraw }, Stratum { weight: 1.0, windows, redraw: Redraw::Samples }];
            let found = Bootstrap::new(0.95, 100, 1).unwrap().stratified(&parts, StatCache::fit, &sizes()[..4]);
            match found {
                Ok(found) => for i in found.average.iter().chain(found.parts.iter().flatten().flatten()) {
                    assert!(0.0 <= i.low && i.low <= i.miss_ratio && i.miss_ratio <= i.high && i.high <= 1.0, "{i:?}");
                    assert!(i.model_error >= 0.0);
                },
                Err(_) if !weight.is_finite() || windows.iter().all(ReuseProfile::is_empty) => {}
                Err(error) => panic!("{error}"),
            }
        }
        true
    }
}
