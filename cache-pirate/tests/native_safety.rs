//! Nothing is left standing still: real processes, stopped and set free in every way that a measurement can end.

#![cfg(target_os = "linux")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cache_pirate::native::topology::Topology;
use cache_pirate::native::{NativeParams, NativeTestbed, Placement, Progress, Suspension};
use cache_pirate::{Outcome, PirateError, Testbed, Until, Who};

/// A small pirate beside a target whose work is its processor time; `None` where there is one processor only.
fn params() -> Option<NativeParams> {
    let cpus: Vec<usize> = Topology::of_this_machine().unwrap().cpus().iter().map(|cpu| cpu.id).collect();
    if cpus.len() < 2 {
        eprintln!("one processor only: nothing to test");
        return None;
    }
    Some(NativeParams {
        target_cpu: Some(cpus[0]),
        pirate_cpus: Some(vec![cpus[1]]),
        cache_bytes: Some(1 << 20),
        progress: Progress::TaskClock,
        shared_round_trip: None,
        ..NativeParams::default()
    })
}

/// State of a process as the kernel tells it; `None` when it is gone.
fn state(pid: i32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text[text.rfind(')')? + 1..].trim().chars().next()
}

/// The processors that a thread may run on, as the kernel lists them.
fn allowed(thread: i32) -> String {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
    status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap().to_owned()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "never came about: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that is ended with the test, whatever becomes of it.
struct Bystander(Child);

impl Bystander {
    fn sleeping() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    fn stopped(&self) -> bool {
        state(self.pid()) == Some('T')
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Not a test of its own: the process that the tests below kill. Attaches to or starts a target, says so, and
/// then does as told.
#[test]
fn measuring_process() {
    let Ok(role) = std::env::var("CACHE_PIRATE_TEST_ROLE") else { return };
    let (how, end) = role.split_once(' ').unwrap();
    let params = params().unwrap();
    let testbed = if let Ok(pid) = how.parse::<i32>() {
        NativeTestbed::attach(pid, params).unwrap()
    } else {
        let mut command = Command::new("sleep");
        command.arg("600").stdout(Stdio::null());
        NativeTestbed::spawn(command, params).unwrap()
    };
    println!("\nsuspended {}", testbed.pid());
    match end {
        "abort" => std::process::abort(),
        "exit" => std::process::exit(3),
        _ => thread::sleep(Duration::from_secs(600)),
    }
}

/// Starts the process above and waits until it has suspended its target, whose number it answers.
fn start_measuring(role: &str) -> (Child, i32) {
    // Whoever runs the tests may have turned signals off.
    let mut child = Command::new("env")
        .arg("--default-signal")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "measuring_process", "--nocapture", "--test-threads", "1"])
        .env("CACHE_PIRATE_TEST_ROLE", role)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let target = lines
        .find_map(|line| line.unwrap().strip_prefix("suspended ").map(|pid| pid.parse().unwrap()))
        .expect("it says so");
    (child, target)
}

fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn an_attached_target_runs_on_after_the_drop_with_its_processors_back() {
    let Some(params) = params() else { return };
    let target = Bystander::sleeping();
    let before = allowed(target.pid());
    let testbed = NativeTestbed::attach(target.pid(), params).unwrap();
    assert!(target.stopped());
    assert_ne!(allowed(target.pid()), before);
    drop(testbed);
    assert!(!target.stopped());
    assert_eq!(allowed(target.pid()), before);
}

#[test]
fn a_panic_frees_the_target() {
    let Some(params) = params() else { return };
    let target = Bystander::sleeping();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _testbed = NativeTestbed::attach(target.pid(), params).unwrap();
        assert!(target.stopped());
        panic!("as planned");
    }));
    assert!(result.is_err());
    eventually("the target runs", || !target.stopped());
}

#[test]
fn an_error_after_taking_over_frees_the_target() {
    let Some(mut params) = params() else { return };
    let target = Bystander::sleeping();
    params.progress = Progress::Counter(Box::new(|| Err(std::io::Error::other("broken"))));
    let mut testbed = NativeTestbed::attach(target.pid(), params).unwrap();
    let error = testbed.run(Who::Both, Until::Work(1.0)).unwrap_err();
    assert!(error.to_string().contains("broken"), "{error}");
    assert!(target.stopped(), "stands still between runs, failed ones too");
    drop(testbed);
    assert!(!target.stopped());
}

