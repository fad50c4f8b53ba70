//! Models come back as they were saved, and what contradicts itself is refused.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use ciborium::Value;
use common::{AnyProfile, Random, profile_of};
use quickcheck::quickcheck;
use statcache::{CacheLines, CacheModel, Reuse, ReuseDistance, StatCache};

fn again(model: &StatCache) -> StatCache {
    serde_json::from_str(&serde_json::to_string(model).unwrap()).unwrap()
}

fn sizes() -> impl Iterator<Item = CacheLines> {
    (0..30).map(|k| CacheLines(if k < 8 { k } else { 1 << (k - 5) }))
}

/// Everything a model says at some sizes, bit by bit.
fn answers(model: &StatCache) -> Vec<u64> {
    let at = |size: CacheLines| {
        let (low, high) = model.miss_ratio_bounds(size);
        let single = model.at(size).miss_probability(Reuse::Distance(ReuseDistance(2 * size.0)));
        [low, high, single].map(f64::to_bits)
    };
    sizes().flat_map(at).collect()
}

fn fits(profile: &AnyProfile) -> [StatCache; 3] {
    let windows = [profile.0.clone(), profile_of(&[1, 2, 3, 1, 2, 3, 4]), profile.0.clone()];
    [
        StatCache::fit(&profile.0).unwrap(),
        StatCache::fit_from_empty(&profile.0).unwrap(),
        StatCache::fit_in_time(&windows).unwrap(),
    ]
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

quickcheck! {
    fn models_answer_as_they_did(profile: AnyProfile) -> bool {
        fits(&profile).iter().all(|model| answers(&again(model)) == answers(model))
    }

    fn damaged_models_are_refused_or_sound(profile: AnyProfile, seed: u64) -> bool {
        let mut random = Random(seed);
        fits(&profile).iter().all(|model| {
            let mut saved = Value::serialized(model).unwrap();
            damage(&mut saved, &mut random);
            let Ok(read) = saved.deserialized::<StatCache>() else { return true };
            sizes().all(|size| (0.0..=1.0).contains(&read.miss_ratio(size)))
        })
    }
}

#[test]
fn what_contradicts_itself_is_refused_by_name() {
    let profile = profile_of(&[1, 2, 3, 1, 2, 3, 4]);
    let good = serde_json::to_string(&StatCache::fit_from_empty(&profile).unwrap()).unwrap();
    for (from, to, problem) in [
        ("\"version\":1", "\"version\":2", "has format 2, this release reads 1"),
        ("\"times\":[0.0,", "\"times\":[0.5,", "do not rise from 0"),
        ("\"times\":[0.0,", "\"times\":[", "bounds and"),
        ("\"near\":0.0", "\"near\":-1.0", "-1 reuses"),
        ("\"horizon\":2", "\"horizon\":-2", "invalid value"),
    ] {
        assert!(good.contains(from), "{from} is not in {good}");
        let refused = serde_json::from_str::<StatCache>(&good.replace(from, to)).unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");
    }
}
