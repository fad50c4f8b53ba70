//! What the crate makes can be sent to other threads, and shared between them.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste

use cachesharing::partition::Partition;
use cachesharing::{
    CacheCurve, CoPhase, CoRun, CoSchedule, Culprit, Error, EvictionAge, LruPartition, Outcome, Program,
    Random, ReuseTimes, SharedCache, Sharing, SlowdownDistribution, Trajectory, Variability,
};

fn shared<T: Send + Sync>() {}

#[test]
fn threads_may_share_what_the_crate_makes() {
    shared::<(CacheCurve, ReuseTimes, Program<u64>, SharedCache, Error)>();
    shared::<(EvictionAge, LruPartition, Random, CoRun<'_, u64, EvictionAge>)>();
    shared::<(Sharing, CoPhase<u64>, Outcome, Trajectory, Variability, SlowdownDistribution)>();
    shared::<(CoSchedule, Culprit<u64>, Partition)>();
}
