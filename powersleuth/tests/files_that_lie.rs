//! Every reader of the system's files against every file it touches, forbidden, broken, empty, or holding something else:
//! a typed error that names the file, or the result it would have without needing it; never "none".
#![cfg(feature = "linux")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, thread};

use powersleuth::Error;
use powersleuth::linux::{
    EnergyMeter, Files, PowerMeter, Thermometer, Tree, energy_zones, machine_name, package_zones, policies,
    voltages,
};

/// What is wrong with one path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    Forbidden,
    Broken,
    Gone,
    Empty,
    Words,
    Negative,
    Huge,
    Bytes,
}

/// A tree of files, one of which lies. Remembers what was touched.
#[derive(Clone, Default)]
struct Lying {
    files: Rc<BTreeMap<String, String>>,
    lie: Option<(String, Lie)>,
    touched: Rc<RefCell<BTreeSet<String>>>,
    on_disk: Option<Tree>, // instead
}

impl Lying {
    fn refuse(&self, path: &str) -> io::Result<()> {
        self.touched.borrow_mut().insert(path.to_owned());
        match &self.lie {
            Some((lying, Lie::Forbidden)) if lying == path => Err(ErrorKind::PermissionDenied.into()),
            Some((lying, Lie::Broken)) if lying == path => Err(io::Error::from_raw_os_error(5)),
            Some((lying, Lie::Gone)) if lying == path => Err(ErrorKind::NotFound.into()),
            _ => Ok(()),
        }
    }
}

impl Files for Lying {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.refuse(path)?;
        if let Some(tree) = &self.on_disk {
            return tree.read(path);
        }
        let content = self.files.get(path).ok_or(ErrorKind::NotFound)?;
        let lie = self.lie.as_ref().filter(|(lying, _)| lying == path).map(|(_, lie)| *lie);
        Ok(match lie {
            Some(Lie::Empty) => Vec::new(),
            Some(Lie::Words) => b"soon\n".to_vec(),
            Some(Lie::Negative) => b"-5\n".to_vec(),
            Some(Lie::Huge) => b"99999999999999999999999\n".to_vec(),
            Some(Lie::Bytes) => vec![0xff, 0xfe, 0x00, 0x80],
            _ => content.clone().into_bytes(),
        })
    }

    fn write(&self, path: &str, _: &str) -> io::Result<()> {
        panic!("{path} is not to be written")
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.refuse(directory)?;
        if let Some(tree) = &self.on_disk {
            return tree.list(directory);
        }
        let inside = self.files.keys().filter_map(|path| path.strip_prefix(directory)?.strip_prefix('/'));
        let names: BTreeSet<String> =
            inside.filter_map(|rest| Some(rest.split('/').next()?.to_owned())).collect();
        if names.is_empty() { Err(ErrorKind::NotFound.into()) } else { Ok(names.into_iter().collect()) }
    }
}

/// A machine with everything: the first part of each line is a path.
const MACHINE: &str = "
proc/cpuinfo vendor_id\t: GenuineIntel\\ncpu family\t: 6\\nmodel\t: 85\\nstepping\t: 4\\nmodel name\t: Xeon
sys/devices/system/cpu/cpufreq/policy0/related_cpus 0 1
sys/devices/system/cpu/cpufreq/policy0/scaling_driver intel_pstate
sys/devices/system/cpu/cpufreq/policy0/scaling_governor powersave
sys/devices/system/cpu/cpufreq/policy0/scaling_available_frequencies 1000000 2000000
sys/devices/system/cpu/cpufreq/policy0/cpuinfo_min_freq 1000000
sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq 2000000
sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq 1000000
sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq 2000000
sys/kernel/debug/opp/cpu0/opp:1000000000/supply-0/u_volt_target 800000
sys/kernel/debug/opp/cpu0/opp:2000000000/supply-0/u_volt_target 1100000
sys/class/powercap/intel-rapl:0/name package-0
sys/class/powercap/intel-rapl:0/max_energy_range_uj 262143328850
sys/class/powercap/intel-rapl:0/energy_uj 1000
sys/class/powercap/intel-rapl:1/name package-1
sys/class/powercap/intel-rapl:1/max_energy_range_uj 262143328850
sys/class/powercap/intel-rapl:1/energy_uj 2000
sys/class/hwmon/hwmon0/name acpitz
sys/class/hwmon/hwmon0/temp1_input 20000
sys/class/hwmon/hwmon1/name coretemp
sys/class/hwmon/hwmon1/temp1_label Package id 0
sys/class/hwmon/hwmon1/temp1_input 50000
sys/class/hwmon/hwmon1/temp2_label Core 0
sys/class/hwmon/hwmon1/temp2_input 90000
sys/class/hwmon/hwmon2/name coretemp
sys/class/hwmon/hwmon2/temp1_label Package id 1
sys/class/hwmon/hwmon2/temp1_input 60000
";
/// Machines without counters of energy: a board with monitors, and a laptop.
const BOARD: &str = "
sys/class/hwmon/hwmon0/name ina3221
sys/class/hwmon/hwmon0/in1_label VDD_CPU
sys/class/hwmon/hwmon0/in1_input 5000
sys/class/hwmon/hwmon0/curr1_input 800
sys/class/hwmon/hwmon0/in2_label VDD_GPU
sys/class/hwmon/hwmon0/in2_input 5000
sys/class/hwmon/hwmon0/curr2_input 9000
sys/bus/iio/devices/iio:device0/in_power1_label vdd_cpu_b
sys/bus/iio/devices/iio:device0/in_power1_raw 250
sys/bus/iio/devices/iio:device0/in_power1_scale 2.0
sys/class/thermal/thermal_zone0/type cpu-thermal
sys/class/thermal/thermal_zone0/temp 41000
";
const LAPTOP: &str = "
sys/class/power_supply/AC/type Mains
sys/class/power_supply/BAT0/type Battery
sys/class/power_supply/BAT0/status Discharging
sys/class/power_supply/BAT0/current_now 1500000
sys/class/power_supply/BAT0/voltage_now 12000000
";

