//! Ground truth: what the models are measured against.

pub mod accuracy;
