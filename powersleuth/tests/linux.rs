//! Sysfs of three machines, laid out in a directory; missing, damaged and closed files; and a kernel that refuses
//! what kernels refuse.
#![cfg(feature = "linux")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

use powersleuth::linux::{
    EnergyMeter, Files, Pin, PowerMeter, Thermometer, Tree, common_frequencies, energy_zones, machine_name,
    package_zones, policies, policies_of_this_process, voltages,
};
use powersleuth::{Error, Hertz, Joules, Volts, Watts};
use tempfile::TempDir;

/// Lays out a list of files in a new directory.
fn laid_out(list: &str) -> (TempDir, Tree) {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files_of(list) {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let tree = Tree::new(root.path());
    (root, tree)
}

fn files_of(list: &str) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
    list.lines().map(|line| {
        let (path, content) = line.split_once(" = ").unwrap();
        let mut bytes = Vec::new();
        let mut rest = content.bytes();
        while let Some(byte) = rest.next() {
            let escaped = (byte == b'\\').then(|| rest.next().unwrap());
            bytes.push(match escaped {
                None => byte,
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'x') => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                Some(other) => panic!("escape {other}"),
            });
        }
        (path.to_owned(), bytes)
    })
}

const INTEL: &str = include_str!("fixtures/intel.tree");
const AMD: &str = include_str!("fixtures/amd.tree");
const ARM: &str = include_str!("fixtures/arm.tree");

/// Files in memory that behave as the kernel's do.
#[derive(Clone, Debug, Default)]
struct Kernel {
    files: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
    closed: Rc<RefCell<Vec<String>>>, // endings of paths that may not be touched
    offline: Vec<u32>,                // policies whose cores all are
}

impl Kernel {
    fn new(list: &str) -> Self {
        Self { files: Rc::new(RefCell::new(files_of(list).collect())), ..Self::default() }
    }

    fn close(&self, ending: &str) {
        self.closed.borrow_mut().push(ending.to_owned());
    }

    fn put(&self, path: &str, text: &str) {
        self.files.borrow_mut().insert(path.to_owned(), text.as_bytes().to_vec());
    }

    fn number(&self, path: &str) -> u64 {
        String::from_utf8(self.files.borrow()[path].clone()).unwrap().trim().parse().unwrap()
    }

    fn check(&self, path: &str) -> io::Result<()> {
        let closed = self.closed.borrow().iter().any(|ending| path.ends_with(ending));
        if closed { Err(ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    fn limits(&self, policy: u32) -> (u64, u64) {
        let at = |file| self.number(&format!("sys/devices/system/cpu/cpufreq/policy{policy}/{file}"));
        (at("scaling_min_freq"), at("scaling_max_freq"))
    }
}

impl Files for Kernel {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.check(path)?;
        if self.offline.iter().any(|policy| path.contains(&format!("/policy{policy}/"))) {
            return Err(io::Error::from_raw_os_error(16)); // EBUSY
        }
        self.files.borrow().get(path).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Refuses limits that cross, as the kernel does.
    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.check(path)?;
        let new: u64 = text.parse().unwrap();
        let (policy, file) = path.rsplit_once('/').unwrap();
        let crosses = match file {
            "scaling_min_freq" => new > self.number(&format!("{policy}/scaling_max_freq")),
            "scaling_max_freq" => new < self.number(&format!("{policy}/scaling_min_freq")),
            _ => panic!("{path} is not to be written"),
        };
        if crosses {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.put(path, text);
        Ok(())
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.check(directory)?;
        let files = self.files.borrow();
        let inside = files.keys().filter_map(|path| path.strip_prefix(directory)?.strip_prefix('/'));
        let mut names: Vec<String> =
            inside.filter_map(|rest| Some(rest.split('/').next()?.to_owned())).collect();
        names.dedup();
        if names.is_empty() { Err(ErrorKind::NotFound.into()) } else { Ok(names) }
    }
}

fn ghz(values: &[f64]) -> Vec<Hertz> {
    values.iter().map(|&v| Hertz((v * 1e6).round() * 1e3)).collect()
}

#[test]
fn policies_of_three_machines() {
    let (_root, intel) = laid_out(INTEL);
    let found = policies(&intel).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].driver.as_str(), found[0].governor.as_str()), ("intel_pstate", "powersave"));
    assert!(found[0].frequencies.is_empty());
    assert_eq!(found[0].range, (Hertz(8e8), Hertz(4e9)));
    assert_eq!(found[1].limits, (Hertz(1.2e9), Hertz(3.4e9)));

