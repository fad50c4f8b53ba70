#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backends;
mod engine;
mod statistics;
#[cfg(feature = "replay")]
#[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
pub mod trace;
mod vocabulary;

#[allow(unused_imports)] // without features there is none
pub use backends::*;
pub use statistics::*;
pub use vocabulary::*;
