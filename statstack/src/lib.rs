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
mod pooled;
mod prepared;

pub use error::Error;
pub use model::StatStack;
// What signatures here take and return, so that one dependency is enough.
#[cfg(feature = "online")]
#[cfg_attr(docsrs, doc(cfg(feature = "online")))]
pub use online::{OnlineCurve, OnlineOptions};
pub use pooled::PooledCorrection;
#[doc(no_inline)]
pub use reuse_sampler::{
    CacheLines, CacheModel, Clock, Error as GroupingError, Evaluator, LineSize, MissRatioCurve, Outcome,
    Reuse, ReuseDistance, ReuseProfile, Scope,
};
