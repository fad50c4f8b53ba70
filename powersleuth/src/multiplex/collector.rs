//! Counting a run, one group of events per interval.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use super::{CounterGroups, Record, Rotation};
use crate::Error;

/// Counters that can be set to a few events at a time: a processor's, or a simulated one's.
pub trait CounterSource {
    /// What can go wrong with them.
    type Error;

    /// Sets the programmable counters to these events, by number, and starts all from zero.
    ///
    /// # Errors
    /// Whatever keeps the events from being counted.
    fn start(&mut self, events: &[usize]) -> Result<(), Self::Error>;

    /// Reads what was counted since the last start, one count per event, and stops counting.
    ///
    /// # Errors
    /// Whatever keeps the counters from being read.
    fn stop(&mut self) -> Result<Reading, Self::Error>;
}

/// What the counters showed at the end of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Retired instructions.
    pub instructions: Count,
    /// Core cycles.
    pub cycles: Count,
    /// The events, in the order they were asked for.
    pub counts: Vec<Count>,
}

/// A count, and for how much of the time it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// What was counted.
    pub value: u64,
    /// Time for which the event was meant to be counted.
    pub enabled: Duration,
    /// Time for which it was: less if others wanted the counter too.
    pub running: Duration,
}

impl Count {
    /// Counted all the time.
    #[must_use]
    pub const fn exact(value: u64) -> Self {
        Self { value, enabled: Duration::ZERO, running: Duration::ZERO }
    }

    /// Scaled up to the whole time; `None` if it was not counted at any time of it.
    #[must_use]
    pub fn scaled(&self) -> Option<f64> {
        let value = self.value as f64;
        if self.running >= self.enabled {
            return Some(value);
        }
        (!self.running.is_zero()).then(|| value * self.enabled.as_secs_f64() / self.running.as_secs_f64())
    }
}

/// Why an interval could not be counted.
#[derive(Debug)]
#[non_exhaustive]
pub enum CollectorError<E> {
    /// The counters failed.
    Source(E),
    /// The counters gave something that cannot be.
    Reading(Error),
    /// An interval was ended that was not begun.
    NotBegun,
}

impl<E: fmt::Display> fmt::Display for CollectorError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => write!(f, "the counters failed: {error}"),
            Self::Reading(error) => write!(f, "the counters gave a reading that cannot be: {error}"),
            Self::NotBegun => f.write_str("an interval was ended that was not begun; call `begin` first"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for CollectorError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source(error) => Some(error),
            Self::Reading(error) => Some(error),
            Self::NotBegun => None,
        }
    }
}

/// Counts interval after interval, a group of events in each, and records what it gets.
///
/// Call [`begin`](Self::begin) with the phase that is predicted for the next interval, let the program run it,
/// and call [`end`](Self::end) with the phase it turned out to be.
#[derive(Debug)]
pub struct Collector<S, R, P> {
    source: S,
    groups: CounterGroups,
    rotation: R,
    record: Record<P>,
    counting: Option<usize>,
}

impl<S: CounterSource, R: Rotation<P>, P: Clone + Eq + Hash + Ord> Collector<S, R, P> {
    /// Counts `groups` on `source` in the order that `rotation` says.
    pub fn new(source: S, groups: CounterGroups, rotation: R) -> Self {
        let record = Record::new(groups.events());
        Self { source, groups, rotation, record, counting: None }
    }

    /// Sets the counters for an interval that is predicted to belong to `predicted`.
    ///
    /// # Errors
    /// [`CollectorError::Source`] if the counters cannot be set.
    pub fn begin(&mut self, predicted: Option<P>) -> Result<(), CollectorError<S::Error>> {
        let groups = self.groups.as_slice();
        let group = self.rotation.next_group(predicted) % groups.len();
        self.source.start(&groups[group]).map_err(CollectorError::Source)?;
        self.counting = Some(group);
        Ok(())
    }

    /// Reads the counters after an interval that belongs to `phase` and records it. Counts of events that ran for
    /// part of the time are scaled up; an event that did not run at all was not counted, and stays due.
    ///
    /// # Errors
    /// [`CollectorError::Source`] if the counters cannot be read; [`CollectorError::Reading`] if no cycle or no
    /// instruction passed or a count is missing; [`CollectorError::NotBegun`] without a [`begin`](Self::begin).
    pub fn end(&mut self, phase: P) -> Result<(), CollectorError<S::Error>> {
        let group = self.counting.take().ok_or(CollectorError::NotBegun)?;
        let reading = self.source.stop().map_err(CollectorError::Source)?;
        let events = &self.groups.as_slice()[group];
        if reading.counts.len() != events.len() {
            let (expected, got) = (events.len(), reading.counts.len());
            return Err(CollectorError::Reading(Error::Length { what: "counts", expected, got }));
        }
        let counted: Vec<(usize, f64)> = events
            .iter()
            .zip(&reading.counts)
            .filter_map(|(&event, count)| Some((event, count.scaled()?)))
            .collect();
        let all = counted.len() == events.len();
        let whole = |count: Count| count.scaled().unwrap_or(0.0);
        let (instructions, cycles) = (whole(reading.instructions), whole(reading.cycles));
        self.record.push(phase.clone(), instructions, cycles, counted).map_err(CollectorError::Reading)?;
        if all {
            self.rotation.counted(phase, group);
        }
        Ok(())
    }

    /// What has been recorded so far.
    #[must_use]
    pub const fn record(&self) -> &Record<P> {
        &self.record
    }

    /// The counters, between the beginning of an interval and its end: for sources that also run the program.
    pub const fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// The record, and the counters back.
    #[must_use]
    pub fn finish(self) -> (Record<P>, S) {
        (self.record, self.source)
    }
}
