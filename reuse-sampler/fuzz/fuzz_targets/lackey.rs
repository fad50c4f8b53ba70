//! The lackey reader: no panic, the same in any pieces, blocks within their limits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::replay::Event;
use reuse_sampler::trace::TraceFormat;

fuzz_target!(|input: &[u8]| {
    for event in reading::check(TraceFormat::Lackey, input) {
        match event {
            Event::Access(access) => assert!((1..=4096).contains(&access.bytes)),
            Event::Block { instructions, .. } => assert!((1..=32).contains(&instructions)),
            other => panic!("lackey has no {other:?}"),
        }
    }
});
