//! Reference simulators, workloads and plots shared by the pipelines.

pub mod reference;
pub mod traces;
pub mod workloads;
