//! What the commands do, callable from tests.

pub mod cache_pirate;
pub mod compare_detectors;
pub mod compare_profiles;
pub mod convert_trace;
pub mod corun_variability;
pub mod detect_phases;
pub mod miss_ratio_curve;
pub mod phase_guided_cache;
pub mod phase_guided_vs_periodic;
pub mod power_frequency;
pub mod reproduce;
pub mod statcc_accuracy;
pub mod what_can_i_measure;
