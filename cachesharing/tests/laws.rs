//! The laws of sharing models, run by all models of this crate and broken by one that is wrong.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cachesharing::laws::{Violation, sharing_model};
use cachesharing::{
    CacheCurve, EvictionAge, LruPartition, Random, SharedCache, SharingModel, Solution, Start,
};

#[test]
fn all_models_obey_the_laws() {
    let models: [&dyn SharingModel; 3] = [&EvictionAge::default(), &Random, &LruPartition::default()];
    for seed in 0..100 {
        for (number, model) in models.iter().enumerate() {
            sharing_model(*model, seed).unwrap_or_else(|violation| panic!("model {number}: {violation}"));
        }
    }
}

/// Eviction age, of which the first program loses a tenth.
struct Unfair;

impl SharingModel for Unfair {
    fn solve(&self, cache: &SharedCache, curves: &[&CacheCurve], start: Start, solution: &mut Solution) {
        EvictionAge::default().solve(cache, curves, start, solution);
        solution.allocations[0].bytes *= 0.9;
    }
}

#[test]
fn a_model_that_loses_bytes_is_found_out() {
    let violation = sharing_model(&Unfair, 1).unwrap_err();
    assert!(matches!(violation, Violation::Value { law: "shares add up to the cache", .. }), "{violation}");
}
