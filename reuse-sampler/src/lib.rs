#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backends;
mod engine;
#[cfg(feature = "file")]
#[cfg_attr(docsrs, doc(cfg(feature = "file")))]
pub mod file;
#[cfg(feature = "laws")]
#[cfg_attr(docsrs, doc(cfg(feature = "laws")))]
pub mod laws;
#[cfg(feature = "reference")]
#[cfg_attr(docsrs, doc(cfg(feature = "reference")))]
pub mod reference;
mod statistics;
#[cfg(feature = "replay")]
#[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
pub mod trace;
mod vocabulary;

#[allow(unused_imports)] // without features there is none
pub use backends::*;
pub use engine::open::OpenStarts;
pub use statistics::*;
pub use vocabulary::*;