fn tree(list: &str) -> Lying {
    let file = |line: &str| {
        let (path, content) = line.split_once(' ')?;
        Some((path.to_owned(), content.replace("\\n", "\n") + "\n"))
    };
    Lying { files: Rc::new(list.lines().filter_map(file).collect()), ..Lying::default() }
}

type Reader = fn(Lying) -> Result<String, Error>;

/// All readers, each as what it found in words.
const READERS: [(&str, &str, Reader); 9] = [
    ("machine_name", MACHINE, |files| machine_name(&files)),
    ("policies", MACHINE, |files| policies(&files).map(|p| format!("{p:?}"))),
    ("voltages", MACHINE, |files| voltages(&files, 0).map(|v| format!("{v:?}"))),
    ("energy_zones", MACHINE, |files| energy_zones(&files).map(|z| format!("{z:?}"))),
    ("energy meter", MACHINE, |files| {
        let mut meter = EnergyMeter::new(files.clone(), &package_zones(&files)?)?;
        meter.read().map(|joules| format!("{joules:?}"))
    }),
    ("power meter", MACHINE, measured),
    ("power meter of a board", BOARD, measured),
    ("power meter of a laptop", LAPTOP, measured),
    ("thermometer", MACHINE, |files| Thermometer::find(files)?.read().map(|kelvin| format!("{kelvin:.2}"))),
];

fn measured(files: Lying) -> Result<String, Error> {
    let mut meter = PowerMeter::find(files, Duration::ZERO)?;
    let joules = meter.read(Duration::from_secs(2))?;
    Ok(format!("{joules:.3} by {}", meter.name()))
}

#[test]
fn what_the_readers_find_where_nothing_lies() {
    let found = |name: &str| {
        let (_, list, read) = READERS.into_iter().find(|(known, ..)| *known == name).unwrap();
        read(tree(list)).unwrap()
    };
    assert_eq!(found("thermometer"), "328.15 K");
    // 5 V x 0.8 A and 250 x 2 mW for two seconds; the graphics processor is none.
    assert_eq!(found("power meter of a board"), "9.000 J by ina3221 VDD_CPU, IIO vdd_cpu_b");
    assert_eq!(found("power meter of a laptop"), "36.000 J by battery BAT0");
    assert_eq!(found("power meter"), "0.000 J by RAPL, 2 zone(s) of powercap");
    let zone = Thermometer::find(tree(BOARD)).unwrap().read().unwrap();
    assert!((zone.0 - 314.15).abs() < 1e-9);
}

#[test]
fn no_file_that_lies_reads_as_none() {
    let lies = [
        Lie::Forbidden,
        Lie::Broken,
        Lie::Gone,
        Lie::Empty,
        Lie::Words,
        Lie::Negative,
        Lie::Huge,
        Lie::Bytes,
    ];
    let mut tried = 0;
    for (name, list, read) in READERS {
        let honest = tree(list);
        let truth = read(honest.clone()).unwrap();
        let touched = honest.touched.borrow().clone();
        assert!(touched.len() > 1 || name == "machine_name" || !touched.is_empty());
        for path in touched {
            for lie in lies {
                let lying = Lying { lie: Some((path.clone(), lie)), ..tree(list) };
                tried += 1;
                let case = format!("{name}: {path} {lie:?}");
                match read(lying) {
                    // Something else told the same, or what the file says is as good a name as any.
                    Ok(found) => {
                        let named = ["name", "label", "driver", "governor", "cpuinfo", "type", "status"];
                        let word = matches!(lie, Lie::Words | Lie::Negative | Lie::Huge);
                        let free = word && named.iter().any(|ending| path.ends_with(ending));
                        // Below freezing is a temperature; by the kernel's documentation, what empties a battery is
                        // negative.
                        let negative = path.contains("/temp") || path.ends_with("/current_now");
                        let free = free || (lie == Lie::Negative && negative);
                        // A file that is not there may be one that other machines lack too.
                        assert!(found == truth || free || lie == Lie::Gone, "{case}: {found}, not {truth}");
                    }
                    Err(error @ (Error::File { .. } | Error::Malformed { .. })) => {
                        let told = error.to_string();
                        // Where a sensor's type is misread, its files are not looked for.
                        assert!(told.contains(&path) && told.len() > path.len() + 20, "{case}: {told}");
                    }
                    Err(Error::Missing { .. }) => {
                        let named = ["name", "label", "type", "status"].iter().any(|end| path.ends_with(end));
                        let word = matches!(lie, Lie::Words | Lie::Negative | Lie::Huge);
                        assert!(lie == Lie::Gone || (word && named), "{case} reads as none");
                    }
                    Err(other) => panic!("{case}: {other}"),
                }
            }
        }
    }
    assert!(tried > 400, "{tried}");
}

