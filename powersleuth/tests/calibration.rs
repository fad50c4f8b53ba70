//! A calibration of a made-up machine against what it was made of: programs outside the calibration, a room that warms
//! up, sensors with noise.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Draw;
use powersleuth::calibration::{Bench, Calibration, MachineModel, Measurement, measure};
use powersleuth::performance::{Counts, Event, PerformanceModel};
use powersleuth::{Cycles, Error, Hertz, Joules, Kelvin, Seconds, Volts, Watts};

const GHZ: [f64; 4] = [1.0, 1.5, 2.0, 2.5];
const VOLTS: [f64; 4] = [0.7, 0.78, 0.9, 1.05];
const STATIC: [f64; 4] = [3.0, 4.1, 6.0, 9.0];
const LATENCY: f64 = 70e-9;

fn frequencies() -> Vec<Hertz> {
    GHZ.map(Hertz::from_ghz).to_vec()
}

/// A program of 1e8 instructions.
#[derive(Clone, Copy)]
struct Program {
    base: f64,   // cycles that the clock paces
    memory: f64, // seconds that it does not
    misses: f64,
    accesses: f64,
    floats: f64,
}

impl Program {
    fn draw(draw: &mut Draw) -> Self {
        let memory = if draw.uniform() < 0.3 { 0.0 } else { 0.08 * draw.uniform() };
        Self {
            base: 4e7 + 8e7 * draw.uniform(),
            memory,
            misses: memory / LATENCY * (1.0 + 2.0 * draw.uniform()) + 1e4,
            accesses: 5e7 * draw.uniform(),
            floats: 5e7 * draw.uniform(),
        }
    }

    /// One that follows a list through memory, which shows the latency.
    fn chase() -> Self {
        Self { base: 1e7, memory: 0.09, misses: 0.09 / LATENCY, accesses: 2e6, floats: 0.0 }
    }

    fn cycles(&self, level: usize) -> f64 {
        self.base + self.memory * GHZ[level] * 1e9
    }

    fn counts(&self, level: usize) -> Counts {
        let memory = self.memory * GHZ[level] * 1e9;
        // Part of the wait shows as one kind of stall, part as the other, and each has other causes.
        let (execution, resource) = (0.8 * memory + 0.1 * self.base, 0.9 * memory + 0.02 * self.base);
        let counts = Counts::new(1e8, Cycles(self.cycles(level)), Cycles(execution), self.misses).unwrap();
        counts.with_resource_stalls(Cycles(resource)).unwrap()
    }

    fn events(&self) -> Vec<f64> {
        vec![1e8, self.accesses, self.floats]
    }

    /// Static power and the rest.
    fn power(&self, level: usize, warmer: f64) -> [f64; 2] {
        let cycles = self.cycles(level);
        let nanofarads = 1.5 + (0.6 * 1e8 + 0.9 * self.accesses + 1.4 * self.floats) / cycles;
        let switching = GHZ[level] * VOLTS[level].powi(2) * nanofarads;
        [STATIC[level] * (1.0 + (warmer + 0.5 * switching) / 250.0), switching]
    }
}

/// The machine. Every measurement takes a second.
struct Machine {
    programs: Vec<Program>,
    draw: Draw,
    level: usize,
    noise: f64,
    drift: f64, // kelvin over the whole calibration
    all: f64,
    order: Vec<(usize, usize, usize)>,
}

impl Machine {
    fn new(seed: u64, noise: f64, drift: f64) -> Self {
        let mut draw = Draw(seed * 7 + 3);
        let mut programs: Vec<Program> = (0..24).map(|_| Program::draw(&mut draw)).collect();
        programs[5] = Program::chase();
        Self { programs, draw, level: 0, noise, drift, all: 24.0 * 3.0 * 4.0, order: Vec::new() }
    }

    /// Nearly normal, of deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.draw.uniform()).sum::<f64>() - 6.0
    }

    fn calibrated(mut self, seed: u64, voltages: Option<&[Volts]>) -> MachineModel {
        let go_on = |_, _| true;
        measure(&mut self, empty(), [24, 3], seed, go_on).unwrap().unwrap().fit("made up", voltages).unwrap()
    }
}

fn empty() -> Calibration {
    Calibration::new(["instructions", "accesses", "floats"].map(Event::fixed), frequencies()).unwrap()
}

impl Bench for Machine {
    type Error = Error;

    fn set(&mut self, frequency: Hertz) -> Result<(), Error> {
        self.level = frequencies().iter().position(|&f| f == frequency).unwrap();
        Ok(())
    }

    fn run(&mut self, kernel: usize, stretch: usize) -> Result<Measurement, Error> {
        self.order.push((kernel, stretch, self.level));
        let program = self.programs[kernel];
        let warmer = self.drift * self.order.len() as f64 / self.all;
        let [leakage, switching] = program.power(self.level, warmer);
        let energy = Joules((leakage + switching) * (1.0 + self.noise * self.normal()));
        let degrees = 40.0 + warmer + 0.5 * switching + 0.5 * self.normal();
        Ok(Measurement {
            counts: program.counts(self.level),
            events: program.events(),
            time: Seconds(1.0),
            energy,
            temperature: Some(Kelvin::from_celsius(degrees.round())),
        })
    }
}

