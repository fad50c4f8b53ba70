//! Predictions come back as they were saved, and files that contradict themselves are refused.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde::Serialize;
use serde::de::DeserializeOwned;
use statcc::walk::Walked;
use statcc::{
    CacheLines, CoRun, LineSize, LinearLatency, MeasuredCpi, Outcome, Prediction, PrivateLevel, Program,
    ReuseDistance, ReuseProfile, Sensitivity, WindowCpi,
};
use statstack::StatStack;

fn again<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[test]
fn predictions_come_back() {
    let mut profile = ReuseProfile::new(LineSize::B64);
    for (distance, count) in [(5, 600), (20_000, 300), (200_000, 100)] {
        (0..count).for_each(|_| profile.record(Outcome::Reused(ReuseDistance(distance)), 1));
    }
    let l1 = PrivateLevel { hit_ratio: 0.6, latency: 1.0 };
    let cpi = LinearLatency::new(1.0, 0.35, &[l1], 10.0, 130.0).unwrap();
    let program = || Program::in_order(&profile, 0.35, cpi.clone()).unwrap();
    let together = CoRun::new(vec![program(), program()]).unwrap();
    let prediction = together.solve(CacheLines(32_768), StatStack::fit).unwrap();
    assert_eq!(again(&cpi), cpi);
    assert_eq!(again(&prediction), prediction);
    let ranges = together.sensitivity(CacheLines(32_768), 0.05, StatStack::fit).unwrap();
    assert_eq!(again::<Vec<Sensitivity>>(&ranges), ranges);
    let mut walked = Walked::default();
    (walked.accesses, walked.misses, walked.cycles) = (1e6, 1e5 / 3.0, 1e7 / 7.0);
    assert_eq!(again(&walked), walked);
}

#[test]
fn measured_models_come_back() {
    let measured = MeasuredCpi::new([(0.3, 4.0 / 3.0), (0.1, 1.0 / 0.7), (0.7, 2.1)], 0.3).unwrap();
    assert_eq!(again(&measured), measured);
    let window = WindowCpi::from(measured.clone());
    assert_eq!(again(&window), window);
    let good = serde_json::to_string(&measured).unwrap();
    for (from, to, problem) in [
        ("\"private_hits\":0.3", "\"private_hits\":1.3", "1.3"),
        ("[0.7,2.1]", "[1.7,2.1]", "1.7"),
        ("[0.7,2.1]", "[0.7,0.0]", "returns 0 at"),
        ("[0.7,2.1]", "[0.7,null]", "null"),
    ] {
        assert!(good.contains(from), "{from} is not in {good}");
        let refused = serde_json::from_str::<MeasuredCpi>(&good.replace(from, to)).unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");
    }
    assert!(serde_json::from_str::<MeasuredCpi>(r#"{"points": [], "private_hits": 0.0}"#).is_err());
}

#[test]
fn predictions_without_a_solution_are_refused() {
    for (saved, problem) in [
        (r#"{"solutions": [], "outlook": []}"#, "at least one solution"),
        (
            r#"{"solutions": [{"programs": [], "residual": 0.0, "converged": true, "iterations": 1}],
                "outlook": [{"lowest_cpi": 1.0, "highest_cpi": 1.0, "cliff": false}]}"#,
            "one entry per program",
        ),
    ] {
        let refused = serde_json::from_str::<Prediction>(saved).unwrap_err();
        assert!(refused.to_string().contains(problem), "{refused}");
    }
}

#[test]
fn models_that_give_no_cycles_are_refused() {
    let l1 = PrivateLevel { hit_ratio: 0.5, latency: 1.0 };
    let good = serde_json::to_string(&LinearLatency::new(1.0, 0.5, &[l1], 10.0, 130.0).unwrap()).unwrap();
    for (from, to, problem) in [
        ("\"private_hits\":0.5", "\"private_hits\":1.5", "1.5"),
        ("\"mix\":0.5", "\"mix\":0.0", "0"),
        ("\"memory\":130.0", "\"memory\":1.0", "memory"),
        ("\"without_memory\":1.25", "\"without_memory\":-1.25", "CPI without memory of -1.25"),
    ] {
        assert!(good.contains(from), "{from} is not in {good}");
        let refused = serde_json::from_str::<LinearLatency>(&good.replace(from, to)).unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");
    }
}
