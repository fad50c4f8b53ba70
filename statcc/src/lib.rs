#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod corun;
mod cpi;
mod error;
mod path;
mod pieces;
mod program;
mod sensitivity;
mod solution;
mod solve;
pub mod walk;

pub use corun::CoRun;
pub use cpi::{CpiModel, LinearLatency, MeasuredCpi, PrivateLevel, Traffic, WindowCpi};
pub use error::{Error, SolveError};
pub use program::Program;
pub use sensitivity::Sensitivity;
pub use solution::{Outlook, Prediction, Share, Solution};
pub use solve::SolverSettings;
// What signatures here take and return, so that one dependency is enough.
#[doc(no_inline)]
pub use reuse_sampler::{
    CacheLines, CacheModel, Clock, Evaluator, LineSize, MissRatioCurve, Outcome, Reuse, ReuseDistance,
    ReuseProfile, Scope,
};
