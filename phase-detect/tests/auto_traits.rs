//! What the crate makes can be sent to other threads, and shared between them.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste

use phase_detect::selection::Forest;
use phase_detect::{
    Batch, CodeVector, Detection, Detector, Error, Frozen, Guidance, Guide, LeaderFollower, Pop, Ppm,
    RunLengthMarkov, Signature, SimPoint,
};

fn sent<T: Send>() {}

fn shared<T: Send + Sync>() {}

#[test]
fn threads_may_share_what_the_crate_makes() {
    shared::<(CodeVector, Signature, LeaderFollower, Frozen, Batch, Pop, SimPoint, Forest<u64>)>();
    shared::<(Ppm, RunLengthMarkov, Detection, Guidance, Error)>();
    // They hold callbacks, which need not be shareable.
    sent::<(Detector, Guide)>();
}
