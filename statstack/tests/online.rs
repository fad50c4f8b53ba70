//! The online curve against exact LRU, and its bounds.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use quickcheck::quickcheck;
use reuse_sampler::reference::ExactLru;
use reuse_sampler::{CacheLines, Line, LineSize, MissRatioCurve};
use statstack::{Error, OnlineCurve, OnlineOptions};

/// Requests for a few popular keys, many rare ones, and now and then a scan.
fn service(requests: u64, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..requests)
        .map(|i| match i / 20_000 % 5 {
            4 => 1_000_000 + i % 3_000,
            _ if random(2) == 0 => random(300),
            _ => 1_000 + random(20_000),
        })
        .collect()
}

fn options(capacity: usize, seed: u64) -> OnlineOptions {
    let mut options = OnlineOptions::default();
    (options.capacity, options.seed) = (capacity, seed);
    options
}

fn sizes() -> Vec<CacheLines> {
    (5..15).map(|log| CacheLines(1 << log)).collect()
}

/// Mean error of the online curve of `keys` since the beginning.
fn mean_error(keys: &[u64], options: OnlineOptions) -> f64 {
    let mut exact = ExactLru::new();
    let mut online = OnlineCurve::new(options);
    for key in keys {
        exact.access(Line(*key));
        online.observe(key);
    }
    difference(&online.curve(&sizes()).unwrap(), &exact.take_window().curve(LineSize::B64, &sizes()))
}

fn difference(curve: &MissRatioCurve, truth: &MissRatioCurve) -> f64 {
    let errors = curve.points.iter().zip(&truth.points).map(|(found, exact)| (found.1 - exact.1).abs());
    errors.sum::<f64>() / truth.points.len() as f64
}

#[test]
fn the_curve_is_that_of_an_exact_simulation() {
    let keys = service(1_000_000, 1);
    // Model and noise; the second with two hundred requests followed at a time.
    for (capacity, limit) in [(14_000, 0.005), (2_000, 0.005), (200, 0.02)] {
        let errors: Vec<f64> = (0..3).map(|seed| mean_error(&keys, options(capacity, seed))).collect();
        assert!(errors.iter().all(|&error| error < limit), "{capacity}: {errors:?}");
    }
}

/// Requests of unlike distances take turns: the plain model is off by ten points.
#[test]
fn keys_asked_for_back_and_forth_have_their_curve() {
    let keys: Vec<u64> =
        (0..100_000).map(|i| if i / 2_000 % 2 == 0 { i % 2_000 } else { 1_999 - i % 2_000 }).collect();
    for capacity in [7_000, 500] {
        let error = mean_error(&keys, options(capacity, 0));
        assert!(error < 0.01, "{capacity}: {error}");
    }
}

/// Keys of which many are still followed at the end: they were asked for a first time, and may never be again.
#[test]
fn first_requests_are_as_many_as_there_are_keys() {
    for (capacity, limit) in [(7_000, 0.01), (500, 0.03)] {
        let mut online = OnlineCurve::new(options(capacity, 1));
        for request in 0..200_000_u64 {
            online.observe(&(request % 50_000));
        }
        let [small, large] = online.miss_ratios([45_000, 60_000]).unwrap();
        assert!(small > 1.0 - limit && (large - 0.25).abs() < limit, "{capacity}: {small} {large}");
    }
}

/// A request belongs to the time at which it is made, not to that of the request before for the same key.
#[test]
fn recent_requests_miss_as_often_as_they_do() {
    let mut online = OnlineCurve::default();
    for request in 0..400_000_u64 {
        online.observe(&(request % 200_000)); // everything once, and again
    }
    let curve = online.recent_curve(50_000, &[CacheLines(150_000), CacheLines(250_000)]).unwrap();
    let [small, large] = [0, 1].map(|at: usize| curve.points[at].1);
    assert!(small > 0.99 && large < 0.01, "{small} {large}");
    let [all] = online.miss_ratios([250_000]).unwrap();
    assert!((all - 0.5).abs() < 0.01, "{all}");
}

