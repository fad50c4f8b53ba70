//! The bb reader: no panic, windows as they are documented, and what it read survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::trace::{BbWindows, BbWriter};
use reuse_sampler::{Sampler, WindowPlan};

fuzz_target!(|input: &[u8]| {
    let plan = WindowPlan::count_only();
    let mut reader = BbWindows::new(input);
    let mut writer = BbWriter::new(Vec::new());
    let mut windows = Vec::new();
    while let Ok(Some(window)) = reader.next_window(&plan) {
        assert!(!window.code.is_empty() && window.code.is_sorted_by(|a, b| a.0 < b.0));
        assert!(window.code.iter().all(|(_, count)| *count > 0));
        writer.window(&window).expect("a vector takes everything");
        windows.push(window);
    }
    assert!(matches!(reader.next_window(&plan), Ok(None)));
    let written = writer.finish().expect("a vector takes everything");
    let mut again = BbWindows::new(&written[..]);
    for window in windows {
        let read = again.next_window(&plan).expect("what is written is read").expect("all windows");
        assert_eq!((read.instructions, read.code.len()), (window.instructions, window.code.len()));
    }
});
