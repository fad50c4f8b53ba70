//! The stored form of an analysis, with a version.

use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::table::Sums;
use super::{Analysis, Cost};
use crate::Hertz;
use crate::error::{Error, check_ascending, not_negative, positive};

/// Newest version of the format, and the only one so far.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
pub(super) struct Saved<P> {
    version: u32,
    frequencies: Vec<Hertz>,
    instances: Vec<(P, usize)>, // phase, number of intervals
    costs: Vec<Cost>,           // one row of frequencies per interval
    instructions: Vec<f64>,     // of each phase, in order of first appearance
    #[serde(default)]
    doubts: Vec<f64>, // of each interval; 1 where there are none
}

impl<P: Clone> From<Analysis<P>> for Saved<P> {
    fn from(analysis: Analysis<P>) -> Self {
        let instances = analysis.instances.into_iter();
        Self {
            version: VERSION,
            frequencies: analysis.frequencies,
            instances: instances.map(|instance| (instance.phase, instance.intervals.len())).collect(),
            costs: analysis.costs,
            instructions: analysis.phases.iter().map(|phase| phase.instructions).collect(),
            doubts: analysis.doubts,
        }
    }
}

impl<P: Clone + Eq + Hash + Ord> TryFrom<Saved<P>> for Analysis<P> {
    type Error = Error;

    /// Adds the intervals up in their order, as they were when the analysis was made: sums come out the same to the last
    /// bit.
    fn try_from(saved: Saved<P>) -> Result<Self, Error> {
        if saved.version != VERSION {
            return Err(Error::FormatVersion { found: saved.version, known: VERSION });
        }
        check_ascending(&saved.frequencies)?;
        let width = saved.frequencies.len();
        for cost in &saved.costs {
            positive("the time of an interval in seconds", cost.time.0)?;
            not_negative("the energy of an interval in joules", cost.energy.0)?;
        }
        let intervals = saved.instances.iter().fold(0_usize, |sum, (_, count)| sum.saturating_add(*count));
        let (expected, got) = (intervals.saturating_mul(width), saved.costs.len());
        if expected != got {
            return Err(Error::Length { what: "costs of intervals", expected, got });
        }
        let got = saved.doubts.len();
        if got != 0 && got != intervals {
            return Err(Error::Length { what: "doubts of intervals", expected: intervals, got });
        }
        for &doubt in &saved.doubts {
            not_negative("the doubt of an interval", doubt)?;
        }
        let mut doubts = saved.doubts.into_iter();
        let mut sums = Sums::new(width);
        let mut rows = saved.costs.chunks_exact(width);
        for (phase, count) in &saved.instances {
            for row in rows.by_ref().take(*count) {
                sums.push(phase.clone(), 0.0, doubts.next().unwrap_or(1.0), row.iter().copied());
            }
        }
        let mut analysis = sums.finish(saved.frequencies)?;
        let (expected, got) = (analysis.phases.len(), saved.instructions.len());
        if expected != got {
            return Err(Error::Length { what: "instructions of phases", expected, got });
        }
        for (phase, instructions) in analysis.phases.iter_mut().zip(saved.instructions) {
            phase.instructions = positive("the number of instructions", instructions)?;
        }
        Ok(analysis)
    }
}
