//! From what was counted at one frequency to costs at all.

use std::hash::Hash;

use super::table::Sums;
use super::{Analysis, Cost, Profile};
use crate::error::check_ascending;
use crate::performance::{PerformanceModel, rescale};
use crate::power::{OperatingPoint, PowerModel};
use crate::{Error, Hertz};

impl<P: Clone + Eq + Hash + Ord> Analysis<P> {
    /// Predicts time and energy of every interval at each of `frequencies`, in ascending order.
    ///
    /// # Formula
    /// With `m` the model's memory cycles and `k = f0 / f1`: cycles `c1 = c0 - m + m / k`, time `c1 / f1`, event
    /// counts by their [`Scaling`](crate::performance::Scaling), power from those counts per `c1`, energy as
    /// power times time.
    ///
    /// # Errors
    /// [`Error::Empty`] without frequencies or intervals; [`Error::OutOfRange`] unless frequencies ascend;
    /// [`Error::BeyondPoints`] for a frequency whose voltage is not known; [`Error::OtherEvents`] or
    /// [`Error::Length`] if the profile does not hold the power model's events; [`Error::NotCounted`] if the performance model
    /// reads a count that an interval does not have.
    ///
    /// # Cost
    /// Intervals times frequencies times events: 10,000 x 9 x 6 in some 2 ms.
    ///
    /// # References
    /// Thesis, Paper V, equations V.3 to V.5.
    pub fn predict(
        profile: &Profile<P>,
        performance: &impl PerformanceModel,
        power: &PowerModel,
        frequencies: &[Hertz],
    ) -> Result<Self, Error> {
        check_ascending(frequencies)?;
        let capacitance = power.capacitance();
        let events = capacitance.events();
        if profile.events().len() != events.len() {
            let (expected, got) = (events.len(), profile.events().len());
            return Err(Error::Length { what: "events of the power model", expected, got });
        }
        let differing = events.iter().zip(profile.events()).position(|(a, b)| a.name != b.name);
        if let Some(index) = differing {
            let (expected, got) = (events[index].name.clone(), profile.events()[index].name.clone());
            return Err(Error::OtherEvents { index, expected, got });
        }
        let points: Vec<OperatingPoint> =
            frequencies.iter().map(|&f| power.points().at(f)).collect::<Result<_, _>>()?;

        let mut sums = Sums::new(frequencies.len());
        let mut scaled = vec![0.0; events.len()];
        for (interval, (phase, counts, power_counts)) in profile.iter().enumerate() {
            if let Some(what) = performance.missing(counts) {
                return Err(Error::NotCounted { interval, what });
            }
            let memory = performance.memory_cycles(counts, profile.frequency());
            let doubt = performance.doubt(counts, profile.frequency());
            let costs = points.iter().map(|point| {
                let k = profile.frequency() / point.frequency;
                let cycles = rescale(counts.cycles(), memory, k);
                for ((slot, event), &count) in scaled.iter_mut().zip(events).zip(power_counts) {
                    *slot = event.scaling.rescale(count, memory, k);
                }
                let time = cycles / point.frequency;
                Cost { time, energy: point.power(capacitance.predict(&scaled, cycles)) * time }
            });
            sums.push(phase.clone(), counts.instructions(), doubt, costs);
        }
        sums.finish(frequencies.to_vec())
    }
}
