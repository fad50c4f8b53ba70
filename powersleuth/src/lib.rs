#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod analysis;
pub mod calibration;
mod error;
#[cfg(feature = "linux")]
#[cfg_attr(docsrs, doc(cfg(feature = "linux")))]
pub mod linux;
pub mod multiplex;
#[cfg(feature = "perf")]
#[cfg_attr(docsrs, doc(cfg(feature = "perf")))]
pub mod perf;
pub mod performance;
pub mod power;
mod random;
mod ridge;
mod units;

pub use error::Error;
pub use units::{Cycles, Farads, Hertz, Joules, Kelvin, Seconds, Volts, Watts};
