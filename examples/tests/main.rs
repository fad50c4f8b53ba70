//! Across the crates: commands on small inputs, simulated machines against their oracles, models against simulation.
//!
//! One program, so that it is linked once and every processor is busy until the last test; `refit.rs` has an allocator of its own.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod advice;
mod backend;
mod chip;
mod chip_cache;
mod chip_cachegrind;
mod chip_oracle;
mod coherence;
mod command_lines;
mod compare_detectors;
mod compare_profiles;
mod convert_trace;
mod corun_record;
mod corun_variability;
mod detect_phases;
mod goldens;
mod hot_spots;
mod json_keys;
mod miss_ratio_curve;
mod names;
mod phase_guided;
mod phase_guided_vs_periodic;
mod pirate;
mod pirate_pipeline;
mod power_calibration;
mod power_frequency;
mod power_live;
mod prefetch;
mod presentation;
mod profiles;
mod program_output;
mod repeated;
mod resctrl;
#[cfg(target_os = "linux")]
mod resctrl_mounted;
mod statcache_in_time;
mod statcc_accuracy;
mod stored_curve;
mod support;
mod trees;
mod what_can_i_measure;

use std::path::Path;

#[test]
fn every_file_here_is_part_of_this_program() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let names =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let modules =
        names.filter(|name| name.ends_with(".rs") || Path::new(folder).join(name).join("mod.rs").exists());
    for name in modules.map(|name| name.trim_end_matches(".rs").to_owned()) {
        let is_part =
            ["main", "refit"].contains(&&*name) || include_str!("main.rs").contains(&format!("mod {name};"));
        assert!(is_part, "{name} is not compiled: add `mod {name};` to tests/main.rs");
    }
}
