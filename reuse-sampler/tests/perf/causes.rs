//! Where observation is refused, the error names the cause that it has here and what to change; the program that was
//! to be observed is gone if it was started, and untouched if it was not.
//!
//! The kernel itself refuses, by real filters, limits and namespaces. What this kernel or user cannot set up is
//! skipped, with the reason.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use crate::forbidden::{FOLDER, OWN, PROCESS, PROGRAM, STAND_IN};
use crate::targets::TARGET;
use crate::{Kept, TURN, child, nothing_to_test_with, sleeps, state, tracer};

/// This program as `name`.
fn observer(name: &str, variables: &[(&str, &str)]) -> Kept {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(TARGET, name).envs(variables.iter().copied());
    Kept(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Runs this program as `name`, which must end by itself: what it wrote on standard error. `None`, and says why, where
/// its cause cannot be made here.
fn message_of(name: &str, variables: &[(&str, &str)]) -> Option<String> {
    let mut observer = observer(name, variables);
    let deadline = Instant::now() + Duration::from_secs(30);
    while observer.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "{name}: it hangs");
        thread::sleep(Duration::from_millis(10));
    }
    let message = std::io::read_to_string(observer.0.stderr.take().unwrap()).unwrap();
    eprintln!("{name}: {message}");
    if let Some(why) = message.strip_prefix("CANNOT BE MADE: ") {
        eprintln!("skipped: {name}: {why}");
        return None;
    }
    assert!(message.contains("no child left"), "{name}: {message}");
    Some(message)
}

/// What names causes, each in the words of its own message only.
const CAUSES: [&str; 18] = [
    "by a seccomp filter",
    "kernel.perf_event_paranoid is",
    "security module",
    "file descriptors",
    "memory for the records",
    "threads: this user",
    "debug registers",
    "/proc is not mounted",
    "another namespace of processes",
    "not readable",
    "controls it already",
    "privileges that its user has not",
    "a thread of the kernel",
    "it has ended",
    "and this is user",
    "version 5.13",
    "no folder",
    "whose counters are visible",
];

/// Asserts that a message has all of `said`, of which the first names the cause, and no other cause.
fn assert_cause(name: &str, message: &str, said: &[&str]) {
    for part in said {
        assert!(message.contains(part), "{name}: no {part:?} in: {message}");
    }
    assert!(CAUSES.contains(&said[0]), "{}", said[0]);
    for other in CAUSES {
        assert!(other == said[0] || !message.contains(other), "{name}: {other:?} in: {message}");
    }
}

fn check(name: &str, variables: &[(&str, &str)], said: &[&str]) {
    if let Some(message) = message_of(name, variables) {
        assert_cause(name, &message, said);
    }
}

