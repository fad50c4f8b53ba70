//! What was counted in one run at one frequency.

use crate::Hertz;
use crate::error::{Error, not_negative, positive};
use crate::performance::{Counts, Event};

/// The counts of each interval of a run, with its phase. `P` is whatever names a phase.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "Saved<P>", bound(deserialize = "P: Clone + serde::Deserialize<'de>"))
)]
pub struct Profile<P> {
    frequency: Hertz, // > 0
    events: Vec<Event>,
    phases: Vec<P>,
    counts: Vec<Counts>,
    power_counts: Vec<f64>, // >= 0; one row of events.len() per interval
}

/// A profile as it is read: not yet known to have counts of each event in each interval.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved<P> {
    frequency: Hertz,
    events: Vec<Event>,
    phases: Vec<P>,
    counts: Vec<Counts>,
    power_counts: Vec<f64>,
}

#[cfg(feature = "serde")]
impl<P: Clone> TryFrom<Saved<P>> for Profile<P> {
    type Error = Error;

    fn try_from(saved: Saved<P>) -> Result<Self, Error> {
        let Saved { frequency, events, phases, counts, power_counts } = saved;
        let (intervals, width) = (phases.len(), events.len());
        if counts.len() != intervals {
            return Err(Error::Length {
                what: "counts of intervals",
                expected: intervals,
                got: counts.len(),
            });
        }
        let (expected, got) = (intervals.saturating_mul(width), power_counts.len());
        if got != expected {
            return Err(Error::Length { what: "event counts", expected, got });
        }
        let mut profile = Self::new(frequency, events)?;
        for (interval, (phase, counts)) in phases.into_iter().zip(counts).enumerate() {
            profile.push(phase, counts, &power_counts[interval * width..(interval + 1) * width])?;
        }
        Ok(profile)
    }
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

    /// The same with each count beside its event's name, in any order.
    ///
    /// # Errors
    /// Those of [`push`](Self::push); [`Error::Duplicate`] for an event that is there twice, [`Error::UnknownEvent`] for one
    /// that the power model lacks, [`Error::MissingEvent`] for one without a count: give 0 for what does not occur.
    pub fn push_named(&mut self, phase: P, counts: Counts, named: &[(&str, f64)]) -> Result<(), Error> {
        let mut row = vec![None; self.events.len()];
        for &(name, count) in named {
            let which = || name.to_owned();
            let Some(place) = self.events.iter().position(|event| event.name == name) else {
                let known = self.events.iter().map(|event| &*event.name).collect::<Vec<_>>().join(", ");
                return Err(Error::UnknownEvent { which: which(), known });
            };
            if row[place].replace(count).is_some() {
                return Err(Error::Duplicate { what: "event", which: which() });
            }
        }
        let missing = |event: &Event| Error::MissingEvent { which: event.name.clone() };
        let row = row.iter().zip(&self.events).map(|(count, event)| count.ok_or_else(|| missing(event)));
        self.push(phase, counts, &row.collect::<Result<Vec<f64>, Error>>()?)
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
