//! Which events count what the technique needs, by microarchitecture.
//!
//! The kernel's own names for events of the last level exist on few processors for prefetches, and on none of AMD's at
//! all. Manufacturers list events that count every line a core fetches, prefetched or not; `.ci/event-tables` takes them
//! from there. Other processors are counted by the kernel's names, and without prefetches.

use std::fs;
use std::path::Path;

use super::divided::read_text;
use super::topology::parse_list;

/// A processor's own event: its code, and the value of a further register where it needs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub config: u64,
    pub extra: u64,
}

/// What is counted for each quantity: codes that add up. None: the kernel's own event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Codes {
    /// Demand loads that reach the last level.
    pub shared: Vec<Code>,
    /// Those that miss it.
    pub misses: Vec<Code>,
    /// All lines fetched from beyond it.
    pub fetches: Vec<Code>,
    /// The names of the latter, for people.
    pub fetched_by: String,
}

const LISTED: &str = include_str!("listed.csv");

impl Codes {
    /// Those of a processor by its vendor, family and model, if they are listed.
    pub(super) fn listed(vendor: &str, family: u32, model: u32) -> Option<Self> {
        let rows = LISTED.lines().filter(|line| !line.starts_with('#'));
        rows.map(|row| row.split(',').collect::<Vec<_>>()).find_map(|row| {
            let &[name, of, families, models, shared, misses, fetches, names, _] = row.as_slice() else {
                return None;
            };
            let listed = |list: &str, number: u32| {
                parse_list(&list.replace(' ', ",")).is_some_and(|list| list.contains(&(number as usize)))
            };
            if of != vendor || !listed(families, family) || !(models.is_empty() || listed(models, model)) {
                return None;
            }
            Some(Self {
                shared: codes(shared)?,
                misses: codes(misses)?,
                fetches: codes(fetches)?,
                fetched_by: format!("{names} ({name})"),
            })
        })
    }
}

/// `0x1b7:0x3fbfc007f7 0x412e`.
fn codes(text: &str) -> Option<Vec<Code>> {
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let code = |word: &str| {
        let (config, extra) = word.split_once(':').unwrap_or((word, "0x0"));
        Some(Code { config: number(config)?, extra: number(extra)? })
    };
    text.split_whitespace().map(code).collect()
}

/// The unit that counts on a processor, where there are several kinds of cores: a plain event would be counted on the
/// kernel's first kind only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    /// The kernel's number of its events' type, where it must be given.
    pub number: Option<u32>,
    /// Whether the listed codes are its own: of Intel's hybrid processors those of the large cores are listed.
    pub is_listed: bool,
}

/// That of processor `cpu`, by the files below `root`. Where they cannot be read, as of a machine of one kind; a counter that
/// then never counts is an error.
pub(super) fn unit_of(root: &Path, cpu: usize) -> Unit {
    let one = Unit { number: None, is_listed: true };
    let devices = root.join("sys/bus/event_source/devices");
    let Ok(entries) = fs::read_dir(devices) else { return one };
    // Units of cores list these in `cpus`; all others have a `cpumask` instead.
    let units = entries.filter_map(Result::ok).filter_map(|entry| {
        let file = |name: &str| read_text(&entry.path().join(name)).ok();
        let cpus = parse_list(file("cpus")?.trim())?;
        let number = file("type")?.trim().parse().ok()?;
        Some((entry.file_name().into_string().ok()?, cpus, number))
    });
    let units: Vec<(String, Vec<usize>, u32)> = units.collect();
    let found = units.iter().find(|(_, cpus, _)| cpus.contains(&cpu));
    match found {
        Some((name, _, number)) if units.len() > 1 => {
            Unit { number: Some(*number), is_listed: name == "cpu_core" }
        }
        _ => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetches_of_processors_are_those_of_their_lists() {
        let codes = |vendor, family, model| Codes::listed(vendor, family, model);
        // Ice Lake-SP: reads to the core, and prefetches into the third level.
        let server = codes("GenuineIntel", 6, 106).unwrap();
        let of = |config, extra| Code { config, extra };
        assert_eq!(server.fetches, [of(0x1b7, 0x3f_3fc0_0477), of(0x1b7, 0x9400_2380)]);
        assert!(server.shared.is_empty() && server.misses.is_empty());
        assert!(server.fetched_by.contains("hwpf_l3") && server.fetched_by.contains("Ice Lake-SP"));
        // Its prefetches into the third level are not listed for clients, nor for Granite Rapids.
        assert_eq!([codes("GenuineIntel", 6, 158), codes("GenuineIntel", 6, 173)], [None, None]);
        // Zen 5: fills of the second level from memory, an event above 255; any model.
        let zen = codes("AuthenticAMD", 26, 2).unwrap();
        assert_eq!((zen.fetches, zen.misses), (vec![of(0x1_0000_4865, 0)], vec![of(0x4843, 0)]));
        assert_eq!(codes("AuthenticAMD", 22, 0), None);
        // Zen's list has no fills, that of Zen 2 has.
        assert_eq!(codes("AuthenticAMD", 23, 17), None);
        assert_eq!(codes("AuthenticAMD", 23, 49).unwrap().fetches.len(), 4);
        assert_eq!(codes("", 0, 0), None);
        // The paper's own machine.
        assert_eq!(codes("GenuineIntel", 6, 26).unwrap().fetches, [of(0x1b7, 0xf811), of(0x1b7, 0xf822)]);
    }

    #[test]
    fn each_row_is_understood() {
        let rows: Vec<&str> = LISTED.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(rows.len() >= 18, "{rows:?}");
        for row in rows {
            let fields: Vec<&str> = row.split(',').collect();
            let model = fields[3].split([' ', '-']).next().unwrap().parse().unwrap_or(0);
            let found = Codes::listed(fields[1], fields[2].parse().unwrap(), model).unwrap();
            assert!(!found.fetches.is_empty() && found.fetched_by.contains(fields[0]), "{row}");
        }
    }

    #[test]
    fn cores_of_several_kinds_are_counted_by_their_own_units() {
        let root = tempfile::tempdir().unwrap();
        let write = |unit: &str, file: &str, text: &str| {
            let folder = root.path().join("sys/bus/event_source/devices").join(unit);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), text).unwrap();
        };
        let one = Unit { number: None, is_listed: true };
        assert_eq!(unit_of(root.path(), 0), one, "no sysfs");
        write("uncore_imc_0", "cpumask", "0\n");
        write("uncore_imc_0", "type", "13\n");
        write("cpu_core", "cpus", "0-3\n");
        write("cpu_core", "type", "4\n");
        assert_eq!(unit_of(root.path(), 0), one, "one kind of core");
        write("cpu_atom", "cpus", "4-7\n");
        write("cpu_atom", "type", "10\n");
        assert_eq!(unit_of(root.path(), 3), Unit { number: Some(4), is_listed: true });
        assert_eq!(unit_of(root.path(), 4), Unit { number: Some(10), is_listed: false });
        assert_eq!(unit_of(root.path(), 9), one);
        write("cpu_atom", "cpus", "soon\n");
        assert_eq!(unit_of(root.path(), 4), one);
    }
}
