//! What the crate makes can be sent to other threads, and shared between them.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste

use statcache::{Error, MissRatioCurve, ReuseProfile, StatCache};

fn shared<T: Send + Sync>() {}

#[test]
fn threads_may_share_what_the_crate_makes() {
    shared::<(StatCache, MissRatioCurve, ReuseProfile, Error)>();
}
