//! The core in its package, as the kernel shows it: an energy counter that moves a thousand times a second and wraps,
//! the sensor's error, and a temperature that follows power and a room that warms up.
//!
//! Time is virtual: work is repeated until its energy can be measured, which costs nothing here.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::rc::Rc;

use powersleuth::linux::Files;
use powersleuth::{Kelvin, Seconds, Watts};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// What the package is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PackageSettings {
    /// Standard deviation of what a stretch's energy is off by, relative: gain, other work, and the rest.
    pub noise: f64,
    /// By how much the room warms up over [`PackageSettings::duration`].
    pub drift: Kelvin,
    /// How long that takes.
    pub duration: Seconds,
    /// Whether it shows its temperature.
    pub thermometer: bool,
    /// Energy at which the counter begins again from 0, in microjoules.
    pub range: u64,
}

impl Default for PackageSettings {
    /// A quiet sensor in a room of constant temperature.
    fn default() -> Self {
        Self {
            noise: 0.015,
            drift: Kelvin(0.0),
            duration: Seconds(600.0),
            thermometer: true,
            range: 262_143_328,
        }
    }
}

/// The counter moves as often.
const UPDATE: f64 = 1e-3;
/// It counts in steps of 2^-14 joules.
const STEP: f64 = 1.0 / 16_384.0;
/// The sensor at no power, in a room of the calibration's first moment.
const COLD: Kelvin = Kelvin::from_celsius(41.0);
/// Kelvin per watt of switching power: see [`PowerTruth`](super::PowerTruth).
const PER_WATT: f64 = 0.6;

/// Files of the package. Clones are the same package.
#[derive(Clone, Debug)]
pub struct Package {
    state: Rc<RefCell<State>>,
}

#[derive(Debug)]
struct State {
    settings: PackageSettings,
    random: StdRng,
    now: f64,     // seconds
    joules: f64,  // until now
    shown: f64,   // until the last update
    updated: f64, // when that was
    switching: f64,
}

impl Package {
    /// Idle, at time 0.
    pub fn new(settings: PackageSettings, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let mut state =
            State { settings, random, now: 0.0, joules: 0.0, shown: 0.0, updated: 0.0, switching: 0.0 };
        // Where the counter stands when somebody comes to read it.
        state.joules = state.random.random_range(0.0..settings.range as f64 * 1e-6);
        state.shown = state.joules;
        Self { state: Rc::new(RefCell::new(state)) }
    }

    /// By how much the room is warmer than at time 0.
    pub fn ambient(&self) -> Kelvin {
        let state = self.state.borrow();
        state.settings.drift * (state.now / state.settings.duration.0)
    }

    /// Draws `power`, of which `switching` is not leakage, for `time`.
    pub fn draw(&self, power: Watts, switching: Watts, time: Seconds) {
        let state = &mut *self.state.borrow_mut();
        let noise: f64 = StandardNormal.sample(&mut state.random);
        let watts = power.0 * (1.0 + state.settings.noise * noise);
        let end = state.now + time.0;
        let update = (end / UPDATE).floor() * UPDATE;
        if update > state.updated {
            state.shown = state.joules + watts * (update - state.now).max(0.0);
            state.updated = update;
        }
        state.joules += watts * time.0;
        state.now = end;
        state.switching = switching.0;
    }

    /// Seconds since time 0.
    pub fn now(&self) -> Seconds {
        Seconds(self.state.borrow().now)
    }
}

impl State {
    fn counter(&self) -> u64 {
        ((self.shown / STEP).floor() * STEP * 1e6) as u64 % self.settings.range
    }

    fn celsius(&mut self) -> f64 {
        let noise: f64 = StandardNormal.sample(&mut self.random);
        let ambient = self.settings.drift.0 * (self.now / self.settings.duration.0);
        // Whole degrees, as such sensors show them.
        (COLD.0 - 273.15 + ambient + PER_WATT * self.switching + 0.5 * noise).round()
    }
}

const ZONE: &str = "sys/class/powercap/intel-rapl:0";
const HWMON: &str = "sys/class/hwmon";

impl Files for Package {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let state = &mut *self.state.borrow_mut();
        let text = match path.strip_prefix(ZONE).or(path.strip_prefix(HWMON)) {
            Some("/name") => "package-0".to_owned(),
            Some("/energy_uj") => state.counter().to_string(),
            Some("/max_energy_range_uj") => state.settings.range.to_string(),
            Some("/hwmon0/name") if state.settings.thermometer => "coretemp".to_owned(),
            Some("/hwmon0/temp1_label") if state.settings.thermometer => "Package id 0".to_owned(),
            Some("/hwmon0/temp1_input") if state.settings.thermometer => {
                format!("{:.0}", state.celsius() * 1e3)
            }
            _ => return Err(ErrorKind::NotFound.into()),
        };
        Ok(text.into_bytes())
    }

    fn write(&self, _: &str, _: &str) -> io::Result<()> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let names: &[&str] = match directory {
            "sys/class/powercap" => &["intel-rapl", "intel-rapl:0"],
            HWMON if self.state.borrow().settings.thermometer => &["hwmon0"],
            "sys/class/hwmon/hwmon0" => &["name", "temp1_label", "temp1_input"],
            _ => return Err(ErrorKind::NotFound.into()),
        };
        Ok(names.iter().map(|name| (*name).to_owned()).collect())
    }
}
