//! Reference simulators, workloads and plots shared by the pipelines.

pub mod cli;
pub mod guided;
pub mod machine;
pub mod output;
pub mod parallel;
pub mod pipelines;
pub mod reference;
pub mod report;
pub mod target;
pub mod testbed;
pub mod traces;
pub mod workloads;
