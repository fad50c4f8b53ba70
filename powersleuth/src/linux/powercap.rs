//! Energy counters through powercap: RAPL of Intel and AMD processors.

use super::files::{Files, names, number, text};
use crate::{Error, Joules, Seconds, Watts};

const POWERCAP: &str = "sys/class/powercap";

/// Since an attack read keys through them, the counters are for root alone.
const READABLE: &str = "run as root, or let root make energy_uj readable";

/// A part of the machine whose energy is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct EnergyZone {
    /// Its directory, such as `intel-rapl:0:0`.
    pub directory: String,
    /// What it is: `package-0`, `core`, `uncore`, `dram`, `psys`.
    pub name: String,
    /// Whether it is part of the zone listed before it that is not a part itself.
    pub nested: bool,
    /// Where the counter begins again from 0.
    pub range: Joules,
}

impl EnergyZone {
    /// How often the counter must be read at least so that no wrap goes unseen, at this power.
    #[must_use]
    pub fn wraps_after(&self, power: Watts) -> Seconds {
        Seconds(self.range.0 / power.0)
    }
}

/// The zones there are, packages before their parts. The memory-mapped twin that some machines show of a
/// package is left out.
///
/// # Errors
/// [`Error::Missing`] if there are none, as in virtual machines and on most ARM ones; [`Error::File`] and
/// [`Error::Malformed`] for files that cannot be read or understood.
pub fn energy_zones(files: &impl Files) -> Result<Vec<EnergyZone>, Error> {
    let mut directories: Vec<String> = names(files, POWERCAP)?.unwrap_or_default();
    directories.retain(|name| name.starts_with("intel-rapl:"));
    directories.sort_by_key(|name| numbers(name));
    if directories.is_empty() {
        return Err(Error::Missing {
            what: "energy",
            path: format!("{POWERCAP}/intel-rapl:0"),
            remedy: "load intel_rapl_common on the bare machine, or measure power outside of it",
        });
    }
    directories.into_iter().map(|directory| zone(files, directory)).collect()
}

/// `intel-rapl:0:1` as [0, 1].
fn numbers(name: &str) -> Vec<u32> {
    name.split(':').skip(1).filter_map(|number| number.parse().ok()).collect()
}

fn zone(files: &impl Files, directory: String) -> Result<EnergyZone, Error> {
    Ok(EnergyZone {
        name: text(files, &format!("{POWERCAP}/{directory}/name"), READABLE)?,
        nested: numbers(&directory).len() > 1,
        range: Joules(
            number(files, &format!("{POWERCAP}/{directory}/max_energy_range_uj"), READABLE)? as f64 * 1e-6,
        ),
        directory,
    })
}

/// Adds up the energy of a zone, through wraps of its counter.
#[derive(Debug)]
pub struct EnergyMeter<F> {
    files: F,
    path: String,
    range: u64, // microjoules
    last: u64,
    total: u64,
}

impl<F: Files> EnergyMeter<F> {
    /// Begins at 0 now.
    ///
    /// # Errors
    /// [`Error::File`] if the counter cannot be read: mostly for lack of permission; [`Error::Malformed`].
    pub fn new(files: F, zone: &EnergyZone) -> Result<Self, Error> {
        let path = format!("{POWERCAP}/{}/energy_uj", zone.directory);
        let last = number(&files, &path, READABLE)?;
        Ok(Self { files, path, range: (zone.range.0 * 1e6).round() as u64, last, total: 0 })
    }

    /// Energy since the beginning. Must be called at least once per [wrap](EnergyZone::wraps_after).
    ///
    /// # Errors
    /// As [`new`](Self::new). What was counted meanwhile is in the next reading that succeeds.
    pub fn read(&mut self) -> Result<Joules, Error> {
        let now = number(&self.files, &self.path, READABLE)?;
        let passed =
            if now >= self.last { now - self.last } else { (self.range + now).saturating_sub(self.last) };
        self.total += passed;
        self.last = now;
        Ok(Joules(self.total as f64 * 1e-6))
    }
}
