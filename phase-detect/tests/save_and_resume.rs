//! A state that was saved and resumed goes on exactly as the original; a damaged one is refused.
#![cfg(feature = "serde")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/random.rs"]
mod random;

use phase_detect::online::{DynamicRateConfig, Histories, SharedHistories};
use phase_detect::predict::ScoredPredictors;
use phase_detect::selection::{Forest, ForestConfig};
use phase_detect::{
    Batch, Clusterer, CodeVector, Detection, Detector, Frozen, Guidance, Guide, KMeans, LastValue,
    LeaderFollower, LeaderFollowerConfig, PhaseId, Ppm, Predictor, RunLengthMarkov, Signature,
};
use random::Random;
use serde::{Serialize, de::DeserializeOwned};

fn again<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

fn window(t: u64) -> Signature {
    let mut code = CodeVector::new(32, 1).unwrap();
    for i in 0..20 {
        code.add((t / 7 % 5) * 4096 + i * 16, (1 + (t * i) % 5) as f64);
    }
    code.finish().unwrap()
}

#[test]
fn a_clusterer_and_a_predictor_go_on_where_they_were() {
    let mut clusterer =
        LeaderFollower::new(LeaderFollowerConfig { capacity: Some(4), ..LeaderFollowerConfig::default() })
            .unwrap();
    let mut predictor = RunLengthMarkov::default();
    let mut next = Ppm::default();
    for t in 0..100 {
        let phase = clusterer.classify(&window(t)).unwrap().phase;
        predictor.observe(phase);
        next.observe(phase);
    }
    let (mut clusterer2, mut predictor2, mut next2) = (again(&clusterer), again(&predictor), again(&next));
    for t in 100..200 {
        let (a, b) = (clusterer.classify(&window(t)).unwrap(), clusterer2.classify(&window(t)).unwrap());
        assert_eq!((a.phase, a.members, a.replaced), (b.phase, b.members, b.replaced));
        assert_eq!(a.distance, b.distance);
        predictor.observe(a.phase);
        predictor2.observe(b.phase);
        assert_eq!(predictor.predict(), predictor2.predict());
        next.observe(a.phase);
        next2.observe(b.phase);
        assert_eq!(next, next2);
    }
}

/// What a predictor has counted and faded for long is not mistaken for damage.
#[test]
fn a_predictor_can_be_stored_after_any_window() {
    for seed in 1..=20 {
        let (mut random, mut predictor) = (Random(seed), Ppm::default());
        let mut phase = 0;
        for window in 0..1500 {
            if random.below(1 + seed as usize % 7) == 0 {
                phase = random.below(4) as u32;
            }
            predictor.observe(PhaseId::new(phase));
            if window % 10 == 0 {
                assert_eq!(again(&predictor), predictor, "seed {seed}, window {window}");
            }
        }
    }
}

#[test]
fn a_detector_goes_on_where_it_was() {
    let config = DynamicRateConfig { match_threshold: 0.2, ..DynamicRateConfig::default() };
    let mut original = Detector::default().with_dynamic_rate(config).unwrap();
    for t in 0..100 {
        original.observe(t % 3, &window(t / 3)).unwrap();
    }
    let mut copy: Detector = again(&original);
    for t in 100..200 {
        let (a, b) =
            (original.observe(t % 3, &window(t / 3)).unwrap(), copy.observe(t % 3, &window(t / 3)).unwrap());
        let public = |d: &Detection| (d.window, d.phase, d.changed, d.prediction, d.sample_factor);
        assert_eq!(public(&a), public(&b));
    }
    let later = serde_json::to_string(&original).unwrap().replace("\"format\":3", "\"format\":4");
    assert!(serde_json::from_str::<Detector>(&later).unwrap_err().to_string().contains("format 4"));
}

#[test]
fn predictor_tables_and_shared_histories_survive() {
    let mut scored =
        ScoredPredictors::new(vec![LastValue::new().into(), RunLengthMarkov::default().into()], 16).unwrap();
    let mut shared: SharedHistories = SharedHistories::default();
    for t in 0..200_u32 {
        let phase = PhaseId::new(t / 3 % 4);
        scored.observe(phase);
        shared.observe(u64::from(t % 2), phase);
    }
    assert_eq!(again::<ScoredPredictors>(&scored), scored);
    assert_eq!(again(&shared), shared);
    let broken = serde_json::to_string(&scored).unwrap().replace("\"best\":1", "\"best\":2");
    assert!(serde_json::from_str::<ScoredPredictors>(&broken).is_err());
}

#[test]
fn signatures_frozen_clusterers_and_builders_survive() {
    let mut clusterer = LeaderFollower::new(LeaderFollowerConfig::default()).unwrap();
    clusterer.classify(&window(0)).unwrap();
    let frozen = clusterer.freeze().unwrap();
    let mut copy: Frozen = again(&frozen);
    assert_eq!(copy.classify(&again(&window(0))).unwrap().phase, PhaseId::new(0));
    let mut builder = CodeVector::new(64, 99).unwrap();
    let mut copy = again(&builder);
    builder.add(12345, 1.0);
    copy.add(12345, 1.0);
    assert_eq!(builder.finish().unwrap(), copy.finish().unwrap());
}