    let (_root, amd) = laid_out(AMD);
    let found = policies(&amd).unwrap();
    assert_eq!((found.len(), &found[0].cpus[..]), (1, &[0, 8][..]));
    assert_eq!(found[0].frequencies, ghz(&[2.2, 2.8, 3.6]));

    let (_root, arm) = laid_out(ARM);
    let found = policies(&arm).unwrap();
    assert_eq!(found.iter().map(|p| p.number).collect::<Vec<_>>(), [0, 4]);
    assert_eq!(found[1].frequencies, ghz(&[0.408, 1.2, 1.8]));
}

#[test]
fn energy_of_three_machines() {
    let (_root, intel) = laid_out(INTEL);
    let zones = energy_zones(&intel).unwrap();
    let named: Vec<(&str, bool)> = zones.iter().map(|z| (z.name.as_str(), z.nested)).collect();
    // The memory-mapped twin of the package is not counted twice.
    assert_eq!(named, [("package-0", false), ("core", true), ("dram", true)]);
    assert!((zones[0].range.0 - 262_143.328_85).abs() < 1e-6);
    // At 65 W the counter wraps every 67 minutes.
    assert!((zones[0].wraps_after(Watts(65.0)).0 / 60.0 - 67.2).abs() < 0.1);

    let (_root, amd) = laid_out(AMD);
    assert_eq!(energy_zones(&amd).unwrap().len(), 2);
    let (_root, arm) = laid_out(ARM);
    let error = energy_zones(&arm).unwrap_err();
    assert!(matches!(error, Error::Missing { what: "energy", .. }), "{error}");
}

#[test]
fn the_meter_adds_up_through_wraps() {
    let kernel = Kernel::new(AMD);
    let zone = energy_zones(&kernel).unwrap().remove(0);
    let path = "sys/class/powercap/intel-rapl:0/energy_uj";
    let mut meter = EnergyMeter::new(kernel.clone(), std::slice::from_ref(&zone)).unwrap();
    assert_eq!(meter.read().unwrap(), Joules(0.0));
    kernel.put(path, "65532500000\n");
    assert_eq!(meter.read().unwrap(), Joules(0.5));
    // 65532500000 -> end of range 65532610987 -> 889013: one joule.
    kernel.put(path, "889013\n");
    assert!((meter.read().unwrap().0 - 1.5).abs() < 1e-9);
    kernel.put(path, "1889013\n");
    assert!((meter.read().unwrap().0 - 2.5).abs() < 1e-9);

    // A reading that fails loses nothing.
    kernel.close("energy_uj");
    let error = meter.read().unwrap_err();
    assert!(matches!(&error, Error::File { source, .. } if source.kind() == ErrorKind::PermissionDenied));
    assert!(error.to_string().contains("run as root"), "{error}");
    kernel.closed.borrow_mut().clear();
    kernel.put(path, "2889013\n");
    assert!((meter.read().unwrap().0 - 3.5).abs() < 1e-9);
    kernel.put(path, "soon\n");
    let error = meter.read().unwrap_err();
    assert!(matches!(&error, Error::Malformed { content, .. } if content == "soon"), "{error}");
}

