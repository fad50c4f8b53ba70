//! Sysfs of three machines, laid out in a directory; missing, damaged and closed files; and a kernel that refuses
//! what kernels refuse.
#![cfg(feature = "linux")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/kernel.rs"]
mod kernel;

use std::io::ErrorKind;
use std::time::Duration;

use kernel::{AMD, ARM, INTEL, Kernel, laid_out};
use powersleuth::linux::{
    Files, Pin, Tree, common_frequencies, machine_name, policies, policies_of_this_process, voltages,
};
use powersleuth::{Error, Hertz, Volts};

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
