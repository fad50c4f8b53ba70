#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod correction;
mod error;
mod expected;
mod model;
mod normal;
#[cfg(feature = "online")]
mod online;
mod prepared;

pub use error::Error;
pub use model::StatStack;
#[cfg(feature = "online")]
#[cfg_attr(docsrs, doc(cfg(feature = "online")))]
pub use online::{OnlineCurve, OnlineOptions};
