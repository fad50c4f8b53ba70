//! Predictions come back as they were saved, and files that contradict themselves are refused.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use statcc::{
    CacheLines, CoRun, LineSize, LinearLatency, Outcome, Prediction, PrivateLevel, Program, ReuseDistance,
    ReuseProfile, Sensitivity,
};
use statstack::StatStack;

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
    let saved = serde_json::to_string(&prediction).unwrap();
    assert_eq!(serde_json::from_str::<Prediction>(&saved).unwrap(), prediction);
    let ranges = together.sensitivity(CacheLines(32_768), 0.05, StatStack::fit).unwrap();
    let saved = serde_json::to_string(&ranges).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Sensitivity>>(&saved).unwrap(), ranges);
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
