//! Overlapping samples against the stack distances they estimate, counted in a list.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, Hierarchy, LineSize, ReusePlan, ReuseProfile, SampleGap, Sampler, Window, WindowPlan,
};

/// Bursts of accesses to many lines between stretches of accesses to few: stack distances vary at every reuse
/// distance.
fn stream(accesses: u64) -> Vec<u64> {
    let mut state = 1_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    (0..accesses).map(|i| if i / 300 % 3 == 0 { 1000 + below(2000) } else { below(40) }).collect()
}

fn windows(stream: &[u64], length: u64, plan: impl Fn(u64) -> ReusePlan) -> Vec<Window> {
    let events = stream.iter().map(|line| Event::Access(Access::load(line * 64, 8)));
    let options = ReplayOptions::windows_of(WindowLength::Accesses(length));
    let mut sampler = ReplaySampler::new(events, options).unwrap();
    let mut windows = Vec::new();
    while let Some(window) = sampler.next_window(&WindowPlan::new(plan(windows.len() as u64))).unwrap() {
        windows.push(window);
    }
    windows
}

/// For every reuse: its distance and its stack distance, from the list of lines by last touch.
fn stack_distances(stream: &[u64]) -> Vec<(u64, u64)> {
    let mut list: Vec<(u64, u64)> = Vec::new();
    let mut found = Vec::new();
    for (now, &line) in stream.iter().enumerate() {
        if let Some(at) = list.iter().rposition(|&(l, _)| l == line) {
            found.push((now as u64 - list[at].1 - 1, (list.len() - 1 - at) as u64));
            list.remove(at);
        }
        list.push((line, now as u64));
    }
    found
}

fn profile(windows: &[Window]) -> ReuseProfile {
    let mut profile = ReuseProfile::new(LineSize::B64);
    for window in windows {
        profile.record_window(window).unwrap();
    }
    profile
}

/// Mean of s and of s (s - 1) for the reuses from `low` to `high`.
fn counted(reuses: &[(u64, u64)], low: u64, high: u64) -> (f64, f64) {
    let s: Vec<f64> = reuses.iter().filter(|r| (low..=high).contains(&r.0)).map(|r| r.1 as f64).collect();
    let n = s.len() as f64;
    (s.iter().sum::<f64>() / n, s.iter().map(|s| s * (s - 1.0)).sum::<f64>() / n)
}

#[test]
fn every_access_chosen_counts_stack_distances_exactly() {
    let stream = stream(6000);
    let reuses = stack_distances(&stream);
    let windows = windows(&stream, 1000, |_| ReusePlan::Sparse(SampleGap::mean(1.0).unwrap()));
    let profile = profile(&windows);
    let mut samples = 0;
    for estimate in profile.stack_estimates() {
        let (mean, factorial) = counted(&reuses, estimate.shortest.0, estimate.longest.0);
        assert!((estimate.mean - mean).abs() < 1e-9 * mean.max(1.0), "{estimate:?} {mean}");
        assert!((estimate.factorial - factorial).abs() < 1e-9 * factorial.max(1.0));
        samples += estimate.samples;
    }
    assert_eq!(samples, reuses.len() as u64);
}

#[test]
fn one_in_ten_and_the_markers_of_every_access_estimate_them_without_bias() {
    let stream = stream(600_000);
    let reuses = stack_distances(&stream[..60_000]);
    for plan in [ReusePlan::Sparse(SampleGap::mean(10.0).unwrap()), ReusePlan::Every] {
        let profile = profile(&windows(&stream, 100_000, |_| plan));
        let mut bins = 0;
        for estimate in profile.stack_estimates().filter(|e| e.open > 2000) {
            let (mean, factorial) = counted(&reuses, estimate.shortest.0, estimate.longest.0);
            // 2,000 counted samples of which half share their neighbours: 4 standard errors of the mean, and
            // the tenth of the stream that the list is searched for has an error of its own.
            assert!((estimate.mean / mean - 1.0).abs() < 0.12, "{plan:?} {estimate:?} {mean}");
            assert!((estimate.factorial / factorial - 1.0).abs() < 0.25, "{plan:?} {estimate:?} {factorial}");
            bins += 1;
        }
        assert!(bins > 15, "{bins}");
    }
}

