//! Processes that the program starts: observed, each a record, or ignored.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use reuse_sampler::qemu::{Children, QemuOptions, QemuSampler, TargetExit};
use reuse_sampler::{AccessCount, Cpu, ProcessRecord, Sampler, WindowPlan};

use crate::cachegrind::{ENVIRONMENT, in_path};
use crate::operands::as_under_valgrind;
use crate::run::{Run, emulator_version, every, off, qemu_is_missing, run, run_with};
use crate::{STRIDED, close_to, mixed};

fn ignoring(target: &str) -> Run {
    let mut options = QemuOptions::windows_of(100_000);
    options.children = Children::Ignore;
    run_with(target, options, mixed)
}

fn instructions(run: &Run) -> u64 {
    run.windows.iter().map(|window| window.instructions).sum()
}

/// A command in windows of a million instructions: its records, its end and its warnings.
fn tree(command: &[&str], folder: &Path, plan: WindowPlan) -> (Vec<ProcessRecord>, TargetExit, Vec<String>) {
    let mut options = as_under_valgrind(folder);
    (options.window, options.children) = (1_000_000, Children::default());
    let mut sampler = QemuSampler::spawn(command[0], &command[1..], &options).unwrap();
    let mut windows = 0;
    while let Some(window) = sampler.next_window(&plan).unwrap() {
        windows += window.instructions;
    }
    let records = sampler.processes();
    assert_eq!(windows, records.iter().map(|record| record.instructions).sum::<u64>());
    (records, sampler.exit_status().unwrap(), sampler.warnings().to_vec())
}

