//! What the crate makes can be sent to other threads, and shared between them.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste

use cache_pirate::simple::SimpleTestbed;
use cache_pirate::{CacheCurve, Measurements, PirateError, PirateParams, Plan};

#[allow(dead_code)] // not all features make what is only sent
fn sent<T: Send>() {}

fn shared<T: Send + Sync>() {}

#[test]
fn threads_may_share_what_the_crate_makes() {
    shared::<(CacheCurve, Measurements, PirateParams, Plan, PirateError)>();
    shared::<SimpleTestbed<std::vec::IntoIter<u64>>>();
    // A testbed on this machine belongs to one thread, which may be another one than made it.
    #[cfg(feature = "native")]
    sent::<cache_pirate::native::NativeTestbed>();
}
