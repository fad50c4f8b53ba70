//! The stored form of a power model, with a version.

use serde::{Deserialize, Serialize};

use super::{EffectiveCapacitance, OperatingPoints, PowerModel};
use crate::performance::Event;
use crate::{Error, Farads};

/// Newest version of the format, and the only one so far.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    version: u32,
    machine: String,
    points: OperatingPoints,
    constant: Farads,
    weights: Vec<Weight>,
}

#[derive(Serialize, Deserialize)]
struct Weight {
    #[serde(flatten)]
    event: Event,
    weight: Farads,
}

impl From<PowerModel> for Saved {
    fn from(model: PowerModel) -> Self {
        let capacitance = model.capacitance();
        let weights = capacitance.events().iter().cloned().zip(capacitance.weights().iter().copied());
        Self {
            version: VERSION,
            machine: model.machine().to_owned(),
            points: model.points().clone(),
            constant: capacitance.constant(),
            weights: weights.map(|(event, weight)| Weight { event, weight }).collect(),
        }
    }
}

impl TryFrom<Saved> for PowerModel {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        if saved.version != VERSION {
            return Err(Error::FormatVersion { found: saved.version, known: VERSION });
        }
        let weights = saved.weights.into_iter().map(|w| (w.event, w.weight));
        Ok(Self::new(saved.machine, saved.points, EffectiveCapacitance::new(weights, saved.constant)?))
    }
}
