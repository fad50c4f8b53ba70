//! The native testbed's parts: sysfs trees of machines we do not have, and a real measurement of a real process.

#![cfg(target_os = "linux")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use cache_pirate::native::topology::{Topology, Warning};
use cache_pirate::native::{
    FileCounter, IoBytes, NativeParams, NativeTestbed, Placement, Progress, ProgressCounter, ping_pong,
};
use cache_pirate::{Pace, PirateError, PirateParams, Testbed, Threads, measure};

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

/// A processor with a private 48 KiB first and 1 MiB second level and a share of a last one.
fn write_cpu(root: &Path, id: usize, core: &str, last: &str, last_bytes: &str) {
    let cpu = format!("sys/devices/system/cpu/cpu{id}");
    write(root, &format!("{cpu}/topology/core_cpus_list"), core);
    for (index, kind, level, size, shared) in [
        (0, "Data", "1", "48K", core),
        (1, "Instruction", "1", "32K", core),
        (2, "Unified", "2", "1024K", core),
        (3, "Unified", "3", last_bytes, last),
    ] {
        for (file, text) in [("type", kind), ("level", level), ("size", size), ("shared_cpu_list", shared)] {
            write(root, &format!("{cpu}/cache/index{index}/{file}"), text);
        }
        write(root, &format!("{cpu}/cache/index{index}/coherency_line_size"), "64");
        write(root, &format!("{cpu}/cache/index{index}/ways_of_associativity"), "16");
    }
}

#[test]
fn two_sockets_with_two_threads_a_core() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    // Cores (0, 4), (1, 5) on one socket, (2, 6), (3, 7) on the other.
    for id in 0..8 {
        let core = format!("{},{}", id % 4, id % 4 + 4);
        let last = if id % 4 < 2 { "0-1,4-5" } else { "2-3,6-7" };
        write_cpu(root, id, &core, last, "24M");
    }
    write(root, "sys/devices/system/cpu/cpufreq/boost", "1"); // not a processor
    write(root, "sys/devices/system/cpu/cpu6/online", "0");
    for (file, text) in
        [("scaling_governor", "schedutil"), ("scaling_min_freq", "800000"), ("scaling_max_freq", "3600000")]
    {
        write(root, &format!("sys/devices/system/cpu/cpu0/cpufreq/{file}"), text);
    }
    write(
        root,
        "proc/cpuinfo",
        "processor : 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t: fpu sse",
    );

    let topology = Topology::read(root).unwrap();
    let online: Vec<usize> = topology.cpus().iter().map(|cpu| cpu.id).collect();
    assert_eq!(online, [0, 1, 2, 3, 4, 5, 7]);
    assert_eq!(topology.companions(0), [1], "another core of the socket, once");
    assert_eq!(topology.companions(5), [0]);
    assert_eq!(topology.companions(7), [2]);
    assert_eq!(topology.companions(6), [], "offline");
    let last = topology.last_level(0).unwrap();
    assert_eq!((last.level, last.bytes, last.line_size, last.ways), (3, 24 << 20, 64, Some(16)));
    assert_eq!(topology.private_bytes(0), 1 << 20);
    assert_eq!(
        topology.warnings(0),
        [
            Warning::CoreShared { siblings: vec![4] },
            Warning::FrequencyVaries { governor: "schedutil".into(), lowest: 800_000, highest: 3_600_000 },
            Warning::NotInclusive { private_bytes: 1 << 20 },
        ]
    );
    for warning in topology.warnings(0) {
        assert!(warning.to_string().len() > 20);
    }
}

#[test]
fn an_inclusive_machine_and_a_virtual_one() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for id in 0..4 {
        write_cpu(root, id, &id.to_string(), "0-3", "16M");
    }
    let topology = |flags: &str| {
        let text = format!("vendor_id : GenuineIntel\ncpu family : 6\nflags : {flags}");
        write(root, "proc/cpuinfo", &text);
        Topology::read(root).unwrap()
    };
    assert_eq!(topology("fpu avx2").warnings(0), []);
    assert_eq!(topology("fpu hypervisor").warnings(0), [Warning::Virtual]);
    let server = Warning::NotInclusive { private_bytes: 1 << 20 };
    assert_eq!(topology("fpu avx512f").warnings(0), [server]);
    assert_eq!(topology("fpu").companions(2), [0, 1, 3]);

    // Private caches of 4 MiB under a last level of 6 MiB can hardly be included.
    for id in 0..4 {
        write_cpu(root, id, &id.to_string(), "0-3", "6M");
    }
    assert_eq!(topology("fpu").warnings(0), [Warning::NotInclusive { private_bytes: 1 << 20 }]);
}

#[test]
fn a_tree_without_processors_is_refused() {
    let root = tempfile::tempdir().unwrap();
    assert!(matches!(Topology::read(root.path()), Err(PirateError::System { .. })));
    fs::create_dir_all(root.path().join("sys/devices/system/cpu")).unwrap();
    assert!(matches!(Topology::read(root.path()), Err(PirateError::System { .. })));
    // A processor of which nothing else is known has no caches to share.
    write(root.path(), "sys/devices/system/cpu/cpu0/online", "1");
    let topology = Topology::read(root.path()).unwrap();
    assert_eq!((topology.companions(0), topology.warnings(0)), (vec![], vec![]));
    let params = NativeParams { root: root.path().to_owned(), ..NativeParams::default() };
    let error = NativeTestbed::attach(std::process::id() as i32, params).err().unwrap();
    assert!(matches!(error, PirateError::Machine { cpu: 0, .. }), "{error}");
}

