//! The frequencies that cores can run at.

use std::io::ErrorKind;
use std::ops::RangeInclusive;

use super::files::{Files, READABLE, malformed, names, number, optional, parse, text};
use crate::{Error, Hertz};

/// Where the policies are.
pub(super) const CPUFREQ: &str = "sys/devices/system/cpu/cpufreq";

/// Cores that share a clock, and what it can do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// Number of the policy: that of its first core.
    pub number: u32,
    /// The cores it sets, online or not.
    pub cpus: Vec<u32>,
    /// Name of the driver.
    pub driver: String,
    /// Name of the governor, which picks a frequency between the limits.
    pub governor: String,
    /// The frequencies there are, ascending. Empty where the driver takes any within the range, as those do that
    /// leave the choice to the processor.
    pub frequencies: Vec<Hertz>,
    /// Lowest and highest frequency the hardware can run at.
    pub range: (Hertz, Hertz),
    /// Lowest and highest frequency that the governor is allowed.
    pub limits: (Hertz, Hertz),
}

impl Policy {
    /// The offered frequency that `frequency` means. The kernel lists whole kilohertz, so they may differ by less than one.
    pub(super) fn offered(&self, frequency: Hertz) -> Result<Hertz, Error> {
        let same = |offered: &&Hertz| (offered.0 - frequency.0).abs() < 1000.0;
        let (low, high) = self.range;
        let found = if self.frequencies.is_empty() {
            let inside = frequency >= low && frequency <= high;
            if inside { Some(&frequency) } else { [&low, &high].into_iter().find(same) }
        } else {
            self.frequencies.iter().filter(|listed| **listed >= low && **listed <= high).find(same)
        };
        if let Some(found) = found {
            return Ok(*found);
        }
        let offered = if self.frequencies.is_empty() {
            format!("{} to {} GHz", self.range.0.ghz(), self.range.1.ghz())
        } else {
            let each: Vec<String> = self.frequencies.iter().map(|f| f.ghz().to_string()).collect();
            format!("{} GHz", each.join(", "))
        };
        Err(Error::NotOffered { policy: self.number, hertz: frequency.0, offered })
    }
}

/// All policies of the machine, by number, but for those whose cores are all offline, as siblings are where
/// simultaneous multithreading is turned off: the kernel answers no question about these (EBUSY).
///
/// # Errors
/// [`Error::Missing`] without cpufreq, as in most virtual machines; [`Error::File`] for a file that cannot be read;
/// [`Error::Malformed`] for one that is not understood.
pub fn policies(files: &impl Files) -> Result<Vec<Policy>, Error> {
    let names = names(files, CPUFREQ)?.unwrap_or_default();
    let numbers = names.iter().filter_map(|name| name.strip_prefix("policy")?.parse().ok());
    let (mut policies, mut offline) = (Vec::new(), None);
    for number in numbers {
        match read(files, number) {
            Err(Error::File { operation, path, source, .. }) if source.kind() == ErrorKind::ResourceBusy => {
                offline.get_or_insert(Error::File { operation, path, source, remedy: "bring a core online" });
            }
            other => policies.push(other?),
        }
    }
    if policies.is_empty() {
        return Err(offline.unwrap_or_else(|| Error::Missing {
            what: "frequencies",
            path: CPUFREQ.to_owned(),
            remedy: "run on the bare machine, with a cpufreq driver",
        }));
    }
    Ok(policies)
}

/// Those of the cores that this process may run on (`taskset`, a container's cpuset): a measurement concerns no others.
///
/// # Errors
/// As [`policies`]; [`Error::Missing`] if there is none of such a core.
pub fn policies_of_this_process(files: &impl Files) -> Result<Vec<Policy>, Error> {
    const STATUS: &str = "proc/self/status";
    let mut policies = policies(files)?;
    let status = optional(files, STATUS)?.unwrap_or_default();
    let Some(list) = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")) else {
        return Ok(policies);
    };
    let ranges = ranges(list.trim()).ok_or_else(|| malformed(STATUS, list, "a list of cores"))?;
    let allowed = |cpu: &u32| ranges.iter().any(|range| range.contains(cpu));
    policies.retain(|policy| policy.cpus.iter().any(allowed));
    if policies.is_empty() {
        return Err(Error::Missing {
            what: "frequencies of the cores that this process may run on",
            path: CPUFREQ.to_owned(),
            remedy: "allow it a core with a cpufreq policy, by taskset -c or the container's cpuset",
        });
    }
    Ok(policies)
}

