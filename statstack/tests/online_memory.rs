//! An online curve stays within the memory that its documentation names, however its keys come back.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../reuse-sampler/tests/support/counting.rs"]
mod counting;

use std::sync::atomic::Ordering;

use counting::{HELD, PEAK};
use statstack::OnlineCurve;

/// Keys of all popularities, so that every part of the run has reuses of every age, up to millions of requests.
#[test]
fn ten_million_requests_take_less_than_a_mebibyte() {
    let before = HELD.load(Ordering::Relaxed);
    let mut curve = OnlineCurve::default();
    let mut state = 1_u64;
    for _ in 0..10_000_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let octave = (state >> 59) % 22; // as many requests for each octave of keys
        curve.observe(&((1 << octave) + ((state >> 20) & ((1 << octave) - 1))));
    }
    let peak = PEAK.load(Ordering::Relaxed) - before;
    assert!(curve.sampled_one_in() > 4 && peak > 100 << 10, "nothing was given up, {peak}");
    assert!(peak < 1 << 20, "{peak} bytes");
}
