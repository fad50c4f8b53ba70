//! Streams whose miss ratio is known in closed form.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Random, profile_of};
use reuse_sampler::{
    CacheLines, CacheModel, Clock, Error, Grouped, Reuse, ReuseDistance, ReuseProfile, Scope,
    differences_within_phase,
};
use statstack::StatStack;

/// LRU keeps nothing of a cyclic scan over more lines than it has, and everything otherwise.
#[test]
fn cyclic_scan_falls_off_its_cliff_at_the_exact_line() {
    for lines in [2_u64, 3, 64, 1000, 1500] {
        let rounds = 50;
        let stream: Vec<u64> = (0..lines * rounds).map(|i| i % lines).collect();
        let model = StatStack::fit(&profile_of(&stream)).unwrap();
        // Beyond distances of 1,023 a bin is up to 1/128 wide: the cliff has that slope.
        let bin = if lines <= 1024 { 0 } else { lines / 128 + 1 };
        assert_eq!(model.miss_ratio(CacheLines(lines - 1 - bin)), 1.0, "{lines} lines");
        let cold = 1.0 / rounds as f64;
        let ratio = model.miss_ratio(CacheLines(lines + bin));
        assert!((ratio - cold).abs() < 1e-12, "{lines} lines: {ratio}");
    }
}

/// With the sum as the paper prints it, the cliff comes one line late.
#[test]
fn published_sum_puts_the_cliff_one_line_low() {
    let stream: Vec<u64> = (0..5000).map(|i| i % 100).collect();
    let model = StatStack::fit_published(&profile_of(&stream)).unwrap();
    assert_eq!(model.miss_ratio(CacheLines(98)), 1.0);
    assert_eq!(model.miss_ratio(CacheLines(99)), 0.02);
}

/// Uniformly random accesses to N lines miss with probability 1 - L / N, and r of them touch
/// N (1 - (1 - 1/N)^r) different lines.
#[test]
fn uniform_random_accesses_miss_in_proportion_to_what_does_not_fit() {
    let lines = 1000_u64;
    let mut random = Random(1);
    let stream: Vec<u64> = (0..400_000).map(|_| random.below(lines)).collect();
    let model = StatStack::fit(&profile_of(&stream)).unwrap();
    for size in [10, 100, 500, 900, 990] {
        let expected = 1.0 - size as f64 / lines as f64;
        let ratio = model.miss_ratio(CacheLines(size));
        // Four standard deviations of 400,000 draws are 0.003; the cold misses add up to 1000 / 400,000; and
        // one stack distance for all accesses of one reuse distance shifts the curve by about as much.
        assert!((ratio - expected).abs() < 0.008, "{size}: {ratio} against {expected}");
    }
    for distance in [1_u64, 10, 300, 2000] {
        let expected = lines as f64 * (1.0 - (1.0 - 1.0 / lines as f64).powf(distance as f64));
        let stack = model.expected_stack_distance(ReuseDistance(distance));
        assert!((stack / expected - 1.0).abs() < 0.01, "{distance}: {stack} against {expected}");
    }
}

/// Two scans run one after the other: fitted apart, each has its own cliff; fitted together, their distances
/// are mixed up. That is what groupings are for.
#[test]
fn groups_keep_the_cliffs_of_phases_apart() {
    let profile = |lines: u64| profile_of(&(0..200_000).map(|i| i % lines).collect::<Vec<u64>>());
    let (short, long) = (profile(50), profile(800));
    let grouped = Grouped::fit([&short, &long], StatStack::fit).unwrap();
    let mut together = short.clone();
    together.merge(&long).unwrap();
    let oblivious = StatStack::fit(&together).unwrap();
    let truth = |size: u64| {
        let scan = |lines: u64| if size < lines { 1.0 } else { lines as f64 / 200_000.0 };
        f64::midpoint(scan(50), scan(800))
    };
    let error = |model: &dyn CacheModel| -> f64 {
        let sizes = [25, 49, 50, 100, 300, 450, 799, 800];
        sizes.iter().map(|&size| (model.miss_ratio(CacheLines(size)) - truth(size)).abs()).sum()
    };
    assert!(error(&grouped) < 1e-9);
    assert!(error(&oblivious) > 0.4, "{}", error(&oblivious));
    // One access of unknown phase: half of the accesses see the short scan.
    let probability = grouped.miss_probability(Reuse::Distance(ReuseDistance(600)), CacheLines(100));
    assert_eq!(probability, 0.5);
}

/// Accesses of one window judged by the stream they are made in: the loads of a mix that misses one in two.
#[test]
fn another_profile_is_judged_by_the_fitted_stream() {
    let mut near = ReuseProfile::new(reuse_sampler::LineSize::B64);
    near.record_many(reuse_sampler::Outcome::Reused(ReuseDistance(10)), 30, 1);
    near.record_many(reuse_sampler::Outcome::Reused(ReuseDistance(90)), 10, 1);
    let scan: Vec<u64> = (0..10_000).map(|i| i % 100).collect();
    let model = StatStack::fit(&profile_of(&scan)).unwrap();
    assert_eq!(model.miss_ratio_of(&near, CacheLines(50)).unwrap(), 0.25);
    assert_eq!(model.miss_ratio_of(&near, CacheLines(91)).unwrap(), 0.0);
    // Of other lines, or by another clock, it says nothing.
    let of = |bytes, clock| ReuseProfile::with_clock(reuse_sampler::LineSize::new(bytes).unwrap(), clock);
    let refused = |other: &ReuseProfile| model.miss_ratio_of(other, CacheLines(50)).unwrap_err();
    let mixed = Error::MixedLineSizes { left: 64, right: 128 };
    assert_eq!(refused(&of(128, Clock::Accesses)), mixed);
    let clocks = Error::MixedClocks { left: Clock::Accesses, right: Clock::Instructions };
    assert_eq!(refused(&of(64, Clock::Instructions)).to_string(), clocks.to_string());
    let windows = [&near, &of(128, Clock::Accesses)];
    assert!(differences_within_phase(&windows[..1], &model, &[CacheLines(50)]).is_ok());
    let mut other = of(128, Clock::Accesses);
    other.record(reuse_sampler::Outcome::Dangling, 1);
    let differences = differences_within_phase(&[&near, &other], &model, &[CacheLines(50)]);
    assert_eq!(differences.unwrap_err(), mixed);
    // What all threads do is not judged by what one does.
    let all = ReuseProfile::with_units(reuse_sampler::LineSize::B64, Clock::Accesses, Scope::Shared);
    assert!(matches!(refused(&all), Error::MixedScopes { left: Scope::Private, right: Scope::Shared }));
}