/// A script is run by the interpreter it names, as the kernel would.
#[test]
fn the_program_may_be_a_script() {
    if qemu_is_missing() {
        return;
    }
    let folder = folder("scripts");
    let make = |name: &str, content: &str| {
        fs::write(folder.join(name), content).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    make("script", "#!/bin/sh -e\necho \"$0 $*\" > output\nfalse\n");
    make("nested", "#! ./script first\n");
    let (records, exit, _) = tree(&["./nested", "second"], &folder, off());
    assert_eq!(exit, TargetExit::Code(1)); // -e ends it at false
    let said = fs::read_to_string(folder.join("output")).unwrap();
    let words: Vec<&str> = said.split_whitespace().map(|word| word.rsplit('/').next().unwrap()).collect();
    assert_eq!(words, ["script", "first", "nested", "second"], "{said}");
    assert_eq!((records.len(), records[0].command.as_str()), (1, "./nested second"));
    // `env` becomes the interpreter.
    make("environment", "#!/usr/bin/env -S sh -u\nexit 6\n");
    let (records, exit, _) = tree(&["./environment"], &folder, off());
    assert_eq!((records.len(), exit), (1, TargetExit::Code(6)), "{records:?}");
    make("circle", "#! ./circle\n");
    let refused = QemuSampler::spawn("./circle", [""; 0], &QemuOptions::default().directory(&folder));
    assert!(refused.unwrap_err().to_string().contains("5 times over"));
    fs::remove_dir_all(&folder).unwrap();
}

/// A folder of its own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("reuse-sampler-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The program, a copy of it and what that executes write down what gcc finds.
#[test]
fn the_program_and_its_children_see_the_processor_that_they_are_shown() {
    if qemu_is_missing() {
        return;
    }
    let folder = folder("cpu");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/cpu.c");
    let mut compiler = Command::new("gcc");
    compiler.arg("-O1").arg("-o").arg(folder.join("cpu")).arg(source);
    if !compiler.status().is_ok_and(|status| status.success()) {
        println!("skipped: no gcc");
        return;
    }
    let spawn = |cpu| {
        let mut options = QemuOptions::windows_of(100_000).directory(&folder);
        options.cpu = cpu;
        QemuSampler::spawn("./cpu", ["shown"], &options)
    };
    for (cpu, has) in [(Cpu::X86_64, "000"), (Cpu::X86_64V2, "100"), (Cpu::X86_64V3, "110")] {
        let mut sampler = spawn(cpu).unwrap();
        while sampler.next_window(&off()).unwrap().is_some() {}
        assert_eq!(sampler.exit_status(), Some(TargetExit::Code(0)));
        let seen = fs::read_to_string(folder.join("shown")).unwrap();
        fs::remove_file(folder.join("shown")).unwrap();
        assert_eq!(seen, format!("{has} 1 237 0\n").repeat(2), "{cpu}");
    }
    let refused = spawn(Cpu::X86_64V4).unwrap_err();
    assert!(refused.to_string().contains("AVX-512"), "{refused}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn forked_children_have_windows_of_their_own() {
    if qemu_is_missing() {
        return;
    }
    let alone = run("strided", 100_000, |_| every());
    let run = run("fork", 100_000, |_| every());
    assert_eq!((run.exit, run.warnings.len()), (Some(TargetExit::Code(3)), 0), "{:?}", run.warnings);
    let [parent, child] = &run.processes[..] else { panic!("{:?}", run.processes) };
    assert_eq!((parent.parent, child.parent), (std::process::id(), parent.pid));
    assert_eq!(child.exit, Some(TargetExit::Code(3)));
    assert_eq!(child.command, parent.command);
    assert!(
        close_to(parent.instructions, instructions(&alone))
            || parent.instructions < instructions(&alone) + 50_000
    );
    for process in [parent, child] {
        let AccessCount::Measured(accesses) = process.accesses else { panic!("{process:?}") };
        assert!((STRIDED..2 * STRIDED).contains(&accesses), "{process:?}");
    }
    // Windows and threads have numbers of their own, and every thread reports its samples.
    let mut indices: Vec<_> = run.windows.iter().map(|window| window.index).collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), run.windows.len());
    let last: BTreeMap<_, _> =
        run.windows.iter().map(|window| (window.thread, window.open_samples)).collect();
    assert_eq!(last.into_values().collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn forked_children_are_ignored_on_request() {
    if qemu_is_missing() {
        return;
    }
    let alone = instructions(&run("strided", 100_000, |_| off()));
    let run = ignoring("fork");
    assert_eq!(run.exit, Some(TargetExit::Code(3)));
    assert_eq!((run.warnings.len(), run.processes.len()), (1, 1));
    assert!(run.warnings[0].starts_with("1 forked"), "{:?}", run.warnings);
    assert!(instructions(&run) < alone + alone / 50, "{} {alone}", instructions(&run));
}

#[test]
fn programs_executed_by_ignored_children_are_warned_of() {
    if qemu_is_missing() {
        return;
    }
    let another = ignoring("run another");
    assert_eq!(another.exit, Some(TargetExit::Code(0)));
    assert!(another.warnings.iter().any(|w| w.contains("/true")), "{:?}", another.warnings);

    let become_it = ignoring("become another");
    assert_eq!(become_it.exit, Some(TargetExit::Code(5)));
    assert!(become_it.warnings.iter().any(|w| w.contains("replaced itself")), "{:?}", become_it.warnings);
    let outcomes: u64 = become_it.outcomes().map(|o| o.2).sum();
    assert!(outcomes > 0);
}

#[test]
fn executed_programs_are_followed() {
    if qemu_is_missing() {
        return;
    }
    let another = run("run another", 100_000, mixed);
    assert_eq!((another.exit, another.warnings.len()), (Some(TargetExit::Code(0)), 0));
    let commands: Vec<_> = another.processes.iter().map(|process| process.command.as_str()).collect();
    assert!(matches!(commands[..], [_, "true"]), "{commands:?}");

    let become_it = run("become another", 100_000, mixed);
    assert_eq!((become_it.exit, become_it.warnings.len()), (Some(TargetExit::Code(5)), 0));
    assert_eq!(become_it.processes.len(), 1);
    assert_eq!(become_it.processes[0].command, "sh -c exit 5");

    let fail = run("fail to become another", 100_000, |_| off());
    assert_eq!((fail.exit, fail.warnings.len()), (Some(TargetExit::Code(0)), 0), "{:?}", fail.warnings);
    assert!(instructions(&fail) > 2 * STRIDED);
}

/// What finds neither `/proc` nor the plugin runs as it does natively.
#[test]
fn a_program_may_change_its_user_and_its_root() {
    if qemu_is_missing() {
        return;
    }
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("skipped: only root can change its user");
        return;
    }
    let folder = folder("users");
    let command = "setpriv --reuid=65534 --regid=65534 --clear-groups id -u > output; exit 3";
    let (_, exit, warnings) = tree(&["sh", "-c", command], &folder, off());
    assert_eq!(exit, TargetExit::Code(3));
    assert_eq!(fs::read_to_string(folder.join("output")).unwrap(), "65534\n");
    assert!(warnings.iter().any(|warning| warning.contains("unobserved")), "{warnings:?}");

    // The child lives for longer than the plugin takes to find out that nobody observes.
    let script =
        "chroot '.' or die; if (!fork) { select undef, undef, undef, 0.7; exit 5 } wait; exit $? >> 8";
    let (records, exit, warnings) = tree(&["perl", "-e", script], &folder, off());
    assert_eq!(exit, TargetExit::Code(5), "{warnings:?}");
    assert_eq!(records.len(), 2, "{records:?}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn statuses_scripts_and_daemons() {
    if qemu_is_missing() {
        return;
    }
    let folder = folder("children");
    let make = |name: &str, content: &[u8], mode: u32| {
        fs::write(folder.join(name), content).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    make("script", b"#!/bin/sh -e\necho \"$0 $*\" > output\nkill -9 $$\n", 0o755);
    make("nested", b"#! ./script first\n", 0o755);
    // The shell's `&` leaves an orphan, which outlives the program that was started.
    let command =
        "./script; a=$?; ./nested second; ( sleep 0.4; exit 9 ) & /no/such/program; exit $((a - 100))";
    let (records, exit, warnings) = tree(&["sh", "-c", command], &folder, off());
    assert_eq!(exit, TargetExit::Code(37)); // 128 + 9 - 100
    assert_eq!(fs::read_to_string(folder.join("output")).unwrap(), "./script first ./nested second\n");
    let exits = |command: &str| -> Vec<Option<TargetExit>> {
        let named = records.iter().filter(|record| record.command == command);
        named.map(|record| record.exit).collect()
    };
    assert_eq!(exits("./script"), [Some(TargetExit::Signal(9))], "{records:?}");
    assert_eq!(exits("./nested second"), [Some(TargetExit::Signal(9))], "{records:?}");
    assert_eq!(exits("sleep 0.4"), [Some(TargetExit::Code(0))], "{records:?}");
    let shell = format!("sh -c {command}");
    assert!(exits(&shell).contains(&Some(TargetExit::Code(9))), "{records:?}");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("2 child process(es) were ended by signals"), "{warnings:?}");

    // Another user's rights are lost under the emulator: such a program runs natively.
    let copied = Command::new("install")
        .arg("-m4755")
        .args([in_path("true").unwrap(), folder.join("setuid")])
        .status();
    assert!(copied.unwrap().success());
    let (records, exit, warnings) = tree(&["sh", "-c", "./setuid; exit 4"], &folder, every());
    assert_eq!(exit, TargetExit::Code(4));
    assert_eq!(records[1].exit, Some(TargetExit::Code(0)));
    assert!(records[1].unobserved.as_ref().is_some_and(|why| why.contains("./setuid")), "{records:?}");
    assert!(warnings.len() == 1 && warnings[0].contains("./setuid"), "{warnings:?}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn stopping_ends_what_outlives_the_program() {
    if qemu_is_missing() {
        return;
    }
    let daemon = "(while :; do sleep 0.02; done) & exit 5";
    let options = QemuOptions::windows_of(100_000);
    let mut sampler = QemuSampler::spawn("sh", ["-c", daemon], &options).unwrap();
    // The program is over after a few windows.
    for _ in 0..40 {
        sampler.next_window(&off()).unwrap().unwrap();
    }
    sampler.stop().unwrap();
    while sampler.next_window(&off()).unwrap().is_some() {}
    assert_eq!(sampler.exit_status(), Some(TargetExit::Code(5)));
    // A killed process closes its files, which is what ended the run, before it is a zombie.
    let is_over = |pid| match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.contains(") Z") || stat.contains(") X"),
        Err(_) => true,
    };
    let patience = Instant::now() + Duration::from_secs(20);
    for process in sampler.processes() {
        while !is_over(process.pid) {
            assert!(Instant::now() < patience, "{process:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Instructions of each process as callgrind counts them, ascending; `None` where there is no valgrind. (lackey counts those
/// of a block that is left early, too: 4 % more for `seq`.)
fn callgrinds(command: &[&str], folder: &Path) -> Option<Vec<u64>> {
    let logs = folder.join("logs");
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs).unwrap();
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--trace-children=yes", "-q"])
        .arg(format!("--callgrind-out-file={}/%p", logs.display()))
        .args(command)
        .envs(ENVIRONMENT)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !status.as_ref().is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "valgrind {command:?}: {status:?}");
        return None;
    }
    let mut counts: Vec<u64> = fs::read_dir(logs)
        .unwrap()
        .map(|log| {
            let text = fs::read_to_string(log.unwrap().path()).unwrap();
            let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
            total.unwrap().trim().parse().unwrap()
        })
        .collect();
    counts.sort_unstable();
    Some(counts)
}

/// Four files of C and how to compile them.
fn write_sources(folder: &Path) {
    let mut makefile = "all: f0.o f1.o f2.o f3.o\n".to_owned();
    makefile += "%.o: %.c\n\tgcc -O2 -c $< -o $@\n";
    fs::write(folder.join("Makefile"), makefile).unwrap();
    for file in 0..4 {
        let source = format!(
            "int printf(const char *, ...);\nvoid *malloc(unsigned long), free(void *);\nvoid qsort(void *, unsigned long, unsigned long, int \
             (*)(const void *, const void *));\nstatic int compare(const void *a, const void *b) {{ return *(const int \
             *)a - *(const int *)b; }}\nint f{file}(int n) {{ int *v = malloc(n * sizeof *v), s = {file}; for (int k = 0; k < \
             n; k++) v[k] = k * 7919 % 1009; qsort(v, n, sizeof *v, compare); for (int k = 0; k < n; k++) s += v[k] * k; \
             printf(\"%d\", s); free(v); return s; }}\n"
        );
        fs::write(folder.join(format!("f{file}.c")), source).unwrap();
    }
}

#[test]
fn every_process_has_the_instructions_that_valgrind_counts() {
    if qemu_is_missing() {
        return;
    }
    /// Largest difference: this share, and so many for starting up and for each child that is waited for: `make -j4`,
    /// with ten files, executed 5,309,000 to 5,410,000 itself, as its children happened to end.
    const SHARE: f64 = 0.005;
    const START: f64 = 30_000.0;
    let folder = folder("trees");
    write_sources(&folder);
    // Temporary files of compilers have names of random length in no command line of these.
    for command in [&["sh", "-c", "seq 100000 | sort | tail -1"][..], &["make", "-j4"]] {
        if in_path(command[0]).is_none() {
            println!("{} is not installed", command[0]);
            continue;
        }
        let clean = || (0..4).for_each(|file| drop(fs::remove_file(folder.join(format!("f{file}.o")))));
        clean();
        let Some(theirs) = callgrinds(command, &folder) else {
            eprintln!("skipped: no valgrind");
            break;
        };
        clean();
        let (records, exit, warnings) = tree(command, &folder, off());
        assert_eq!((exit, warnings.len()), (TargetExit::Code(0), 0), "{command:?}: {warnings:?}");
        assert!(records.iter().all(|record| record.exit == Some(TargetExit::Code(0))), "{records:?}");
        let children = |pid| records.iter().filter(|record| record.parent == pid).count();
        let mut ours: Vec<_> =
            records.iter().map(|record| (record.instructions, children(record.pid))).collect();
        ours.sort_unstable();
        let sums = [ours.iter().map(|ours| ours.0).sum::<u64>(), theirs.iter().sum()];
        println!("{command:?}: {} processes, {sums:?}", ours.len());
        assert_eq!(ours.len(), theirs.len(), "{command:?}: {records:?}");
        // Of a repeated string instruction, valgrind and older emulators count each repetition.
        let share = if emulator_version() < 10 { SHARE } else { 10.0 * SHARE };
        for ((ours, children), theirs) in ours.into_iter().zip(theirs) {
            let limit = share * theirs as f64 + START * (1 + children) as f64;
            assert!(
                ours.abs_diff(theirs) as f64 <= limit,
                "{command:?}: {ours} {theirs}, {children} children"
            );
        }
    }
    fs::remove_dir_all(folder).unwrap();
}