/// A machine of two packages, one with a part, and a zone of the whole platform.
fn two_packages() -> Kernel {
    let kernel = Kernel::default();
    let zones = [("0", "package-0"), ("0:0", "core"), ("1", "package-1"), ("2", "psys")];
    for (number, name) in zones {
        let folder = format!("sys/class/powercap/intel-rapl:{number}");
        kernel.put(&format!("{folder}/name"), name);
        kernel.put(&format!("{folder}/max_energy_range_uj"), "1000000");
        kernel.put(&format!("{folder}/energy_uj"), "900000");
    }
    kernel
}

#[test]
fn all_packages_are_metered_and_nothing_twice() {
    let kernel = two_packages();
    let zones = package_zones(&kernel).unwrap();
    let names: Vec<&str> = zones.iter().map(|zone| zone.name.as_str()).collect();
    assert_eq!(names, ["package-0", "package-1"]);
    let mut meter = EnergyMeter::new(kernel.clone(), &zones).unwrap();
    kernel.put("sys/class/powercap/intel-rapl:0/energy_uj", "950000");
    // Through the end of its range.
    kernel.put("sys/class/powercap/intel-rapl:1/energy_uj", "150000");
    assert!((meter.read().unwrap().0 - 0.3).abs() < 1e-9);
    assert!(matches!(EnergyMeter::new(kernel, &[]), Err(Error::Empty { .. })));
}

#[test]
fn zones_are_numbered_in_hexadecimal() {
    let kernel = Kernel::default();
    for zone in 0..18 {
        for (directory, name) in [
            (format!("intel-rapl:{zone:x}"), format!("package-{zone}")),
            (format!("intel-rapl:{zone:x}:0"), "core".to_owned()),
        ] {
            let at = |file: &str| format!("sys/class/powercap/{directory}/{file}");
            kernel.put(&at("name"), &name);
            kernel.put(&at("max_energy_range_uj"), "262143328850");
            kernel.put(&at("energy_uj"), "1");
        }
    }
    let zones = energy_zones(&kernel).unwrap();
    let of = |nested: bool| zones.iter().filter(move |zone| zone.nested == nested);
    assert!(of(true).all(|zone| zone.name == "core") && of(true).count() == 18);
    let names: Vec<&str> = zones.iter().step_by(2).map(|zone| zone.name.as_str()).collect();
    assert_eq!(
        names,
        (0..18).map(|zone| format!("package-{zone}")).collect::<Vec<_>>(),
        "each before its parts"
    );
    assert_eq!(package_zones(&kernel).unwrap().len(), 18);
}

#[test]
fn energy_files_that_lie_are_errors_with_a_path() {
    let refused = |file: &str, content: &str| {
        let kernel = two_packages();
        let path = format!("sys/class/powercap/intel-rapl:1/{file}");
        kernel.put(&path, content);
        let meter = package_zones(&kernel).and_then(|zones| EnergyMeter::new(kernel, &zones));
        let error = meter.unwrap_err();
        assert!(matches!(&error, Error::Malformed { path: named, .. } if *named == path), "{error}");
    };
    refused("max_energy_range_uj", "0");
    refused("max_energy_range_uj", "");
    refused("energy_uj", "-5");
    refused("energy_uj", "1000001");
    let kernel = two_packages();
    let zones = package_zones(&kernel).unwrap();
    let mut meter = EnergyMeter::new(kernel.clone(), &zones).unwrap();
    // Changed while it is read: another counter than at the beginning.
    kernel.put("sys/class/powercap/intel-rapl:0/energy_uj", "99999999999");
    assert!(matches!(meter.read(), Err(Error::Malformed { .. })));
    kernel.close("intel-rapl:0/name");
    assert!(matches!(package_zones(&kernel), Err(Error::File { .. })));
}

