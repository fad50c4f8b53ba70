//! Streams whose miss ratio under random replacement is known.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Random, profile_of};
use reuse_sampler::{CacheLines, CacheModel, Grouped, LineSize, Outcome, ReuseDistance, ReuseProfile};
use statcache::StatCache;

/// A fully associative cache that replaces at random, simulated; empty places are filled first.
fn simulate(stream: &[u64], size: usize, seed: u64) -> f64 {
    let mut random = Random(seed);
    let (mut held, mut place) = (Vec::new(), std::collections::HashMap::new());
    let mut misses = 0;
    for &line in stream {
        if place.contains_key(&line) {
            continue;
        }
        misses += 1;
        if held.len() < size {
            place.insert(line, held.len());
            held.push(line);
        } else {
            let victim = random.below(size as u64) as usize;
            place.remove(&held[victim]);
            place.insert(line, victim);
            held[victim] = line;
        }
    }
    f64::from(misses) / stream.len() as f64
}

/// Lines are taken at random by another thread now and then: the place that is free is filled by the next miss, which evicts
/// nothing.
#[test]
fn misses_that_fill_places_of_taken_lines_evict_nothing() {
    let (footprint, size, accesses) = (1_000_u64, 700_usize, 2_000_000_u64);
    let mut random = Random(5);
    let (mut held, mut place) = (Vec::<u64>::new(), std::collections::HashMap::<u64, usize>::new());
    let mut last = std::collections::HashMap::<u64, u64>::new();
    let (mut misses, mut profile) = (0, ReuseProfile::new(LineSize::B64));
    for now in 0..accesses {
        if random.below(10) == 0 {
            let taken = random.below(footprint);
            if let Some(at) = place.remove(&taken) {
                let moved = held.pop().unwrap();
                if moved != taken {
                    held[at] = moved;
                    place.insert(moved, at);
                }
            }
            if let Some(before) = last.remove(&taken) {
                profile.record(Outcome::Invalidated(ReuseDistance(now - before - 1)), 1);
            }
        }
        let line = random.below(footprint);
        if let Some(before) = last.insert(line, now) {
            profile.record(Outcome::Reused(ReuseDistance(now - before - 1)), 1);
        }
        if place.contains_key(&line) {
            continue;
        }
        misses += 1;
        if held.len() < size {
            place.insert(line, held.len());
            held.push(line);
        } else {
            let victim = random.below(size as u64) as usize;
            place.remove(&held[victim]);
            place.insert(line, victim);
            held[victim] = line;
        }
    }
    let (found, exact) =
        (StatCache::fit(&profile).unwrap().miss_ratio(CacheLines(700)), misses as f64 / accesses as f64);
    assert!((found - exact).abs() < 0.003, "{found} {exact}");
}

/// An endless cyclic scan over N lines: all distances are N - 1, and R = 1 - (1 - 1/L)^((N - 1) R). With as
/// many lines as are scanned, nothing misses.
#[test]
fn endless_cyclic_scan_solves_its_own_equation() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    profile.record(Outcome::Reused(ReuseDistance(999)), 1);
    let model = StatCache::fit(&profile).unwrap();
    for size in [10_u64, 500, 900] {
        let mut expected = 1.0_f64;
        for _ in 0..10_000 {
            expected = 1.0 - (1.0 - 1.0 / size as f64).powf(999.0 * expected);
        }
        let ratio = model.miss_ratio(CacheLines(size));
        assert!((ratio - expected).abs() < 1e-9, "{size}: {ratio} against {expected}");
    }
    assert!(model.miss_ratio(CacheLines(1000)) < 1e-9);
    assert!(model.miss_ratio(CacheLines(1 << 40)) < 1e-9);
}

/// Uniformly random accesses to N lines miss with probability 1 - L / N whatever is replaced. The profile is
/// that of an endless run: distances d with probability (1 - 1/N)^d / N.
#[test]
fn uniform_random_accesses_miss_in_proportion_to_what_does_not_fit() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    let mut weight = 1e15;
    for distance in 0..40_000 {
        profile.record(Outcome::Reused(ReuseDistance(distance)), weight as u64);
        weight *= 1.0 - 1e-3;
    }
    let model = StatCache::fit(&profile).unwrap();
    for size in [10, 100, 500, 900, 990] {
        let expected = 1.0 - size as f64 / 1000.0;
        let ratio = model.miss_ratio(CacheLines(size));
        // One in L: the equation evicts with (1 - 1/L)^n after n misses of others, where a hit was a miss.
        assert!((ratio - expected).abs() < 1.5 / size as f64, "{size}: {ratio} against {expected}");
    }
}

