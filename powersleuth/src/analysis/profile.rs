//! What was counted in one run at one frequency.

use crate::Hertz;
use crate::error::{Error, not_negative, positive};
use crate::performance::{Counts, Event};

/// The counts of each interval of a run, with its phase. `P` is whatever names a phase.
#[derive(Clone, Debug)]
pub struct Profile<P> {
    frequency: Hertz, // > 0
    events: Vec<Event>,
    phases: Vec<P>,
    counts: Vec<Counts>,
    power_counts: Vec<f64>, // >= 0; one row of events.len() per interval
}

impl<P: Clone> Profile<P> {
    /// An empty profile of a run at `frequency`; `events` are those of the power model, in its order.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless the frequency is finite and above 0.
    pub fn new(frequency: Hertz, events: impl IntoIterator<Item = Event>) -> Result<Self, Error> {
        Ok(Self {
            frequency: Hertz(positive("the frequency in hertz", frequency.0)?),
            events: events.into_iter().collect(),
            phases: Vec::new(),
            counts: Vec::new(),
            power_counts: Vec::new(),
        })
    }

    /// Appends an interval: `power_counts` are the counts of the power model's events.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is a count for each event; [`Error::OutOfRange`] for one that is negative or
    /// not finite.
    pub fn push(&mut self, phase: P, counts: Counts, power_counts: &[f64]) -> Result<(), Error> {
        if power_counts.len() != self.events.len() {
            let (expected, got) = (self.events.len(), power_counts.len());
            return Err(Error::Length { what: "event counts", expected, got });
        }
        for &count in power_counts {
            not_negative("an event count", count)?;
        }
        self.phases.push(phase);
        self.counts.push(counts);
        self.power_counts.extend_from_slice(power_counts);
        Ok(())
    }

    /// Frequency of the clock when it was counted.
    #[must_use]
    pub const fn frequency(&self) -> Hertz {
        self.frequency
    }

    /// Events of the power model.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Number of intervals.
    #[must_use]
    pub fn len(&self) -> usize {
        self.phases.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    /// The intervals in order: phase, counts, counts of the power model's events.
    pub fn iter(&self) -> impl Iterator<Item = (&P, &Counts, &[f64])> {
        let width = self.events.len();
        self.phases
            .iter()
            .zip(&self.counts)
            .enumerate()
            .map(move |(i, (phase, counts))| (phase, counts, &self.power_counts[i * width..(i + 1) * width]))
    }
}