#[test]
fn counters_of_progress_are_read_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("progress");
    let mut counter = FileCounter::open(&path).unwrap();
    assert_eq!(counter.read().unwrap(), 0);
    fs::write(&path, 77_u64.to_ne_bytes()).unwrap();
    assert_eq!(counter.read().unwrap(), 77);
    assert!(FileCounter::open(&folder.path().join("no/such")).is_err());

    let Ok(before) = IoBytes::of(std::process::id() as i32).read() else { return };
    fs::write(folder.path().join("bytes"), vec![0; 100_000]).unwrap();
    let after = IoBytes::of(std::process::id() as i32).read().unwrap();
    assert!(after - before >= 100_000);
    assert_eq!(IoBytes::of(1 << 30).read().unwrap(), 0, "nobody there: no progress");
}

/// Two processors, if there are two.
fn two_cpus() -> Option<(usize, usize)> {
    let cpus: Vec<usize> = Topology::of_this_machine().unwrap().cpus().iter().map(|cpu| cpu.id).collect();
    (cpus.len() > 1).then(|| (cpus[0], cpus[1]))
}

#[test]
fn a_line_needs_time_to_go_to_another_core_and_back() {
    let Some((one, other)) = two_cpus() else { return };
    // Under load the two may not have run together long enough to tell.
    if let Some(time) = ping_pong(one, other).unwrap() {
        assert!(time > 0.0 && time < 1e9);
    }
    assert!(ping_pong(one, 100_000).is_err());
}

#[test]
fn how_a_program_ended_and_what_it_moved_is_known() {
    let Some((target_cpu, pirate_cpu)) = two_cpus() else { return };
    let params = || NativeParams {
        target_cpu: Some(target_cpu),
        pirate_cpus: Some(vec![pirate_cpu]),
        cache_bytes: Some(1 << 20),
        progress: Progress::TaskClock,
        shared_round_trip: None,
        ..NativeParams::default()
    };
    let ended = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::null());
        let mut testbed = NativeTestbed::spawn(command, params()).unwrap();
        testbed.wait().unwrap();
        testbed.ended().unwrap()
    };
    // What its children moved counts, once it has waited for them.
    let of_child = ended("sleep .1; head -c 300000 /dev/zero; exit 3");
    assert_eq!(of_child.status.code(), Some(3));
    assert!(of_child.bytes.is_none_or(|bytes| bytes >= 600_000), "{of_child:?}");
    let killed = ended("sleep .1; kill -9 $$");
    assert!(killed.status.code().is_none() && killed.bytes.is_none_or(|bytes| bytes < 300_000), "{killed:?}");
    if of_child.bytes.is_none() {
        eprintln!("the kernel does not say what processes read and write");
    }
}

/// Not a test of its own: the target. Reads words of 1 MiB at random and counts them in a file.
#[test]
fn walking_process() {
    let Ok(path) = std::env::var("CACHE_PIRATE_TEST_PROGRESS") else { return };
    let file = fs::File::options().write(true).open(path).unwrap();
    let words: Vec<u64> = (0..1 << 17).collect();
    let (mut at, mut done) = (1_u64, 0_u64);
    loop {
        for _ in 0..100_000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(words[(at >> 47) as usize] | 1);
        }
        black_box(at);
        done += 100_000;
        file.write_all_at(&done.to_ne_bytes(), 0).unwrap();
    }
}

fn measure_walker(placement: Placement) {
    let Some((target_cpu, pirate_cpu)) = two_cpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("progress");
    fs::write(&path, (1_u64 << 40).to_ne_bytes()).unwrap(); // as an earlier run may have left it
    let params = NativeParams {
        target_cpu: Some(target_cpu),
        pirate_cpus: Some(vec![pirate_cpu]),
        cache_bytes: Some(4 << 20),
        placement,
        progress: Progress::Counter(Box::new(FileCounter::open(&path).unwrap())),
        ..NativeParams::default()
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "walking_process", "--test-threads", "1"]);
    command.env("CACHE_PIRATE_TEST_PROGRESS", &path).stdout(Stdio::null()).stderr(Stdio::null());
    let mut testbed = match NativeTestbed::spawn(command, params) {
        // Real-time priority is a privilege.
        Err(error @ PirateError::System { operation: "run under SCHED_FIFO:", .. }) => {
            eprintln!("{error}: nothing to test");
            return;
        }
        testbed => testbed.unwrap(),
    };
    let plan = PirateParams {
        sizes: Some(vec![1 << 20, 2 << 20, 4 << 20]),
        interval: Some(500_000.0),
        target_warm_up: Some(500_000.0),
        pirate_warm_up: 3,
        threads: Threads::Fixed(1),
        cycles: Some(2),
        pace: Pace::Continuous,
        ..PirateParams::default()
    };
    let plan = plan.check(testbed.cache()).unwrap();
    let run = measure(&mut testbed, &plan).unwrap();
    assert!(!run.ended);
    assert_eq!(run.intervals.len(), 6);
    let curve = run.curve().unwrap();
    let sizes: Vec<u64> = curve.points().iter().map(|point| point.bytes).collect();
    assert_eq!(sizes, [1 << 20, 2 << 20, 4 << 20]);
    for interval in &run.intervals {
        assert!(interval.counts.target.work >= 500_000.0);
        assert!(interval.counts.target.time > 0.0);
        if interval.stolen == 0 {
            assert_eq!(interval.counts.pirate.touches, 0.0);
        }
        assert!(interval.counts.pirate.fetches <= interval.counts.pirate.touches);
    }
    // With 2 and 1 MiB left, 2 and 3 were walked alone at least once before anything was measured.
    assert!(run.total.pirate.touches >= (3.0 + 2.0) * f64::from(1 << 20) / 64.0);
    testbed.terminate().unwrap();
    assert!(!Path::new(&format!("/proc/{}", testbed.pid())).exists());
}

