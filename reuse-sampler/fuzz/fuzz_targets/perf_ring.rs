//! The ring of perf events: no panic, and after an error nothing more.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::perf::ring::{Layout, records};

fuzz_target!(|input: &[u8]| {
    let Some((&flags, bytes)) = input.split_first() else { return };
    let has = |bit: u8| flags >> bit & 1 == 1;
    let layout = Layout { address: has(0), counts: has(1), branches: has(2), user_ip: has(3) };
    let found: Vec<_> = records(bytes, |event| (event % 7 != 0).then_some(layout)).collect();
    assert!(found.len() <= bytes.len() / 8 + 1);
    assert!(found.iter().rev().skip(1).all(Result::is_ok));
});
