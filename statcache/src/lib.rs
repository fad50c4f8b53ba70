#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod concentration;
mod course;
mod error;
mod model;

pub use error::Error;
pub use model::StatCache;
// What signatures here take and return, so that one dependency is enough.
#[doc(no_inline)]
pub use reuse_sampler::{
    CacheLines, CacheModel, Clock, Error as GroupingError, Evaluator, LineSize, MissRatioCurve, Outcome,
    Reuse, ReuseDistance, ReuseProfile, Scope,
};