/// Mixed streams against the simulated cache: the mean of the simulation's eight seeds is known to 0.001.
#[test]
fn mixed_streams_agree_with_simulation() {
    let mut random = Random(5);
    let stream: Vec<u64> = (0..200_000_u64)
        .map(|i| match random.below(4) {
            0 => 10_000 + i % 700,
            1 => 20_000 + random.below(3000),
            _ => random.below(60),
        })
        .collect();
    let model = StatCache::fit_from_empty(&profile_of(&stream)).unwrap();
    for size in [32, 256, 1024, 4096] {
        let simulated = (0..8).map(|seed| simulate(&stream, size, seed)).sum::<f64>() / 8.0;
        let ratio = model.miss_ratio(CacheLines(size as u64));
        assert!((ratio - simulated).abs() < 0.004, "{size}: {ratio} against {simulated}");
    }
}

/// A short run in a large cache: without the correction, replacements are modelled while places are free.
#[test]
fn starting_empty_matters_for_short_runs_in_large_caches() {
    let mut random = Random(3);
    let stream: Vec<u64> = (0..30_000).map(|_| random.below(2000)).collect();
    let profile = profile_of(&stream);
    let (full, empty) = (StatCache::fit(&profile).unwrap(), StatCache::fit_from_empty(&profile).unwrap());
    let mut errors = [0.0_f64; 2];
    for size in [500, 1000, 1500, 1900, 2000, 2500] {
        let simulated = (0..8).map(|seed| simulate(&stream, size, seed)).sum::<f64>() / 8.0;
        for (error, model) in errors.iter_mut().zip([&full, &empty]) {
            *error += (model.miss_ratio(CacheLines(size as u64)) - simulated).abs() / 6.0;
        }
    }
    // Measured: 0.020 and 0.002.
    assert!(errors[1] < 0.005 && errors[1] < errors[0] / 4.0, "{errors:?}");
    // Where everything fits, exactly the first touches miss.
    assert!((empty.miss_ratio(CacheLines(2000)) - 2000.0 / 30_000.0).abs() < 1e-9);
}

/// Searches in a tree, the same all along, but for lines that are touched for the last time only near the end: windows that
/// are merged until the first is half of the run. Spread evenly over that window, first touches would fill the cache too
/// late, and everything would seem to fit: 3.7 % of the accesses missed in half of the lines, not 14.3 %.
#[test]
fn a_run_that_never_changes_loses_nothing_by_being_cut_into_windows() {
    let mut random = Random(9);
    let mut stream = Vec::new();
    while stream.len() < 1_600_000 {
        let mut node = 1;
        for _ in 0..13 {
            stream.push(node);
            node = 2 * node + random.below(2);
        }
    }
    // Each sample belongs to the window that started it.
    let length = stream.len().div_ceil(64);
    let mut windows = vec![ReuseProfile::new(LineSize::B64); 64];
    let mut last = std::collections::HashMap::new();
    for (at, &line) in stream.iter().enumerate() {
        windows[at / length].add_accesses(1);
        if let Some(before) = last.insert(line, at) {
            windows[before / length].record(Outcome::Reused(ReuseDistance((at - before - 1) as u64)), 1);
        }
    }
    last.values().for_each(|at| windows[at / length].record(Outcome::Dangling, 1));
    let model = StatCache::fit_in_time(&windows).unwrap();
    for size in [512, 2048, 4096, 6144] {
        let simulated = (0..4).map(|seed| simulate(&stream, size, seed)).sum::<f64>() / 4.0;
        let ratio = model.miss_ratio(CacheLines(size as u64));
        // The means of four seeds are known to 0.0001.
        assert!((ratio - simulated).abs() < 0.002, "{size}: {ratio} against {simulated}");
    }
}

