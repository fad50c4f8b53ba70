//! Temperature: what power itself explains of it, and what the room adds.
//!
//! Leakage rises with temperature, so that a calibration and the run it is used for differ if the room does. A
//! sensor shows the sum of both; what the power of the moment explains is part of the model already.

use super::joint::{Joint, Row};
use crate::{Kelvin, Watts};

/// How power depends on the temperature around the processor.
///
/// # Formula
/// `d = T - T_0 - R P`; the power that does not depend on activity is `1 + k d` times as large.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Thermal {
    /// `T_0`: the sensor at no power, in the surroundings of the calibration.
    pub reference: Kelvin,
    /// `R`: by how much the sensor rises per watt.
    pub kelvin_per_watt: f64,
    /// `k`: by which share the power without activity rises per kelvin.
    pub per_kelvin: f64,
}

impl Thermal {
    /// By how much the surroundings are warmer than in the calibration, if the sensor shows `temperature` while
    /// `power` is drawn.
    #[must_use]
    pub fn excess(&self, temperature: Kelvin, power: Watts) -> Kelvin {
        temperature - self.reference - Kelvin(self.kelvin_per_watt * power.0)
    }

    /// The regression of temperature on the power that `joint` predicts; fills in the `warmth` of each row. Measured
    /// power would not do: its noise would be in both. `None` unless each row has a temperature and they differ.
    pub(super) fn fit(rows: &mut [Row], temperatures: &[Option<Kelvin>], joint: &Joint) -> Option<Self> {
        let known: Vec<f64> = temperatures.iter().map(|t| t.map(|t| t.0)).collect::<Option<_>>()?;
        let powers: Vec<f64> =
            rows.iter().map(|row| joint.power(row.frequency, &row.rates, row.warmth)).collect();
        let n = rows.len() as f64;
        let (mean_power, mean) = (powers.iter().sum::<f64>() / n, known.iter().sum::<f64>() / n);
        let (mut squares, mut along) = (0.0, 0.0);
        for (power, temperature) in powers.iter().zip(&known) {
            squares += (power - mean_power).powi(2);
            along += (power - mean_power) * (temperature - mean);
        }
        if squares == 0.0 || known.iter().all(|&t| t == known[0]) {
            return None;
        }
        let kelvin_per_watt = along / squares;
        let reference = Kelvin(mean - kelvin_per_watt * mean_power);
        let thermal = Self { reference, kelvin_per_watt, per_kelvin: 0.0 };
        for ((row, temperature), power) in rows.iter_mut().zip(known).zip(powers) {
            row.warmth = thermal.excess(Kelvin(temperature), Watts(power)).0;
        }
        Some(thermal)
    }
}
