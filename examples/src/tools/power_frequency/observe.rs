//! What Power-Sleuth sees of a run: phases from code, events from counters.

use std::convert::Infallible;

use phase_detect::cluster::SAMPLED_THRESHOLD;
use phase_detect::signature::SAMPLED_ENTRIES;
use phase_detect::{
    Clusterer, CodeVector, LeaderFollower, LeaderFollowerConfig, PhaseId, Predictor, RunLengthMarkov,
};
use powersleuth::Hertz;
use powersleuth::multiplex::{
    Collector, CollectorError, Count, CounterGroups, CounterSource, Reading, Record, Rotation,
};

use super::events::{EVENTS, counts};
use crate::machines::ooo::{Interval, Run};

/// The phase of each interval, from its code alone, as coarse as live runs detect them from sampled code: a schedule of
/// finer phases keeps less of the saving, as fewer intervals of each are measured.
///
/// # Errors
/// [`phase_detect::Error`] if an interval executed nothing.
pub fn phases(run: &Run, seed: u64) -> Result<Vec<PhaseId>, phase_detect::Error> {
    let mut code = CodeVector::new(SAMPLED_ENTRIES, seed)?;
    let config = LeaderFollowerConfig {
        threshold: SAMPLED_THRESHOLD,
        transition_threshold: 0,
        ..LeaderFollowerConfig::default()
    };
    let mut clusterer = LeaderFollower::new(config)?;
    run.intervals
        .iter()
        .map(|interval| {
            for &(address, weight) in &interval.code {
                code.add(address, weight as f64);
            }
            Ok(clusterer.classify(&code.finish()?)?.phase)
        })
        .collect()
}

/// The record of a processor with a counter for every event.
///
/// # Errors
/// [`powersleuth::Error`] if an interval took no time.
pub fn all_counted(
    run: &Run,
    phases: &[PhaseId],
    clock: usize,
) -> Result<Record<PhaseId>, powersleuth::Error> {
    let mut record = Record::new(EVENTS.len());
    for (interval, &phase) in run.intervals.iter().zip(phases) {
        let (instructions, cycles) = (interval.activity.instructions as f64, interval.clocks[clock].cycles);
        record.push(phase, instructions, cycles, counts(interval, clock).into_iter().enumerate())?;
    }
    Ok(record)
}

/// The record of a processor that counts one of `groups` at a time, turned by `rotation`, which is shown the
/// predicted phase of each interval.
///
/// # Errors
/// [`CollectorError`] if an interval took no time.
pub fn multiplexed(
    run: &Run,
    phases: &[PhaseId],
    clock: usize,
    groups: CounterGroups,
    rotation: impl Rotation<PhaseId>,
) -> Result<Record<PhaseId>, CollectorError<Infallible>> {
    let counters = SimulatedCounters { intervals: run.intervals.iter(), clock, events: Vec::new() };
    let mut collector = Collector::new(counters, groups, rotation);
    let mut predictor = RunLengthMarkov::default();
    for &phase in phases {
        collector.begin(predictor.predict().map(|prediction| prediction.phase))?;
        collector.end(phase)?;
        predictor.observe(phase);
    }
    Ok(collector.finish().0)
}

/// Counters of the reference core: each start and stop is one interval.
struct SimulatedCounters<'a> {
    intervals: std::slice::Iter<'a, Interval>,
    clock: usize,
    events: Vec<usize>,
}

impl CounterSource for SimulatedCounters<'_> {
    type Error = Infallible;

    fn start(&mut self, events: &[usize]) -> Result<(), Infallible> {
        self.events = events.to_vec();
        Ok(())
    }

    fn stop(&mut self) -> Result<Reading, Infallible> {
        let exact = |value: f64| Count::exact(value.round() as u64);
        Ok(self.intervals.next().map_or_else(
            || Reading { instructions: exact(0.0), cycles: exact(0.0), counts: Vec::new() },
            |interval| {
                let counts = counts(interval, self.clock);
                Reading {
                    instructions: Count::exact(interval.activity.instructions),
                    cycles: exact(interval.clocks[self.clock].cycles),
                    counts: self.events.iter().map(|&event| exact(counts[event])).collect(),
                }
            },
        ))
    }
}

/// Number of the clock that runs at `frequency`.
pub fn clock_at(run: &Run, frequency: Hertz) -> Option<usize> {
    run.frequencies.iter().position(|&f| f == frequency)
}
