//! Phases while a program runs: classification, prediction, sample rate and callbacks in one object.

mod detector;
mod histories;
mod rate;

pub use detector::{Detection, Detector};
pub use histories::{Histories, PrivateHistories, SharedHistories};
pub use rate::{DynamicRate, DynamicRateConfig};
