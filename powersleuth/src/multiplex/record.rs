//! What was counted in each interval of a run.

use crate::error::{Error, not_negative, positive};

/// Per interval its phase, the two counts that every interval has, and those events that were counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<P> {
    pub(super) events: usize,
    pub(super) phases: Vec<P>,
    pub(super) instructions: Vec<f64>,   // > 0
    pub(super) cycles: Vec<f64>,         // > 0
    pub(super) counts: Vec<Option<f64>>, // >= 0; one row of `events` per interval
}

impl<P: Clone> Record<P> {
    /// An empty record of `events` multiplexed events.
    #[must_use]
    pub const fn new(events: usize) -> Self {
        Self { events, phases: Vec::new(), instructions: Vec::new(), cycles: Vec::new(), counts: Vec::new() }
    }

    /// Appends an interval of `phase` with the events that were `counted` in it, by number.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless instructions and cycles are finite and above 0 and the counts finite and not
    /// negative; [`Error::NoSuch`] for an event beyond the record's. Nothing is appended then.
    pub fn push(
        &mut self,
        phase: P,
        instructions: f64,
        cycles: f64,
        counted: impl IntoIterator<Item = (usize, f64)>,
    ) -> Result<(), Error> {
        positive("the number of instructions", instructions)?;
        positive("the number of cycles", cycles)?;
        let mut row = vec![None; self.events];
        for (event, count) in counted {
            let Some(slot) = row.get_mut(event) else {
                return Err(Error::NoSuch { what: "event", index: event, count: self.events });
            };
            *slot = Some(not_negative("an event count", count)?);
        }
        self.phases.push(phase);
        self.instructions.push(instructions);
        self.cycles.push(cycles);
        self.counts.append(&mut row);
        Ok(())
    }

    /// Number of multiplexed events.
    #[must_use]
    pub const fn events(&self) -> usize {
        self.events
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

    /// Count of `event` in `interval`, if it was counted there. `None` also beyond either end.
    #[must_use]
    pub fn count(&self, interval: usize, event: usize) -> Option<f64> {
        if event < self.events { *self.counts.get(interval * self.events + event)? } else { None }
    }

    /// Per instruction.
    pub(super) fn rate(&self, interval: usize, event: usize) -> Option<f64> {
        Some(self.count(interval, event)? / self.instructions[interval])
    }
}
