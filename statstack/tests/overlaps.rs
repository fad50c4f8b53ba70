//! The correction from overlapping samples: its laws, and its gain against exact stack distances.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{AnyProfile, Random, bursts, exact, overlap, overlaps, profile_of};
use quickcheck::{TestResult, quickcheck};
use reuse_sampler::{CacheLines, CacheModel, ReuseProfile, laws};
use statstack::StatStack;

#[test]
fn bursts_are_modelled_better_than_by_distances_alone() {
    let sizes = [8, 16, 32, 64, 100, 150, 200, 250, 300, 350];
    for seed in 1..=3 {
        let mut random = Random(seed);
        let lines = bursts(&mut random, 60_000);
        let truth = exact(&lines, &sizes);
        let mut profile = profile_of(&lines);
        for overlap in overlaps(&lines, 8, &mut random) {
            profile.record_overlap(&overlap);
        }
        let error = |model: StatStack| {
            let off = |(size, truth): (&u64, &f64)| (model.miss_ratio(CacheLines(*size)) - truth).abs();
            sizes.iter().zip(&truth).map(off).sum::<f64>() / sizes.len() as f64
        };
        let plain = error(StatStack::fit_distances(&profile).unwrap());
        let corrected = error(StatStack::fit(&profile).unwrap());
        // The plain model takes both kinds of burst for a mix of them, and is off by points.
        assert!(plain > 0.01, "seed {seed}: {plain}");
        assert!(corrected < 0.5 * plain, "seed {seed}: {corrected} against {plain}");
    }
}

/// What is wrong where every access was measured is the model's error. A hash table beside a log and lines that are used a few times
/// over, a heap of keys beside a queue, and bursts: 95 % intervals hold the exact value.
#[test]
fn the_standard_error_says_how_far_the_model_is_off() {
    let hash_table = |random: &mut Random, lines: &mut Vec<u64>| {
        let bucket = random.below(3_000);
        let log = 100_000 + lines.len() as u64 / 8;
        lines.extend([bucket, log]);
        match random.below(100) {
            0..30 => lines.push(bucket + 1),
            98.. => lines.extend(50_000..50_020),
            _ => {}
        }
    };
    let heap = |random: &mut Random, lines: &mut Vec<u64>| {
        let mut node = 1;
        while node < 1 << 14 {
            lines.push(node / 8);
            node = 2 * node + random.below(2);
        }
        let head = lines.len() as u64;
        lines.extend((head..head + 4).map(|at| 100_000 + at % 700));
    };
    let (mut held, mut all) = (0, 0);
    for seed in 1..=4 {
        let mut random = Random(seed);
        let mut streams = [Vec::new(), Vec::new(), bursts(&mut random, 60_000)];
        while streams[0].len() < 60_000 {
            hash_table(&mut random, &mut streams[0]);
        }
        while streams[1].len() < 60_000 {
            heap(&mut random, &mut streams[1]);
        }
        for lines in &streams {
            let sizes = [64, 128, 256, 512];
            let mut profile = profile_of(lines);
            for overlap in overlaps(lines, 8, &mut random) {
                profile.record_overlap(&overlap);
            }
            let model = StatStack::fit(&profile).unwrap();
            for (size, truth) in sizes.into_iter().zip(exact(lines, &sizes)) {
                let off = (model.miss_ratio(CacheLines(size)) - truth).abs();
                let error = model.standard_error(CacheLines(size));
                held += u32::from(off < 1.96 * error);
                all += 1;
            }
        }
    }
    assert!(100 * held >= 85 * all, "{held} of {all} hold");
}

/// A loop over as many lines as fit, and at times a walk elsewhere: the few accesses of the walk have more lines between them
/// than the loop's distances let one expect. That is theirs, and moves no miss of the loop.
#[test]
fn what_a_few_accesses_show_is_not_said_of_a_loop_beside_them() {
    let sizes = [150, 170, 210, 260, 300];
    for seed in 1..=3 {
        let mut random = Random(seed);
        let mut lines = Vec::new();
        while lines.len() < 60_000 {
            lines.extend((0..4_000).map(|at| at % 190));
            lines.extend((0..600).map(|_| 1_000 + random.below(4_000)));
        }
        let mut profile = profile_of(&lines);
        for overlap in overlaps(&lines, 8, &mut random) {
            profile.record_overlap(&overlap);
        }
        let model = StatStack::fit(&profile).unwrap();
        for (size, truth) in sizes.into_iter().zip(exact(&lines, &sizes)) {
            let off = model.miss_ratio(CacheLines(size)) - truth;
            assert!(off.abs() < 0.03, "seed {seed}, {size} lines: {off:+.3} beside {truth:.3}");
        }
    }
}

