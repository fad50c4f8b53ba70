//! What the core draws: more than any sum of event rates knows.
//!
//! Charge per cycle comes from what is active: clock tree, execution, caches. Some of it is not proportional to
//! any event: clocks are gated while nothing executes, result buses switch more the more instructions share a
//! cycle, cache banks saturate, a wrong guess wastes work in proportion to the pace. Leakage rises with
//! temperature, hence with power. And the sensor is noisy.

use powersleuth::power::{OperatingPoint, OperatingPoints};
use powersleuth::{Hertz, Kelvin, Volts, Watts};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Normal};

use super::run::Interval;

/// Nine points from 1.6 to 2.67 GHz, as the paper's processor has them: multiples of a bus clock of 133 MHz.
/// Voltages and static powers are made up; the former bends upwards, the latter rises steeply with the voltage.
///
/// # Errors
/// None: the points are valid.
pub fn nehalem_points() -> Result<OperatingPoints, powersleuth::Error> {
    OperatingPoints::new((12..=20).map(|multiplier| {
        let step = f64::from(multiplier - 12) / 8.0;
        let voltage = 0.95 + 0.20 * step + 0.05 * step * step;
        OperatingPoint {
            frequency: Hertz(f64::from(multiplier) * 4e8 / 3.0),
            voltage: Volts(voltage),
            static_power: Watts(5.0 * (2.2 * (voltage - 0.95)).exp()),
        }
    }))
}

/// The power that is really drawn.
#[derive(Debug)]
pub struct PowerTruth {
    noise: Normal<f64>,
    random: StdRng,
    warmer: Kelvin,
}

/// Of a reading, relative.
const NOISE: f64 = 0.015;

impl PowerTruth {
    /// With noise drawn from `seed`.
    pub fn new(seed: u64) -> Self {
        let noise = Normal::new(1.0, NOISE).unwrap_or_else(|_| unreachable!("the deviation is finite"));
        Self { noise, random: StdRng::seed_from_u64(seed), warmer: Kelvin(0.0) }
    }

    /// What a sensor reads while `interval` runs on clock number `clock`, at `point`.
    pub fn read(&mut self, interval: &Interval, clock: usize, point: &OperatingPoint) -> Watts {
        let [leakage, switching] = Self::parts(interval, clock, point, self.warmer);
        (leakage + switching) * self.noise.sample(&mut self.random)
    }

    /// In a room that is by so much warmer than usual.
    pub const fn in_a_room(mut self, warmer: Kelvin) -> Self {
        self.warmer = warmer;
        self
    }

    /// Leakage and switching power without the sensor's noise, in a room that is `warmer` than usual.
    pub fn parts(interval: &Interval, clock: usize, point: &OperatingPoint, warmer: Kelvin) -> [Watts; 2] {
        let (activity, clock) = (&interval.activity, &interval.clocks[clock]);
        let per_cycle = |count: u64| count as f64 / clock.cycles;
        let pace = per_cycle(activity.instructions);
        let (float, memory) = (per_cycle(activity.floats), per_cycle(activity.loads + activity.stores));
        let (second, third) = (per_cycle(activity.l1_misses), per_cycle(activity.l2_misses));
        let idle = (1.0 - clock.busy / clock.cycles).max(0.0);
        let nanofarads = 1.9 * (1.0 - 0.3 * idle.powf(1.3))
            + 0.22 * pace
            + 0.06 * pace * pace
            + 0.75 * float
            + 0.45 * memory
            + 0.35 * (float * memory).sqrt()
            + 1.4 * second / (1.0 + 4.0 * second)
            + 3.0 * third
            + 2.5 * per_cycle(activity.mispredictions) * (1.0 + pace);
        let voltage = point.voltage.0;
        let switching = point.frequency.ghz() * nanofarads * voltage * voltage;
        // A third of a per cent per kelvin, 0.6 kelvin per watt.
        let leakage = point.static_power.0 * (1.0 + 0.002 * switching + warmer.0 / 300.0);
        [Watts(leakage), Watts(switching)]
    }
}
