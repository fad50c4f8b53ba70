#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod analysis;
mod error;
pub mod multiplex;
pub mod performance;
pub mod power;
mod units;

pub use error::Error;
pub use units::{Cycles, Farads, Hertz, Joules, Seconds, Volts, Watts};
