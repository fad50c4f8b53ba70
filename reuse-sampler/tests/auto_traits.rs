//! What the crate makes can be sent to other threads, and shared between them.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste

use reuse_sampler::{
    Error, Grouped, GroupedProfiles, HotSpots, MissRatioCurve, ReuseDistribution, ReuseProfile,
    SetAssociative, Window, WindowPlan,
};

fn shared<T: Send + Sync>() {}

#[test]
fn threads_may_share_what_the_crate_makes() {
    shared::<(Window, WindowPlan, ReuseProfile, ReuseDistribution, MissRatioCurve, Error)>();
    shared::<(GroupedProfiles<u64>, HotSpots<u64>, Grouped<u64>, SetAssociative<u64>)>();
    #[cfg(feature = "file")]
    shared::<reuse_sampler::file::PhaseProfile>();
    #[cfg(feature = "reference")]
    shared::<reuse_sampler::reference::ExactLru>();
}
