//! Bootstrap intervals hold the truth as often as they say, where the model itself is unbiased.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Random;
use reuse_sampler::{
    Bootstrap, CacheLines, CacheModel, Error, Evaluator, Grouped, Interval, LineSize, Outcome, Redraw,
    ReuseDistance, ReuseProfile, Stratum,
};
use statstack::StatStack;

/// A window whose accesses miss in 64 lines with a probability that differs from window to window, seen
/// through 200 samples: reused at once, or never.
fn window(random: &mut Random) -> ReuseProfile {
    let miss_percent = 10 + random.below(31); // from 10 to 40, 25 on average
    let mut profile = ReuseProfile::new(LineSize::B64);
    for _ in 0..200 {
        let miss = random.below(100) < miss_percent;
        profile.record(if miss { Outcome::Dangling } else { Outcome::Reused(ReuseDistance(1)) }, 1);
    }
    profile.add_accesses(1_000);
    profile
}

fn windows_of(count: u64, random: &mut Random) -> Vec<ReuseProfile> {
    (0..count).map(|_| window(random)).collect()
}

/// The interval of a run of which these windows were observed, a small share of all.
fn interval(windows: &[ReuseProfile], size: u64, bootstrap: &Bootstrap) -> Interval {
    let part = Stratum { weight: 1.0, windows, redraw: Redraw::Windows { covered: 0.0 } };
    bootstrap.stratified(&[part], StatStack::fit, &[CacheLines(size)]).unwrap().average[0]
}

#[test]
fn ninety_five_percent_intervals_hold_the_truth_in_92_to_98_percent() {
    for windows in [20, 60] {
        let mut random = Random(windows);
        let repetitions = 500;
        let held = (0..repetitions)
            .filter(|&seed| {
                let windows = windows_of(windows, &mut random);
                let interval = interval(&windows, 64, &Bootstrap::new(0.95, 100, seed).unwrap());
                interval.low <= 0.25 && 0.25 <= interval.high
            })
            .count() as f64;
        // 500 repetitions give the share within 1 % (one standard deviation).
        let share = held / repetitions as f64;
        assert!((0.92..=0.98).contains(&share), "{windows} windows: {share}");
    }
}

#[test]
fn intervals_lie_around_the_curve_and_narrow_with_the_level_and_the_windows() {
    let mut random = Random(7);
    let (few, many) = (windows_of(10, &mut random), windows_of(160, &mut random));
    let width = |windows: &[ReuseProfile], level: f64| {
        let bootstrap = Bootstrap::new(level, 1_000, 3).unwrap();
        for size in [0, 1, 64, 4096] {
            let found = interval(windows, size, &bootstrap);
            let ratio = found.miss_ratio;
            assert!(0.0 <= found.low && found.low <= ratio && ratio <= found.high && found.high <= 1.0);
        }
        let found = interval(windows, 64, &bootstrap);
        found.high - found.low
    };
    assert!(width(&few, 0.5) < width(&few, 0.95));
    // Sixteen times the windows, a quarter of the width; a standard deviation of ten values is off by a quarter.
    let ratio = width(&few, 0.95) / width(&many, 0.95);
    assert!((2.0..8.0).contains(&ratio), "{ratio}");
}

#[test]
fn settings_without_meaning_are_refused() {
    for (level, resamples) in [(0.0, 1_000), (1.0, 1_000), (-1.0, 1_000), (0.95, 99)] {
        assert_eq!(Bootstrap::new(level, resamples, 0).unwrap_err(), Error::Bootstrap { level, resamples });
    }
    assert!(Bootstrap::new(f64::NAN, 1_000, 0).is_err());
}

/// A model that takes itself to be right: its intervals are those of chance alone.
struct Sure(StatStack);

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

