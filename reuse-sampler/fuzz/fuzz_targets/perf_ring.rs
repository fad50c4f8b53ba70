//! The ring of perf events: no panic, and after an error nothing more.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::perf::ring::{Layout, records};

fuzz_target!(|input: &[u8]| {
    let Some((&flags, bytes)) = input.split_first() else { return };
    let layout = Layout { address: flags & 1 != 0, counts: flags & 2 != 0, branches: flags & 4 != 0 };
    let found: Vec<_> = records(bytes, |event| (event % 7 != 0).then_some(layout)).collect();
    assert!(found.len() <= bytes.len() / 8 + 1);
    assert!(found.iter().rev().skip(1).all(Result::is_ok));
});