#[test]
fn voltages_that_may_not_be_read_are_not_missing() {
    let kernel = Kernel::default();
    kernel.put("sys/kernel/debug/opp/cpu0/opp:1000000/supply-0/u_volt_target", "900000");
    assert_eq!(voltages(&kernel, 0).unwrap().len(), 1);
    kernel.close("u_volt_target");
    let error = voltages(&kernel, 0).unwrap_err();
    assert!(
        matches!(&error, Error::File { source, .. } if source.kind() == ErrorKind::PermissionDenied),
        "{error}"
    );
    // A device tree whose table is closed is no device tree without a table.
    let kernel = Kernel::new(ARM);
    kernel.close("opp-hz");
    let error = voltages(&kernel, 0).unwrap_err();
    assert!(matches!(&error, Error::File { path, .. } if path.ends_with("opp-hz")), "{error}");
}

#[test]
fn voltages_from_device_tree_and_debugfs() {
    let volts = |kernel: &Kernel, cpu| -> Vec<(f64, f64)> {
        voltages(kernel, cpu).unwrap().into_iter().map(|(f, Volts(v))| (f.ghz(), v)).collect()
    };
    let close = |got: &[(f64, f64)], expected: &[(f64, f64)]| {
        got.len() == expected.len()
            && got.iter().zip(expected).all(|(a, b)| (a.0 - b.0).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9)
    };
    let kernel = Kernel::new(ARM);
    assert!(close(&volts(&kernel, 0), &[(0.408, 0.825), (0.816, 0.825), (1.416, 1.125)]));
    assert!(close(&volts(&kernel, 4), &[(0.408, 0.8), (1.2, 0.95), (1.8, 1.2)]));
    // Debugfs closed: the device tree of the second cluster, which is cut off in the middle.
    kernel.close("opp/cpu4");
    let error = voltages(&kernel, 4).unwrap_err();
    assert!(matches!(&error, Error::Malformed { content, .. } if content == "2 bytes"), "{error}");
    kernel.close("opp/cpu0");
    assert!(close(&volts(&kernel, 0), &[(0.408, 0.825), (0.816, 0.825), (1.416, 1.125)]));
    kernel.close("opp-microvolt");
    assert!(matches!(voltages(&kernel, 0), Err(Error::File { .. })));
    for list in [INTEL, AMD] {
        let (_root, tree) = laid_out(list);
        let error = voltages(&tree, 0).unwrap_err();
        assert!(matches!(error, Error::Missing { what: "voltages", .. }), "{error}");
        assert!(error.to_string().contains("by hand"));
    }
}

#[test]
fn names_of_three_machines() {
    let name = |list| machine_name(&Kernel::new(list)).unwrap();
    assert_eq!(name(INTEL), "GenuineIntel 6 94 3 Intel(R) Core(TM) i7-6700 CPU @ 3.40GHz");
    assert_eq!(name(AMD), "AuthenticAMD 23 113 0 AMD Ryzen 7 3700X 8-Core Processor");
    assert_eq!(name(ARM), "Example RK3399 Board, 0x41 0xd03 0x0 4");
    let unknown = Kernel::new("proc/cpuinfo = cpu : 1\\n");
    assert!(matches!(machine_name(&unknown), Err(Error::Malformed { .. })));
    assert!(matches!(machine_name(&Kernel::default()), Err(Error::File { .. })));
}

