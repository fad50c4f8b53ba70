//! A run in which every interval has every count, and what they are for.

use super::Record;
use crate::analysis::Profile;
use crate::performance::{Counts, Event};
use crate::{Cycles, Error, Hertz};

/// Where a value comes from: the four steps, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Step {
    /// Counted in this interval.
    Interval,
    /// Counted in other intervals of this instance of the phase.
    Instance,
    /// Counted in other instances of the phase.
    Phase,
    /// Counted in other phases only.
    Program,
}

/// A record without holes.
#[derive(Clone, Debug)]
pub struct Complete<P> {
    record: Record<P>,
    values: Vec<f64>, // one row of events per interval
    steps: Vec<Step>,
}

/// Which of the multiplexed events is which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Number of the event that counts cycles in which nothing executes.
    pub stall_cycles: usize,
    /// Number of the event that counts misses of the last level of cache.
    pub llc_misses: usize,
    /// Number of the event that counts misses leading a cluster, where there is one.
    pub leading_misses: Option<usize>,
    /// Number of the event that counts stalls for want of a resource, where there is one.
    pub resource_stalls: Option<usize>,
    /// Events of the power model, and what counts them.
    pub power: Vec<(Event, Source)>,
}

/// What counts an event of the power model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The multiplexed event of this number.
    Event(usize),
    /// The counter of instructions, which every interval has.
    Instructions,
}

impl<P: Clone> Complete<P> {
    /// From the rate of each interval, one column per event.
    pub(super) fn new(record: Record<P>, columns: &[Vec<(f64, Step)>]) -> Self {
        let events = record.events;
        let cells = record.counts.iter().enumerate().map(|(at, counted)| {
            let (rate, step) = columns[at % events][at / events];
            // A count is kept as it is: it must not change by being divided and multiplied again.
            (counted.unwrap_or_else(|| rate * record.instructions[at / events]), step)
        });
        let (values, steps) = cells.unzip();
        Self { record, values, steps }
    }

    /// What was counted.
    #[must_use]
    pub const fn record(&self) -> &Record<P> {
        &self.record
    }

    /// Counts of all events in `interval`, measured or filled in. Empty beyond the last interval.
    #[must_use]
    pub fn values(&self, interval: usize) -> &[f64] {
        row(&self.values, interval, self.record.events)
    }

    /// Where each of the [values](Self::values) comes from.
    #[must_use]
    pub fn steps(&self, interval: usize) -> &[Step] {
        row(&self.steps, interval, self.record.events)
    }

    /// How many values come from `step`.
    #[must_use]
    pub fn count(&self, step: Step) -> usize {
        self.steps.iter().filter(|&&s| s == step).count()
    }

    /// The input of an analysis, counted while the clock ran at `frequency`.
    ///
    /// A stall count that was filled in may exceed the cycles of its interval; it is cut to them.
    ///
    /// # Errors
    /// [`Error::NoSuch`] if a role names an event that is not there; as [`Profile::new`] for the frequency and
    /// the events.
    pub fn profile(&self, frequency: Hertz, roles: &Roles) -> Result<Profile<P>, Error> {
        let events = self.record.events;
        let numbers = roles.power.iter().filter_map(|(_, source)| match source {
            Source::Event(event) => Some(*event),
            Source::Instructions => None,
        });
        let numbers = numbers
            .chain([roles.stall_cycles, roles.llc_misses])
            .chain(roles.leading_misses)
            .chain(roles.resource_stalls);
        if let Some(event) = numbers.into_iter().find(|&event| event >= events) {
            return Err(Error::NoSuch { what: "event", index: event, count: events });
        }
        let mut profile = Profile::new(frequency, roles.power.iter().map(|(event, _)| event.clone()))?;
        let mut power = vec![0.0; roles.power.len()];
        for interval in 0..self.record.len() {
            let values = self.values(interval);
            let cycles = self.record.cycles[interval];
            let mut counts = Counts::new(
                self.record.instructions[interval],
                Cycles(cycles),
                Cycles(values[roles.stall_cycles].min(cycles)),
                values[roles.llc_misses],
            )?;
            if let Some(event) = roles.leading_misses {
                counts = counts.with_leading_misses(values[event])?;
            }
            if let Some(event) = roles.resource_stalls {
                counts = counts.with_resource_stalls(Cycles(values[event]))?;
            }
            for (slot, (_, source)) in power.iter_mut().zip(&roles.power) {
                *slot = match *source {
                    Source::Event(event) => values[event],
                    Source::Instructions => counts.instructions(),
                };
            }
            profile.push(self.record.phases[interval].clone(), counts, &power)?;
        }
        Ok(profile)
    }
}

fn row<T>(cells: &[T], interval: usize, events: usize) -> &[T] {
    cells.get(interval * events..(interval + 1) * events).unwrap_or(&[])
}
