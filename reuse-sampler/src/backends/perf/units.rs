//! Units of a processor that count or profile by themselves, as the system lists them: each has a number, and its
//! settings their bits, in a folder below `/sys/bus/event_source/devices`.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::events::Microarchitecture;
use super::kernel::{Profiler, Selector, Source};

/// The folder of a unit.
struct Unit(PathBuf);

impl Unit {
    fn new(devices: &Path, name: &str) -> Self {
        Self(devices.join(name))
    }

    /// What a file says, and where it is.
    fn read(&self, name: &str) -> Result<(PathBuf, String), String> {
        let path = self.0.join(name);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((path, text.trim().to_owned()))
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let (path, text) = self.read(name)?;
        text.parse().map_err(|_| format!("{}: {text:?} is no number", path.display()))
    }
}

/// The processor's events that choose accesses, with the numbers of their counters from below `devices`
/// (`/sys/bus/event_source/devices`); or what is missing there.
pub(super) fn selectors(
    processor: &Microarchitecture,
    devices: &Path,
) -> Result<[Option<Selector>; 2], String> {
    let mut selectors = [None; 2];
    for (slot, precise) in selectors.iter_mut().zip(&processor.precise) {
        let kind = match precise.unit {
            None => precise.event.kind,
            Some(unit) => Unit::new(devices, unit).number("type")?,
        };
        let source = Source::Counter { kind, config: precise.event.config, config1: 0 };
        *slot = Some(Selector { source, kind: precise.kind, apart: precise.unit.is_some() });
    }
    match selectors[0] {
        None => Err(format!("none is known for this processor ({})", processor.name)),
        Some(_) => Ok(selectors),
    }
}

/// The unit by which the processor profiles by itself, with its number and the bits of its settings from below `devices`;
/// or what is missing there.
pub(super) fn profiler(processor: &Microarchitecture, devices: &Path) -> Result<Profiler, String> {
    let Some(profiling) = processor.profiling() else {
        return Err(format!("none is known for this processor ({})", processor.name));
    };
    let unit = Unit::new(devices, profiling.unit);
    let kind = unit.number("type")?;
    let (mut config, mut config1) = (0, 0);
    for setting in profiling.on {
        let (path, text) = unit.read(&format!("format/{setting}"))?;
        // `config:33`, or `config1:0-63` for a setting of several bits.
        let place = text.split_once(':').and_then(|(word, bits)| {
            let bit: u32 = bits.split('-').next()?.parse().ok().filter(|bit| *bit < 64)?;
            Some((word, 1_u64 << bit))
        });
        match place {
            Some(("config", bit)) => config |= bit,
            Some(("config1", bit)) => config1 |= bit,
            _ => return Err(format!("{}: {text:?} is no place for it", path.display())),
        }
    }
    let least = unit.number("caps/min_interval").unwrap_or(1);
    Ok(Profiler { source: Source::Counter { kind, config, config1 }, least })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::events::{microarchitecture, tests::x86};

    #[test]
    fn counters_of_their_own_have_the_number_that_the_system_gives_them() {
        let devices = std::env::temp_dir().join(format!("reuse-sampler-devices-{}", std::process::id()));
        let zen = x86("AuthenticAMD", 0x19, 0x61);
        let missing = selectors(zen, &devices).unwrap_err();
        assert!(missing.contains("ibs_op"), "{missing}");
        fs::create_dir_all(devices.join("ibs_op")).unwrap();
        for (text, number) in [("11\n", Some(11)), ("eleven", None), ("", None)] {
            fs::write(devices.join("ibs_op/type"), text).unwrap();
            let found = selectors(zen, &devices).ok().and_then(|selectors| selectors[0]);
            let source = |kind| Source::Counter { kind, config: 1 << 19, config1: 0 };
            let selector = |kind| Selector { source: source(kind), kind: None, apart: true };
            assert_eq!(found, number.map(selector), "{text:?}");
        }
        fs::remove_dir_all(&devices).unwrap();
        let both = selectors(x86("GenuineIntel", 6, 85), &devices).unwrap();
        assert!(both.iter().flatten().all(|selector| !selector.apart && selector.kind.is_some()));
        assert!(selectors(x86("Other", 6, 1), &devices).unwrap_err().contains("none is known"));
    }

    /// Numbers and places are the system's own, as the folder of an Arm server's kernel has them.
    #[test]
    fn the_unit_that_profiles_is_set_up_as_its_folder_says() {
        let devices = std::env::temp_dir().join(format!("reuse-sampler-spe-{}", std::process::id()));
        let arm = microarchitecture("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n");
        let missing = profiler(arm, &devices).unwrap_err();
        assert!(missing.contains("arm_spe_0"), "{missing}");
        let unit = devices.join("arm_spe_0");
        for folder in ["format", "caps"] {
            fs::create_dir_all(unit.join(folder)).unwrap();
        }
        for (name, text) in [
            ("type", "9\n"),
            ("caps/min_interval", "1024\n"),
            ("format/ts_enable", "config:0\n"),
            ("format/pa_enable", "config:1\n"),
            ("format/jitter", "config:16\n"),
            ("format/load_filter", "config:33\n"),
            ("format/store_filter", "config:34\n"),
            ("format/event_filter", "config1:0-63\n"),
        ] {
            fs::write(unit.join(name), text).unwrap();
        }
        let config = 1 | 1 << 16 | 1 << 33 | 1 << 34;
        let source = Source::Counter { kind: 9, config, config1: 0 };
        assert_eq!(profiler(arm, &devices), Ok(Profiler { source, least: 1024 }));
        for (name, text) in [("format/jitter", "config:64"), ("format/jitter", "config9:1"), ("type", "none")]
        {
            fs::write(unit.join(name), text).unwrap();
            let problem = profiler(arm, &devices).unwrap_err();
            assert!(problem.contains(name) && problem.contains(text), "{problem}");
        }
        fs::remove_dir_all(&devices).unwrap();
        assert!(profiler(x86("Other", 6, 1), &devices).unwrap_err().contains("none is known"));
    }
}