#[test]
fn damaged_states_are_refused() {
    let mut clusterer = LeaderFollower::new(LeaderFollowerConfig::default()).unwrap();
    clusterer.classify(&Signature::frequency([3.0, 1.0]).unwrap()).unwrap();
    clusterer.classify(&Signature::frequency([0.0, 1.0]).unwrap()).unwrap();
    let good = serde_json::to_string(&clusterer).unwrap();
    assert!(serde_json::from_str::<LeaderFollower>(&good).is_ok());
    for (from, to) in [
        ("\"entries\":2", "\"entries\":3"),
        ("[0.75,0.25]", "[0.75]"),
        ("\"members\":1", "\"members\":0"),
        ("\"next\":2", "\"next\":1"),
        ("\"id\":1", "\"id\":0"),
        ("\"threshold\":0.1", "\"threshold\":4.0"),
        ("\"capacity\":4096", "\"capacity\":1"),
        ("\"clock\":2", "\"clock\":1"),
        // counts that would overflow, and what no mean of frequencies is
        ("\"clock\":2", "\"clock\":18446744073709551615"),
        ("\"members\":1", "\"members\":18446744073709551615"),
        ("[0.75,0.25]", "[1e300,0.25]"),
        ("[0.75,0.25]", "[-0.75,0.25]"),
    ] {
        assert!(good.contains(from), "{from} not in {good}");
        let damaged = good.replace(from, to);
        assert!(serde_json::from_str::<LeaderFollower>(&damaged).is_err(), "{from} -> {to} was accepted");
    }
    let empty =
        serde_json::to_string(&LeaderFollower::new(LeaderFollowerConfig::default()).unwrap()).unwrap();
    assert!(serde_json::from_str::<LeaderFollower>(&empty).is_ok());
    let wide = empty.replace("\"entries\":0", "\"entries\":18446744073709551615");
    assert!(wide != empty && serde_json::from_str::<LeaderFollower>(&wide).is_err());
    let frozen = serde_json::to_string(&clusterer.freeze().unwrap()).unwrap();
    for (from, to) in [("\"scale\":", "\"scale\":-"), ("\"id\":1", "\"id\":0"), ("[0.75,0.25]", "[3.0,0.25]")]
    {
        assert!(frozen.contains(from), "{from} not in {frozen}");
        assert!(
            serde_json::from_str::<Frozen>(&frozen.replace(from, to)).is_err(),
            "{from} -> {to} was accepted"
        );
    }
    let mut next = Ppm::default();
    (0..40).for_each(|t| next.observe(PhaseId::new(t / 3 % 4)));
    let good = serde_json::to_string(&next).unwrap();
    assert!(serde_json::from_str::<Ppm>(&good).is_ok());
    for (from, to) in [
        ("\"places\":256", "\"places\":255"),
        ("\"places\":256", "\"places\":16384"),
        ("\"most\":8192", "\"most\":128"),
        ("\"stayed\":2.0", "\"stayed\":-2.0"),
        ("\"stayed\":2.0", "\"stayed\":1e9"),
        ("\"balance\":", "\"balance\":1"),
        ("\"change\":0.", "\"change\":7."),
    ] {
        assert!(good.contains(from), "{from} not in {good}");
        let damaged = good.replace(from, to);
        assert!(serde_json::from_str::<Ppm>(&damaged).is_err(), "{from} -> {to} was accepted");
    }
    assert!(serde_json::from_str::<Signature>(r#"{"kind":"Frequency","values":[-1.0]}"#).is_err());
}

#[test]
fn what_was_said_of_windows_comes_back() {
    let mut guide = Guide::default();
    for t in 0..60 {
        let guidance = guide.observe(3, Some(&window(t)), |_| 0.0).unwrap();
        assert_eq!(again::<Guidance>(&guidance), guidance);
        assert_eq!(again::<Detection>(&guidance.detection), guidance.detection);
    }
    let windows: Vec<Signature> = (0..40).map(window).collect();
    let batch = KMeans { clusters: 5, ..KMeans::default() }.fit(&windows).unwrap();
    assert_eq!(again::<Batch>(&batch), batch);
}

#[test]
fn a_forest_decides_as_it_did_and_a_damaged_one_is_refused() {
    let columns =
        vec![(0..200).map(|w| f64::from(w * 7 % 10)).collect(), (0..200).map(f64::from).collect::<Vec<_>>()];
    let classes: Vec<u8> = columns[0].iter().map(|&value| (value / 4.0) as u8).collect();
    let config = ForestConfig { trees: 5, ..ForestConfig::default() };
    let forest = config.grow(&columns, &classes).unwrap();
    let read: Forest<u8> = again(&forest);
    assert_eq!(
        (read.importance(), read.out_of_bag_accuracy()),
        (forest.importance(), forest.out_of_bag_accuracy())
    );
    for value in 0..20 {
        let features = [f64::from(value) / 2.0, 3.0];
        assert_eq!(read.predict(&features).unwrap(), forest.predict(&features).unwrap());
    }
    let good = serde_json::to_string(&forest).unwrap();
    for (from, to) in [
        ("\"left\":1", "\"left\":0"), // for ever
        ("\"right\":2", "\"right\":200000"),
        ("\"feature\":", "\"feature\":7"),
        ("\"Leaf\":", "\"Leaf\":9"),
        ("\"classes\":[0,", "\"classes\":[1,0,"),
    ] {
        assert!(good.contains(from), "{from} not in {good}");
        let damaged = good.replacen(from, to, 1);
        assert!(serde_json::from_str::<Forest<u8>>(&damaged).is_err(), "{from} -> {to} was accepted");
    }
}
