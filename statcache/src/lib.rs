#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod course;
mod error;
mod model;

pub use error::Error;
pub use model::StatCache;
