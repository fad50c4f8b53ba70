//! What holds for every profile, and the formulas against sums written out.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::AnyProfile;
use quickcheck::{TestResult, quickcheck};
use reuse_sampler::{
    CacheLines, CacheModel, Clock, Grouped, LineSize, Outcome, Reuse, ReuseDistance, ReuseProfile, laws,
};
use statstack::{Error, StatStack};

fn sizes() -> impl Iterator<Item = CacheLines> {
    (0..40).map(|k| CacheLines(if k < 8 { k } else { 1 << (k - 5) }))
}

quickcheck! {
    fn keeps_the_laws_of_cache_models(profile: AnyProfile, seed: u64) -> bool {
        let fits = [StatStack::fit, StatStack::fit_distances, StatStack::fit_published];
        fits.into_iter().all(|fit| {
            let model = fit(&profile.0).unwrap();
            let grouped = Grouped::new([(1.0, &model), (3.0, &model)]).unwrap();
            laws::cache_model(&model, seed).and(laws::cache_model(&grouped, seed)).unwrap();
            true
        })
    }

    fn no_cache_misses_everything_and_an_endless_one_what_is_never_reused(profile: AnyProfile) -> bool {
        let model = StatStack::fit(&profile.0).unwrap();
        let distribution = profile.0.distribution();
        let never = distribution.dangling() + distribution.unresolved();
        model.miss_ratio(CacheLines(0)) == 1.0
            && (model.miss_ratio(CacheLines(u64::MAX)) - never).abs() < 1e-9
    }

    fn samples_may_stand_for_any_number_of_accesses(profile: AnyProfile, weight: u16) -> bool {
        let mut scaled = ReuseProfile::new(LineSize::B64);
        let weight = u64::from(weight) + 1;
        for (low, high, w) in profile.0.reused_bins() {
            scaled.record(Outcome::Reused(ReuseDistance(low + (high - low) / 2)), w * weight);
        }
        for (low, _, w) in profile.0.censored_bins() {
            scaled.record(Outcome::Censored { at_least: low }, w * weight);
        }
        scaled.record(Outcome::Dangling, profile.0.dangling_weight() * weight);
        let (a, b) = (StatStack::fit(&profile.0).unwrap(), StatStack::fit(&scaled).unwrap());
        sizes().all(|size| (a.miss_ratio(size) - b.miss_ratio(size)).abs() < 1e-9)
    }

    fn single_accesses_add_up_to_the_miss_ratio(profile: AnyProfile) -> bool {
        let model = StatStack::fit(&profile.0).unwrap();
        let distribution = profile.0.distribution();
        // Within the bin that holds the knee the sum over middles takes all or nothing.
        let widest = distribution.masses().iter().map(|m| m.probability).fold(0.0, f64::max);
        sizes().all(|size| {
            let exact = distribution.masses().iter().all(|m| m.low == m.high);
            let tolerance = if exact { 1e-9 } else { widest };
            (model.miss_ratio(size) - model.miss_ratio_of(&profile.0, size).unwrap()).abs() <= tolerance + 1e-9
        })
    }

    /// Nothing is followed beyond some age: whatever the lost samples would have done lies in the bounds.
    fn bounds_hold_the_truth(profile: AnyProfile, cut: u16) -> TestResult {
        let cut = u64::from(cut % 1000);
        if profile.0.censored_weight() > 0 {
            return TestResult::discard();
        }
        let mut seen = ReuseProfile::new(LineSize::B64);
        for (low, high, weight) in profile.0.reused_bins() {
            let distance = low + (high - low) / 2;
            let reused = Outcome::Reused(ReuseDistance(distance));
            seen.record(if distance < cut { reused } else { Outcome::Censored { at_least: cut } }, weight);
        }
        seen.record(Outcome::Censored { at_least: cut }, profile.0.dangling_weight());
        let (whole, part) = (StatStack::fit(&profile.0).unwrap(), StatStack::fit(&seen).unwrap());
        TestResult::from_bool(sizes().all(|size| {
            let (low, high) = part.miss_ratio_bounds(size);
            let ratio = whole.miss_ratio(size);
            low - 1e-9 <= ratio && ratio <= high + 1e-9 && high == part.miss_ratio(size)
        }))
    }

    fn bounds_meet_where_nothing_was_lost(profile: AnyProfile) -> TestResult {
        if profile.0.censored_weight() > 0 {
            return TestResult::discard();
        }
        let model = StatStack::fit(&profile.0).unwrap();
        TestResult::from_bool(sizes().all(|size| {
            model.miss_ratio_bounds(size) == (model.miss_ratio(size), model.miss_ratio(size))
        }))
    }

    /// ES(r) written out as a sum, by both formulas, and the first missing distance by search.
    fn expected_stack_distance_is_the_sum(profile: AnyProfile) -> bool {
        let (model, published) =
            (StatStack::fit(&profile.0).unwrap(), StatStack::fit_published(&profile.0).unwrap());
        let distribution = profile.0.distribution();
        let (mut sum, mut printed) = (0.0, 0.0);
        let mut stacks = vec![0.0];
        for distance in 1..3000_u64 {
            sum += distribution.beyond(distance - 1);
            printed += distribution.beyond(distance);
            stacks.push(sum);
            let es = model.expected_stack_distance(ReuseDistance(distance));
            let es_printed = published.expected_stack_distance(ReuseDistance(distance));
            if (es - sum).abs() > 1e-7 * sum.max(1.0) || (es_printed - printed).abs() > 1e-7 * printed.max(1.0) {
                return false;
            }
        }
        [1, 2, 7, 64, 1000].into_iter().all(|lines| {
            let found = stacks.iter().position(|&stack| stack >= lines as f64 * (1.0 - 1e-9));
            let first = model.first_miss(CacheLines(lines)).0;
            found.map_or(first >= 3000, |found| first.abs_diff(found as u64) <= 1)
        })
    }
}

#[test]
fn profiles_that_cannot_be_modelled_are_refused() {
    assert_eq!(StatStack::fit(&ReuseProfile::new(LineSize::B64)).unwrap_err(), Error::EmptyProfile);
    let mut profile = ReuseProfile::with_clock(LineSize::B64, Clock::Instructions);
    profile.record(Outcome::Dangling, 1);
    assert_eq!(StatStack::fit(&profile).unwrap_err(), Error::Clock { found: Clock::Instructions });
}

#[test]
fn a_program_that_reuses_nothing_always_misses() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    profile.record(Outcome::Dangling, 100);
    let model = StatStack::fit(&profile).unwrap();
    assert!(sizes().all(|size| model.miss_ratio(size) == 1.0));
    assert_eq!(model.miss_probability(Reuse::Distance(ReuseDistance(9)), CacheLines(10)), 0.0);
    assert_eq!(model.miss_probability(Reuse::Distance(ReuseDistance(10)), CacheLines(10)), 1.0);
    assert_eq!(model.miss_probability(Reuse::Dangling, CacheLines(u64::MAX)), 1.0);
}
