//! The perf.data readers: no panic, no memory beyond what the input is worth, and no sample lost in windows.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::trace::{PerfDataReader, PerfWindowOptions, PerfWindows};
use reuse_sampler::{Sampler, WindowPlan};

fuzz_target!(|input: &[u8]| {
    let mut reader = PerfDataReader::new(input);
    let mut weight = 0_u64;
    let whole = loop {
        match reader.next_sample() {
            Ok(Some(sample)) => {
                assert!(sample.branches.len() <= input.len() / 24);
                let branches = sample.branches.len() as u64;
                weight = weight.saturating_add(if branches > 0 { branches } else { sample.period });
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    assert!(matches!(reader.next_sample(), Ok(None)));
    let options = PerfWindowOptions::default().with_kernel();
    let Ok(mut windows) = PerfWindows::new(PerfDataReader::new(input), options) else { return };
    let mut in_windows = 0_u64;
    while let Ok(Some(window)) = windows.next_window(&WindowPlan::count_only()) {
        in_windows = window.code.iter().fold(in_windows, |sum, (_, weight)| sum.saturating_add(*weight));
    }
    assert!(!whole || in_windows == weight);
});
