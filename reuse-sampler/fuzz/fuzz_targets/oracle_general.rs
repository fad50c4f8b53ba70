//! The oracleGeneral reader: no panic, the same in any pieces, one access per whole record.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::trace::TraceFormat;

fuzz_target!(|input: &[u8]| {
    let events = reading::check(TraceFormat::OracleGeneral, input);
    assert_eq!(events.len(), input.len() / 24);
});