#[test]
fn whatever_ends_the_measuring_process_frees_the_target_and_unpins_it() {
    if params().is_none() {
        return;
    }
    for end in ["-KILL", "-INT", "-TERM", "-HUP", "abort", "exit"] {
        let target = Bystander::sleeping();
        let before = allowed(target.pid());
        let (mut measuring, pid) = start_measuring(&format!("{} {end}", target.pid()));
        assert_eq!(pid, target.pid());
        if end.starts_with('-') {
            assert!(target.stopped(), "{end}");
            assert_ne!(allowed(target.pid()), before);
            kill(end, measuring.id());
        }
        assert!(!measuring.wait().unwrap().success());
        eventually(end, || !target.stopped());
        assert_eq!(allowed(target.pid()), before, "{end}");
        assert!(state(target.pid()).is_some_and(|state| state != 'Z'), "an attached target is not ended");
    }
}

#[test]
fn a_started_target_ends_with_the_measuring_process() {
    if params().is_none() {
        return;
    }
    for end in ["-KILL", "-INT"] {
        let (mut measuring, target) = start_measuring(&format!("spawn {end}"));
        assert_eq!(state(target), Some('T'));
        kill(end, measuring.id());
        measuring.wait().unwrap();
        // Nobody may be there to collect it: a zombie has ended too.
        eventually(end, || matches!(state(target), None | Some('Z')));
    }
}

#[test]
fn a_started_target_ends_with_the_testbed_unless_it_is_waited_for() {
    let Some(params) = params() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (late, never) = (folder.path().join("late"), folder.path().join("never"));
    let script = |file: &Path| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("sleep 0.3; touch {}", file.display())]);
        command
    };
    let mut waited = NativeTestbed::spawn(script(&late), params).unwrap();
    waited.wait().unwrap();
    assert!(late.exists() && state(waited.pid()).is_none());

    let dropped = NativeTestbed::spawn(script(&never), params_again()).unwrap();
    let pid = dropped.pid();
    drop(dropped);
    assert_eq!(state(pid), None);
    thread::sleep(Duration::from_millis(500));
    assert!(!never.exists());

    // One that will not listen.
    let mut deaf = Command::new("sh");
    let ready = folder.path().join("ready");
    deaf.args(["-c", &format!("trap '' TERM; touch {}; while :; do sleep 1; done", ready.display())]);
    let mut testbed = NativeTestbed::spawn(deaf, params_again()).unwrap();
    while !ready.exists() {
        testbed.run(Who::Target, Until::Work(1e5)).unwrap();
    }
    let pid = testbed.pid();
    drop(testbed);
    assert_eq!(state(pid), None);
}

#[test]
fn the_death_of_the_target_is_an_outcome() {
    let Some(params) = params() else { return };
    let target = Bystander::sleeping();
    let mut testbed = NativeTestbed::attach(target.pid(), params).unwrap();
    testbed.steal(1 << 18, 1).unwrap();
    kill("-KILL", target.0.id());
    assert_eq!(testbed.run(Who::Both, Until::Work(1e18)).unwrap(), Outcome::TargetEnded);
    assert_eq!(testbed.run(Who::Target, Until::Work(1.0)).unwrap(), Outcome::TargetEnded);
    testbed.run(Who::Pirate, Until::Walks(1)).unwrap();
    testbed.read().unwrap();

    // In the middle of a run.
    let target = Bystander::sleeping();
    let mut testbed = NativeTestbed::attach(target.pid(), params_again()).unwrap();
    let pid = target.0.id();
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        kill("-KILL", pid);
    });
    assert_eq!(testbed.run(Who::Both, Until::Work(1e18)).unwrap(), Outcome::TargetEnded);
    killer.join().unwrap();
}

fn params_again() -> NativeParams {
    params().unwrap()
}

#[test]
fn what_cannot_be_attached_to_is_refused() {
    let Some(_) = params() else { return };
    let own = std::process::id() as i32;
    for pid in [0, -1, 1, own, 1 << 30] {
        let error = NativeTestbed::attach(pid, params_again()).err().unwrap();
        assert!(error.to_string().starts_with(&format!("cannot attach to process {pid}")), "{error}");
    }
    let error = NativeTestbed::spawn(Command::new("/nowhere/nothing"), params_again()).err().unwrap();
    assert!(error.to_string().starts_with("cannot start /nowhere/nothing"), "{error}");
    let own_cpu =
        NativeParams { pirate_cpus: params_again().target_cpu.map(|cpu| vec![cpu]), ..params_again() };
    let error = NativeTestbed::attach(own, own_cpu).err().unwrap();
    assert!(matches!(error, PirateError::Machine { .. }), "{error}");
}

