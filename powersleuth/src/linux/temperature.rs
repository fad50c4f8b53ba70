//! Temperature of the processor: hwmon's drivers of processors, else the thermal zone of one.

use super::files::{Files, READABLE, malformed, names, optional, text};
use crate::{Error, Kelvin};

const HWMON: &str = "sys/class/hwmon";
const ZONES: &str = "sys/class/thermal";

/// Drivers whose sensors are a processor's.
const DRIVERS: [&str; 4] = ["coretemp", "k10temp", "zenpower", "cpu_thermal"];
/// Labels of the sensor of a whole package, the best first. `Tctl` is off by an offset that does not change.
const LABELS: [&str; 3] = ["Package id", "Tdie", "Tctl"];

/// Whether a thermal zone of this type is a processor's: `x86_pkg_temp`, or names of device trees such as `cpu-thermal`,
/// `CPU-therm`, `cpu0_thermal`, `soc-thermal`, `package-thermal`.
fn of_processor(kind: &str) -> bool {
    let kind = kind.to_lowercase();
    let named = ["cpu", "soc", "package"].iter().any(|part| kind.starts_with(part));
    kind == "x86_pkg_temp" || (named && kind.contains("therm"))
}

/// The sensors of all packages.
#[derive(Clone, Debug)]
pub struct Thermometer<F> {
    files: F,
    paths: Vec<String>, // never empty
}

impl<F: Files> Thermometer<F> {
    /// Looks for them.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, as in virtual machines; [`Error::File`] for files that cannot be read.
    pub fn find(files: F) -> Result<Self, Error> {
        let mut paths = Vec::new();
        for device in names(&files, HWMON)?.unwrap_or_default() {
            let folder = format!("{HWMON}/{device}");
            let driver = optional(&files, &format!("{folder}/name"))?.unwrap_or_default();
            if DRIVERS.contains(&driver.as_str()) {
                paths.extend(best_sensors(&files, &folder)?);
            }
        }
        if paths.is_empty() {
            for zone in names(&files, ZONES)?.unwrap_or_default() {
                let kind = optional(&files, &format!("{ZONES}/{zone}/type"))?.unwrap_or_default();
                if of_processor(&kind) {
                    paths.push(format!("{ZONES}/{zone}/temp"));
                }
            }
        }
        if paths.is_empty() {
            let remedy = "load coretemp or k10temp on the bare machine, or keep the room at one temperature";
            return Err(Error::Missing {
                what: "temperature of a processor",
                path: HWMON.to_owned(),
                remedy,
            });
        }
        Ok(Self { files, paths })
    }

    /// Mean over the packages.
    ///
    /// # Errors
    /// [`Error::File`] if a sensor cannot be read; [`Error::Malformed`] for what is no temperature of a processor
    /// that works: between -60 and 150 degrees Celsius.
    pub fn read(&self) -> Result<Kelvin, Error> {
        let mut sum = 0.0;
        for path in &self.paths {
            let content = text(&self.files, path, READABLE)?;
            let degrees = content.parse::<i32>().ok().map(|milli| f64::from(milli) / 1000.0);
            let Some(degrees) = degrees.filter(|degrees| (-60.0..=150.0).contains(degrees)) else {
                let expected = "thousandths of a degree Celsius, from -60000 to 150000";
                return Err(malformed(path, content, expected));
            };
            sum += degrees;
        }
        Ok(Kelvin::from_celsius(sum / self.paths.len() as f64))
    }
}

/// Those with the best of the [`LABELS`], else the first.
fn best_sensors(files: &impl Files, folder: &str) -> Result<Vec<String>, Error> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for name in names(files, folder)?.unwrap_or_default() {
        let Some(sensor) = name.strip_suffix("_input").filter(|name| name.starts_with("temp")) else {
            continue;
        };
        let label = optional(files, &format!("{folder}/{sensor}_label"))?.unwrap_or_default();
        let rank = LABELS.iter().position(|known| label.contains(known)).unwrap_or(LABELS.len());
        found.push((rank, format!("{folder}/{name}")));
    }
    let best = found.iter().map(|(rank, _)| *rank).min().unwrap_or(LABELS.len());
    let mut sensors: Vec<String> =
        found.into_iter().filter(|(rank, _)| *rank == best).map(|(_, path)| path).collect();
    if best == LABELS.len() {
        sensors.truncate(1);
    }
    Ok(sensors)
}
