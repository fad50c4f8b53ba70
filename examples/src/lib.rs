//! Reference simulators, workloads and plots shared by the pipelines.

// `#[must_use]` serves those who depend on a package; nobody can depend on this one.
#![allow(clippy::return_self_not_must_use)]

pub mod cli;
pub mod guided;
pub mod machines;
pub mod output;
pub mod parallel;
pub mod profiles;
pub mod reference;
pub mod report;
pub mod target;
pub mod tools;
pub mod traces;
pub mod workloads;
