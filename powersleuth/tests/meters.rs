//! What meters and thermometers read from the files of machines, in a directory or in memory.
#![cfg(feature = "linux")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/kernel.rs"]
mod kernel;

use std::io::ErrorKind;
use std::time::Duration;

use kernel::{AMD, ARM, INTEL, Kernel, laid_out};
use powersleuth::linux::{EnergyMeter, PowerMeter, Thermometer, energy_zones, package_zones};
use powersleuth::{Error, Joules, Watts};

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