/// Independent accesses are what the plain model assumes: overlaps must not lead away from it.
#[test]
fn without_deviations_nothing_is_corrected() {
    for seed in 1..=3 {
        let mut random = Random(seed);
        let lines: Vec<u64> = (0..60_000).map(|_| random.below(300)).collect();
        let mut profile = profile_of(&lines);
        for overlap in overlaps(&lines, 8, &mut random) {
            profile.record_overlap(&overlap);
        }
        let (fitted, plain) =
            (StatStack::fit(&profile).unwrap(), StatStack::fit_distances(&profile).unwrap());
        for size in [16, 64, 128, 192, 256, 290] {
            // Binomial scatter of single stack distances is all that there is to find: at most a point.
            let (a, b) = (fitted.miss_ratio(CacheLines(size)), plain.miss_ratio(CacheLines(size)));
            assert!((a - b).abs() < 0.01, "seed {seed}, {size} lines: {a} against {b}");
        }
    }
}

fn with_overlaps(profile: &ReuseProfile, drawn: &[(u32, u16, u8)]) -> ReuseProfile {
    let mut profile = profile.clone();
    for &(distance, open, weight) in drawn {
        let distance = u64::from(distance >> (weight % 32));
        profile.record_overlap(&overlap(distance, u64::from(weight) + 1, u64::from(open).min(distance)));
    }
    profile
}

fn sizes() -> impl Iterator<Item = CacheLines> {
    (0..40).map(|k| CacheLines(if k < 8 { k } else { 1 << (k - 5) }))
}

quickcheck! {
    /// Whatever the overlaps say, even what no stream could: a ratio that never rises, from 1 to what is
    /// never reused.
    fn laws_hold_for_any_overlaps(profile: AnyProfile, drawn: Vec<(u32, u16, u8)>) -> bool {
        let profile = with_overlaps(&profile.0, &drawn);
        let model = StatStack::fit(&profile).unwrap();
        let distribution = profile.distribution();
        let never = distribution.dangling() + distribution.unresolved();
        let ratios: Vec<f64> = sizes().map(|size| model.miss_ratio(size)).collect();
        ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio))
            && ratios.windows(2).all(|pair| pair[0] >= pair[1])
            && ratios[0] == 1.0
            && ratios.iter().all(|&ratio| ratio >= never - 1e-9)
            && (model.miss_ratio(CacheLines(u64::MAX)) - never).abs() < 1e-9
    }

    fn bounds_lie_around_the_ratio(profile: AnyProfile, drawn: Vec<(u32, u16, u8)>) -> bool {
        let model = StatStack::fit(&with_overlaps(&profile.0, &drawn)).unwrap();
        sizes().all(|size| {
            let (low, high) = model.miss_ratio_bounds(size);
            (0.0..=high).contains(&low) && high == model.miss_ratio(size)
        })
    }

    fn single_accesses_add_up_to_the_miss_ratio(profile: AnyProfile, drawn: Vec<(u32, u16, u8)>) -> TestResult {
        let profile = with_overlaps(&profile.0, &drawn);
        let masses = profile.distribution().masses().to_vec();
        if masses.iter().any(|mass| mass.low < mass.high) {
            return TestResult::discard(); // a bin may be cut by a knee
        }
        let model = StatStack::fit(&profile).unwrap();
        // Single answers are tabulated: straight lines over a thirty-second of an octave.
        TestResult::from_bool(sizes().all(|size| {
            (model.miss_ratio(size) - model.miss_ratio_of(&profile, size).unwrap()).abs() < 0.02
        }))
    }

    fn keeps_the_laws_of_cache_models(profile: AnyProfile, drawn: Vec<(u32, u16, u8)>, seed: u64) -> bool {
        laws::cache_model(&StatStack::fit(&with_overlaps(&profile.0, &drawn)).unwrap(), seed).unwrap();
        true
    }

    fn keeps_them_for_bursts(seed: u64) -> bool {
        laws_of_bursts(seed);
        true
    }
}

fn laws_of_bursts(seed: u64) {
    let mut random = Random(seed);
    let lines = bursts(&mut random, 20_000);
    let mut profile = profile_of(&lines);
    for overlap in overlaps(&lines, 8, &mut random) {
        profile.record_overlap(&overlap);
    }
    laws::cache_model(&StatStack::fit(&profile).unwrap(), seed).unwrap();
}

/// Deviations fall and rise again at a distance between two of those that are tabulated.
#[test]
fn keeps_them_where_deviations_turn() {
    laws_of_bursts(11_232_884_427_572_680_079);
}