#[test]
fn missing_and_damaged_cpufreq_is_reported() {
    let (_root, empty) = laid_out("proc/cpuinfo = x\\n");
    assert!(matches!(policies(&empty), Err(Error::Missing { what: "frequencies", .. })));
    let kernel = Kernel::new(AMD);
    let path = "sys/devices/system/cpu/cpufreq/policy0";
    kernel.put(&format!("{path}/scaling_available_frequencies"), "3600000 fast\n");
    let error = policies(&kernel).unwrap_err();
    assert!(matches!(&error, Error::Malformed { content, .. } if content == "fast"), "{error}");
    let kernel = Kernel::new(AMD);
    kernel.put(&format!("{path}/related_cpus"), "0-8\n");
    assert!(matches!(policies(&kernel), Err(Error::Malformed { .. })));
    let kernel = Kernel::new(AMD);
    kernel.close("cpuinfo_max_freq");
    assert!(matches!(policies(&kernel), Err(Error::File { operation: "read", .. })));
    let kernel = Kernel::new(AMD);
    kernel.close("cpufreq");
    assert!(matches!(policies(&kernel), Err(Error::File { operation: "list", .. })));
    let kernel = Kernel::new(AMD);
    kernel.files.borrow_mut().remove(&format!("{path}/scaling_governor"));
    let error = policies(&kernel).unwrap_err();
    assert!(error.to_string().contains("policy0/scaling_governor"), "{error}");
}

#[test]
fn policies_of_cores_that_are_offline_are_left_out() {
    let kernel = Kernel { offline: vec![1], ..Kernel::new(INTEL) };
    let found = policies(&kernel).unwrap();
    assert_eq!(found.iter().map(|policy| policy.number).collect::<Vec<_>>(), [0]);
    let mut pin = Pin::new(kernel.clone(), found).unwrap();
    pin.set(Hertz::from_ghz(2.0)).unwrap();
    pin.restore().unwrap();
    let none = Kernel { offline: vec![0, 1], ..Kernel::new(INTEL) };
    let error = policies(&none).unwrap_err().to_string();
    assert!(error.contains("policy0") && error.contains("bring a core online"), "{error}");
}

#[test]
fn cores_of_two_kinds_have_frequencies_in_common_or_are_chosen_between() {
    let kernel = Kernel::new(ARM);
    let all = policies(&kernel).unwrap();
    assert_eq!(common_frequencies(&all, 8), ghz(&[0.408]));
    assert_eq!(policies_of_this_process(&kernel).unwrap(), all, "nothing restricts it");
    let allow = |list: &str| {
        kernel
            .put("proc/self/status", &format!("Name:\tsh\nCpus_allowed:\t30\nCpus_allowed_list:\t{list}\n"));
        policies_of_this_process(&kernel)
    };
    assert_eq!(allow("0-5").unwrap(), all);
    let big = allow("5,7-9").unwrap();
    assert_eq!(common_frequencies(&big, 8), ghz(&[0.408, 1.2, 1.8]));
    let mut pin = Pin::new(kernel.clone(), big).unwrap();
    pin.set(Hertz::from_ghz(1.8)).unwrap();
    assert_eq!((kernel.limits(0), kernel.limits(4)), ((408_000, 1_416_000), (1_800_000, 1_800_000)));
    pin.restore().unwrap();
    assert!(matches!(allow("6-9"), Err(Error::Missing { .. })));
    assert!(matches!(allow("four"), Err(Error::Malformed { .. })));
}

#[test]
fn favoured_cores_do_not_choose_for_the_others() {
    // Under intel_pstate the best cores of one processor have a higher maximum.
    let kernel = Kernel::new(INTEL);
    kernel.put("sys/devices/system/cpu/cpufreq/policy1/cpuinfo_max_freq", "3800000\n");
    let found = policies(&kernel).unwrap();
    let steps = common_frequencies(&found, 3);
    assert_eq!(steps, ghz(&[0.8, 1.8, 2.8, 3.8]));
    let mut pin = Pin::new(kernel, found).unwrap();
    for frequency in steps {
        pin.set(frequency).unwrap();
    }
    assert!(common_frequencies(&[], 8).is_empty());
}

#[test]
fn a_turbo_that_is_listed_as_one_megahertz_more_is_no_frequency() {
    let found = |list: &str| {
        let kernel = Kernel::new(&AMD.replace("3600000 2800000 2200000", list));
        common_frequencies(&policies(&kernel).unwrap(), 8)
    };
    assert_eq!(found("3600000 3599000 2200000"), ghz(&[2.2, 3.599]));
    assert_eq!(found("3600000 3598000 2200000"), ghz(&[2.2, 3.598, 3.6]));
}