/// Not a test of its own: moves itself into a cpuset, and measures there.
#[test]
fn process_in_a_cpuset() {
    let Ok(group) = std::env::var("CACHE_PIRATE_TEST_CPUSET") else { return };
    fs::write(Path::new(&group).join("cgroup.procs"), std::process::id().to_string()).unwrap();
    // A thread that turns with the target needs no other processor.
    let placement = Placement::TimeSliced { period: Duration::from_millis(2) };
    let params = NativeParams { target_cpu: None, pirate_cpus: None, placement, ..params_again() };
    let mut command = Command::new("sleep");
    command.arg("600");
    let testbed = match NativeTestbed::spawn(command, params) {
        // Real-time priority is a privilege of its own.
        Err(PirateError::System { operation: "run under SCHED_FIFO:", .. }) => return,
        testbed => testbed.unwrap(),
    };
    assert_ne!(testbed.processors().0, 0);
    drop(testbed);
    let outside = NativeParams { target_cpu: Some(0), placement, ..params_again() };
    let error = NativeTestbed::spawn(Command::new("true"), outside).err().unwrap();
    assert!(error.to_string().contains("cpuset"), "{error}");
}

#[test]
fn a_cpuset_without_the_first_processor_is_respected() {
    let (Some(params), root) = (params(), Path::new("/sys/fs/cgroup/cpuset")) else { return };
    let last = params.pirate_cpus.unwrap()[0];
    let group = root.join(format!("cache-pirate-test-{}", std::process::id()));
    let made = fs::create_dir(&group).and_then(|()| {
        fs::write(group.join("cpuset.cpus"), last.to_string())?;
        fs::write(group.join("cpuset.mems"), "0")
    });
    if let Err(error) = made {
        eprintln!("no cpuset of version 1 that may be used here ({error}): nothing to test");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process_in_a_cpuset", "--test-threads", "1"])
        .env("CACHE_PIRATE_TEST_CPUSET", &group)
        .output()
        .unwrap();
    eventually("the group is empty", || fs::remove_dir(&group).is_ok());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The freezer's folder on this machine, if there is one that may be written.
fn freezer() -> Option<PathBuf> {
    let candidates = ["/sys/fs/cgroup/freezer", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    candidates.iter().map(Path::new).map(Path::to_owned).find(|root| {
        let probe = root.join(format!("cache-pirate-probe-{}", std::process::id()));
        if fs::create_dir(&probe).is_err() {
            return false;
        }
        let there = probe.join("cgroup.freeze").exists() || probe.join("freezer.state").exists();
        fs::remove_dir(&probe).unwrap();
        there
    })
}

#[test]
fn the_freezer_suspends_and_frees_as_well() {
    let (Some(params), Some(root)) = (params(), freezer()) else {
        eprintln!("no cgroup freezer that may be used here: nothing to test");
        return;
    };
    let target = Bystander::sleeping();
    let home = fs::read_to_string(format!("/proc/{}/cgroup", target.pid())).unwrap();
    let suspension = Suspension::Freezer { root: root.clone() };
    let testbed = NativeTestbed::attach(target.pid(), NativeParams { suspension, ..params }).unwrap();
    assert!(!target.stopped(), "nobody notices");
    let folder = root.join(format!("cache-pirate-{}", target.pid()));
    let file =
        ["freezer.state", "cgroup.freeze"].map(|file| folder.join(file)).into_iter().find(|f| f.exists());
    let frozen = fs::read_to_string(file.unwrap()).unwrap();
    assert!(matches!(frozen.trim(), "FROZEN" | "1"), "{frozen}");
    drop(testbed);
    assert!(!folder.exists());
    assert_eq!(fs::read_to_string(format!("/proc/{}/cgroup", target.pid())).unwrap(), home);
    // It answers to signals again: a frozen process would not.
    kill("-STOP", target.0.id());
    eventually("it takes signals", || target.stopped());
}

#[test]
fn a_folder_that_is_no_cgroup_is_refused_and_left_as_it_was() {
    let Some(params) = params() else { return };
    let target = Bystander::sleeping();
    let root = tempfile::tempdir().unwrap();
    let suspension = Suspension::Freezer { root: root.path().to_owned() };
    let error = NativeTestbed::attach(target.pid(), NativeParams { suspension, ..params }).err().unwrap();
    assert!(error.to_string().contains("suspend by signals"), "{error}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    assert!(!target.stopped());
}
