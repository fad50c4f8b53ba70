//! Models and online curves come back as they were saved, and what contradicts itself is refused.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use ciborium::Value;
use common::{AnyProfile, Random, bursts, overlaps, profile_of};
use quickcheck::quickcheck;
use reuse_sampler::{Grouped, SetAssociative};
use serde::Serialize;
use serde::de::DeserializeOwned;
use statstack::{
    CacheLines, CacheModel, Error, OnlineCurve, OnlineOptions, Reuse, ReuseDistance, ReuseProfile, StatStack,
};

fn again<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

fn sizes() -> impl Iterator<Item = CacheLines> {
    (0..40).map(|k| CacheLines(if k < 8 { k } else { 1 << (k - 5) }))
}

/// Everything a model says at some sizes and distances, bit by bit.
fn answers(model: &StatStack) -> Vec<u64> {
    let at = |size: CacheLines| {
        let distance = ReuseDistance(size.0.wrapping_mul(7) / 3);
        let (low, high) = model.miss_ratio_bounds(size);
        let single = model.at(size).miss_probability(Reuse::Distance(distance));
        [low, high, single, model.standard_error(size), model.expected_stack_distance(distance)]
    };
    let mut answers: Vec<u64> = sizes().flat_map(at).map(f64::to_bits).collect();
    answers.extend(sizes().map(|size| model.first_miss(size).0));
    answers
}

/// A profile whose overlapping samples correct the model.
fn corrected(seed: u64) -> ReuseProfile {
    let mut random = Random(seed);
    let lines = bursts(&mut random, 20_000);
    let mut profile = profile_of(&lines);
    for overlap in overlaps(&lines, 8, &mut random) {
        profile.record_overlap(&overlap);
    }
    profile
}

quickcheck! {
    fn models_answer_as_they_did(profile: AnyProfile) -> bool {
        let fits = [StatStack::fit, StatStack::fit_distances, StatStack::fit_published];
        fits.into_iter().all(|fit| {
            let model = fit(&profile.0).unwrap();
            answers(&again(&model)) == answers(&model)
        })
    }
}

#[test]
fn corrected_models_answer_as_they_did_and_can_be_fitted_anew() {
    for seed in 1..=3 {
        let profile = corrected(seed);
        let model = StatStack::fit(&profile).unwrap();
        let plain = StatStack::fit_distances(&profile).unwrap();
        assert_ne!(answers(&model), answers(&plain), "nothing was corrected");
        let mut read = again(&model);
        assert_eq!(answers(&read), answers(&model));
        let other = corrected(seed + 9);
        read.refit(&other).unwrap();
        assert_eq!(answers(&read), answers(&StatStack::fit(&other).unwrap()));
    }
}

#[test]
fn models_of_models_come_back() {
    let models = [1, 2].map(|seed| (1.0, StatStack::fit(&corrected(seed)).unwrap()));
    let grouped = Grouped::new(models).unwrap();
    let sets = SetAssociative::new(grouped.clone(), 8).unwrap();
    let sizes: Vec<CacheLines> = sizes().collect();
    assert_eq!(again(&grouped).curve(&sizes), grouped.curve(&sizes));
    assert_eq!(again(&sets).curve(&sizes), sets.curve(&sizes));
    for (from, to, problem) in
        [("\"ways\":8", "\"ways\":0", "0 ways"), ("[[0.5,", "[[0.75,", "add up to 1.25")]
    {
        let good = serde_json::to_string(&sets).unwrap();
        assert!(good.contains(from), "{from} is not in {good:.200}");
        let refused = serde_json::from_str::<SetAssociative<Grouped<StatStack>>>(&good.replacen(from, to, 1));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");
    }
}

#[test]
fn an_online_curve_goes_on_where_it_was() {
    let mut random = Random(1);
    let keys: Vec<u64> = (0..300_000).map(|i| if i % 3 == 0 { i } else { random.below(2_000) }).collect();
    let mut options = OnlineOptions::default();
    options.capacity = 500;
    let sizes: Vec<CacheLines> = sizes().collect();
    for stopped_at in [0, 1, 4_096, 100_000, 200_001] {
        let mut curve = OnlineCurve::new(options);
        keys[..stopped_at].iter().for_each(|key| curve.observe(key));
        let mut read = again(&curve);
        assert_eq!(read.curve(&sizes), curve.curve(&sizes));
        for key in &keys[stopped_at..] {
            curve.observe(key);
            read.observe(key);
        }
        assert!(curve.sampled_one_in() > 1, "no request was given up");
        assert_eq!(read.curve(&sizes), curve.curve(&sizes), "stopped after {stopped_at}");
        assert_eq!(read.recent_curve(50_000, &sizes), curve.recent_curve(50_000, &sizes));
    }
}

