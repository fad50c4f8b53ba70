//! Windows that are fitted with what they have in common.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{AnyProfile, Random, bursts, exact, next_touches, overlap};
use quickcheck::quickcheck;
use reuse_sampler::{
    CacheLines, CacheModel, Clock, Error as GroupingError, Grouped, LineSize, Outcome, ReuseDistance,
    ReuseProfile, Scope, laws,
};
use statstack::{Error, PooledCorrection, StatStack};

const SIZES: [u64; 9] = [8, 16, 32, 64, 100, 150, 200, 250, 300];

/// Windows of equal length, one access in `one_in` sampled, and the exact miss ratios.
fn sampled(lines: &[u64], windows: usize, one_in: u64, random: &mut Random) -> (Vec<ReuseProfile>, Vec<f64>) {
    let next = next_touches(lines);
    let length = lines.len().div_ceil(windows);
    let mut profiles = vec![ReuseProfile::new(LineSize::B64); windows];
    let markers: Vec<usize> = (0..lines.len()).filter(|_| random.below(one_in) == 0).collect();
    for (k, &marker) in markers.iter().enumerate() {
        let (profile, end) = (&mut profiles[marker / length], next[marker]);
        if end == usize::MAX {
            profile.record(Outcome::Dangling, one_in);
            continue;
        }
        let distance = (end - marker - 1) as u64;
        profile.record(Outcome::Reused(ReuseDistance(distance)), one_in);
        let open =
            markers[k + 1..].iter().take_while(|&&later| later < end).filter(|&&later| next[later] > end);
        profile.record_overlap(&overlap(distance, one_in, open.count() as u64));
    }
    for profile in &mut profiles {
        profile.add_accesses(length as u64);
    }
    (profiles, exact(lines, &SIZES))
}

fn error(model: &impl CacheModel, truth: &[f64]) -> f64 {
    let off = |(size, truth): (&u64, &f64)| (model.miss_ratio(CacheLines(*size)) - truth).abs();
    SIZES.iter().zip(truth).map(off).sum::<f64>() / SIZES.len() as f64
}

fn together(windows: &[ReuseProfile]) -> Grouped<StatStack> {
    let pooled = PooledCorrection::of(windows).unwrap();
    Grouped::fit(windows, |window| pooled.fit(window)).unwrap()
}

/// 64 windows of 150 samples, none of which shows by itself that bursts are no average accesses.
#[test]
fn windows_of_few_samples_learn_from_all() {
    let (mut apart, mut pooled) = (0.0, 0.0);
    for seed in 1..=5 {
        let mut random = Random(seed);
        let lines = bursts(&mut random, 400_000);
        let (windows, truth) = sampled(&lines, 64, 40, &mut random);
        apart += error(&Grouped::fit(&windows, StatStack::fit).unwrap(), &truth);
        pooled += error(&together(&windows), &truth);
    }
    assert!(pooled < 0.5 * apart, "{pooled} against {apart}");
}

/// A loop, random accesses and bursts by turns, which deviate in different ways: each keeps its own.
#[test]
fn windows_that_differ_are_not_made_alike() {
    let mut random = Random(9);
    let (mut windows, mut parts) = (Vec::new(), Vec::new());
    for turn in 0..12_u64 {
        let lines: Vec<u64> = match turn % 3 {
            0 => (0..40_000).map(|i| i % 120).collect(),
            1 => (0..40_000).map(|_| random.below(350)).collect(),
            _ => bursts(&mut random, 40_000),
        };
        let (mut window, truth) = sampled(&lines, 1, 10, &mut random);
        windows.append(&mut window);
        parts.push(truth);
    }
    let pooled = PooledCorrection::of(&windows).unwrap();
    for (turn, (window, truth)) in windows.iter().zip(&parts).enumerate() {
        let (apart, pooled) =
            (error(&StatStack::fit(window).unwrap(), truth), error(&pooled.fit(window).unwrap(), truth));
        assert!(pooled < apart + 0.01, "turn {turn}: {pooled} against {apart}");
    }
}

/// A loop has no deviation to learn, in one window or in many: it misses everywhere with one line less than it has.
#[test]
fn a_loop_keeps_its_cliff() {
    let lines: Vec<u64> = (0..200_000).map(|i| i % 150).collect();
    let (windows, _) = sampled(&lines, 20, 20, &mut Random(3));
    let model = together(&windows);
    assert!(model.miss_ratio(CacheLines(151)) < 0.01, "{}", model.miss_ratio(CacheLines(151)));
    assert!(model.miss_ratio(CacheLines(149)) > 0.99, "{}", model.miss_ratio(CacheLines(149)));
}

