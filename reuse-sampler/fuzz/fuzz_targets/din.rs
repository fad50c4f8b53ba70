//! The din reader: no panic, the same in any pieces, and what it read survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::replay::Event;
use reuse_sampler::trace::{DinWriter, TraceFormat};

fuzz_target!(|input: &[u8]| {
    let events = reading::check(TraceFormat::Din, input);
    let mut writer = DinWriter::new(Vec::new());
    for event in &events {
        match event {
            Event::Access(access) => writer.access(access).expect("a vector takes everything"),
            Event::Block { address, .. } => writer.fetch(*address).expect("a vector takes everything"),
            other => panic!("din has no {other:?}"),
        }
    }
    let written = writer.finish().expect("a vector takes everything");
    assert_eq!(reading::read(TraceFormat::Din, &written[..]).0, events);
});