/// A file that all may read, removed with its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("reuse-sampler-{}-{name}", std::process::id())))
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn of(name: &str, original: &Path, mode: u32) -> Self {
        let scratch = Self::new(name);
        // By another process: a child that another test starts meanwhile would keep it from being executed.
        let copied = Command::new("install").arg(format!("-m{mode:o}")).args([original, &scratch.0]).status();
        assert!(copied.unwrap().success());
        scratch
    }

    fn paranoid(level: i32) -> Self {
        let scratch = Self::new("paranoid");
        fs::write(&scratch.0, level.to_string()).unwrap();
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

macro_rules! on_a_machine_that_observes {
    () => {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if nothing_to_test_with() {
            return;
        }
    };
}

#[test]
fn ptrace_forbidden_by_a_filter() {
    on_a_machine_that_observes!();
    for errno in ["EPERM", "EACCES", "ENOSYS"] {
        check(
            &format!("despite ptrace {errno}"),
            &[],
            &["by a seccomp filter", "ptrace is", "--cap-add SYS_PTRACE"],
        );
    }
}

#[test]
fn events_forbidden_by_a_filter() {
    on_a_machine_that_observes!();
    for errno in ["EPERM", "EACCES", "ENOSYS"] {
        let said = ["by a seccomp filter", "perf_event_open is", "--cap-add PERFMON"];
        check(&format!("despite events {errno}"), &[], &said);
    }
}

/// Whatever call is refused, it is that one that is named.
#[test]
fn other_calls_forbidden_by_a_filter() {
    on_a_machine_that_observes!();
    for call in ["clone", "clone3", "execve", "ioctl", "pipe2", "wait4", "waitid"] {
        for errno in ["EPERM", "EACCES", "ENOSYS"] {
            if (call, errno) == ("clone3", "ENOSYS") {
                continue; // as old kernels: the C library does without
            }
            let says = format!("{call} is forbidden by a seccomp filter");
            check(&format!("despite {call} {errno}"), &[], &["by a seccomp filter", &says]);
        }
    }
    // What observation does not need may be refused.
    for call in ["kill", "personality", "pidfd_open", "prlimit", "process_vm_readv", "tgkill"] {
        let Some(message) = message_of(&format!("despite {call} EPERM"), &[]) else { continue };
        assert!(message.starts_with("it works"), "{call}: {message}");
    }
}

/// A filter that kills whoever makes a call leaves no error to report: what was started is gone, and who was there lives.
#[test]
fn calls_that_a_filter_kills_for() {
    on_a_machine_that_observes!();
    const SIGSYS: i32 = 31;
    let target = child("spin");
    let process = target.0.id();
    let number = process.to_string();
    for call in ["ptrace", "events", "ioctl", "wait4", "pipe2"] {
        let attaches = [(PROCESS, number.as_str())];
        // Nothing is piped where nothing is started.
        for variables in [&[][..], &attaches].into_iter().take(if call == "pipe2" { 1 } else { 2 }) {
            let status = observer(&format!("despite {call} kills"), variables).0.wait().unwrap();
            assert_eq!(status.signal(), Some(SIGSYS), "{call}: {status:?}");
            let deadline = Instant::now() + Duration::from_secs(20);
            while tracer(process).is_none_or(|tracer| tracer != "0") {
                assert!(Instant::now() < deadline, "it stays controlled");
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(state(process), Some('R'), "{call}");
        }
    }
}

/// Filters refuse whatever `perf_event_paranoid` is.
#[test]
fn events_forbidden_by_a_filter_where_the_kernel_is_paranoid_too() {
    on_a_machine_that_observes!();
    let four = Scratch::paranoid(4);
    check("despite paranoid, nobody, events EPERM", &[(STAND_IN, four.text())], &["by a seccomp filter"]);
}

/// Kernels of distributions refuse everybody without privilege from a level on that the original kernel does not know.
#[test]
fn events_forbidden_by_a_paranoid_kernel() {
    on_a_machine_that_observes!();
    for level in [3, 4] {
        let file = Scratch::paranoid(level);
        let is = format!("is {level},");
        let said = ["kernel.perf_event_paranoid is", &is, "set it to 2 or lower", "CAP_PERFMON"];
        let given = [(STAND_IN, file.text())];
        check("despite paranoid, nobody, kernel's events EACCES", &given, &said);
        // All capabilities of a user namespace are none of the host's.
        check("despite paranoid, nobody, user namespace, kernel's events EACCES", &given, &said);
        // Whoever has the privilege is refused by something else.
        check("despite paranoid, kernel's events EACCES", &given, &["security module"]);
        // Where nothing is refused, the level is no cause.
        let message = message_of("despite paranoid, nobody", &given);
        assert!(message.is_none_or(|message| message.starts_with("it works")));
    }
    let two = Scratch::paranoid(2);
    check(
        "despite paranoid, nobody, kernel's events EACCES",
        &[(STAND_IN, two.text())],
        &["security module"],
    );
}

#[test]
fn no_privileges_and_no_way_to_get_any_are_none_too_few() {
    on_a_machine_that_observes!();
    for cause in ["no new privileges", "nobody", "user namespace", "nobody, no new privileges"] {
        let Some(message) = message_of(&format!("despite {cause}"), &[]) else { continue };
        assert!(message.starts_with("it works"), "{cause}: {message}");
    }
}

#[test]
fn too_little_memory_may_be_locked() {
    on_a_machine_that_observes!();
    let program = Scratch::of("threads", &std::env::current_exe().unwrap(), 0o755);
    let said =
        ["memory for the records", "ulimit -l", "beyond that (ulimit -l)", "kernel.perf_event_mlock_kb"];
    check("despite memlock, nobody, rings", &[], &said);
    // A few processors leave too little for so many threads.
    if thread::available_parallelism().unwrap().get() > 4 {
        return eprintln!("skipped: this machine's processors leave enough for 40 threads");
    }
    for cause in ["memlock, nobody", "memlock, nobody, user namespace"] {
        check(&format!("despite {cause}"), &[(PROGRAM, program.text())], &said);
    }
}

#[test]
fn too_few_files_may_be_open() {
    on_a_machine_that_observes!();
    let own = std::env::current_exe().unwrap();
    let said = |limit| ["file descriptors", limit, "ulimit -n"];
    check("despite files", &[(PROGRAM, own.to_str().unwrap())], &said("may have 100"));
    check("despite some files", &[], &said("may have 6"));
    check("despite all files", &[], &said("may have 20"));
}

#[test]
fn too_few_processes_may_run() {
    on_a_machine_that_observes!();
    check("despite processes, nobody", &[], &["threads: this user", "ulimit -u", "--pids-limit"]);
}

#[test]
fn processes_cannot_be_looked_up() {
    on_a_machine_that_observes!();
    check("despite process namespace", &[], &["another namespace of processes", "--mount-proc"]);
    check("despite no proc", &[], &["/proc is not mounted", "mount -t proc"]);
}

#[test]
fn all_debug_registers_are_taken() {
    on_a_machine_that_observes!();
    let said = ["debug registers", "it works", "no reuse is sampled", "end debuggers"];
    check("despite registers", &[], &said);
}

#[test]
fn the_program_may_not_be_read() {
    on_a_machine_that_observes!();
    let program = Scratch::of("unreadable", Path::new("/bin/sleep"), 0o711);
    let said = ["not readable", "chmod +r"];
    check("despite nobody", &[(PROGRAM, program.text())], &said);
}

#[test]
fn a_tracer_that_follows_children_controls_the_program() {
    on_a_machine_that_observes!();
    check("followed despite nothing", &[], &["controls it already", "not follow children"]);
}

/// As a program is whose file has capabilities.
#[test]
fn the_observer_itself_is_hidden() {
    on_a_machine_that_observes!();
    check("despite hidden", &[], &["privileges that its user has not", "cap_sys_ptrace"]);
}

/// And says why; not where the machine merely has no counters.
#[cfg(all(feature = "dbi", target_arch = "x86_64"))]
#[test]
fn the_best_backend_is_another_where_counters_are_refused() {
    on_a_machine_that_observes!();
    let auto = (crate::forbidden::AUTO, "");
    if let Some(message) = message_of("despite events EPERM", &[auto]) {
        assert!(message.starts_with("dbi: Some(Code(0)) counters cannot be used: "), "{message}");
        assert_cause("auto", &message, &["by a seccomp filter", "perf_event_open is", "--cap-add PERFMON"]);
    }
    if let Some(message) = message_of("despite nothing", &[auto]) {
        assert!(!message.contains("counters cannot be used"), "{message}");
    }
}

#[test]
fn there_is_no_folder_to_run_in() {
    on_a_machine_that_observes!();
    check("despite nothing", &[(FOLDER, "/no/such/folder")], &["no folder", "/no/such/folder"]);
}

/// None is left controlled, or standing.
#[test]
fn processes_that_cannot_be_attached_to_run_on() {
    on_a_machine_that_observes!();
    let target = child("many threads that stay");
    let process = target.0.id();
    sleeps(process);
    let number = process.to_string();
    let given = [(PROCESS, number.as_str())];
    for (name, said) in [
        ("despite nobody", &["and this is user", "is user 0's", "run as that user"][..]),
        ("despite ptrace EPERM", &["by a seccomp filter", "ptrace is"]),
        ("despite events EPERM", &["by a seccomp filter", "perf_event_open is"]),
        ("despite files", &["file descriptors", "may have 100", "ulimit -n"]),
        ("despite no proc", &["/proc is not mounted"]),
    ] {
        if name == "despite nobody" && fs::metadata(format!("/proc/{process}")).is_ok_and(|it| !is_roots(&it))
        {
            continue;
        }
        check(name, &given, said);
        assert_eq!(tracer(process).as_deref(), Some("0"), "{name}");
        for thread in fs::read_dir(format!("/proc/{process}/task")).unwrap() {
            let thread = thread.unwrap().file_name().to_str().unwrap().parse().unwrap();
            assert_eq!(tracer(thread).as_deref(), Some("0"), "{name}");
            sleeps(thread); // what was let go runs for a moment
        }
    }
}

/// Whom a guard would save from the observer's death, and there can be none: said.
#[test]
fn programs_that_no_guard_controls() {
    on_a_machine_that_observes!();
    let danger = "warning: should this process be killed, SIGTRAP may kill the attached program";
    let settings = Scratch::new("settings");
    fs::create_dir_all(settings.0.join("yama")).unwrap();
    for (name, text) in [
        ("yama/ptrace_scope", "1"),
        ("perf_event_paranoid", "2"),
        ("osrelease", "6.1.0"),
        ("perf_event_mlock_kb", "516"),
    ] {
        fs::write(settings.0.join(name), text).unwrap();
    }
    let own = [(OWN, ""), (STAND_IN, settings.text())];
    let scope = "kernel.yama.ptrace_scope is 1, which keeps";
    for (causes, why) in
        [("despite settings, nobody", Some(scope)), ("despite nobody", None), ("despite settings", None)]
    {
        let Some(message) = message_of(causes, &own) else { continue };
        assert!(message.contains("it works"), "{causes}: {message}");
        assert_eq!(message.contains(danger), why.is_some(), "{causes}: {message}");
        assert!(message.contains(why.unwrap_or_default()), "{causes}: {message}");
    }
    fs::remove_dir_all(&settings.0).unwrap();
}

fn is_roots(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(metadata) == 0
}

#[test]
fn what_is_no_program_cannot_be_attached_to() {
    on_a_machine_that_observes!();
    let ended = Kept(Command::new("true").spawn().unwrap());
    let process = ended.0.id();
    while state(process) != Some('Z') {
        thread::sleep(Duration::from_millis(1));
    }
    check("despite nothing", &[(PROCESS, &process.to_string())], &["it has ended"]);
    // The kernel's threads are this one's children, unless this is a namespace of its own.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        check("despite nothing", &[(PROCESS, "2")], &["a thread of the kernel"]);
    }
    let follower = child("followed sleep");
    let children = format!("/proc/{0}/task/{0}/children", follower.0.id());
    let deadline = Instant::now() + Duration::from_secs(20);
    let followed = loop {
        assert!(Instant::now() < deadline, "nobody is followed");
        let number = fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
        if number.parse().is_ok_and(|number| tracer(number).is_some_and(|tracer| tracer != "0")) {
            break number;
        }
        thread::sleep(Duration::from_millis(1));
    };
    check("despite nothing", &[(PROCESS, &followed)], &["controls it already", "detach it there"]);
}