#[test]
fn a_pin_sets_and_restores_without_ever_crossing_the_limits() {
    let kernel = Kernel::new(INTEL);
    let before = (kernel.limits(0), kernel.limits(1));
    // Policy 1 is limited to 1.2 to 3.4 GHz: below, inside, above.
    for target in [0.8, 1.2, 2.0, 3.4, 4.0] {
        let mut pin = Pin::new(kernel.clone(), policies(&kernel).unwrap()).unwrap();
        assert_eq!((kernel.limits(0), kernel.limits(1)), before, "making a pin writes nothing");
        pin.set(Hertz::from_ghz(target)).unwrap();
        let khz = (target * 1e6) as u64;
        assert_eq!((kernel.limits(0), kernel.limits(1)), ((khz, khz), (khz, khz)));
        pin.set(Hertz::from_ghz(3.0)).unwrap();
        assert_eq!(kernel.limits(1), (3_000_000, 3_000_000));
        drop(pin);
        assert_eq!((kernel.limits(0), kernel.limits(1)), before, "from {target}");
    }
}

#[test]
fn a_frequency_cut_off_at_a_kilohertz_is_the_one_that_is_listed() {
    let list = AMD.replace("3600000 2800000 2200000", "2666666 1333333").replace("3600000", "2666666");
    let kernel = Kernel::new(&list.replace("2200000", "1333333"));
    let mut pin = Pin::new(kernel.clone(), policies(&kernel).unwrap()).unwrap();
    for (hertz, khz) in [(8e9 / 3.0, 2_666_666), (4e9 / 3.0, 1_333_333), (1.333_333e9, 1_333_333)] {
        pin.set(Hertz(hertz)).unwrap();
        assert_eq!(kernel.limits(0), (khz, khz));
    }
    assert!(matches!(pin.set(Hertz(2.6669e9)), Err(Error::NotOffered { .. })));
}

#[test]
fn a_panic_restores() {
    let kernel = Kernel::new(INTEL);
    let before = (kernel.limits(0), kernel.limits(1));
    let inside = std::panic::AssertUnwindSafe(|| {
        let mut pin = Pin::new(kernel.clone(), policies(&kernel).unwrap()).unwrap();
        pin.set(Hertz::from_ghz(1.0)).unwrap();
        assert_eq!(kernel.limits(0), (1_000_000, 1_000_000));
        panic!("in the middle of a measurement");
    });
    assert!(std::panic::catch_unwind(inside).is_err());
    assert_eq!((kernel.limits(0), kernel.limits(1)), before);
}

#[test]
fn a_restorer_restores_in_place_of_a_pin_that_never_drops() {
    let kernel = Kernel::new(AMD);
    let mut pin = Pin::new(kernel.clone(), policies(&kernel).unwrap()).unwrap();
    pin.set(Hertz::from_ghz(2.2)).unwrap();
    let restorer = pin.restorer();
    std::mem::forget(pin);
    assert_eq!(kernel.limits(0), (2_200_000, 2_200_000));
    restorer.restore().unwrap();
    assert_eq!(kernel.limits(0), (2_200_000, 3_600_000));
}

#[test]
fn what_is_not_offered_or_not_allowed_is_refused() {
    let kernel = Kernel::new(AMD);
    let before = kernel.limits(0);
    let mut pin = Pin::new(kernel.clone(), policies(&kernel).unwrap()).unwrap();
    for target in [2.0, 3.0, 4.0, f64::NAN] {
        let error = pin.set(Hertz::from_ghz(target)).unwrap_err();
        assert!(error.to_string().contains("it offers 2.2, 2.8, 3.6 GHz"), "{error}");
        assert_eq!(kernel.limits(0), before);
    }
    kernel.close("scaling_max_freq");
    let error = pin.set(Hertz::from_ghz(2.2)).unwrap_err();
    assert!(matches!(&error, Error::File { operation: "write", .. }), "{error}");
    assert!(error.to_string().contains("run as root to set the frequency"), "{error}");
    assert!(pin.restore().is_err());
    assert!(matches!(Pin::new(kernel, vec![]), Err(Error::Empty { .. })));
}

