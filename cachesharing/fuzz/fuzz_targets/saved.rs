//! Saved predictions and decisions: no panic, and what is accepted answers questions.

#![no_main]

use cachesharing::partition::Partition;
use cachesharing::{
    BandwidthDistribution, CoPhase, CoSchedule, Culprit, Objective, Outcome, Pairing, SlowdownDistribution,
    Solution, Trajectory, Variability, WaySensitivity,
};
use libfuzzer_sys::fuzz_target;

#[path = "../../../reuse-sampler/fuzz/saved.rs"]
mod saved;
use saved::read;

fn check(distribution: &SlowdownDistribution) {
    assert!(
        distribution.least() <= distribution.quantile(0.5)
            && distribution.quantile(0.5) <= distribution.most()
    );
    assert!(
        distribution.least().is_finite() && distribution.most().is_finite() && !distribution.mean().is_nan()
    );
    let _ = (distribution.mean_interval(0.95), distribution.quantile_interval(0.5, 0.95));
}

fuzz_target!(|input: &[u8]| {
    read::<SlowdownDistribution>(input).iter().for_each(check);
    read::<Variability>(input).iter().for_each(|variability| {
        check(&variability.distribution);
        let _ = variability.range();
    });
    if let Some(schedule) = read::<CoSchedule>(input) {
        let _ = (schedule.means(), schedule.slowdown(0, 1));
        if schedule.names().len() <= 12 {
            for objective in [Objective::Total, Objective::Worst] {
                let (best, worst) = (schedule.best_pairing(objective), schedule.worst_pairing(objective));
                assert_eq!(best.pairs.len(), worst.pairs.len());
            }
        }
    }
    if let Some(trajectory) = read::<Trajectory>(input) {
        for program in 0..trajectory.programs().min(4) {
            let _ =
                (trajectory.over_time(program, trajectory.time() / 8.0), trajectory.over_work(program, 1e5));
            let _ = trajectory.phases(program).count();
        }
    }
    if let Some(distribution) = read::<BandwidthDistribution>(input) {
        assert!(!distribution.mean().is_nan() && distribution.fraction_above(-1.0) <= 1.0 + 1e-9);
        let _ = (distribution.exceeded_during(0.5), distribution.curve().count());
    }
    read::<Partition>(input).iter().for_each(|partition| {
        let _ = (partition.total(), partition.worst());
    });
    if let Some(solution) = read::<Solution>(input) {
        assert!(solution.residual >= 0.0 && solution.allocations.iter().all(|a| a.bytes >= 0.0 && a.time > 0.0));
    }
    let _ = (read::<Outcome>(input), read::<Pairing>(input), read::<WaySensitivity>(input));
    let _ = (read::<Vec<Culprit<u64>>>(input), read::<Vec<CoPhase<u64>>>(input));
});
