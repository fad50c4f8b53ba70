//! Predictions and decisions come back as they were saved, and what contradicts itself is refused.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fmt::Debug;
use std::num::NonZeroUsize;

use cachesharing::partition::{Partition, Policy, partition};
use cachesharing::{
    Allocation, BandwidthDistribution, CoPhase, CoRun, CoSchedule, Culprit, EvictionAge, LruPartition,
    Objective, Offsets, Outcome, Pairing, Program, Settings, SharedCache, SharingModel, Slowdown,
    SlowdownDistribution, Solution, Start, Trajectory, Until, Variability, WaySensitivity, Window,
    co_schedule, culprits, variability, way_sensitivity,
};
use common::{scan, stream, uniform};
use serde::Serialize;
use serde::de::DeserializeOwned;

const CACHE: u64 = 1 << 18;

fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let saved = serde_json::to_string(value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&saved).unwrap(), *value);
}

fn refused<T: Serialize + DeserializeOwned>(value: &T, from: &str, to: &str) -> String {
    let good = serde_json::to_string(value).unwrap();
    assert!(good.contains(from), "{from} is not in {good}");
    match serde_json::from_str::<T>(&good.replacen(from, to, 1)) {
        Ok(_) => panic!("{from} -> {to} was accepted"),
        Err(error) => error.to_string(),
    }
}

/// Programs of two phases: next to each other their slowdown depends on what meets.
fn programs() -> Vec<Program<u64>> {
    let cache = CACHE as f64;
    let program = |i: usize, first, second| {
        let windows = [0, 0, 1, 0, 1, 1].map(|phase| Window::of_phase(1e5 + i as f64, phase));
        Program::new(format!("p{i}"), [(0, first), (1, second)], windows).unwrap()
    };
    vec![
        program(0, uniform(0.2, 0.4, 0.8 * cache, CACHE), scan(0.15, 0.3, 0.7 * cache, CACHE)),
        program(1, stream(0.1, 0.3, CACHE), uniform(0.1, 0.3, 0.5 * cache, CACHE)),
    ]
}

#[test]
fn predictions_and_decisions_come_back() {
    let programs = programs();
    let list: Vec<&Program<u64>> = programs.iter().collect();
    let cache = SharedCache::new(CACHE).unwrap().with_ways(16).unwrap();
    let run = CoRun::new(cache, &list, EvictionAge::default(), Settings::default()).unwrap();
    let (offsets, threads) = (Offsets::random(5, 1), NonZeroUsize::MIN);
    comes_back::<Variability>(&variability(&run, &offsets, threads).unwrap());
    comes_back::<Outcome>(&run.run(&[0.0, 0.3], Until::TargetEnds, |_| {}));
    comes_back::<Slowdown>(&run.slowdown(&[0.0, 0.3]));
    comes_back::<Trajectory>(&Trajectory::record(&run, &[], Until::TargetEnds));
    comes_back::<BandwidthDistribution>(&BandwidthDistribution::of_run(&run, &[], Until::TargetEnds));
    comes_back::<Vec<Culprit<u64>>>(&culprits(&run, &offsets).unwrap());
    let met = run.co_phases();
    assert!(!met.is_empty());
    comes_back::<Vec<CoPhase<u64>>>(&met);
    let matrix =
        co_schedule(cache, &list, &EvictionAge::default(), Settings::default(), &offsets, threads).unwrap();
    comes_back::<CoSchedule>(&matrix);
    comes_back::<Pairing>(&matrix.best_pairing(Objective::Total));
    comes_back::<Partition>(&partition(&cache, &list, &EvictionAge::default(), Policy::Clusters).unwrap());
    comes_back::<WaySensitivity>(
        &way_sensitivity(&programs[0], CACHE as f64 / 2.0, CACHE as f64 / 16.0).unwrap(),
    );

    for (from, to, problem) in [
        ("\"names\":[", "\"names\":[\"x\",", "4 slowdowns of a co-schedule"),
        ("[[", "[[0.0,", "a slowdown of 0"),
    ] {
        let error = refused(&matrix, from, to);
        assert!(error.contains(problem), "{error}");
    }
    let sharing = &met[0].sharing;
    assert!(refused(sharing, "\"cpi\":", "\"cpi\":-").contains("a time per unit of work of -"));
    let trajectory = Trajectory::record(&run, &[], Until::TargetEnds);
    for (from, to, problem) in [
        ("\"programs\":2", "\"programs\":3", "one for each program in each step"),
        ("\"starts\":[", "\"starts\":[0.0,", "one for each time"),
        ("\"cpi\":", "\"cpi\":-", "a time per unit of work of -"),
        ("\"times\":[", "\"times\":[-", "the time of a step of -"),
    ] {
        let error = refused(&trajectory, from, to);
        assert!(error.contains(problem), "{error}");
    }
    // A saved run longer than its bins could ever count: each took memory without end.
    let mut long = serde_json::to_value(&trajectory).unwrap();
    long["times"][0] = 1e18.into();
    let long: Trajectory = serde_json::from_value(long).unwrap();
    assert!(matches!(long.over_time(0, 1e5), Err(cachesharing::Error::Count { what: "bins", .. })));
    assert!(matches!(long.over_work(0, 1e5), Err(cachesharing::Error::Count { what: "bins", .. })));
    let varies = variability(&run, &offsets, threads).unwrap();
    assert!(refused(&varies, "\"slowdowns\":[", "\"slowdowns\":[9.0,").contains("ranges of runs"));
    let demand = BandwidthDistribution::new([(2.0, 1.0), (8.0, 2.0)]);
    assert!(refused(&demand, "[2.0,3.0]", "[9.0,3.0]").contains("falling bandwidths"));
    assert!(
        serde_json::from_str::<SlowdownDistribution>("[]").unwrap_err().to_string().contains("at least one")
    );
}

#[test]
fn what_a_model_found_comes_back() {
    let cache = SharedCache::new(CACHE).unwrap();
    let programs = programs();
    let curves: Vec<_> = programs.iter().map(|program| &program.phases()[0].1).collect();
    let models: [&dyn SharingModel; 2] = [&EvictionAge::default(), &LruPartition::default()];
    for model in models {
        let mut solution = Solution::default();
        model.solve(&cache, &curves, Start::Slow, &mut solution);
        comes_back::<Solution>(&solution);
        comes_back::<Allocation>(&solution.allocations[0]);
        // A solution that was read is one to go on from.
        let mut read: Solution = serde_json::from_str(&serde_json::to_string(&solution).unwrap()).unwrap();
        let mut kept = solution.clone();
        model.solve(&cache, &curves, Start::Held, &mut read);
        model.solve(&cache, &curves, Start::Held, &mut kept);
        assert_eq!(read, kept);
        for (from, to, problem) in [
            ("\"bytes\":", "\"bytes\":-", "an allocation in bytes of -"),
            ("\"sticky_bytes\":", "\"sticky_bytes\":-1", "sticky bytes of -1"),
            ("\"time\":", "\"time\":-", "a time per access of -"),
            ("\"residual\":", "\"residual\":-", "a residual of -"),
        ] {
            let error = refused(&solution, from, to);
            assert!(error.contains(problem), "{error}");
        }
    }
    comes_back::<Solution>(&Solution::default());
}
