//! Voltage of each frequency, where the system tells it.
//!
//! Processors described by a device tree have it there (`operating-points-v2`), and debugfs shows the same
//! with what the regulator really offers. Intel's and AMD's keep their voltages to themselves: give those by
//! hand, from a data sheet or a measurement.

use super::files::{Files, READABLE, names, number, parse};
use crate::{Error, Hertz, Volts};

const DEBUGFS: &str = "sys/kernel/debug/opp";
const DEVICE_TREE: &str = "sys/firmware/devicetree/base";

/// Voltages of the core numbered `cpu`, ascending by frequency.
///
/// # Errors
/// [`Error::Missing`] where neither debugfs nor a device tree tells; [`Error::File`] and [`Error::Malformed`] for
/// files that cannot be read or understood.
pub fn voltages(files: &impl Files, cpu: u32) -> Result<Vec<(Hertz, Volts)>, Error> {
    // Debugfs is closed to all but root; the device tree is open.
    let mut points = match from_debugfs(files, cpu) {
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Vec::new()
        }
        other => other?,
    };
    if points.is_empty() {
        points = from_device_tree(files, cpu)?;
    }
    if points.is_empty() {
        return Err(Error::Missing {
            what: "voltages",
            path: format!("{DEBUGFS}/cpu{cpu}"),
            remedy: "give the voltage of each frequency by hand",
        });
    }
    points.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
    Ok(points)
}

fn from_debugfs(files: &impl Files, cpu: u32) -> Result<Vec<(Hertz, Volts)>, Error> {
    let table = format!("{DEBUGFS}/cpu{cpu}");
    let mut points = Vec::new();
    for name in names(files, &table)?.unwrap_or_default() {
        let Some(rate) = name.strip_prefix("opp:") else { continue };
        let hertz = parse(&format!("{table}/{name}"), rate.to_owned())?;
        let microvolts = number(files, &format!("{table}/{name}/supply-0/u_volt_target"), READABLE)?;
        points.push((Hertz(hertz as f64), from_microvolts(microvolts)));
    }
    Ok(points)
}

fn from_device_tree(files: &impl Files, cpu: u32) -> Result<Vec<(Hertz, Volts)>, Error> {
    let node = format!("sys/devices/system/cpu/cpu{cpu}/of_node/operating-points-v2");
    let Ok(wanted) = files.read(&node) else { return Ok(Vec::new()) };
    for table in names(files, DEVICE_TREE)?.unwrap_or_default() {
        let directory = format!("{DEVICE_TREE}/{table}");
        if files.read(&format!("{directory}/phandle")).is_ok_and(|phandle| phandle == wanted) {
            return read_table(files, &directory);
        }
    }
    Ok(Vec::new())
}

fn read_table(files: &impl Files, directory: &str) -> Result<Vec<(Hertz, Volts)>, Error> {
    let mut points = Vec::new();
    for name in names(files, directory)?.unwrap_or_default() {
        let node = format!("{directory}/{name}");
        let Ok(hertz) = files.read(&format!("{node}/opp-hz")) else { continue };
        let hertz = big_endian(&format!("{node}/opp-hz"), &hertz, 8)?;
        let path = format!("{node}/opp-microvolt");
        let microvolts = files.read(&path).map_err(|source| Error::File {
            operation: "read",
            path: path.clone(),
            source,
            remedy: "give the voltage of each frequency by hand",
        })?;
        // One voltage, or target, least and most.
        let target = big_endian(&path, &microvolts, 4)?;
        points.push((Hertz(hertz as f64), from_microvolts(target)));
    }
    Ok(points)
}

/// The number in the first `length` bytes.
fn big_endian(path: &str, bytes: &[u8], length: usize) -> Result<u64, Error> {
    match bytes.get(..length) {
        Some(number) => Ok(number.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))),
        None => Err(Error::Malformed {
            path: path.to_owned(),
            content: format!("{} bytes", bytes.len()),
            expected: "a number of the device tree",
        }),
    }
}

fn from_microvolts(microvolts: u64) -> Volts {
    Volts(microvolts as f64 * 1e-6)
}