#[test]
fn a_tree_writes_only_what_is_there() {
    let (root, tree) = laid_out(AMD);
    assert_eq!(tree.root(), root.path());
    let before = policies(&tree).unwrap();
    let mut pin = Pin::new(tree.clone(), before.clone()).unwrap();
    pin.set(Hertz::from_ghz(2.8)).unwrap();
    assert_eq!(policies(&tree).unwrap()[0].limits, (Hertz(2.8e9), Hertz(2.8e9)));
    pin.restore().unwrap();
    assert_eq!(policies(&tree).unwrap(), before);
    let missing = tree.write("sys/class/powercap/none", "1").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

/// Run by the test below in a process of its own: pins, and waits to be killed.
#[test]
#[ignore = "a part of the next test"]
#[cfg(unix)]
fn pin_and_wait() {
    let Some(root) = std::env::var_os("PINNED_ROOT") else { return };
    let tree = Tree::new(root);
    let mut pin = Pin::guarded(tree.clone(), policies(&tree).unwrap()).unwrap();
    pin.set(Hertz::from_ghz(2.0)).unwrap();
    println!("pinned");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
#[cfg(unix)]
fn a_kill_restores_what_was_pinned() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let (root, tree) = laid_out(INTEL);
    let limits = || policies(&tree).unwrap().iter().map(|policy| policy.limits).collect::<Vec<_>>();
    let before = limits();
    let mut pinned = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "pin_and_wait", "--ignored", "--nocapture"])
        .env("PINNED_ROOT", root.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(pinned.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("pinned")));
    assert!(limits().iter().all(|&limit| limit == (Hertz(2e9), Hertz(2e9))));
    // SIGKILL.
    pinned.kill().unwrap();
    pinned.wait().unwrap();
    let begin = Instant::now();
    // Files that are being written may be empty for a moment.
    let restored =
        || policies(&tree).is_ok_and(|found| found.iter().map(|p| p.limits).eq(before.iter().copied()));
    while !restored() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", limits());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