/// Replaces or removes one value, some way down.
fn damage(value: &mut Value, random: &mut Random) {
    match value {
        Value::Array(list) if !list.is_empty() => {
            let at = random.below(list.len() as u64) as usize;
            if random.below(8) == 0 {
                list.remove(at);
            } else {
                damage(&mut list[at], random);
            }
        }
        Value::Map(members) => {
            let at = random.below(members.len() as u64) as usize;
            damage(&mut members[at].1, random);
        }
        Value::Float(number) => {
            let hostile = [f64::NAN, f64::INFINITY, -*number - 1.0, 0.0, 1.5, 1e308, f64::MIN_POSITIVE];
            *number = hostile[random.below(hostile.len() as u64) as usize];
        }
        leaf => {
            let hostile = [
                Value::Null,
                Value::from(-1),
                Value::from(0),
                Value::from(u64::MAX),
                Value::Array(Vec::new()),
            ];
            *leaf = hostile[random.below(hostile.len() as u64) as usize].clone();
        }
    }
}

/// Whether what a damaged text gives is refused, or answers with ratios.
fn is_refused_or_sound<T: DeserializeOwned>(
    damaged: Value,
    curve: impl Fn(&T) -> Result<Vec<f64>, Error>,
) -> bool {
    let Ok(read) = damaged.deserialized::<T>() else { return true };
    curve(&read).is_ok_and(|ratios| ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)))
}

quickcheck! {
    fn damaged_models_are_refused_or_sound(profile: AnyProfile, seed: u64) -> bool {
        let mut random = Random(seed);
        let profile = if seed % 4 == 0 { corrected(seed % 3) } else { profile.0 };
        let mut saved = Value::serialized(&StatStack::fit(&profile).unwrap()).unwrap();
        damage(&mut saved, &mut random);
        is_refused_or_sound(saved, |model: &StatStack| {
            Ok(sizes().flat_map(|size| [model.miss_ratio(size), model.miss_ratio_bounds(size).0]).collect())
        })
    }

    fn damaged_curves_are_refused_or_sound(keys: Vec<u8>, seed: u64) -> bool {
        let mut random = Random(seed);
        let mut options = OnlineOptions::default();
        options.capacity = 16;
        let mut curve = OnlineCurve::new(options);
        (0..40).for_each(|_| keys.iter().for_each(|key| curve.observe(key)));
        curve.observe(&0_u8);
        let mut saved = Value::serialized(&curve).unwrap();
        damage(&mut saved, &mut random);
        is_refused_or_sound(saved, |read: &OnlineCurve| {
            let mut read = read.clone();
            (0..100_u64).for_each(|key| read.observe(&(key % 30)));
            Ok(read.curve(&sizes().collect::<Vec<_>>())?.points.iter().map(|point| point.1).collect())
        })
    }
}

#[test]
fn what_contradicts_itself_is_refused_by_name() {
    let mut profile = ReuseProfile::new(statstack::LineSize::B64);
    profile.record(statstack::Outcome::Reused(ReuseDistance(9)), 1);
    profile.record(statstack::Outcome::Dangling, 1);
    let good = serde_json::to_string(&StatStack::fit_distances(&profile).unwrap()).unwrap();
    for (from, to, problem) in [
        ("\"version\":1", "\"version\":2", "has format 2, this release reads 1"),
        ("\"line_size\":64", "\"line_size\":65", "65 bytes"),
        ("\"dangling\":0.5", "\"dangling\":0.75", "add up to 1.25"),
        ("\"dangling\":0.5", "\"dangling\":-0.5", "dangling of probability -0.5"),
        ("\"low\":9", "\"low\":10", "out of order"),
        (
            "\"deviations\":[]",
            "\"deviations\":[{\"at\":1,\"log_ratio\":0,\"variance\":0}]",
            "without a correction",
        ),
    ] {
        assert!(good.contains(from), "{from} is not in {good}");
        let refused = serde_json::from_str::<StatStack>(&good.replace(from, to)).unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");
    }
}
