//! The technique: how to get a curve out of a testbed.
//!
//! - [`measure`]: all sizes in one run, in cycles, one right after the other, at random gaps, or within a budget;
//! - [`measure_fixed`]: one size for a whole run, the reference for the former;
//! - [`measure_phases`]: all sizes for each phase of the program, the phases given by the caller;
//! - [`choose_threads`]: how many threads the pirate may have.
//!
//! All of them only fail where the testbed does. That a target ended early, or that the pirate could not hold
//! its lines, is in what they return.
//!
//! # References
//! Eklöv, thesis, Paper III, sections III.3.3 and III.4.

mod budget;
mod capacity;
mod cycles;
mod phases;
mod random;
mod session;
mod threads;

pub use self::capacity::Capacity;
pub use self::cycles::{measure, measure_fixed};
pub use self::phases::{PhaseReport, PhasedMeasurements, Stretch, measure_phases};
pub use self::threads::{ThreadChoice, ThreadTrial, choose_threads};

use crate::counts::Reading;
use crate::curve::CacheCurve;
use crate::error::PirateError;
use crate::plan::Plan;
use crate::testbed::{LinePlacement, SharedCache};
use crate::trust::Trust;

/// One measurement interval.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Interval {
    /// Bytes that were to be stolen.
    pub stolen: u64,
    /// Threads of the pirate.
    pub threads: usize,
    /// Number of the cycle it belongs to, from 0.
    pub cycle: u64,
    /// What both sides did.
    pub counts: Reading,
    /// Whether it counts.
    pub trust: Trust,
    /// How much of the run it stands for, above 0, in relation to other intervals: 1 everywhere but under
    /// [`Pace::Budget`](crate::Pace::Budget).
    pub weight: f64,
}

/// Everything measured in one run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measurements {
    /// The cache.
    pub cache: SharedCache,
    /// Where the machine keeps the pirate's lines: what the private caches hold of an exclusive cache is made up for,
    /// and 0 here.
    pub placement: LinePlacement,
    /// Work asked for per interval.
    pub interval: f64,
    /// The intervals in order.
    pub intervals: Vec<Interval>,
    /// What the pirate could hold alone.
    pub capacity: Capacity,
    /// How the number of threads was chosen; `None` where it was given.
    pub threads: Option<ThreadChoice>,
    /// Both sides over the whole run, warm-ups and gaps included.
    pub total: Reading,
    /// Part of the elapsed time in which the target stood still for the pirate to warm up.
    pub suspended: f64,
    /// Whether the target came to its end.
    pub ended: bool,
}

impl Measurements {
    /// The curve, over all intervals.
    ///
    /// # Errors
    /// [`PirateError::NothingMeasured`] if no interval was completed.
    pub fn curve(&self) -> Result<CacheCurve, PirateError> {
        let curve = CacheCurve::assemble(self.cache, self.placement, self.interval, &self.intervals);
        curve.map_err(|error| match error {
            PirateError::NothingMeasured { interval, .. } => {
                PirateError::NothingMeasured { interval, work: self.total.target.work }
            }
            other => other,
        })
    }

    /// How much longer the run took than the target alone needs for the same work, as a fraction.
    ///
    /// `alone` is the target's time per unit of work with the whole cache and nobody beside it.
    #[must_use]
    pub fn overhead(&self, alone: f64) -> f64 {
        self.total.elapsed / (alone * self.total.target.work) - 1.0
    }

    fn begin(plan: &Plan, placement: LinePlacement, capacity: Capacity) -> Self {
        let private_bytes = placement.private_bytes.saturating_sub(capacity.hidden);
        Self {
            cache: plan.cache,
            placement: LinePlacement {
                private_bytes,
                uneven: capacity.uneven,
                order: capacity.order(),
                ..placement
            },
            interval: plan.interval,
            intervals: Vec::new(),
            capacity,
            threads: None,
            total: Reading::default(),
            suspended: 0.0,
            ended: false,
        }
    }
}
