//! What the crate makes can be sent to other threads, and shared between them.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste

use statstack::{Error, MissRatioCurve, PooledCorrection, ReuseProfile, StatStack};

fn shared<T: Send + Sync>() {}

#[test]
fn threads_may_share_what_the_crate_makes() {
    shared::<(StatStack, PooledCorrection, MissRatioCurve, ReuseProfile, Error)>();
    #[cfg(feature = "online")]
    shared::<statstack::OnlineCurve>();
}
