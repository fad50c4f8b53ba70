//! Every parameter out of range is refused, by name.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cache_pirate::simple::{SimpleMachine, SimpleTestbed};
use cache_pirate::{Pace, PirateError, PirateParams, SharedCache, Threads};

const CACHE: SharedCache = SharedCache { bytes: 1 << 20, line_size: 64 };

#[test]
fn bad_values_are_named() {
    let good = PirateParams::default;
    let cases = [
        (PirateParams { interval: Some(0.0), ..good() }, "interval of 0"),
        (PirateParams { interval: Some(f64::NAN), ..good() }, "interval of NaN"),
        (PirateParams { target_warm_up: Some(-1.0), ..good() }, "target warm-up of -1"),
        (PirateParams { pirate_warm_up: 0, ..good() }, "pirate warm-up of 0"),
        (PirateParams { fetch_ratio_limit: 0.0, ..good() }, "fetch-ratio limit of 0"),
        (PirateParams { timed_limit: 1.5, ..good() }, "limit of timed fetch ratios of 1.5"),
        (PirateParams { spared_limit: 0.0, ..good() }, "limit of spared fetches of 0"),
        (PirateParams { cpi_tolerance: f64::INFINITY, ..good() }, "CPI tolerance of inf"),
        (PirateParams { threads: Threads::Fixed(0), ..good() }, "pirate threads of 0"),
        (PirateParams { pace: Pace::Sampling { mean_gap: 0.0, seed: 1 }, ..good() }, "mean gap of 0"),
        (PirateParams { pace: Pace::Budget { overhead: 0.0, seed: 1 }, ..good() }, "overhead of 0"),
        (PirateParams { sizes: Some(vec![]), ..good() }, "no cache sizes"),
        (PirateParams { sizes: Some(vec![63]), ..good() }, "a size of 63 bytes"),
        (PirateParams { sizes: Some(vec![2 << 20]), ..good() }, "a size of 2097152 bytes"),
        (PirateParams { thread_test_bytes: Some(2 << 20), ..good() }, "a size of 2097152 bytes"),
    ];
    for (params, message) in cases {
        let error = params.check(CACHE).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    for cache in [SharedCache { bytes: 63, line_size: 64 }, SharedCache { bytes: 4096, line_size: 48 }] {
        assert!(matches!(good().check(cache), Err(PirateError::Cache { .. })));
    }
}

#[test]
fn sizes_become_whole_lines_largest_first() {
    let plan = PirateParams::default().check(CACHE).unwrap();
    let sixteenths: Vec<u64> = (1..=16).rev().map(|i| i << 16).collect();
    assert_eq!(plan.sizes().collect::<Vec<_>>(), sixteenths);
    let sizes = Some(vec![1000, 1 << 20, 1001, 70_000]);
    let plan = PirateParams { sizes, ..PirateParams::default() }.check(CACHE).unwrap();
    assert_eq!(plan.sizes().collect::<Vec<_>>(), [1 << 20, 69_952, 960]);
}

#[test]
fn the_default_interval_is_the_papers_best() {
    let plan = PirateParams::default().check(SharedCache { bytes: 8 << 20, line_size: 64 }).unwrap();
    assert!((plan.interval() / 100e6 - 1.0).abs() < 0.01); // 100 M instructions for 8 MiB
}

#[test]
fn a_machine_out_of_range_is_refused() {
    let good = SimpleMachine::default;
    for machine in [
        SimpleMachine { sets: 0, ..good() },
        SimpleMachine { ways: 0, ..good() },
        SimpleMachine { threads: 0, ..good() },
        SimpleMachine { line_size: 0, ..good() },
        SimpleMachine { hit_time: 0.0, ..good() },
        SimpleMachine { miss_time: f64::NAN, ..good() },
        SimpleMachine { pirate_hit_time: -1.0, ..good() },
        SimpleMachine { pirate_miss_time: f64::INFINITY, ..good() },
    ] {
        assert!(matches!(SimpleTestbed::new(machine, 0..1), Err(PirateError::Parameter { .. })));
    }
}
