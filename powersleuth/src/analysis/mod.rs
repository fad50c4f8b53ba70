//! What each interval, phase instance, phase and the whole program costs at each frequency, and which
//! frequencies to run them at.
//!
//! - [`Profile`]: what was counted in one run, at one frequency;
//! - [`Analysis`]: time and energy at every frequency asked for, predicted from a profile or measured;
//! - [`Schedule`]: a frequency for each phase; [`Plan`]: one for each phase instance;
//! - [`Limits`]: a deadline, an energy budget, a power cap and a least time between changes, for the whole program;
//! - [`Outcome`]: what following a plan costs, transitions included, and where it breaks a bound;
//! - [`Analysis::pareto_front`]: the schedules that no other beats in both time and energy.
//!
//! # References
//! Thesis, Paper V, section V.6.

mod best;
mod cost;
mod limits;
mod outcome;
mod pareto;
mod plan;
mod predict;
mod profile;
#[cfg(feature = "serde")]
mod saved;
mod schedule;
mod table;

pub use cost::{Cost, Goal, Level, Objective, Transition};
pub use limits::Limits;
pub use outcome::{Outcome, PhaseOutcome};
pub use pareto::ParetoPoint;
pub use plan::{Hysteresis, Plan};
pub use profile::Profile;
pub use schedule::Schedule;
pub use table::{Analysis, Instance, Phase, Quantity};
