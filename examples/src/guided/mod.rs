//! Phase-guided profiling: the phases of a program decide which of its windows are profiled.
//!
//! After Sembrant, Black-Schaffer and Hagersten, *Phase Guided Profiling for Fast Cache Modeling*, CGO 2012,
//! section 4.

mod batches;
mod cdf;
mod course;
mod curves;
mod driver;
mod run;

pub use batches::Batches;
pub use cdf::cdf_error;
pub use course::{AddressHasher, CodeCounts, Course, CoursePhases};
pub use curves::{CurvePoint, PhaseCurve, Replacement, RunCurves, beside, lending_margin, pooled};
pub use driver::{GuidedOptions, PhaseGuide, Progress, run_guided};
pub use run::{GuidedRun, PhaseRecord, WindowRecord};