/// Columns are added to one that is used again and again, in a program that else goes through a table at random and works on
/// what it found. How much of the run the samples of the kernel represent changes nothing.
#[test]
fn a_regular_kernel_of_an_irregular_program_keeps_its_cliff() {
    let column = |of: u64| (0..496).flat_map(move |i| [1_000 + of % 40 * 62 + i / 8, i / 8, i / 8]);
    let kernel: Vec<u64> = (0..400).flat_map(column).collect();
    for (seed, represents) in [(1, 1.0), (3, 32.0), (5, 32.0), (11, 32.0)] {
        let mut random = Random(seed);
        let find = |at: u64| match at % 2_000 {
            0..500 => random.below(1_000),
            500..600 => 1_000 + random.below(3_000),
            _ => at % 8,
        };
        let table: Vec<u64> = (0..600_000_u64).map(find).collect();
        let (mut windows, _) = sampled(&table, 12, 40, &mut random);
        let (parts, _) = sampled(&kernel, 12, 20, &mut random);
        let mut phase = ReuseProfile::new(LineSize::B64);
        for part in &parts {
            phase.merge_weighted(part, represents).unwrap();
        }
        windows.push(phase);
        let model = PooledCorrection::of(&windows).unwrap().fit(&windows[12]).unwrap();
        for (size, misses) in [(64, 2.0), (116, 2.0), (132, 1.0), (300, 1.0)] {
            let off = 24.0 * model.miss_ratio(CacheLines(size)) - misses;
            assert!(off.abs() < 0.2, "seed {seed}, {size} lines: {off} of {misses}");
        }
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let of = |line_size, clock, scope| {
        let mut profile = ReuseProfile::with_units(line_size, clock, scope);
        profile.record(Outcome::Reused(ReuseDistance(9)), 1);
        profile
    };
    let first = of(LineSize::B64, Clock::Accesses, Scope::Private);
    let empty = ReuseProfile::new(LineSize::new(32).unwrap());
    let pooled = PooledCorrection::of([&empty, &first]).unwrap();
    let (narrow, shared) = (
        of(LineSize::new(32).unwrap(), Clock::Accesses, Scope::Private),
        of(LineSize::B64, Clock::Accesses, Scope::Shared),
    );
    let counted = of(LineSize::B64, Clock::Instructions, Scope::Private);
    for (other, answer) in [(&narrow, pooled.fit(&narrow)), (&shared, pooled.fit(&shared))] {
        assert!(matches!(answer, Err(Error::Grouping(_))), "{answer:?}");
        let both = PooledCorrection::of([&first, other]);
        assert!(matches!(both, Err(Error::Grouping(_))), "{both:?}");
    }
    let mixed = pooled.fit(&narrow).unwrap_err();
    assert!(matches!(mixed, Error::Grouping(GroupingError::MixedLineSizes { .. })), "{mixed}");
    assert_eq!(PooledCorrection::of([&counted]).unwrap_err(), Error::Clock { found: Clock::Instructions });
    assert_eq!(pooled.fit(&ReuseProfile::new(LineSize::B64)).unwrap_err(), Error::EmptyProfile);
    // Of nothing, nothing is expected.
    let alone = PooledCorrection::of([]).unwrap().fit(&first).unwrap();
    assert_eq!(alone.miss_ratio(CacheLines(9)), StatStack::fit(&first).unwrap().miss_ratio(CacheLines(9)));
}

#[cfg(feature = "serde")]
#[test]
fn what_is_usual_is_saved_and_kept_by_a_refit() {
    let mut random = Random(2);
    let lines = bursts(&mut random, 400_000);
    let (windows, _) = sampled(&lines, 64, 40, &mut random);
    let pooled = PooledCorrection::of(&windows).unwrap();
    let fitted = |window: &ReuseProfile| pooled.fit(window).unwrap();
    let ratios = |model: &StatStack| SIZES.map(|size| model.miss_ratio(CacheLines(size)));
    assert_ne!(ratios(&fitted(&windows[3])), ratios(&StatStack::fit(&windows[3]).unwrap()));
    let saved = serde_json::to_string(&fitted(&windows[2])).unwrap();
    let mut read: StatStack = serde_json::from_str(&saved).unwrap();
    assert_eq!(ratios(&read), ratios(&fitted(&windows[2])));
    read.refit(&windows[3]).unwrap();
    assert_eq!(ratios(&read), ratios(&fitted(&windows[3])));
    let damaged = saved.replace("\"sum\":\"corrected\"", "\"sum\":\"published\"");
    assert_ne!(damaged, saved);
    assert!(serde_json::from_str::<StatStack>(&damaged).is_err());
}

quickcheck! {
    fn keeps_the_laws_of_cache_models(all: Vec<AnyProfile>, seed: u64, overlaps: Vec<(u32, u8)>) -> bool {
        let mut windows: Vec<ReuseProfile> = all.into_iter().take(6).map(|AnyProfile(profile)| profile).collect();
        let number = windows.len();
        for (i, (distance, open)) in overlaps.into_iter().enumerate().filter(|_| number > 0) {
            windows[i % number].record_overlap(&overlap(distance.into(), 1 + seed % 50, open.into()));
        }
        let pooled = PooledCorrection::of(&windows).unwrap();
        windows.iter().all(|window| laws::cache_model(&pooled.fit(window).unwrap(), seed).is_ok())
    }
}