/// The numbers in `0-3,8`.
fn ranges(list: &str) -> Option<Vec<RangeInclusive<u32>>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.split(',').map(range).collect()
}

/// What all of `policies` can run at, ascending: the listed frequencies that they have in common or, where the drivers
/// take any, `steps` steps from the lowest to the highest, in tenths of a megahertz. Empty if they have none in common,
/// as may be with cores of several kinds.
///
/// Where a list ends in a frequency 1 MHz above the one before, that is left out: under this name acpi-cpufreq shows
/// whatever turbo frequency there is room for.
#[must_use]
pub fn common_frequencies(policies: &[Policy], steps: u32) -> Vec<Hertz> {
    let low = policies.iter().map(|policy| policy.range.0.0).fold(0.0, f64::max);
    let high = policies.iter().map(|policy| policy.range.1.0).fold(f64::INFINITY, f64::min);
    let listing = policies.iter().find(|policy| !policy.frequencies.is_empty());
    let mut common: Vec<Hertz> = match listing {
        Some(policy) => policy.frequencies.clone(),
        None if low > high || policies.is_empty() => Vec::new(),
        None => (0..=steps.max(1))
            .map(|k| low + (high - low) * (f64::from(k) / f64::from(steps.max(1))))
            .map(|hertz| Hertz((hertz / 1e5).round() * 1e5))
            .collect(),
    };
    common.retain(|&frequency| policies.iter().all(|policy| policy.offered(frequency).is_ok()));
    if let Some([.., below, turbo]) = listing.map(|policy| policy.frequencies.as_slice()) {
        if turbo.0 - below.0 == 1e6 {
            common.retain(|frequency| frequency != turbo);
        }
    }
    common.dedup();
    common
}

fn read(files: &impl Files, policy: u32) -> Result<Policy, Error> {
    let at = |file: &str| path(policy, file);
    let cpus_path = at("related_cpus");
    let content = text(files, &cpus_path, READABLE)?;
    let cpus: Result<Vec<u32>, _> = content.split_whitespace().map(str::parse).collect();
    let frequencies_path = at("scaling_available_frequencies");
    let mut frequencies = Vec::new();
    for word in optional(files, &frequencies_path)?.unwrap_or_default().split_whitespace() {
        frequencies.push(from_khz(parse(&frequencies_path, word.to_owned())?));
    }
    frequencies.sort_by(|a: &Hertz, b| a.0.total_cmp(&b.0));
    frequencies.dedup();
    Ok(Policy {
        number: policy,
        cpus: cpus.map_err(|_| malformed(cpus_path, content, "numbers of cores"))?,
        driver: text(files, &at("scaling_driver"), READABLE)?,
        governor: text(files, &at("scaling_governor"), READABLE)?,
        frequencies,
        range: pair(files, &at("cpuinfo_min_freq"), &at("cpuinfo_max_freq"))?,
        limits: pair(files, &at("scaling_min_freq"), &at("scaling_max_freq"))?,
    })
}

/// Two frequencies, the first of which is above 0 and not above the second. If somebody moves both between the two
/// readings they may cross; a second look decides.
fn pair(files: &impl Files, low: &str, high: &str) -> Result<(Hertz, Hertz), Error> {
    let look = || Ok::<_, Error>((number(files, low, READABLE)?, number(files, high, READABLE)?));
    let crossed = |(low, high): &(u64, u64)| *low == 0 || low > high;
    let mut found = look()?;
    if crossed(&found) {
        found = look()?;
    }
    if crossed(&found) {
        let expected = "a frequency above 0, and not above the highest";
        return Err(malformed(low, found.0.to_string(), expected));
    }
    Ok((from_khz(found.0), from_khz(found.1)))
}

pub(super) fn path(policy: u32, file: &str) -> String {
    format!("{CPUFREQ}/policy{policy}/{file}")
}

pub(super) fn from_khz(khz: u64) -> Hertz {
    Hertz(khz as f64 * 1000.0)
}