/// Ratios of true to predicted time and power of a program profiled at the highest frequency, per frequency.
fn ratios(model: &MachineModel, program: &Program, warmer: f64, excess: f64) -> Vec<[f64; 2]> {
    let high = Hertz::from_ghz(GHZ[3]);
    let (counts, time) = (program.counts(3), model.time_at(high).unwrap());
    let power = model.warmer(Kelvin(excess)).unwrap();
    let each = (0..4).map(|level| {
        let to = Hertz::from_ghz(GHZ[level]);
        let cycles = time.model.cycles_at(&counts, high, to);
        let watts = power.power(to, &program.events(), cycles).unwrap();
        let truth: f64 = program.power(level, warmer).iter().sum();
        [program.cycles(level) / cycles.0, truth / watts.0]
    });
    each.collect()
}

#[test]
fn with_everything_unknown_new_programs_are_predicted_within_two_per_cent() {
    for (seed, drift) in [(1, 0.0), (2, 15.0), (3, -15.0)] {
        let model = Machine::new(seed, 0.02, drift).calibrated(seed, None);
        let mut draw = Draw(seed + 1000);
        let (mut sums, programs) = ([0.0; 2], 40);
        for _ in 0..programs {
            // The room as at the end; the calibration's middle is what it is compared with.
            let program = Program::draw(&mut draw);
            let excess = if model.thermal.is_some() { drift / 2.0 } else { 0.0 };
            for ratio in ratios(&model, &program, drift, excess) {
                sums[0] += (ratio[0] - 1.0).abs() / (4 * programs) as f64;
                sums[1] += (ratio[1] - 1.0).abs() / (4 * programs) as f64;
            }
        }
        assert!(sums[0] < 0.02 && sums[1] < 0.02, "seed {seed}: {sums:?}");
        // Voltages come out up to a factor: it is the highest that is 1.
        for (point, volts) in model.power.points().as_slice().iter().zip(VOLTS) {
            assert!((point.voltage.0 - volts / VOLTS[3]).abs() < 0.03, "{point:?} {volts}");
        }
        assert_eq!(model.time_at(Hertz::from_ghz(2.5)).unwrap().model.name(), "calibrated");
    }
}

#[test]
fn intervals_hold_for_new_programs_and_say_something() {
    let (mut inside, mut all, mut widest) = ([0.0; 2], 0.0, 0.0_f64);
    for seed in 10..30 {
        let drift = if seed % 2 == 0 { 15.0 } else { 0.0 };
        let model = Machine::new(seed, 0.02, drift).calibrated(seed, None);
        let mut draw = Draw(seed + 2000);
        for _ in 0..25 {
            let excess = if model.thermal.is_some() { drift / 2.0 } else { 0.0 };
            let program = Program::draw(&mut draw);
            for (level, ratio) in ratios(&model, &program, drift, excess).iter().enumerate() {
                let route = model.route(Hertz::from_ghz(2.5), Hertz::from_ghz(GHZ[level])).unwrap();
                // Rounding is not what the interval at the profile's own frequency is about.
                let holds =
                    |ratio: f64, interval: f64| f64::from(u8::from((ratio - 1.0).abs() <= interval + 1e-9));
                inside[0] += holds(ratio[0], route.time.interval);
                inside[1] += holds(ratio[1], route.power.interval);
                widest = widest.max(route.time.interval).max(route.power.interval);
                all += 1.0;
            }
        }
    }
    let covered = inside.map(|count| count / all);
    assert!(covered.iter().all(|&share| share >= 0.95), "{covered:?}");
    // An interval that holds everything would be no news.
    assert!(widest < 0.2, "{widest}");
}

#[test]
fn the_rooms_share_is_separated_from_the_programs() {
    let warm = Machine::new(4, 0.01, 15.0).calibrated(4, None).thermal.unwrap();
    // Half a kelvin per watt of switching, some 0.38 of all; a ramp of 15 K leaves it uncertain by 0.1.
    assert!((0.1..0.6).contains(&warm.kelvin_per_watt), "{warm:?}");
    // Leakage rises by 1/250 per kelvin; it is between a half and two thirds of what is left without activity.
    assert!((0.0015..0.004).contains(&warm.per_kelvin), "{warm:?}");
    let excess = warm.excess(warm.reference + Kelvin(10.0), Watts(0.0));
    assert!((excess.0 - 10.0).abs() < 1e-9);
    // A room that stays as it is says nothing about one that does not.
    let still: usize = (0..10)
        .filter(|&seed| Machine::new(50 + seed, 0.03, 0.0).calibrated(seed, None).thermal.is_some())
        .count();
    assert!(still <= 1, "{still}");
}

