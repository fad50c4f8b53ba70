//! Sensors of power, where nothing counts energy: hwmon and IIO monitors on a processor's supply, and a battery that is
//! being emptied.

use super::files::{Files, READABLE, malformed, names, optional, parse, text};
use crate::{Error, Watts};

const HWMON: &str = "sys/class/hwmon";
const IIO: &str = "sys/bus/iio/devices";
const SUPPLIES: &str = "sys/class/power_supply";
/// State of a battery that is being emptied.
const DISCHARGING: &str = "Discharging";

/// Parts of the labels of a whole package's supply, and of a processor's or a part of it, in small letters.
const WHOLE: [&str; 3] = ["package", "pkg", "socket"];
const PARTS: [&str; 3] = ["cpu", "core", "vdd_soc"];

/// A sensor of power.
#[derive(Clone, Debug, PartialEq)]
pub struct Rail {
    /// What it measures, for people.
    pub name: String,
    factors: Vec<Factor>,    // whose product is the power
    battery: Option<String>, // its file of the state of charging
}

#[derive(Clone, Debug, PartialEq)]
struct Factor {
    path: String,
    unit: f64, // of the numbers in the file
    either_sign: bool,
}

impl Factor {
    fn new(path: String, unit: f64) -> Self {
        Self { path, unit, either_sign: false }
    }

    /// By the kernel's documentation what empties a battery is negative; many drivers show it positive.
    fn of_battery(path: String) -> Self {
        Self { path, unit: 1e-6, either_sign: true }
    }

    fn read(&self, files: &impl Files) -> Result<f64, Error> {
        let mut content = text(files, &self.path, READABLE)?;
        if self.either_sign && content.starts_with('-') {
            content.remove(0);
        }
        Ok(parse(&self.path, content)? as f64 * self.unit)
    }
}

impl Rail {
    /// The power of the moment, `None` of a battery that nothing is drawn from.
    fn read(&self, files: &impl Files) -> Result<Option<Watts>, Error> {
        if let Some(status) = &self.battery {
            if text(files, status, READABLE)? != DISCHARGING {
                return Ok(None);
            }
        }
        let power = self.factors.iter().try_fold(1.0, |power, factor| Ok(power * factor.read(files)?));
        power.map(|power| Some(Watts(power)))
    }
}

/// What all of `rails`, at least one, draw at the moment.
///
/// # Errors
/// [`Error::File`] and [`Error::Malformed`] for files that cannot be read or understood, the latter also where batteries
/// are no longer emptied: then they say nothing of what the machine draws.
pub fn drawn(rails: &[Rail], files: &impl Files) -> Result<Watts, Error> {
    let mut sum = None;
    for rail in rails {
        if let Some(power) = rail.read(files)? {
            sum = Some(sum.unwrap_or(Watts(0.0)) + power);
        }
    }
    if let Some(sum) = sum {
        return Ok(sum);
    }
    let path = rails.iter().find_map(|rail| rail.battery.as_deref()).unwrap_or(SUPPLIES);
    let content = text(files, path, READABLE)?;
    Err(malformed(path, content, "Discharging: leave the machine off the mains for the whole measurement"))
}

fn labelled(label: &str, with: &[&str]) -> bool {
    let label = label.to_lowercase();
    with.iter().any(|part| label.contains(part))
}

fn of_processor(label: &str) -> bool {
    labelled(label, &WHOLE) || labelled(label, &PARTS)
}

/// Sensors of the processor's supply, by label, those of whole packages alone where there are any: a power or, in devices
/// that show none, a voltage (millivolts) and a current (milliamperes) of one number.
///
/// # Errors
/// [`Error::File`] and [`Error::Malformed`] for files that cannot be read or understood.
pub fn rails(files: &impl Files) -> Result<Vec<Rail>, Error> {
    let mut rails = Vec::new();
    for device in names(files, HWMON)?.unwrap_or_default() {
        rails.extend(monitors(files, &format!("{HWMON}/{device}"))?);
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
                let factors = vec![Factor::new(format!("{folder}/{name}"), scale * 1e-3)];
                rails.push(Rail { name: format!("IIO {label}"), factors, battery: None });
            }
        }
    }
    if rails.iter().any(|rail| labelled(&rail.name, &WHOLE)) {
        // Their parts would be counted twice.
        rails.retain(|rail| labelled(&rail.name, &WHOLE));
    }
    Ok(rails)
}

/// Those of one device of hwmon.
fn monitors(files: &impl Files, folder: &str) -> Result<Vec<Rail>, Error> {
    let driver = optional(files, &format!("{folder}/name"))?.unwrap_or_default();
    let present = names(files, folder)?.unwrap_or_default();
    let at = |file: &str| present.iter().any(|other| other == file).then(|| format!("{folder}/{file}"));
    let label_of = |channel: &str| {
        let path = at(&format!("{channel}_label"));
        path.map_or(Ok(None), |path| optional(files, &path))
    };
    let (mut powers, mut products) = (Vec::new(), Vec::new());
    for channel in present.iter().filter_map(|name| name.strip_suffix("_label")) {
        let Some(label) = label_of(channel)?.filter(|label| of_processor(label)) else { continue };
        let rail = |factors| Rail { name: format!("{driver} {label}"), factors, battery: None };
        if channel.starts_with("power") {
            let power = ["input", "average"].into_iter().find_map(|kind| at(&format!("{channel}_{kind}")));
            powers.extend(power.map(|path| rail(vec![Factor::new(path, 1e-6)])));
        } else if let Some(number) = channel.strip_prefix("in") {
            let current = format!("curr{number}");
            // Of some other supply, where it says so.
            if label_of(&current)?.is_some_and(|label| !of_processor(&label)) {
                continue;
            }
            let files = at(&format!("{channel}_input")).zip(at(&format!("{current}_input")));
            let product = |(volts, amperes)| rail(vec![Factor::new(volts, 1e-3), Factor::new(amperes, 1e-3)]);
            products.extend(files.map(product));
        }
    }
    // A device that shows power shows the same as voltage and current, too.
    Ok(if powers.is_empty() { products } else { powers })
}

/// The machine's batteries, if one is being emptied: all that the machine draws, screen and disks included.
///
/// # Errors
/// [`Error::File`] and [`Error::Malformed`] for files that cannot be read or understood.
pub fn batteries(files: &impl Files) -> Result<Vec<Rail>, Error> {
    let (mut batteries, mut emptied) = (Vec::new(), false);
    for supply in names(files, SUPPLIES)?.unwrap_or_default() {
        let at = |file: &str| format!("{SUPPLIES}/{supply}/{file}");
        let get = |file: &str| optional(files, &at(file));
        // A mouse's or a headset's battery is not the machine's.
        if get("type")?.as_deref() != Some("Battery") || get("scope")?.as_deref() == Some("Device") {
            continue;
        }
        let Some(status) = get("status")? else { continue };
        let factors = if get("power_now")?.is_some() {
            vec![Factor::of_battery(at("power_now"))]
        } else if get("current_now")?.is_some() && get("voltage_now")?.is_some() {
            vec![Factor::of_battery(at("current_now")), Factor::new(at("voltage_now"), 1e-6)]
        } else {
            continue;
        };
        emptied |= status == DISCHARGING;
        let name = format!("battery {supply}");
        batteries.push(Rail { name, factors, battery: Some(at("status")) });
    }
    Ok(if emptied { batteries } else { Vec::new() })
}
