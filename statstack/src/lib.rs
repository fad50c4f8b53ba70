#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod correction;
mod error;
mod expected;
mod model;
mod normal;
mod prepared;

pub use error::Error;
pub use model::StatStack;
