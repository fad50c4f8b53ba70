//! Power at any frequency from the activity that was counted at one.
//!
//! Power is static power plus what it takes to charge and discharge the gates that switch. The second part is
//! frequency times squared voltage times the *effective capacitance*, which depends on what the program does and
//! not on how fast: fit it to event rates at one frequency and it holds at all.
//!
//! ```text
//! P = P_static(V, f) + f * C_eff * V^2
//! ```
//!
//! - [`OperatingPoints`]: voltage and static power of each frequency;
//! - [`EffectiveCapacitance`]: the linear model of activity;
//! - [`TrainingSet`]: fits it to measured power, and says how far to trust it;
//! - [`PowerModel`]: all of that, with the machine it holds for; saved and loaded with the feature `serde`;
//! - [`nehalem`]: the published coefficients of one old processor, as an example.

mod capacitance;
mod fit;
mod model;
pub mod nehalem;
mod points;
#[cfg(feature = "serde")]
mod saved;

pub use capacitance::EffectiveCapacitance;
pub use fit::{Collinearity, CrossValidation, Fit, TrainingSet};
pub use model::PowerModel;
pub use points::{OperatingPoint, OperatingPoints};
