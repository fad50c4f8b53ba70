//! Bootstrap intervals hold the truth as often as they say, where the model itself is unbiased.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Random;
use reuse_sampler::{
    Bootstrap, CacheLines, CacheModel, Error, Grouped, LineSize, Outcome, ReuseDistance, ReuseProfile,
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

fn model_of(windows: u64, random: &mut Random) -> Grouped<StatStack> {
    let windows: Vec<_> = (0..windows).map(|_| window(random)).collect();
    Grouped::fit(&windows, StatStack::fit).unwrap()
}

#[test]
fn ninety_five_percent_intervals_hold_the_truth_in_93_to_97_percent() {
    for windows in [20, 60] {
        let mut random = Random(windows);
        let repetitions = 2_000;
        let held = (0..repetitions)
            .filter(|&seed| {
                let model = model_of(windows, &mut random);
                let interval =
                    model.intervals(&[CacheLines(64)], &Bootstrap::new(0.95, 500, seed).unwrap())[0];
                interval.low <= 0.25 && 0.25 <= interval.high
            })
            .count() as f64;
        // 2,000 repetitions tell the share within 0.5 % (one standard deviation).
        let share = held / repetitions as f64;
        assert!((0.93..=0.97).contains(&share), "{windows} windows: {share}");
    }
}

#[test]
fn intervals_lie_around_the_curve_and_narrow_with_the_level_and_the_windows() {
    let mut random = Random(7);
    let sizes = [CacheLines(0), CacheLines(1), CacheLines(64), CacheLines(4096)];
    let few = model_of(10, &mut random);
    let many = model_of(160, &mut random);
    let width = |model: &Grouped<StatStack>, level: f64| {
        let intervals = model.intervals(&sizes, &Bootstrap::new(level, 1_000, 3).unwrap());
        for (interval, (size, ratio)) in intervals.iter().zip(model.curve(&sizes).points) {
            assert_eq!((interval.size, interval.miss_ratio), (size, ratio));
            assert!(
                0.0 <= interval.low
                    && interval.low <= ratio
                    && ratio <= interval.high
                    && interval.high <= 1.0
            );
        }
        intervals[2].high - intervals[2].low
    };
    assert!(width(&few, 0.5) < width(&few, 0.95));
    // Sixteen times the windows, a quarter of the width; a standard deviation of ten values is off by a quarter.
    let ratio = width(&few, 0.95) / width(&many, 0.95);
    assert!((2.0..8.0).contains(&ratio), "{ratio}");
}

#[test]
fn one_window_tells_nothing_about_the_others() {
    let model = model_of(1, &mut Random(1));
    let interval = model.intervals(&[CacheLines(64)], &Bootstrap::new(0.95, 100, 0).unwrap())[0];
    assert_eq!((interval.low, interval.high), (0.0, 1.0));
}

#[test]
fn settings_without_meaning_are_refused() {
    for (level, resamples) in [(0.0, 1_000), (1.0, 1_000), (-1.0, 1_000), (0.95, 99)] {
        assert_eq!(Bootstrap::new(level, resamples, 0).unwrap_err(), Error::Bootstrap { level, resamples });
    }
    assert!(Bootstrap::new(f64::NAN, 1_000, 0).is_err());
}