/// A naive matrix product is off by points at small caches, and its standard error says so; that of searches in a tree, as
/// steep but with reuses of all lengths, is a third to a fifth as large for its steepness.
#[test]
fn the_standard_error_of_loops_is_larger_than_that_of_searches() {
    let (n, mut random) = (64_u64, Random(4));
    let mut product = Vec::new();
    for (row, column) in (0..n * n).map(|at| (at / n, at % n)) {
        product
            .extend((0..n).flat_map(|k| [row * n + k, 100_000 + k * n + column].map(|element| element / 8)));
    }
    let mut searches = Vec::new();
    while searches.len() < product.len() {
        searches
            .extend((0..12).scan(1, |node, _| Some(std::mem::replace(node, 2 * *node + random.below(2)))));
    }
    let errors = [&product, &searches].map(|stream| {
        let model = StatCache::fit_from_empty(&profile_of(stream)).unwrap();
        [32_u64, 64, 128].map(|size| {
            let simulated = (0..8).map(|seed| simulate(stream, size as usize, seed)).sum::<f64>() / 8.0;
            let ratio = |lines: u64| model.miss_ratio(CacheLines(lines));
            let error = model.standard_error(CacheLines(size));
            let off = (ratio(size) - simulated).abs();
            assert!(off < 1.96 * error, "{size}: {off} with a standard error of {error}");
            (off, error / (ratio(size / 2) - ratio(2 * size)))
        })
    });
    let most = |errors: &[(f64, f64)]| errors.iter().map(|error| error.0).fold(0.0, f64::max);
    assert!(most(&errors[0]) > 0.02 && most(&errors[1]) < 0.004, "{errors:?}");
    assert!(errors[0].iter().zip(&errors[1]).all(|(product, tree)| product.1 > 2.5 * tree.1), "{errors:?}");
}

/// 64 windows of a run, each with the accesses that start in it.
fn windows_of(stream: &[u64]) -> Vec<ReuseProfile> {
    let length = stream.len().div_ceil(64);
    let mut windows: Vec<ReuseProfile> = stream
        .chunks(length)
        .map(|window| {
            let mut profile = ReuseProfile::new(LineSize::B64);
            profile.add_accesses(window.len() as u64);
            profile
        })
        .collect();
    let mut next = std::collections::HashMap::new();
    for (at, &line) in stream.iter().enumerate().rev() {
        let outcome = match next.insert(line, at) {
            Some(after) => Outcome::Reused(ReuseDistance((after - at - 1) as u64)),
            None => Outcome::Dangling,
        };
        windows[at / length].record(outcome, 1);
    }
    windows
}

/// Loops over arrays of changing length, each shorter than a step of the model. In small caches their misses come in bursts that
/// it does not see: it is off by points, and says so. Large ones it follows, and says that, too.
#[test]
fn intervals_in_time_hold_where_misses_come_in_bursts_and_are_narrow_where_they_do_not() {
    let (mut held, mut all) = (0, 0);
    for seed in 1..=6 {
        let mut random = Random(seed);
        let mut loops = Vec::new();
        while loops.len() < 400_000 {
            let (lines, base) = (64 << random.below(8), random.below(8) * 20_000);
            let times = 1 + random.below((50_000 / lines).min(60));
            (0..times).for_each(|_| loops.extend((0..2 * lines).map(|touch| base + touch / 2)));
        }
        let model = StatCache::fit_in_time(&windows_of(&loops)).unwrap();
        for size in [64_u64, 128, 256, 512, 1024, 2048, 4096, 8192] {
            let simulated = (0..4).map(|seed| simulate(&loops, size as usize, seed)).sum::<f64>() / 4.0;
            let off = (model.miss_ratio(CacheLines(size)) - simulated).abs();
            let error = model.standard_error(CacheLines(size));
            held += u32::from(off < 1.96 * error);
            all += 1;
            let steep = model.miss_ratio(CacheLines(size / 2)) - model.miss_ratio(CacheLines(2 * size));
            let share = error / steep;
            match size {
                64 => assert!(share > 0.1, "{seed}: {share}"),
                4096.. => assert!(share < 0.04, "{seed} {size}: {share}"),
                _ => {}
            }
        }
    }
    assert!(held * 100 >= 90 * all, "{held} of {all} hold");
}

/// A small scan and a large one, run one after the other.
#[test]
fn groups_keep_phases_apart() {
    let stream = |lines: u64| (0..200_000).map(|i| i % lines).collect::<Vec<u64>>();
    let (short, long) = (stream(50), stream(800));
    let grouped = Grouped::fit([&profile_of(&short), &profile_of(&long)], StatCache::fit).unwrap();
    let both: Vec<u64> = short.iter().chain(&long).copied().collect();
    let mut together = profile_of(&short);
    together.merge(&profile_of(&long)).unwrap();
    let oblivious = StatCache::fit(&together).unwrap();
    for size in [100, 400] {
        let simulated = simulate(&both, size, 1);
        let error = |model: &dyn CacheModel| (model.miss_ratio(CacheLines(size as u64)) - simulated).abs();
        assert!(
            error(&grouped) < 0.01,
            "{} against {simulated}",
            grouped.miss_ratio(CacheLines(size as u64))
        );
        assert!(error(&oblivious) > 5.0 * error(&grouped));
    }
}
