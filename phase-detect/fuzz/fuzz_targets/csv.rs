//! The reader of ready signatures: no panic, mistakes have a place in the input, signatures are what they promise.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phase_detect::signature::read_csv;
use phase_detect::{Error, SignatureKind};

fuzz_target!(|input: &[u8]| {
    for kind in [SignatureKind::Frequency, SignatureKind::Raw] {
        match read_csv(input, kind) {
            Ok(windows) => {
                assert!(!windows.is_empty());
                for window in &windows {
                    assert_eq!((window.kind(), window.len()), (kind, windows[0].len()));
                    assert!(window.values().iter().all(|value| value.is_finite()));
                    if kind == SignatureKind::Frequency {
                        // entries are rounded one by one
                        let tolerance = 1e-15 * (window.len() + 1) as f64;
                        assert!((window.values().iter().sum::<f64>() - 1.0).abs() <= tolerance);
                        assert!(window.values().iter().all(|&value| value >= 0.0));
                    }
                }
            }
            Err(Error::Parse { line, column, .. }) => {
                let line = input.split(|&byte| byte == b'\n').nth(line - 1).expect("the line exists");
                assert!((1..=line.len() + 1).contains(&column));
            }
            Err(Error::NoWindows) => {}
            Err(other) => panic!("{other}"),
        }
    }
});
