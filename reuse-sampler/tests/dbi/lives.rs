//! Programs that are let go, or lose their observer, run on natively.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use reuse_sampler::dbi::{DbiOptions, DbiSampler};
use reuse_sampler::{Children, ReusePlan, Sampler, TargetExit, WindowPlan};

use crate::run::{compile, folder, is_root, lines, run};
use crate::threads::threads;

#[test]
fn a_released_program_runs_on_natively() {
    let folder = folder("released");
    let lines = lines(&folder);
    let native = Command::new("sort").arg(&lines).output().unwrap().stdout;
    for after in [0, 1, 7, 20] {
        let output = folder.join("sorted");
        let words = [OsString::from("-o"), output.clone().into(), OsString::from(&lines)];
        let mut sampler = DbiSampler::spawn("sort", words, &DbiOptions::windows_of(500_000)).unwrap();
        let mut plan = WindowPlan::new(ReusePlan::Every);
        for _ in 0..after {
            sampler.next_window(&plan).unwrap().unwrap();
            plan =
                WindowPlan::new(if plan.reuse == ReusePlan::Off { ReusePlan::Every } else { ReusePlan::Off });
        }
        sampler.release();
        while sampler.next_window(&plan).unwrap().is_some() {}
        assert_eq!(sampler.exit_status(), Some(TargetExit::Code(0)));
        assert!(sampler.warnings().iter().any(|w| w.contains("natively")), "{:?}", sampler.warnings());
        assert!(fs::read(&output).unwrap() == native, "released after {after} windows");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Where code comes from is known of a program that a signal ends, too, also within its first window.
#[test]
fn the_code_of_a_killed_program_has_names() {
    for length in [100_000, 100_000_000] {
        let options = DbiOptions::windows_of(length);
        let mut sampler = DbiSampler::spawn("bash", ["-c", "kill -SEGV $$"], &options).unwrap();
        let (mut windows, mut code) = (0, Vec::new());
        while let Some(window) = sampler.next_window(&WindowPlan::count_only()).unwrap() {
            windows += 1;
            code.extend(window.code);
        }
        assert_eq!(sampler.exit_status(), Some(TargetExit::Signal(11)));
        assert!(windows == 1 || length < 1_000_000, "{windows}");
        let all: u64 = code.iter().map(|(_, count)| count).sum();
        let located = code.iter().filter(|(address, _)| sampler.locate(*address).is_some());
        let located: u64 = located.map(|(_, count)| count).sum();
        // The kernel's own page belongs to no file.
        assert!(all > 100_000 && located > all - all / 1000, "{located} of {all}");
    }
}

/// A process that has given up its user, and sees no `/proc`, waits for its observer like any other.
#[test]
fn whoever_changes_its_user_and_root_is_observed_however_long_it_waits() {
    if !is_root() {
        return;
    }
    let folder = folder("users");
    let source = "#define _GNU_SOURCE\n#include <unistd.h>\nint main(int c, char **v) { volatile long x = 0; \
        if (chroot(v[1]) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)) return 1; \
        for (long i = 0; i < 2000000; i++) x += i; return 7; }";
    let Some(program) = compile(&folder, source, &["-O1"]) else { return };
    let command = format!("{program} {}; exit $?", folder.display());
    let instructions = [0, 700].map(|milliseconds| {
        let mut options = DbiOptions::windows_of(1_000_000);
        options.children = Children::Follow;
        let done = run(&["sh", "-c", &command], &options, |windows| {
            if windows == 5 {
                std::thread::sleep(Duration::from_millis(milliseconds));
            }
            ReusePlan::Off
        });
        assert_eq!((done.exit, done.warnings), (Some(TargetExit::Code(7)), vec![]));
        done.processes.iter().map(|process| process.instructions).sum::<u64>()
    });
    assert!(
        instructions[0] > 8_000_000 && instructions[0].abs_diff(instructions[1]) < 10_000,
        "{instructions:?}"
    );
    fs::remove_dir_all(folder).unwrap();
}

/// There the numbers of processes mean others.
#[test]
fn the_proc_of_another_namespace_is_refused() {
    if !is_root() {
        return;
    }
    let folder = folder("namespace");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork"]).arg(std::env::current_exe().unwrap());
    command.args(["run::observer", "--exact", "--nocapture", "--ignored"]);
    command.env("DBI_COMMAND", "true").env("DBI_MODE", "count").env("DBI_OUTPUT", folder.join("observed"));
    assert!(!command.output().unwrap().status.success());
    let said = fs::read_to_string(folder.join("observed.err")).unwrap();
    assert!(said.contains("/proc belongs to another namespace"), "{said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_program_outlives_its_observer() {
    let folder = folder("outlives");
    let lines = lines(&folder);
    let native = Command::new("sort").arg(&lines).output().unwrap().stdout;
    for milliseconds in [5, 20, 45, 80, 130] {
        let (output, done) = (folder.join("sorted"), folder.join("done"));
        let (to, end) = (output.display(), done.display());
        let loop_ = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let started = folder.join("started");
        let begin = format!("echo > {}", started.display());
        let work = format!("{begin}; {loop_}; sort -o {to} {lines}; echo $i > {end}.new; mv {end}.new {end}");
        let mut observer = Command::new(std::env::current_exe().unwrap());
        observer
            .args(["run::observer", "--exact", "--nocapture", "--ignored"])
            .env("DBI_COMMAND", ["sh", "-c", &work].join("\u{1}"))
            .env("DBI_MODE", if milliseconds % 2 == 0 { "sparse" } else { "count" })
            .env("DBI_OUTPUT", folder.join("observed"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut observer = observer.spawn().unwrap();
        while !started.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(milliseconds));
        observer.kill().unwrap();
        observer.wait().unwrap();
        // A minute is much more than the work takes.
        for _ in 0..6000 {
            if done.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(fs::read_to_string(&done).unwrap_or_default(), "20000\n", "after {milliseconds} ms");
        assert!(fs::read(&output).unwrap() == native);
        for file in [&started, &output, &done] {
            fs::remove_file(file).unwrap();
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn threads_outlive_their_observer() {
    let folder = folder("threads-outlive");
    let Some(program) = compile(&folder, include_str!("threads.c"), &["-O1", "-pthread", "-ldl"]) else {
        return;
    };
    let native = Command::new(&program).output().unwrap().stdout;
    for milliseconds in [30, 60, 100, 150, 210, 280, 360, 450] {
        let output = folder.join("output");
        let mut observer = Command::new(std::env::current_exe().unwrap());
        observer
            .args(["run::observer", "--exact", "--nocapture", "--ignored"])
            .env("DBI_COMMAND", ["sh", "-c", &format!("exec {program} > {}", output.display())].join("\u{1}"))
            .env("DBI_MODE", if milliseconds % 20 == 0 { "sparse" } else { "count" })
            .env("DBI_OUTPUT", folder.join("observed"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut observer = observer.spawn().unwrap();
        while fs::metadata(&output).map_or(0, |data| data.len()) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(milliseconds));
        observer.kill().unwrap();
        observer.wait().unwrap();
        let written = || fs::read(&output).unwrap() == native;
        // A minute is much more than the work takes.
        (0..6000).take_while(|_| !written()).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
        assert!(written(), "after {milliseconds} ms");
        fs::remove_file(&output).unwrap();
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn released_threads_run_on_natively() {
    let folder = folder("released-threads");
    threads(&folder, |program, ending, exit| {
        for after in [0, 3, 40, 300, 900] {
            let mut options = DbiOptions::windows_of(1_000_000);
            options.output_to_stderr = true;
            let ending = (!ending.is_empty()).then_some(ending);
            let mut sampler = DbiSampler::spawn(program, ending, &options).unwrap();
            let mut plan = WindowPlan::new(ReusePlan::Off);
            for window in 0..after {
                if sampler.next_window(&plan).unwrap().is_none() {
                    break;
                }
                plan = WindowPlan::new(if window % 2 == 0 { ReusePlan::Every } else { ReusePlan::Off });
            }
            sampler.release();
            while sampler.next_window(&plan).unwrap().is_some() {}
            assert_eq!(sampler.exit_status(), Some(TargetExit::Code(exit)), "released after {after} windows");
        }
    });
    fs::remove_dir_all(folder).unwrap();
}

/// Not a test of its own.
#[test]
#[ignore = "started by the next test"]
fn where_files_may_not_grow() {
    let none: [&str; 0] = [];
    let refused = DbiSampler::spawn("true", none, &DbiOptions::windows_of(1000)).unwrap_err();
    assert!(std::error::Error::source(&refused).unwrap().to_string().contains("ulimit -f"), "{refused:?}");
}

#[test]
fn a_limit_of_files_is_an_error_and_not_the_end() {
    let done = Command::new("sh")
        .args(["-c", "ulimit -f 1000; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["lives::where_files_may_not_grow", "--exact", "--ignored"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{} {said}", done.status);
}