#[test]
fn a_real_process_beside_a_real_pirate() {
    measure_walker(Placement::Beside);
}

#[test]
fn a_real_process_and_a_pirate_that_take_turns() {
    measure_walker(Placement::TimeSliced { period: Duration::from_millis(2) });
}

/// A machine like this one, but its last-level cache said to be of `bytes` bytes.
fn machine_with_a_cache_of(bytes: u64, root: &Path, cpus: (usize, usize)) {
    for id in [cpus.0, cpus.1] {
        let last = format!("{},{}", cpus.0, cpus.1);
        write_cpu(root, id, &id.to_string(), &last, &format!("{}K", bytes >> 10));
    }
}

#[test]
fn a_cache_larger_than_the_kernels_is_refused() {
    let Some(cpus) = two_cpus() else { return };
    let root = tempfile::tempdir().unwrap();
    machine_with_a_cache_of(8 << 20, root.path(), cpus);
    let params = || NativeParams { root: root.path().to_owned(), ..NativeParams::default() };
    let claimed = NativeParams { cache_bytes: Some(2 << 30), ..params() };
    let error = NativeTestbed::spawn(Command::new("true"), claimed).err().unwrap();
    assert!(matches!(error, PirateError::CacheTooLarge { claimed: 0x8000_0000, real: 0x80_0000 }), "{error}");
}

#[test]
fn a_cache_smaller_than_the_kernels_is_said_to_leave_the_program_more() {
    let Some(cpus) = two_cpus() else { return };
    let root = tempfile::tempdir().unwrap();
    machine_with_a_cache_of(8 << 20, root.path(), cpus);
    let warnings = |cache_bytes| {
        let params = NativeParams {
            root: root.path().to_owned(),
            cache_bytes,
            progress: Progress::TaskClock,
            ..NativeParams::default()
        };
        let mut command = Command::new("sleep");
        command.arg("60");
        NativeTestbed::spawn(command, params).unwrap().warnings().to_vec()
    };
    let smaller = Warning::SmallerThanReported { stated: 2 << 20, reported: 8 << 20 };
    assert!(warnings(Some(2 << 20)).contains(&smaller));
    assert!(smaller.to_string().contains("6291456 more at each size"));
    for as_reported in [None, Some(8 << 20)] {
        let other = |warning: &Warning| !matches!(warning, Warning::SmallerThanReported { .. });
        assert!(warnings(as_reported).iter().all(other));
    }
}

#[test]
fn a_pirate_that_cannot_hold_its_lines_is_not_trusted_even_if_the_kernel_overstates_the_cache() {
    let Some(cpus) = two_cpus() else { return };
    let Some(real) = Topology::of_this_machine().unwrap().last_level(cpus.0).map(|cache| cache.bytes) else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let stated = 4 * real;
    machine_with_a_cache_of(stated, root.path(), cpus);
    let params = NativeParams {
        target_cpu: Some(cpus.0),
        progress: Progress::TaskClock,
        shared_round_trip: None,
        root: root.path().to_owned(),
        ..NativeParams::default()
    };
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    let mut testbed = NativeTestbed::spawn(command, params).unwrap();
    let plan = PirateParams {
        sizes: Some(vec![stated / 16, stated / 4, stated / 2, stated * 3 / 4, stated]),
        interval: Some(1e7),
        target_warm_up: Some(0.0),
        threads: Threads::Fixed(1),
        cycles: Some(1),
        pace: Pace::Continuous,
        ..PirateParams::default()
    };
    let plan = plan.check(testbed.cache()).unwrap();
    let run = measure(&mut testbed, &plan).unwrap();
    assert!(run.capacity.held < stated / 2, "{:?}", run.capacity);
    for interval in run.intervals.iter().filter(|interval| interval.stolen > 0) {
        assert!(!interval.trust.is_trusted(), "{interval:?}");
    }
    assert_eq!(run.curve().unwrap().stealable(), 0);
}
