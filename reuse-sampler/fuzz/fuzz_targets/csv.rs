//! The csv reader: no panic, the same in any pieces, and what it read survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::trace::{CsvWriter, TraceFormat};

fuzz_target!(|input: &[u8]| {
    let events = reading::check(TraceFormat::Csv, input);
    let mut writer = CsvWriter::new(Vec::new());
    for event in &events {
        writer.event(event).expect("a vector takes everything");
    }
    let written = writer.finish().expect("a vector takes everything");
    let (again, _) = reading::read(TraceFormat::Csv, &written[..]);
    // A switch that no row follows was cut off by an error in the input.
    assert!(events.starts_with(&again) && events.len() <= again.len() + 1);
});
