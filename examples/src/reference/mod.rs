//! Ground truth: what the models are measured against.

pub mod accuracy;
pub mod chip;
pub mod exact;
pub mod ooo;
pub mod sets;
pub mod shards;
