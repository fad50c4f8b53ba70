//! Effective capacitance as a linear function of event rates.

use std::collections::HashSet;

use crate::error::{Error, finite};
use crate::performance::Event;
use crate::{Cycles, Farads};

/// `C_eff = w_0 + sum_k w_k * event_k / cycles`.
///
/// Weights may be negative: an event can stand for activity that does not take place, as a stall does.
///
/// # References
/// Thesis, Paper V, section V.5.1, equation V.5.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct EffectiveCapacitance {
    events: Vec<Event>,
    weights: Vec<Farads>, // one per event, finite
    constant: Farads,     // finite
}

/// A model as it is read: not yet known to have a weight for each event.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    events: Vec<Event>,
    weights: Vec<Farads>,
    constant: Farads,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for EffectiveCapacitance {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let (expected, got) = (saved.events.len(), saved.weights.len());
        if expected != got {
            return Err(Error::Length { what: "weights of events", expected, got });
        }
        Self::new(saved.events.into_iter().zip(saved.weights), saved.constant)
    }
}

impl EffectiveCapacitance {
    /// From events with their weights (per event and cycle) and the constant.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if a weight is not finite; [`Error::Duplicate`] if two events have one name.
    pub fn new(weights: impl IntoIterator<Item = (Event, Farads)>, constant: Farads) -> Result<Self, Error> {
        let (events, weights): (Vec<Event>, Vec<Farads>) = weights.into_iter().unzip();
        finite("a weight", weights.iter().chain([&constant]).map(|weight| weight.0))?;
        check_names(&events)?;
        Ok(Self { events, weights, constant })
    }

    /// The events, in the order in which their counts are to be given.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The weights, in the order of the events.
    #[must_use]
    pub fn weights(&self) -> &[Farads] {
        &self.weights
    }

    /// Effective capacitance of a core without any of the events.
    #[must_use]
    pub const fn constant(&self) -> Farads {
        self.constant
    }

    /// Capacitance of an interval with these counts of the model's events, in its order. Counts beyond the
    /// number of events are not looked at, missing ones count as 0.
    ///
    /// Where the model extrapolates to less than nothing, the answer is 0.
    #[must_use]
    pub fn predict(&self, counts: &[f64], cycles: Cycles) -> Farads {
        let activity: f64 = self.weights.iter().zip(counts).map(|(weight, count)| weight.0 * count).sum();
        Farads((self.constant.0 + activity / cycles.0).max(0.0))
    }
}

pub(super) fn check_names(events: &[Event]) -> Result<(), Error> {
    let mut names = HashSet::new();
    match events.iter().find(|event| !names.insert(event.name.as_str())) {
        Some(event) => Err(Error::Duplicate { what: "event", which: event.name.clone() }),
        None => Ok(()),
    }
}
