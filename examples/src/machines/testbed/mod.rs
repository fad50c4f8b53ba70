//! Cache Pirating on the reference chip: the testbed, the truth it is held against, and the paper's experiments.
//!
//! - [`SimulatedTestbed`]: the chip as `cache-pirate` wants it;
//! - [`divided`]: the same chip with cache allocation, behind a simulated kernel;
//! - [`truth`]: the target alone in a cache of the true size;
//! - [`programs`]: what is measured;
//! - [`stressmark`]: the rival method of Xu et al.;
//! - [`modelled`]: the same curve without a pirate, from a reuse profile;
//! - [`experiments`]: the paper's figures and tables, each against known truth.

mod divided;
pub mod experiments;
pub mod modelled;
pub mod programs;
mod simulated;
pub mod stressmark;
pub mod truth;
mod walk;

pub use divided::{DividedChip, divided};
pub use simulated::{PirateCore, SimulatedTestbed};
pub use walk::{Side, Walk};
