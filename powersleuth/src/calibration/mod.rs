//! A machine of which neither static power nor voltages nor weights are known.
//!
//! The same pieces of work run at every frequency while energy, time, events and, where there is a sensor,
//! temperature are measured. From that follow, in one fit:
//!
//! - power at each frequency, with one set of event weights for all of them ([`Calibration::fit`]);
//! - which performance model predicts time best on programs it was not fitted to ([`TimeModel`]);
//! - intervals for both that hold for programs outside the calibration ([`Route`]).
//!
//! [`measure`] runs the pieces on anything that implements [`Bench`]: interleaved, in a random order, so that a
//! machine that warms up does not pass for one whose power depends on the frequency. [`kernels`] has work to run.
//! [`MachineModel`] is what is saved, and loaded again with the feature `serde`.

mod joint;
pub mod kernels;
mod machine;
mod measured;
mod routes;
mod thermal;
mod time;

pub use machine::MachineModel;
pub use measured::{Bench, Calibration, Measurement, measure};
pub use routes::{Accuracy, Route};
pub use thermal::Thermal;
pub use time::{TimeFit, TimeModel};
