//! The readers of `.simpoints`, `.weights` and `.labels`: no panic, and only weights and distances that make sense.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phase_detect::simpoint::{read_labels, read_points};

fuzz_target!(|input: &[u8]| {
    if let Ok(labels) = read_labels(input) {
        for distance in labels.iter().filter_map(|label| label.distance) {
            assert!(distance >= 0.0 && distance.is_finite());
        }
    }
    // The first empty line parts the two files that belong together.
    let at = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
    let (simpoints, weights) = input.split_at(at);
    if let Ok(points) = read_points(simpoints, weights) {
        assert!(points.iter().all(|point| (0.0..=1.0).contains(&point.weight)));
    }
});