/// A run of 10 parts, each sampled throughout at one access in ten: 95 % of the intervals hold what the model makes of
/// all accesses. The model is fitted to reuse distances alone, so that both are the same function of the distribution. The
/// sizes lie inside the curve: at its end, where the longest reuse of each part decides, the level is lower.
#[test]
fn intervals_over_samples_hold_what_all_accesses_give_in_93_to_97_percent() {
    let mut random = Random(11);
    let (parts, accesses, one_in) = (10, 3_000, 10);
    let outcomes: Vec<Vec<Outcome>> = (0..parts)
        .map(|part| {
            let outcome = |_| match random.below(100) {
                percent if percent < 5 + 2 * part => Outcome::Dangling,
                percent if percent < 40 => Outcome::Reused(ReuseDistance(100 + random.below(300))),
                _ => Outcome::Reused(ReuseDistance(random.below(20))),
            };
            (0..accesses).map(outcome).collect()
        })
        .collect();
    let profile = |chosen: &mut dyn FnMut() -> bool, outcomes: &[Outcome], weight| {
        let mut profile = ReuseProfile::new(LineSize::B64);
        for &outcome in outcomes {
            if chosen() {
                profile.record(outcome, weight);
            }
        }
        profile.add_accesses(accesses);
        profile
    };
    let sizes = [CacheLines(8), CacheLines(32), CacheLines(64)];
    let every: Vec<_> = outcomes.iter().map(|part| profile(&mut || true, part, 1)).collect();
    let truth = Grouped::fit(&every, StatStack::fit_distances).unwrap().curve(&sizes);
    let repetitions = 500;
    let mut held = [0; 3];
    for seed in 0..repetitions {
        let mut choose = || random.below(one_in) == 0;
        let sampled: Vec<_> = outcomes.iter().map(|part| profile(&mut choose, part, one_in)).collect();
        let strata: Vec<_> = sampled
            .iter()
            .map(|part| Stratum { weight: 1.0, windows: std::slice::from_ref(part), redraw: Redraw::Samples })
            .collect();
        let bootstrap = Bootstrap::new(0.95, 200, seed).unwrap();
        let fit = |part: &ReuseProfile| StatStack::fit_distances(part).map(Sure);
        let intervals = bootstrap.stratified(&strata, fit, &sizes).unwrap();
        assert!(intervals.covers > 1.0 - 1e-12);
        for ((held, interval), (_, truth)) in held.iter_mut().zip(&intervals.average).zip(&truth.points) {
            *held += u32::from(interval.low <= *truth && *truth <= interval.high);
        }
    }
    // 500 repetitions tell each share within 1 % (one standard deviation): a range of 93 to 97 % for the mean of
    // the three sizes, two deviations more for each.
    let shares = held.map(|held| f64::from(held) / repetitions as f64);
    let mean = shares.iter().sum::<f64>() / 3.0;
    assert!((0.93..=0.97).contains(&mean), "{shares:?}");
    assert!(shares.iter().all(|share| (0.91..=0.99).contains(share)), "{shares:?}");
}

/// Two phases, of each of which some windows are profiled: the average's interval holds the truth.
#[test]
fn intervals_of_phase_averages_hold_the_truth_in_93_to_97_percent() {
    let repetitions = 1_500;
    let mut random = Random(5);
    let mut held = 0;
    for seed in 0..repetitions {
        let phases: Vec<Vec<ReuseProfile>> =
            [30, 15].map(|windows| (0..windows).map(|_| window(&mut random)).collect()).to_vec();
        let strata: Vec<_> = phases
            .iter()
            .zip([3.0, 1.0])
            .map(|(windows, weight)| Stratum { weight, windows, redraw: Redraw::Windows { covered: 0.0 } })
            .collect();
        let bootstrap = Bootstrap::new(0.95, 300, seed).unwrap();
        let found = bootstrap.stratified(&strata, StatStack::fit, &[CacheLines(64)]).unwrap();
        assert!(found.parts.iter().all(Option::is_some));
        held += u32::from(found.average[0].low <= 0.25 && 0.25 <= found.average[0].high);
    }
    // 1,500 repetitions tell the share within 0.6 % (one standard deviation).
    let share = f64::from(held) / repetitions as f64;
    assert!((0.93..=0.97).contains(&share), "{share}");
}

/// Where every access is a sample, and where every window was observed, chance decided nothing: the model's error is left.
#[test]
fn of_what_was_seen_in_full_the_interval_is_the_models_error() {
    let mut random = Random(3);
    let windows: Vec<_> = (0..10).map(|_| window(&mut random)).collect();
    let bootstrap = Bootstrap::new(0.95, 100, 1).unwrap();
    for redraw in [Redraw::Samples, Redraw::Windows { covered: 1.0 }] {
        let strata = [Stratum { weight: 1.0, windows: &windows, redraw }];
        let found = bootstrap.stratified(&strata, StatStack::fit, &[CacheLines(64)]).unwrap();
        let interval = found.average[0];
        let (ratio, error) = (interval.miss_ratio, interval.model_error);
        assert!((interval.low - (ratio - error)).abs() < 1e-12, "{redraw:?}");
        assert!((interval.high - (ratio + error)).abs() < 1e-12, "{redraw:?}");
        // Level between half and twice the size: 1.96 times the floor.
        assert!((error - 1.96 * 5e-4).abs() < 1e-6, "{error}");
    }
}

#[test]
fn strata_without_meaning_are_refused_or_left_open() {
    let mut random = Random(4);
    let one = [window(&mut random)];
    let bootstrap = Bootstrap::new(0.95, 100, 1).unwrap();
    let stratified = |strata: &[Stratum<'_>]| bootstrap.stratified(strata, StatStack::fit, &[CacheLines(64)]);
    let stratum = |weight, windows| Stratum { weight, windows, redraw: Redraw::Windows { covered: 0.1 } };
    assert_eq!(stratified(&[]).unwrap_err(), Error::NoGroups.into());
    assert_eq!(stratified(&[stratum(1.0, &[])]).unwrap_err(), Error::NoGroups.into());
    assert_eq!(stratified(&[stratum(-1.0, &one)]).unwrap_err(), Error::GroupWeight { weight: -1.0 }.into());
    // One window of several says nothing about the others, and the average says for how many windows it stands.
    let many: Vec<_> = (0..20).map(|_| window(&mut random)).collect();
    let found = stratified(&[stratum(1.0, &one), stratum(3.0, &many)]).unwrap();
    assert!(found.parts[0].is_none() && found.parts[1].is_some());
    assert!((found.covers - 0.75).abs() < 1e-12);
}
