//! A fitted power model and the machine it belongs to.

use super::{EffectiveCapacitance, OperatingPoints};
use crate::{Cycles, Error, Hertz, Watts};

/// Power of a core at any frequency between its operating points.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "super::saved::Saved", into = "super::saved::Saved"))]
pub struct PowerModel {
    machine: String,
    points: OperatingPoints,
    capacitance: EffectiveCapacitance,
}

impl PowerModel {
    /// Of the machine called `machine`: whatever distinguishes it from others for which the weights do not hold, such
    /// as vendor, model and stepping of its processor.
    #[must_use]
    pub fn new(
        machine: impl Into<String>,
        points: OperatingPoints,
        capacitance: EffectiveCapacitance,
    ) -> Self {
        Self { machine: machine.into(), points, capacitance }
    }

    /// The machine it was fitted on.
    #[must_use]
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// Refuses a model of another machine.
    ///
    /// # Errors
    /// [`Error::OtherMachine`] unless `here` is the name of the machine that it was fitted on.
    pub fn check_machine(&self, here: &str) -> Result<(), Error> {
        if self.machine == here {
            Ok(())
        } else {
            Err(Error::OtherMachine { fitted: self.machine.clone(), here: here.to_owned() })
        }
    }

    /// Voltages and static powers.
    #[must_use]
    pub const fn points(&self) -> &OperatingPoints {
        &self.points
    }

    /// The model of activity.
    #[must_use]
    pub const fn capacitance(&self) -> &EffectiveCapacitance {
        &self.capacitance
    }

    /// Power of an interval that takes `cycles` at `frequency` and in which the model's events happen `counts`
    /// times: counts *at that frequency*, see [`Scaling`](crate::performance::Scaling).
    ///
    /// # Errors
    /// [`Error::BeyondPoints`] if the voltage at `frequency` is not known.
    pub fn power(&self, frequency: Hertz, counts: &[f64], cycles: Cycles) -> Result<Watts, Error> {
        Ok(self.points.at(frequency)?.power(self.capacitance.predict(counts, cycles)))
    }
}
