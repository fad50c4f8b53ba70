//! Decisions from predictions: which programs run together, what a cache way is worth, and which phases cost most.

mod culprits;
mod matrix;
mod pairing;
mod ways;

pub use culprits::{Culprit, culprits};
pub use matrix::{CoSchedule, co_schedule};
pub use pairing::{Objective, Pairing};
pub use ways::{WaySensitivity, way_sensitivity};
