//! A name for each kind of machine.

use std::collections::BTreeMap;

use super::files::{Files, READABLE, malformed, optional, text};
use crate::Error;

/// Vendor, model and stepping of the processor, and the board where a device tree names it: what a
/// [`PowerModel`](crate::power::PowerModel) is labelled with. Two machines of one name have the same kind of
/// processor, though not necessarily the same leakage.
///
/// # Errors
/// [`Error::File`] if `/proc/cpuinfo` cannot be read; [`Error::Malformed`] if it names no processor.
pub fn machine_name(files: &impl Files) -> Result<String, Error> {
    const CPUINFO: &str = "proc/cpuinfo";
    let cpuinfo = text(files, CPUINFO, READABLE)?;
    // Of several processors the first of each kind of line: on machines of two kinds that is the first kind.
    let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, value) in cpuinfo.lines().filter_map(|line| line.split_once(':')) {
        fields.entry(key.trim()).or_insert(value.trim());
    }
    let listed = |keys: &[&str]| -> Option<String> {
        let values: Option<Vec<&str>> = keys.iter().map(|key| fields.get(key).copied()).collect();
        Some(values?.join(" "))
    };
    let x86 = listed(&["vendor_id", "cpu family", "model", "stepping", "model name"]);
    let arm = || listed(&["CPU implementer", "CPU part", "CPU variant", "CPU revision"]);
    let Some(processor) = x86.or_else(arm) else {
        let content = cpuinfo.chars().take(40).collect::<String>();
        return Err(malformed(CPUINFO, content, "a processor"));
    };
    match optional(files, "sys/firmware/devicetree/base/model")? {
        Some(board) => Ok(format!("{board}, {processor}")),
        None => Ok(processor),
    }
}
