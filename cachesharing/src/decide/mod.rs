//! What people decide with predictions: who runs beside whom, who gets a cache way more, and which phase is to
//! blame.

mod culprits;
mod matrix;
mod pairing;
mod ways;

pub use culprits::{Culprit, culprits};
pub use matrix::{CoSchedule, co_schedule};
pub use pairing::{Objective, Pairing};
pub use ways::{WaySensitivity, way_sensitivity};
