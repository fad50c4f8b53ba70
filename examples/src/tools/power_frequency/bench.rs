//! The reference core as a machine of which nothing is known: it is calibrated through the files of its package.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use powersleuth::calibration::{Bench, Calibration, MachineModel, Measurement, measure};
use powersleuth::linux::{PowerMeter, Thermometer};
use powersleuth::power::OperatingPoints;
use powersleuth::{Cycles, Error, Hertz, Joules, Seconds, Watts};

use super::calibrate::{self, INTERVAL, machine_name, sum};
use super::events::roles;
use super::suite;
use crate::cli::Failure;
use crate::machines::ooo::{CoreSettings, Machine, Package, PackageSettings, PowerTruth, Run, simulate};

/// Stretches of each kernel.
const STRETCHES: usize = 5;
/// Intervals of a stretch.
const PART: usize = 3;
/// Virtual time for which a stretch is repeated.
const MEASURED: Seconds = Seconds(0.5);

/// A simulated machine: all that a calibration does not know.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Its core.
    pub core: CoreSettings,
    /// Its voltages and static powers.
    pub points: OperatingPoints,
    /// Its sensors and its room.
    pub package: PackageSettings,
}

/// The machine with its kernels' runs.
struct SimulatedBench<'a> {
    machine: &'a Simulated,
    runs: Vec<Run>,
    package: Package,
    meter: PowerMeter<Package>,
    thermometer: Option<Thermometer<Package>>,
    clock: usize,
}

impl Bench for SimulatedBench<'_> {
    type Error = Error;

    fn set(&mut self, frequency: Hertz) -> Result<(), Error> {
        let known = self.machine.points.frequencies().position(|f| f == frequency);
        self.clock = known.ok_or(Error::UnknownFrequency { hertz: frequency.0 })?;
        Ok(())
    }

    fn run(&mut self, kernel: usize, stretch: usize) -> Result<Measurement, Error> {
        let begin = (stretch * PART).min(self.runs[kernel].intervals.len() - 1);
        let end = (begin + PART).min(self.runs[kernel].intervals.len());
        let part = &self.runs[kernel].intervals[begin..end];
        let point = self.machine.points.as_slice()[self.clock];
        let counted = sum(part, self.clock)?;
        // The same intervals again and again: what they draw on average, for as long.
        let mut drawn = [Watts(0.0); 2];
        for interval in part {
            let share = Cycles(interval.clocks[self.clock].cycles) / counted.counts.cycles();
            let parts = PowerTruth::parts(interval, self.clock, &point, self.package.ambient());
            drawn = [drawn[0] + parts[0] * share, drawn[1] + parts[1] * share];
        }
        let before = self.read()?;
        self.package.draw(drawn[0] + drawn[1], drawn[1], MEASURED);
        let energy = self.read()? - before;
        let temperature = self.thermometer.as_ref().map(Thermometer::read).transpose()?;
        Ok(Measurement { counts: counted.counts, events: counted.power, time: MEASURED, energy, temperature })
    }
}

impl SimulatedBench<'_> {
    fn read(&mut self) -> Result<Joules, Error> {
        self.meter.read(Duration::from_secs_f64(self.package.now().0))
    }
}

impl Simulated {
    /// Runs the training kernels at every frequency and fits everything to what its files show.
    ///
    /// # Errors
    /// [`Failure`] if a kernel cannot run, nothing can be fitted, or `interrupted` is set.
    pub fn calibrate(&self, seed: u64, interrupted: &AtomicBool) -> Result<MachineModel, Failure> {
        let frequencies: Vec<Hertz> = self.points.frequencies().collect();
        let machine = Machine { core: self.core, frequencies: frequencies.clone(), interval: INTERVAL };
        let mut runs = Vec::new();
        for (_, workload) in suite::training(seed) {
            if interrupted.load(Ordering::Relaxed) {
                return Err(calibrate::interrupted());
            }
            runs.push(simulate(workload.events()?, &machine, STRETCHES * PART)?);
        }
        let sizes = [runs.len(), STRETCHES];
        // The room warms up for as long as the calibration takes.
        let all = MEASURED * (sizes[0] * sizes[1] * frequencies.len()) as f64;
        let package = Package::new(PackageSettings { duration: all, ..self.package }, seed);
        let thermometer = match Thermometer::find(package.clone()) {
            Ok(thermometer) => Some(thermometer),
            Err(Error::Missing { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let meter = PowerMeter::find(package.clone(), Duration::ZERO)?;
        let mut bench = SimulatedBench { machine: self, runs, package, meter, thermometer, clock: 0 };
        let empty = Calibration::new(roles().power.into_iter().map(|(event, _)| event), frequencies)?;
        let go_on = |_, _| !interrupted.load(Ordering::Relaxed);
        let measured = measure(&mut bench, empty, sizes, seed, go_on)?;
        Ok(measured.ok_or_else(calibrate::interrupted)?.fit(&machine_name(&self.core), None)?)
    }
}