#[test]
fn giving_up_samples_leaves_the_estimate_unbiased() {
    // Keys in random order: a request misses in L of N objects with probability 1 - L / N, but for first requests.
    let mut sum = 0.0;
    for seed in 0..20 {
        let mut online = OnlineCurve::new(options(64, seed));
        let mut state = seed;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            online.observe(&((state >> 33) % 1_000));
        }
        assert!(online.sampled_one_in() >= 8);
        sum += online.miss_ratios([500]).unwrap()[0];
    }
    // Twenty runs of some thousand samples each.
    assert!((sum / 20.0 - 0.5).abs() < 0.01, "{}", sum / 20.0);
}

#[test]
fn memory_is_bounded_and_a_curve_is_there_at_any_moment() {
    let mut online = OnlineCurve::new(options(100, 0));
    assert_eq!(online.curve(&sizes()), Err(Error::EmptyProfile));
    for key in 0..1_000_000_u64 {
        online.observe(&key); // none comes back
        if key.is_power_of_two() {
            let [ratio] = online.miss_ratios([1 << 20]).unwrap();
            assert_eq!(ratio, 1.0, "after {key}");
        }
    }
    let profiles = online.profiles();
    assert!(profiles.len() <= 12, "{} parts", profiles.len());
    assert!(profiles.iter().map(|profile| profile.samples()).sum::<u64>() <= 100);
    assert_eq!(profiles.iter().map(|profile| profile.accesses()).sum::<u64>(), 1_000_000);
}

#[test]
fn recent_requests_have_a_curve_of_their_own() {
    let mut online = OnlineCurve::default();
    for request in 0..400_000_u64 {
        // A loop over 5,000 keys, then one over 50.
        online.observe(&(request % if request < 200_000 { 5_000 } else { 50 }));
    }
    let at = [CacheLines(1_000)];
    let all = online.curve(&at).unwrap().points[0].1;
    let recent = online.recent_curve(100_000, &at).unwrap().points[0].1;
    assert!((all - 0.5).abs() < 0.01 && recent < 0.001, "{all} {recent}");
}

fn is_send<T: Send + Sync>(_: &T) {}

quickcheck! {
    fn the_same_seed_gives_the_same_curve(seed: u64, length: u16, capacity: u8) -> bool {
        let run = || {
            let mut online = OnlineCurve::new(options(capacity.into(), seed));
            is_send(&online);
            for key in service(u64::from(length) + 1, seed) {
                online.observe(&key);
            }
            online.curve(&sizes()).unwrap()
        };
        let curve = run();
        curve == run() && curve.points.windows(2).all(|pair| pair[0].1 >= pair[1].1 - 1e-9)
    }

    fn online_curves_of_any_settings_fall(capacity: usize, seed: u64, keys: Vec<u16>, last: u64) -> bool {
        for capacity in [capacity, capacity % 20, usize::MAX - capacity % 3] {
            let mut online = OnlineCurve::new(options(capacity, seed));
            for repeated in 0..20_u16 {
                for &key in &keys {
                    online.observe(&(u64::from(key) << (repeated % 7)));
                }
            }
            if keys.is_empty() {
                return online.curve(&extreme_sizes()).is_err() && online.recent_curve(last, &extreme_sizes()).is_err();
            }
            let curves = [online.curve(&extreme_sizes()), online.recent_curve(last, &extreme_sizes()), online.recent_curve(0, &extreme_sizes())];
            for curve in curves {
                assert!(falls(&curve.unwrap().points.iter().map(|point| point.1).collect::<Vec<_>>()));
            }
        }
        true
    }
}

#[test]
fn recent_requests_have_a_curve_however_few_are_followed() {
    let mut online = OnlineCurve::new(options(16, 0));
    for key in 0..2_000_000_u64 {
        online.observe(&key);
        if key % 1_000 == 0 {
            assert_eq!(online.recent_curve(1, &[CacheLines(9)]).unwrap().points[0].1, 1.0, "after {key}");
        }
    }
}

fn extreme_sizes() -> Vec<CacheLines> {
    [0, 1, 2, 9, 64, 1 << 20, u64::MAX].map(CacheLines).to_vec()
}

fn falls(ratios: &[f64]) -> bool {
    ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)) && ratios.windows(2).all(|w| w[0] >= w[1] - 1e-9)
}
