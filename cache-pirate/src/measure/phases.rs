//! A full cycle for each phase of the program.
//!
//! Each phase keeps its own place in the list of sizes. Before an interval the phase *expected* next decides
//! which size is stolen; after it, the phase that it *was* gets the result. A wrong expectation therefore wastes
//! nothing: the interval is still a measurement of its phase, only at a size that another one wanted.

use std::hash::Hash;

use crate::counts::Reading;
use crate::curve::CacheCurve;
use crate::error::PirateError;
use crate::plan::Plan;
use crate::testbed::Testbed;

use super::cycles::run;
use super::session::Next;
use super::{Interval, Measurements};

/// What the caller says of the stretch that just ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseReport<P> {
    /// The phase it belonged to; `None` for a transition, whose measurement is kept out of all phases.
    pub was: Option<P>,
    /// The phase expected to come next; `None` where there is no expectation: the last one is taken to go on.
    pub next: Option<P>,
}

/// A stretch of the target's run, measured or not.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stretch<P> {
    /// Work done in it.
    pub work: f64,
    /// Its phase.
    pub phase: Option<P>,
    /// Number of its interval, if it was measured.
    pub interval: Option<usize>,
}

/// Measurements with their phases.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PhasedMeasurements<P> {
    /// All of it, phases aside.
    pub all: Measurements,
    /// The run in order.
    pub stretches: Vec<Stretch<P>>,
}

impl<P: Clone + Eq + Hash> PhasedMeasurements<P> {
    /// The phases, in the order they were first seen.
    #[must_use]
    pub fn phases(&self) -> Vec<P> {
        let mut seen = Vec::new();
        for phase in self.stretches.iter().filter_map(|stretch| stretch.phase.as_ref()) {
            if !seen.contains(phase) {
                seen.push(phase.clone());
            }
        }
        seen
    }

    /// The intervals of one phase.
    pub fn intervals_of(&self, phase: P) -> impl Iterator<Item = Interval> + '_ {
        self.stretches
            .iter()
            .filter(move |stretch| stretch.phase.as_ref() == Some(&phase))
            .filter_map(|stretch| self.all.intervals.get(stretch.interval?).copied())
    }

    /// The curve of one phase.
    ///
    /// # Errors
    /// [`PirateError::NothingMeasured`] if no interval fell into it.
    pub fn curve_of(&self, phase: P) -> Result<CacheCurve, PirateError> {
        let intervals: Vec<Interval> = self.intervals_of(phase).collect();
        CacheCurve::assemble(self.all.cache, self.all.placement, self.all.interval, &intervals)
    }
}

/// Measures all sizes of `plan` for each phase, until the target ends or every phase seen has as many trusted
/// or untrusted intervals at each size as the plan has cycles. The plan's pace is not used.
///
/// `classify` is called after each stretch that the target ran, warm-ups included, with what was counted in it.
///
/// # Errors
/// Those of the testbed.
pub fn measure_phases<T: Testbed, P: Clone + Eq + Hash>(
    testbed: &mut T,
    plan: &Plan,
    mut classify: impl FnMut(&Reading) -> PhaseReport<P>,
) -> Result<PhasedMeasurements<P>, T::Error> {
    let mut stretches: Vec<Stretch<P>> = Vec::new();
    let all = run(testbed, plan, &plan.stolen, |session, result| {
        let mut places = Places::new(plan);
        let mut expected = None;
        loop {
            if places.complete(plan.cycles) {
                return Ok(Next::Continue);
            }
            let stolen = plan.stolen[places.wanted(expected.as_ref())];
            let next = session.change_to(stolen, |reading| {
                let report = classify(reading);
                stretches.push(Stretch {
                    work: reading.target.work,
                    phase: report.was.clone(),
                    interval: None,
                });
                expected = report.next.or(report.was);
            })?;
            if next == Next::Ended {
                return Ok(next);
            }
            let (interval, next) = session.interval(plan.interval)?;
            let report = classify(&interval.counts);
            let number = result.intervals.len();
            stretches.push(Stretch {
                work: interval.counts.target.work,
                phase: report.was.clone(),
                interval: Some(number),
            });
            let size = plan.stolen.partition_point(|&s| s < interval.stolen);
            let cycle = places.done(report.was.as_ref(), size);
            result.intervals.push(Interval { cycle, ..interval });
            expected = report.next.or(report.was);
            if next == Next::Ended {
                return Ok(next);
            }
        }
    })?;
    Ok(PhasedMeasurements { all, stretches })
}

/// How often each phase was measured at each size, and the size it waits for.
struct Places<P> {
    sizes: usize,
    phases: Vec<(P, Vec<u64>)>, // a handful: searched in order
    nobody: usize,              // place of what belongs to no phase
}

impl<P: Clone + Eq> Places<P> {
    fn new(plan: &Plan) -> Self {
        Self { sizes: plan.stolen.len(), phases: Vec::new(), nobody: 0 }
    }

    /// The size to measure next: the first of those that the phase was measured at least often.
    fn wanted(&self, phase: Option<&P>) -> usize {
        let Some((_, counts)) = self.phases.iter().find(|(p, _)| Some(p) == phase) else {
            return self.nobody;
        };
        let least = counts.iter().min().copied().unwrap_or(0);
        counts.iter().position(|&count| count == least).unwrap_or(0)
    }

    /// Counts an interval and answers how many there were before it.
    fn done(&mut self, phase: Option<&P>, size: usize) -> u64 {
        let Some(phase) = phase else {
            self.nobody = (self.nobody + 1) % self.sizes;
            return 0;
        };
        let place = self.phases.iter().position(|(p, _)| p == phase).unwrap_or_else(|| {
            self.phases.push((phase.clone(), vec![0; self.sizes]));
            self.phases.len() - 1
        });
        let count = &mut self.phases[place].1[size];
        *count += 1;
        *count - 1
    }

    fn complete(&self, cycles: u64) -> bool {
        !self.phases.is_empty()
            && self.phases.iter().all(|(_, counts)| counts.iter().all(|&count| count >= cycles))
    }
}
