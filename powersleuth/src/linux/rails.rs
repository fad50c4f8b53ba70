//! Sensors of power, where nothing counts energy: hwmon and IIO monitors on a processor's supply, and a battery that is
//! being emptied.

use super::files::{Files, READABLE, malformed, names, number, optional};
use crate::{Error, Watts};

const HWMON: &str = "sys/class/hwmon";
const IIO: &str = "sys/bus/iio/devices";
const SUPPLIES: &str = "sys/class/power_supply";

/// Parts of the labels of a whole package's supply, and of a processor's or a part of it, in small letters.
const WHOLE: [&str; 3] = ["package", "pkg", "socket"];
const PARTS: [&str; 3] = ["cpu", "core", "vdd_soc"];

/// A sensor of power.
#[derive(Clone, Debug, PartialEq)]
pub struct Rail {
    /// What it measures, for people.
    pub name: String,
    factors: Vec<(String, f64)>, // files whose product is the power, each with the unit of its numbers
}

impl Rail {
    /// The power of the moment.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::Malformed`] for files that cannot be read or understood.
    pub fn read(&self, files: &impl Files) -> Result<Watts, Error> {
        let mut watts = 1.0;
        for (path, unit) in &self.factors {
            watts *= number(files, path, READABLE)? as f64 * unit;
        }
        Ok(Watts(watts))
    }
}

fn labelled(label: &str, with: &[&str]) -> bool {
    let label = label.to_lowercase();
    with.iter().any(|part| label.contains(part))
}

fn of_processor(label: &str) -> bool {
    labelled(label, &WHOLE) || labelled(label, &PARTS)
}

/// Sensors of the processor's supply, by label, those of whole packages alone where there are any: a power, or a voltage (millivolts) and a current (milliamperes) of one
/// number.
///
/// # Errors
/// [`Error::File`] and [`Error::Malformed`] for files that cannot be read or understood.
pub fn rails(files: &impl Files) -> Result<Vec<Rail>, Error> {
    let mut rails = Vec::new();
    for device in names(files, HWMON)?.unwrap_or_default() {
        let folder = format!("{HWMON}/{device}");
        let driver = optional(files, &format!("{folder}/name"))?.unwrap_or_default();
        let present = names(files, &folder)?.unwrap_or_default();
        let has = |name: &str| present.iter().any(|other| other == name);
        for name in &present {
            let Some((channel, _)) = name.split_once('_').filter(|(_, rest)| *rest == "label") else {
                continue;
            };
            let label = optional(files, &format!("{folder}/{name}"))?.unwrap_or_default();
            if !of_processor(&label) {
                continue;
            }
            let at = |file: String| format!("{folder}/{file}");
            let power = ["input", "average"].map(|kind| format!("{channel}_{kind}"));
            let factors = if channel.starts_with("power") {
                power.into_iter().find(|file| has(file)).map(|file| vec![(at(file), 1e-6)])
            } else {
                channel
                    .strip_prefix("in")
                    .filter(|n| has(&format!("curr{n}_input")))
                    .map(|n| vec![(at(format!("in{n}_input")), 1e-3), (at(format!("curr{n}_input")), 1e-3)])
            };
            rails.extend(factors.map(|factors| Rail { name: format!("{driver} {label}"), factors }));
        }
    }
    for device in names(files, IIO)?.unwrap_or_default() {
        let folder = format!("{IIO}/{device}");
        for name in names(files, &folder)?.unwrap_or_default() {
            let Some(channel) = name.strip_suffix("_raw").filter(|name| name.starts_with("in_power")) else {
                continue;
            };
            let label = optional(files, &format!("{folder}/{channel}_label"))?.unwrap_or_default();
            if of_processor(&label) {
                let path = format!("{folder}/{channel}_scale");
                let scale = optional(files, &path)?.unwrap_or_else(|| "1".to_owned());
                // Times the scale it is milliwatts.
                let Some(scale) = scale.parse::<f64>().ok().filter(|scale| *scale > 0.0 && *scale < 1e6)
                else {
                    return Err(malformed(path, scale, "a number above 0 and below a million"));
                };
                let factors = vec![(format!("{folder}/{name}"), scale * 1e-3)];
                rails.push(Rail { name: format!("IIO {label}"), factors });
            }
        }
    }
    if rails.iter().any(|rail| labelled(&rail.name, &WHOLE)) {
        // Their parts would be counted twice.
        rails.retain(|rail| labelled(&rail.name, &WHOLE));
    }
    Ok(rails)
}

/// A battery that is being emptied: all that the machine draws, screen and disks included.
///
/// # Errors
/// [`Error::File`] and [`Error::Malformed`] for files that cannot be read or understood.
pub fn battery(files: &impl Files) -> Result<Option<Rail>, Error> {
    for supply in names(files, SUPPLIES)?.unwrap_or_default() {
        let at = |file: &str| format!("{SUPPLIES}/{supply}/{file}");
        let is =
            |file: &str, wanted: &str| Ok::<_, Error>(optional(files, &at(file))?.as_deref() == Some(wanted));
        if !is("type", "Battery")? || !is("status", "Discharging")? {
            continue;
        }
        let has = |file: &str| Ok::<_, Error>(optional(files, &at(file))?.is_some());
        let factors = if has("power_now")? {
            vec![(at("power_now"), 1e-6)]
        } else if has("current_now")? && has("voltage_now")? {
            vec![(at("current_now"), 1e-6), (at("voltage_now"), 1e-6)]
        } else {
            continue;
        };
        return Ok(Some(Rail { name: format!("battery {supply}"), factors }));
    }
    Ok(None)
}