#[test]
fn known_voltages_are_kept() {
    let model = Machine::new(5, 0.01, 0.0).calibrated(5, Some(&VOLTS.map(Volts)));
    for (point, volts) in model.power.points().as_slice().iter().zip(VOLTS) {
        assert!((point.voltage.0 - volts).abs() < 1e-9);
    }
    let weights: Vec<f64> = model.power.capacitance().weights().iter().map(|weight| weight.nf()).collect();
    for (got, expected) in weights.iter().zip([0.6, 0.9, 1.4]) {
        assert!((got - expected).abs() < 0.15, "{weights:?}");
    }
    let mut machine = Machine::new(5, 0.01, 0.0);
    let measured = measure(&mut machine, empty(), [24, 3], 5, |_, _| true).unwrap().unwrap();
    assert!(matches!(measured.fit("x", Some(&[Volts(1.0)])), Err(Error::Length { expected: 4, got: 1, .. })));
}

#[test]
fn each_run_is_made_once_and_the_order_is_drawn() {
    let mut machine = Machine::new(6, 0.0, 0.0);
    measure(&mut machine, empty(), [24, 3], 6, |_, _| true).unwrap().unwrap();
    let order = machine.order.clone();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 24 * 3 * 4);
    assert_ne!(order, sorted);
    // Frequencies do not go with time: the mean of each is about the middle.
    for level in 0..4 {
        let places =
            order.iter().enumerate().filter(|(_, run)| run.2 == level).map(|(place, _)| place as f64);
        let mean = places.sum::<f64>() / 72.0;
        assert!((mean / 288.0 - 0.5).abs() < 0.12, "{level} {mean}");
    }
    let ended = measure(&mut machine, empty(), [24, 3], 6, |done, all| done < all / 2).unwrap();
    assert!(ended.is_none());
}

#[test]
fn what_cannot_be_fitted_is_refused() {
    let events = || [Event::fixed("instructions")];
    assert!(matches!(Calibration::new(events(), [Hertz(1e9)]), Err(Error::OutOfRange { .. })));
    assert!(matches!(Calibration::new(events(), [Hertz(2e9), Hertz(1e9)]), Err(Error::OutOfRange { .. })));
    assert!(matches!(Calibration::new([], frequencies()), Err(Error::Empty { .. })));
    let mut machine = Machine::new(7, 0.01, 0.0);
    let good: Vec<Measurement> = frequencies()
        .into_iter()
        .map(|frequency| {
            machine.set(frequency).unwrap();
            machine.run(0, 0).unwrap()
        })
        .collect();
    let refused = |change: fn(&mut Vec<Measurement>)| {
        let mut changed = good.clone();
        change(&mut changed);
        empty().push(0, changed).unwrap_err()
    };
    assert!(matches!(refused(|m| m.truncate(3)), Error::Length { .. }));
    assert!(matches!(refused(|m| m[0].events.clear()), Error::Length { .. }));
    // A counter that stands still.
    assert!(matches!(refused(|m| m[1].energy = Joules(0.0)), Error::OutOfRange { .. }));
    assert!(matches!(refused(|m| m[2].events[0] = -1.0), Error::OutOfRange { .. }));
    let mut few = empty();
    few.push(0, good).unwrap();
    assert!(matches!(few.fit("x", None), Err(Error::TooFewObservations { .. })));
    // Nothing waits for memory: its latency does not show.
    let mut machine = Machine::new(8, 0.01, 0.0);
    machine.programs.iter_mut().for_each(|program| program.memory = 0.0);
    let computing = measure(&mut machine, empty(), [24, 3], 8, |_, _| true).unwrap().unwrap();
    assert!(matches!(computing.fit("x", None), Err(Error::Empty { .. })));
}

#[cfg(feature = "serde")]
#[test]
fn a_machine_model_is_saved_whole_and_a_power_model_is_one_too() {
    let model = Machine::new(9, 0.01, 15.0).calibrated(9, None);
    let saved = serde_json::to_string(&model).unwrap();
    let loaded: MachineModel = serde_json::from_str(&saved).unwrap();
    assert_eq!((loaded.time.len(), loaded.routes.len()), (4, 16));
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
    assert!(close(loaded.thermal.unwrap().per_kelvin, model.thermal.unwrap().per_kelvin));
    assert!(loaded.routes.iter().zip(&model.routes).all(|(a, b)| close(a.power.interval, b.power.interval)));
    let alone: MachineModel = serde_json::from_str(&serde_json::to_string(&model.power).unwrap()).unwrap();
    assert!(alone.time.is_empty() && alone.thermal.is_none() && alone.power.machine() == "made up");
    assert!(alone.time_at(Hertz(1e9)).is_none() && alone.route(Hertz(1e9), Hertz(1e9)).is_none());
    let power: powersleuth::power::PowerModel = serde_json::from_str(&saved).unwrap();
    assert_eq!(power.machine(), "made up");
    let damaged = saved.replacen("\"version\":1", "\"version\":7", 1);
    assert!(serde_json::from_str::<MachineModel>(&damaged).is_err());
}
