//! The coefficients that the paper fitted to one Intel Core i7 920 (Nehalem, 2.66 GHz).
//!
//! An example of what a fit looks like, and nothing more: the paper gives neither the voltages nor the static
//! power of its machine, and coefficients of one processor say nothing about another. Fit your own with
//! [`TrainingSet`](super::TrainingSet).
//!
//! # References
//! Thesis, Paper V, table V.1.

use super::{EffectiveCapacitance, OperatingPoint, OperatingPoints, PowerModel};
use crate::performance::{Event, Scaling};
use crate::{Cycles, Error, Farads, Hertz, Volts, Watts};

/// Events with their codes (unit mask, event select) and weights in nanofarads.
///
/// The paper's table has no unit. In nanofarads the constant alone is 8 W at 2.66 GHz and 1.2 V, which is the
/// order of an idling core of that processor, so that is what is assumed.
pub const COEFFICIENTS: [(&str, u16, Scaling, f64); 6] = [
    ("UOPS_EXECUTED.PORT_234_CORE", 0x80B1, Scaling::Fixed, 0.75),
    ("L2_RQSTS.MISS", 0xAA24, Scaling::Fixed, -4.51),
    ("L2_RQSTS.REFERENCES.ANY", 0xFF24, Scaling::Fixed, 3.08),
    ("RESOURCE_STALLS.ANY", 0x01A2, Scaling::ResourceStalls, -1.38),
    ("FP_COMP_OPS_EXE.SSE_FP", 0x0410, Scaling::Fixed, 0.94),
    ("BR_MISP_EXEC.ANY", 0x7F89, Scaling::Fixed, 0.35),
];

/// The constant of the model, in nanofarads.
pub const CONSTANT: f64 = 2.11;

/// The nine clock frequencies of the machine are 1.6 to 2.66 GHz: 12 to 20 times its bus clock of 133 MHz.
pub const BUS_MULTIPLIERS: std::ops::RangeInclusive<u32> = 12..=20;

/// The model of table V.1.
///
/// # Errors
/// None: the paper's numbers are valid.
pub fn effective_capacitance() -> Result<EffectiveCapacitance, Error> {
    EffectiveCapacitance::new(
        COEFFICIENTS.map(|(name, _, scaling, weight)| {
            (Event { name: name.to_owned(), scaling }, Farads::from_nf(weight))
        }),
        Farads::from_nf(CONSTANT),
    )
}

/// The same at three clock frequencies, 1.6, 2.13 and 2.66 GHz, to try things out: voltages and static power are assumed.
///
/// # Errors
/// None, as [`effective_capacitance`].
pub fn example() -> Result<PowerModel, Error> {
    let points = [(1.6, 0.95, 5.0), (2.13, 1.05, 6.5), (2.66, 1.2, 9.0)].map(|(ghz, volts, watts)| {
        OperatingPoint { frequency: Hertz::from_ghz(ghz), voltage: Volts(volts), static_power: Watts(watts) }
    });
    Ok(PowerModel::new("an example", OperatingPoints::new(points)?, effective_capacitance()?))
}

/// Counts of the model's events, by name, where only the traffic to memory is known: accesses, misses of the first and the
/// second level of cache, and cycles that waited. Floating-point operations and mispredicted branches, which traffic does not
/// show, are 0.
#[must_use]
pub fn traffic(accesses: f64, l1_misses: f64, l2_misses: f64, stalls: Cycles) -> [(&'static str, f64); 6] {
    let [ports, l2_miss, l2_reference, stall, operations, mispredictions] =
        COEFFICIENTS.map(|(name, _, _, _)| name);
    [
        (ports, accesses),
        (l2_reference, l1_misses),
        (l2_miss, l2_misses),
        (stall, stalls.0),
        (operations, 0.0),
        (mispredictions, 0.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_counts_each_event_of_the_model() -> Result<(), Error> {
        let model = effective_capacitance()?;
        let counts = traffic(8.0, 4.0, 2.0, Cycles(1.0));
        let of = |event: &Event| counts.iter().find(|(name, _)| *name == event.name).map(|&(_, count)| count);
        let by_name: Vec<_> = model.events().iter().map(of).collect();
        assert_eq!(by_name, [8.0, 2.0, 4.0, 1.0, 0.0, 0.0].map(Some)); // the order of COEFFICIENTS
        Ok(())
    }
}
