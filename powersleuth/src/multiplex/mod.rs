//! More events than counters, in one run.
//!
//! A processor counts four events at a time; time and power take nine, besides instructions and cycles. Counting
//! different ones in turn leaves holes, which are filled with what was counted at another time. Where the
//! other time is another *phase*, the filling is wrong. So each phase goes round the events on its own, driven
//! by the predicted phase of the next interval, and holes are filled from where the program did the same.
//!
//! - [`CounterGroups`]: which events are counted together;
//! - [`Rotation`]: which group is next: [`PerPhase`], or [`InTime`] as the baseline;
//! - [`Record`]: what was counted in each interval;
//! - [`Record::interpolate`] in four steps, each value marked with its [`Step`]; [`Record::carry_forward`] is the
//!   baseline;
//! - [`Collector`]: all that around a [`CounterSource`].
//!
//! # References
//! Thesis, Paper V, sections V.3.1 and V.3.2, figure V.3.

mod alike;
mod collector;
mod complete;
mod groups;
mod interpolate;
mod record;
mod rotation;

pub use collector::{Collector, CollectorError, Count, CounterSource, Reading};
pub use complete::{Complete, Roles, Source, Step};
pub use groups::CounterGroups;
pub use interpolate::Filling;
pub use record::Record;
pub use rotation::{InTime, PerPhase, Rotation};
