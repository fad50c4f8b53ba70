#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod counts;
pub mod curve;
mod error;
#[cfg(feature = "laws")]
#[cfg_attr(docsrs, doc(cfg(feature = "laws")))]
pub mod laws;
pub mod measure;
#[cfg(feature = "native")]
#[cfg_attr(docsrs, doc(cfg(feature = "native")))]
pub mod native;
mod plan;
pub mod resctrl;
pub mod simple;
mod testbed;
pub mod trust;

pub use counts::{MemoryCounts, PirateCounts, Reading, TargetCounts};
pub use curve::{CacheCurve, CurvePoint};
pub use error::PirateError;
pub use measure::{Interval, Measurements, measure, measure_fixed, measure_phases};
pub use plan::{Pace, PirateParams, Plan, Threads};
pub use testbed::{Evidence, LinePlacement, Order, Outcome, SharedCache, Testbed, Until, Who};
pub use trust::{Distrust, Trust};
