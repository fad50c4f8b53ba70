//! Reference simulators, workloads and plots shared by the pipelines.

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
