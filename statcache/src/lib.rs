#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod filling;
mod law;
mod model;

pub use error::Error;
pub use model::StatCache;