/// What stands in place of a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Instead {
    /// A pipe into which nobody writes.
    Pipe,
    /// A device that never ends.
    Endless,
    /// A link to itself, which root cannot read either.
    Loop,
    /// A folder for a file, a file for a folder.
    Other,
}

#[test]
fn what_is_no_file_is_named_and_not_waited_for() {
    let mut tried = 0;
    for (name, list, read) in READERS {
        let honest = tree(list);
        let truth = read(honest.clone()).unwrap();
        for path in honest.touched.take() {
            let is_file = honest.files.contains_key(&path);
            let inside = format!("{path}/");
            if !is_file && !honest.files.keys().any(|file| file.starts_with(&inside)) {
                continue;
            }
            for instead in [Instead::Pipe, Instead::Endless, Instead::Loop, Instead::Other] {
                let root = tempfile::tempdir().unwrap();
                let at = root.path().join(&path);
                let others =
                    honest.files.iter().filter(|(file, _)| **file != path && !file.starts_with(&inside));
                for (file, content) in others {
                    let file = root.path().join(file);
                    fs::create_dir_all(file.parent().unwrap()).unwrap();
                    fs::write(file, content).unwrap();
                }
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                match instead {
                    Instead::Pipe => assert!(Command::new("mkfifo").arg(&at).status().unwrap().success()),
                    Instead::Endless => symlink("/dev/zero", &at).unwrap(),
                    Instead::Loop => symlink(&at, &at).unwrap(),
                    Instead::Other if is_file => fs::create_dir(&at).unwrap(),
                    Instead::Other => fs::write(&at, "0\n").unwrap(),
                }
                tried += 1;
                let (tell, told) = mpsc::channel();
                let on_disk = Some(Tree::new(root.path()));
                thread::spawn(move || tell.send(read(Lying { on_disk, ..Lying::default() })));
                let case = format!("{name}: {path} {instead:?}");
                match told.recv_timeout(Duration::from_secs(60)).expect(&case) {
                    // Another file told the same.
                    Ok(found) => assert_eq!(found, truth, "{case}"),
                    Err(error) => {
                        assert!(matches!(error, Error::File { .. }), "{case}: {error}");
                        assert!(error.to_string().contains(&path), "{case}: {error}");
                    }
                }
            }
        }
    }
    assert!(tried > 150, "{tried}");
}

#[test]
fn a_counter_that_is_set_back_is_no_wrap() {
    #[derive(Clone)]
    struct Counter(Rc<RefCell<u64>>);
    impl Files for Counter {
        fn read(&self, path: &str) -> io::Result<Vec<u8>> {
            let text = match path.rsplit('/').next() {
                Some("name") => "package-0".to_owned(),
                Some("max_energy_range_uj") => "262143328850".to_owned(),
                _ => self.0.borrow().to_string(),
            };
            Ok(text.into_bytes())
        }
        fn write(&self, _: &str, _: &str) -> io::Result<()> {
            Err(ErrorKind::PermissionDenied.into())
        }
        fn list(&self, directory: &str) -> io::Result<Vec<String>> {
            if directory.ends_with("powercap") {
                Ok(vec!["intel-rapl:0".to_owned()])
            } else {
                Err(ErrorKind::NotFound.into())
            }
        }
    }
    let counter = Counter(Rc::new(RefCell::new(5_000_000)));
    let mut meter = PowerMeter::find(counter.clone(), Duration::ZERO).unwrap();
    *counter.0.borrow_mut() = 105_000_000;
    assert!((meter.read(Duration::from_secs(1)).unwrap().0 - 100.0).abs() < 1e-9);
    // The driver was loaded again: 157 kJ in a second.
    *counter.0.borrow_mut() = 0;
    let error = meter.read(Duration::from_secs(2)).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { .. }) && error.to_string().contains("set back"), "{error}");
    *counter.0.borrow_mut() = 50_000_000;
    assert!(meter.read(Duration::from_secs(3)).is_ok());
}
