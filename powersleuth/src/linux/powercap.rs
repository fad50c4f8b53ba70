//! Energy counters through powercap: RAPL of Intel and AMD processors.

use super::files::{Files, malformed, names, number, text};
use crate::{Error, Joules, Seconds, Watts};

const POWERCAP: &str = "sys/class/powercap";

/// Since an attack read keys through them, the counters are for root alone.
const READABLE: &str = "run as root, or let root make energy_uj readable";

/// A part of the machine whose energy is counted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
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

/// `intel-rapl:a:1` as [10, 1]: the kernel numbers zones in hexadecimal.
fn numbers(name: &str) -> Vec<u32> {
    name.split(':').skip(1).filter_map(|number| u32::from_str_radix(number, 16).ok()).collect()
}

fn zone(files: &impl Files, directory: String) -> Result<EnergyZone, Error> {
    let path = format!("{POWERCAP}/{directory}/max_energy_range_uj");
    let range = number(files, &path, READABLE)?;
    if range == 0 {
        return Err(malformed(path, "0", "a number above 0"));
    }
    Ok(EnergyZone {
        name: text(files, &format!("{POWERCAP}/{directory}/name"), READABLE)?,
        nested: numbers(&directory).len() > 1,
        range: Joules(range as f64 * 1e-6),
        directory,
    })
}

/// The zones that make up the machine's processors: all packages, none of their parts. Where the kernel names no zone
/// a package, all that are not parts of another.
///
/// # Errors
/// As [`energy_zones`].
pub fn package_zones(files: &impl Files) -> Result<Vec<EnergyZone>, Error> {
    let mut zones = energy_zones(files)?;
    zones.retain(|zone| !zone.nested);
    if zones.iter().any(|zone| zone.name.starts_with("package")) {
        // `psys` is the whole platform, packages included.
        zones.retain(|zone| zone.name.starts_with("package"));
    }
    Ok(zones)
}

/// Adds up the energy of zones, through wraps of their counters.
#[derive(Debug)]
pub struct EnergyMeter<F> {
    files: F,
    counters: Vec<Counter>,
}

#[derive(Debug)]
struct Counter {
    path: String,
    range: u64, // microjoules, > 0
    last: u64,  // at most `range`
    total: u64,
}

impl<F: Files> EnergyMeter<F> {
    /// Begins at 0 now. The zones must not be parts of each other.
    ///
    /// # Errors
    /// [`Error::Empty`] without zones; [`Error::File`] if a counter cannot be read: mostly for lack of permission;
    /// [`Error::Malformed`] for one that is no number or beyond its range.
    pub fn new(files: F, zones: &[EnergyZone]) -> Result<Self, Error> {
        if zones.is_empty() {
            return Err(Error::Empty { what: "energy zones" });
        }
        let counters = zones.iter().map(|zone| {
            let path = format!("{POWERCAP}/{}/energy_uj", zone.directory);
            let range = (zone.range.0 * 1e6).round() as u64;
            Ok(Counter { last: reading(&files, &path, range)?, path, range, total: 0 })
        });
        let counters = counters.collect::<Result<_, Error>>()?;
        Ok(Self { files, counters })
    }

    /// Energy since the beginning. Must be called at least once per [wrap](EnergyZone::wraps_after).
    ///
    /// # Errors
    /// As [`new`](Self::new). What was counted meanwhile is in the next reading that succeeds.
    pub fn read(&mut self) -> Result<Joules, Error> {
        let mut total = 0;
        for counter in &mut self.counters {
            let now = reading(&self.files, &counter.path, counter.range)?;
            let wrapped = if now < counter.last { counter.range } else { 0 };
            counter.total += wrapped + now - counter.last;
            counter.last = now;
            total += counter.total;
        }
        Ok(Joules(total as f64 * 1e-6))
    }
}

/// A counter's value, which a counter in order keeps within its range.
fn reading(files: &impl Files, path: &str, range: u64) -> Result<u64, Error> {
    let now = number(files, path, READABLE)?;
    if now > range {
        return Err(malformed(path, now.to_string(), "a number up to max_energy_range_uj"));
    }
    Ok(now)
}