#[cfg(unix)]
fn a_guarded_pin_that_ends_well_leaves_nothing_behind() {
    let (_root, tree) = laid_out(AMD);
    let before = policies(&tree).unwrap();
    let mut pin = Pin::guarded(tree.clone(), before.clone()).unwrap();
    pin.set(Hertz::from_ghz(2.8)).unwrap();
    pin.restore().unwrap();
    assert_eq!(policies(&tree).unwrap(), before);
    // The guard is gone: what is set from now on stays.
    let mut other = Pin::new(tree.clone(), before).unwrap();
    other.set(Hertz::from_ghz(2.2)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(policies(&tree).unwrap()[0].limits, (Hertz(2.2e9), Hertz(2.2e9)));
}

/// A laptop whose batteries are emptied, currents as the kernel's documentation has them, with a mouse.
const BATTERIES: &str = "sys/class/power_supply/AC/type = Mains
sys/class/power_supply/BAT0/type = Battery
sys/class/power_supply/BAT0/status = Discharging
sys/class/power_supply/BAT0/current_now = -1500000
sys/class/power_supply/BAT0/voltage_now = 12000000
sys/class/power_supply/BAT1/type = Battery
sys/class/power_supply/BAT1/scope = System
sys/class/power_supply/BAT1/status = Not charging
sys/class/power_supply/BAT1/power_now = 9000000
sys/class/power_supply/hidpp_battery_0/type = Battery
sys/class/power_supply/hidpp_battery_0/scope = Device
sys/class/power_supply/hidpp_battery_0/status = Discharging
sys/class/power_supply/hidpp_battery_0/power_now = 700000";

#[test]
fn batteries_are_read_as_long_as_they_are_emptied() {
    let kernel = Kernel::new(BATTERIES);
    let put = |battery: u32, file: &str, text: &str| {
        kernel.put(&format!("sys/class/power_supply/BAT{battery}/{file}"), text);
    };
    let mut meter = PowerMeter::find(kernel.clone(), Duration::ZERO).unwrap();
    assert_eq!(meter.name(), "battery BAT0, battery BAT1");
    assert_eq!(meter.read(Duration::from_secs(1)).unwrap(), Joules(18.0));
    // One of two takes over from the other.
    put(0, "status", "Not charging");
    put(1, "status", "Discharging");
    put(1, "power_now", "-9000000");
    assert_eq!(meter.read(Duration::from_secs(2)).unwrap(), Joules(18.0 + 13.5));
    // Somebody plugs it in.
    put(1, "status", "Charging");
    let error = meter.read(Duration::from_secs(3)).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
    assert!(error.to_string().contains("off the mains"), "{error}");
    assert!(matches!(PowerMeter::find(kernel, Duration::ZERO), Err(Error::Missing { .. })));
}

#[test]
fn what_a_monitor_shows_twice_counts_once_and_only_if_it_is_the_processors() {
    // Power is voltage times current of the same rail; the current of the other device is of a fan.
    let kernel = Kernel::new(
        "sys/class/hwmon/hwmon0/name = zenpower
sys/class/hwmon/hwmon0/in1_label = SVI2_Core
sys/class/hwmon/hwmon0/in1_input = 1200
sys/class/hwmon/hwmon0/curr1_label = SVI2_C_Core
sys/class/hwmon/hwmon0/curr1_input = 20000
sys/class/hwmon/hwmon0/power1_label = SVI2_P_Core
sys/class/hwmon/hwmon0/power1_input = 24000000
sys/class/hwmon/hwmon0/temp1_label = cpu0 Tctl
sys/class/hwmon/hwmon0/temp1_input = 70000
sys/class/hwmon/hwmon0/temp2_label = cpu0 Tdie
sys/class/hwmon/hwmon0/temp2_input = 60000
sys/class/hwmon/hwmon1/name = board
sys/class/hwmon/hwmon1/in1_label = CPU Core
sys/class/hwmon/hwmon1/in1_input = 1200
sys/class/hwmon/hwmon1/curr1_label = Chassis Fan
sys/class/hwmon/hwmon1/curr1_input = 300",
    );
    let mut meter = PowerMeter::find(kernel.clone(), Duration::ZERO).unwrap();
    assert_eq!(meter.name(), "zenpower SVI2_P_Core");
    assert_eq!(meter.read(Duration::from_secs(1)).unwrap(), Joules(24.0));
    let kelvin = Thermometer::find(kernel).unwrap().read().unwrap();
    assert!((kelvin.0 - 333.15).abs() < 1e-9, "{kelvin:?}");
}

#[test]
fn thermal_zones_of_processors_by_the_names_of_their_boards() {
    let zones =
        ["CPU-therm", "cpu0_thermal", "GPU-therm", "soc-thermal", "cpufreq-limit", "PMIC-Die", "iwlwifi_1"];
    let kernel = Kernel::default();
    for (number, (kind, degrees)) in zones.iter().zip([50, 60, 90, 70, 0, 90, 90]).enumerate() {
        kernel.put(&format!("sys/class/thermal/thermal_zone{number}/type"), kind);
        kernel.put(&format!("sys/class/thermal/thermal_zone{number}/temp"), &format!("{degrees}000"));
    }
    let kelvin = Thermometer::find(kernel).unwrap().read().unwrap();
    assert!((kelvin.0 - 333.15).abs() < 1e-9, "{kelvin:?}");
}
