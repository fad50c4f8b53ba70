//! Voltage of each frequency, if the system shows it.
//!
//! Processors described by a device tree have it there (`operating-points-v2`), and debugfs shows the same
//! with what the regulator really offers. Intel's and AMD's keep their voltages to themselves: give those by
//! hand, from a data sheet or a measurement.

use super::files::{Files, READABLE, failed, malformed, names, number, parse};
use crate::{Error, Hertz, Volts};
use std::io;

const DEBUGFS: &str = "sys/kernel/debug/opp";
const DEVICE_TREE: &str = "sys/firmware/devicetree/base";

/// Voltages of the core numbered `cpu`, ascending by frequency.
///
/// # Errors
/// [`Error::Missing`] if neither debugfs nor a device tree has it; [`Error::File`] and [`Error::Malformed`] for
/// files that cannot be read or understood.
pub fn voltages(files: &impl Files, cpu: u32) -> Result<Vec<(Hertz, Volts)>, Error> {
    // Debugfs is closed to all but root; the device tree is open.
    let (mut points, refused) = match from_debugfs(files, cpu) {
        Err(error @ Error::File { .. }) => (Vec::new(), Some(error)),
        other => (other?, None),
    };
    if points.is_empty() {
        points = from_device_tree(files, cpu)?;
    }
    if points.is_empty() {
        // A file that may not be read is not the same as none.
        return Err(refused.unwrap_or_else(|| Error::Missing {
            what: "voltages",
            path: format!("{DEBUGFS}/cpu{cpu}"),
            remedy: "give the voltage of each frequency by hand",
        }));
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
        let path = format!("{table}/{name}/supply-0/u_volt_target");
        let microvolts = number(files, &path, READABLE)?;
        points.push((Hertz(hertz as f64), volts(&path, microvolts)?));
    }
    Ok(points)
}

fn from_device_tree(files: &impl Files, cpu: u32) -> Result<Vec<(Hertz, Volts)>, Error> {
    let node = format!("sys/devices/system/cpu/cpu{cpu}/of_node/operating-points-v2");
    let Some(wanted) = bytes(files, &node)? else { return Ok(Vec::new()) };
    for table in names(files, DEVICE_TREE)?.unwrap_or_default() {
        let directory = format!("{DEVICE_TREE}/{table}");
        if bytes(files, &format!("{directory}/phandle"))?.is_some_and(|phandle| phandle == wanted) {
            return read_table(files, &directory);
        }
    }
    Ok(Vec::new())
}

/// Content of a file of the device tree; `None` if there is none.
fn bytes(files: &impl Files, path: &str) -> Result<Option<Vec<u8>>, Error> {
    match files.read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        // What looks like a file may be part of another's path: a property has no files below it.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(source) => Err(failed("read", path, READABLE)(source)),
    }
}

fn read_table(files: &impl Files, directory: &str) -> Result<Vec<(Hertz, Volts)>, Error> {
    let mut points = Vec::new();
    for name in names(files, directory)?.unwrap_or_default() {
        let node = format!("{directory}/{name}");
        let Some(hertz) = bytes(files, &format!("{node}/opp-hz"))? else { continue };
        let hertz = big_endian(&format!("{node}/opp-hz"), &hertz, 8)?;
        let path = format!("{node}/opp-microvolt");
        let remedy = "give the voltage of each frequency by hand";
        let microvolts = files.read(&path).map_err(failed("read", &path, remedy))?;
        // One voltage, or target, least and most.
        let target = big_endian(&path, &microvolts, 4)?;
        points.push((Hertz(hertz as f64), volts(&path, target)?));
    }
    Ok(points)
}

/// The number in the first `length` bytes.
fn big_endian(path: &str, bytes: &[u8], length: usize) -> Result<u64, Error> {
    match bytes.get(..length) {
        Some(number) => Ok(number.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))),
        None => Err(malformed(path, format!("{} bytes", bytes.len()), "a number of the device tree")),
    }
}

/// From microvolts: no processor runs below a tenth of a volt or above five.
fn volts(path: &str, microvolts: u64) -> Result<Volts, Error> {
    if (100_000..=5_000_000).contains(&microvolts) {
        return Ok(Volts(microvolts as f64 * 1e-6));
    }
    Err(malformed(path, microvolts.to_string(), "microvolts of a processor, from 100000 to 5000000"))
}
