//! Arm's statistical profile: no panic, nothing read twice or left out, and after an error nothing more.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::perf::spe::{operations, packets};

fuzz_target!(|input: &[u8]| {
    let Some((&offset, bytes)) = input.split_first() else { return };
    let offset = u64::from(offset);
    let found: Vec<_> = packets(bytes, offset).collect();
    assert!(found.len() <= bytes.len());
    assert!(found.iter().rev().skip(1).all(Result::is_ok));
    if found.iter().all(Result::is_ok) {
        let mut all = packets(bytes, offset);
        while all.next().is_some() {}
        assert_eq!(all.offset(), offset + bytes.len() as u64);
    }
    let whole: Vec<_> = operations(bytes, offset).collect();
    assert!(whole.iter().rev().skip(1).all(Result::is_ok));
    for operation in whole.into_iter().flatten() {
        assert!(operation.offset >= offset && operation.offset < offset + bytes.len() as u64);
        assert_eq!(operation.is_access(), operation.access().is_some());
    }
});
