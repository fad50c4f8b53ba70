//! The USF readers: no panic, the same in any pieces, and of samples no window is given twice.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::trace::{TraceContent, TraceFormat, TraceReader};
use reuse_sampler::{LineSize, Sampler, WindowPlan};

fuzz_target!(|input: &[u8]| {
    reading::check(TraceFormat::Usf, input);
    let Ok(TraceContent::Samples(mut samples)) =
        TraceReader::new(TraceFormat::Usf, input).content(LineSize::B64)
    else {
        return;
    };
    let mut index = 0;
    while let Ok(Some(window)) = samples.next_window(&WindowPlan::count_only()) {
        assert_eq!(window.index.0, index);
        assert!(window.samples.iter().all(|sample| sample.started_in <= window.index));
        index += 1;
    }
    assert!(matches!(samples.next_window(&WindowPlan::count_only()), Ok(None)));
});
