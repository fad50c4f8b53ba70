//! Schedules followed on a directory laid out as sysfs.
#![cfg(feature = "linux")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use powersleuth::analysis::{Analysis, Cost, Goal, Objective, Schedule};
use powersleuth::linux::{Follower, Pin, Tree, policies};
use powersleuth::{Error, Hertz, Joules, Seconds};
use tempfile::TempDir;

const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

/// A policy of 1 to 3 GHz under `driver` and `governor`.
fn laid_out(driver: &str, governor: &str, listed: &str) -> (TempDir, Tree) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(POLICY);
    fs::create_dir_all(&folder).unwrap();
    let put = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
    put("related_cpus", "0 1\n");
    put("scaling_driver", driver);
    put("scaling_governor", governor);
    put("cpuinfo_min_freq", "1000000\n");
    put("cpuinfo_max_freq", "3000000\n");
    put("scaling_min_freq", "1000000\n");
    put("scaling_max_freq", "3000000\n");
    if !listed.is_empty() {
        put("scaling_available_frequencies", listed);
    }
    let tree = Tree::new(root.path());
    (root, tree)
}

/// `slow` is cheapest at 1 GHz, `fast` at 3.
fn schedule() -> Schedule<&'static str> {
    let cost = |s, j| Cost { time: Seconds(s), energy: Joules(j) };
    let frequencies = [1.0, 2.0, 3.0].map(Hertz::from_ghz);
    let rising = [cost(1.0, 1.0), cost(1.0, 2.0), cost(1.0, 3.0)];
    let falling = [cost(3.0, 9.0), cost(2.0, 8.0), cost(1.0, 1.0)];
    let intervals = [("slow", 1e9, rising), ("fast", 1e9, falling)];
    Analysis::from_costs(&frequencies, intervals).unwrap().schedule(&Goal::least(Objective::Energy))
}

fn limits(root: &TempDir) -> [u64; 2] {
    ["scaling_min_freq", "scaling_max_freq"]
        .map(|file| fs::read_to_string(root.path().join(POLICY).join(file)).unwrap().trim().parse().unwrap())
}

#[test]
fn each_driver_follows_and_is_left_as_it_was() {
    let drivers = [
        ("acpi-cpufreq", "userspace", "3000000 2000000 1000000\n"),
        ("acpi-cpufreq", "schedutil", "3000000 2000000 1000000\n"),
        ("intel_pstate", "powersave", ""),
        ("amd-pstate-epp", "powersave", ""),
    ];
    for (driver, governor, listed) in drivers {
        let (root, tree) = laid_out(driver, governor, listed);
        let pin = Pin::guarded(tree.clone(), policies(&tree).unwrap()).unwrap();
        let mut follower = Follower::new(pin, schedule(), 0).unwrap();
        assert_eq!(limits(&root), [1_000_000, 3_000_000], "nothing is written before a phase comes");
        let phases = [Some("slow"), Some("slow"), Some("fast"), None, Some("unknown"), Some("slow")];
        let expected = [1, 1, 3, 3, 3, 1].map(|ghz| ghz * 1_000_000);
        for (phase, khz) in phases.iter().zip(expected) {
            follower.enter(phase.as_ref()).unwrap();
            assert_eq!(limits(&root), [khz, khz], "{driver}: {phase:?}");
        }
        assert_eq!(follower.changes(), 2);
        drop(follower);
        assert_eq!(limits(&root), [1_000_000, 3_000_000], "{driver}");
    }
}

#[test]
fn a_dwell_holds_back_what_lowers_and_nothing_that_raises() {
    let (root, tree) = laid_out("acpi-cpufreq", "schedutil", "");
    let pin = Pin::new(tree.clone(), policies(&tree).unwrap()).unwrap();
    let mut follower = Follower::new(pin, schedule(), 3).unwrap();
    let mut seen = Vec::new();
    for phase in ["slow", "fast", "slow", "slow", "slow", "fast"] {
        seen.push(follower.enter(Some(&phase)).unwrap().unwrap().ghz() as u32);
    }
    assert_eq!(seen, [1, 3, 3, 3, 1, 3]);
    follower.stop().unwrap();
    assert_eq!(limits(&root), [1_000_000, 3_000_000]);
}

#[test]
fn a_frequency_that_is_not_there_is_refused_before_anything_is_written() {
    let (root, tree) = laid_out("acpi-cpufreq", "schedutil", "2000000 1000000\n");
    let pin = Pin::new(tree.clone(), policies(&tree).unwrap()).unwrap();
    assert!(matches!(Follower::new(pin, schedule(), 0), Err(Error::NotOffered { .. })));
    assert_eq!(limits(&root), [1_000_000, 3_000_000]);
}