/// What windows that represent others show is worth as much as what they counted, not as what they represent.
#[test]
fn windows_that_represent_others_count_no_more_samples() {
    let stream = stream(60_000);
    let window = profile(&windows(&stream, 60_000, |_| ReusePlan::Sparse(SampleGap::mean(10.0).unwrap())));
    let merged = |factors: [f64; 2]| {
        let mut merged = ReuseProfile::new(LineSize::B64);
        for factor in factors {
            merged.merge_weighted(&window, factor).unwrap();
        }
        merged
    };
    // Kish: (1 + 3)^2 / (1 + 9) of two.
    for (factors, of_two) in [([1.0, 1.0], 2.0), ([32.0, 32.0], 2.0), ([1.0, 3.0], 1.6)] {
        let merged = merged(factors);
        for (one, both) in window.stack_estimates().zip(merged.stack_estimates()) {
            let represented = (factors[0] + factors[1]) / 2.0;
            assert_eq!((both.samples, both.open), (2 * one.samples, 2 * one.open));
            assert_eq!((both.gap, both.weight), (one.gap, represented * one.weight));
            assert!((both.effective / (of_two * one.effective) - 1.0).abs() < 1e-9, "{factors:?} {both:?}");
            assert!((both.mean - one.mean).abs() <= 1e-9 * one.mean);
        }
        // A file from before weights were distinguished is read as if all were equal.
        #[cfg(feature = "serde")]
        {
            let mut file: serde_json::Value = serde_json::to_value(&merged).unwrap();
            for pair in file["overlaps"].as_array_mut().unwrap() {
                for key in ["unweighted", "squared"] {
                    pair[1].as_object_mut().unwrap().remove(key).unwrap();
                }
            }
            let old: ReuseProfile = serde_json::from_value(file).unwrap();
            for (new, old) in merged.stack_estimates().zip(old.stack_estimates()) {
                assert_eq!(
                    (old.gap, old.weight, old.effective),
                    (new.weight, new.weight, old.samples as f64)
                );
            }
        }
    }
}

#[test]
fn samples_during_which_the_rate_changed_do_not_count() {
    let stream = stream(40_000);
    let gap = |mean| ReusePlan::Sparse(SampleGap::mean(mean).unwrap());
    // A rate of its own in every window: only reuses inside their window count.
    let changing = windows(&stream, 1000, |index| gap(if index % 2 == 0 { 1.0 } else { 2.0 }));
    let mut inside: BTreeMap<u64, u64> = BTreeMap::new();
    for window in &changing {
        for sample in window.samples.iter().filter(|s| s.end.is_some() && s.started_in == window.index) {
            *inside.entry(sample.started_in.0).or_default() += 1;
        }
    }
    let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
    for overlap in changing.iter().flat_map(|window| &window.overlaps) {
        *counted.entry(overlap.started_in.0).or_default() += overlap.samples;
    }
    assert_eq!(counted, inside);
    // Bursts, and windows that start no sample, tell nothing.
    let bursts = ReusePlan::Hierarchical(Hierarchy::new(500, 500, 100).unwrap());
    for plan in [bursts, ReusePlan::Watch] {
        assert!(windows(&stream, 1000, |_| plan).iter().all(|window| window.overlaps.is_empty()));
    }
}

/// Markers are no samples: what windows report is the same as without them.
#[test]
fn markers_are_not_reported() {
    let stream = stream(20_000);
    let plan = |index: u64| if index % 3 == 2 { ReusePlan::Watch } else { ReusePlan::Every };
    let windows = windows(&stream, 1000, plan);
    assert!(windows.iter().all(|window| window.samples.is_empty()));
    let started: u64 = windows.iter().flat_map(Window::outcomes).map(|outcome| outcome.2).sum();
    assert_eq!(started, 1000 * (0..20).filter(|index| index % 3 != 2).count() as u64);
    assert!(windows.last().unwrap().open_samples == 0);
}
