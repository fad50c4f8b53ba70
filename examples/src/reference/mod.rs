//! Ground truth: what the models are measured against.

pub mod accuracy;
pub mod exact;
pub mod shards;
