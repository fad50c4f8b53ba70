//! Phases while a program runs: classification, prediction and sample rate in one object ([`Detector`]), and on top of it
//! the decision which windows to profile ([`Guide`]).

mod detector;
mod gaps;
mod guide;
mod histories;
mod rate;

pub use detector::{Detection, Detector};
pub use guide::{Action, Guidance, Guide, GuideConfig};
pub use histories::{Histories, PrivateHistories, SharedHistories};
pub use rate::{DynamicRate, DynamicRateConfig};
