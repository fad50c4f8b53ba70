//! Programs translated by the `dbi` backend against their native runs, and its counts against single-stepping.
//!
//! Skipped, with a printed reason, where programs cannot be translated or traced, or a program is not installed.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::personality::{self, Persona};
use nix::sys::ptrace;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use reuse_sampler::dbi::{DbiOptions, DbiSampler};
use reuse_sampler::{Arrivals, ReusePlan, SampleGap, Sampler, TargetExit, Window, WindowPlan};

/// What a run gave.
struct Run {
    windows: Vec<Window>,
    exit: Option<TargetExit>,
    warnings: Vec<String>,
}

impl Run {
    fn instructions(&self) -> u64 {
        self.windows.iter().map(|window| window.instructions).sum()
    }

    fn accesses(&self) -> u64 {
        self.windows.iter().filter_map(|window| window.accesses.get()).sum()
    }
}

fn run(command: &[&str], options: &DbiOptions, mut plan: impl FnMut(usize) -> ReusePlan) -> Run {
    let mut sampler = DbiSampler::spawn(command[0], &command[1..], options).unwrap();
    let mut windows = Vec::new();
    while let Some(window) = sampler.next_window(&WindowPlan::new(plan(windows.len()))).unwrap() {
        windows.push(window);
    }
    Run { windows, exit: sampler.exit_status(), warnings: sampler.warnings().to_vec() }
}

fn installed(program: &str) -> bool {
    let found = program.contains('/')
        || Command::new("which").arg(program).output().is_ok_and(|o| o.status.success());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// A folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("reuse-sampler-dbi-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Compiles a C program; none where there is no compiler.
fn compile(folder: &Path, source: &str, flags: &[&str]) -> Option<String> {
    if !installed("gcc") {
        return None;
    }
    let (file, program) = (folder.join("program.c"), folder.join("program"));
    fs::write(&file, source).unwrap();
    let built = Command::new("gcc").arg(&file).arg("-o").arg(&program).args(flags).status().unwrap();
    assert!(built.success());
    Some(program.to_string_lossy().into_owned())
}

/// Lines that sort, compress and search in about a tenth of a second.
fn lines(folder: &Path) -> String {
    let mut state = 1_u64;
    let mut text = String::new();
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{} word{}\n", state >> 20, state >> 54));
    }
    let path = folder.join("lines");
    fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

/// Runs the command natively and, observed by another process, translated; compares output and status.
fn agrees(folder: &Path, command: &[&str], plan: ReusePlan) -> Run {
    let native = Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()).output().unwrap();
    let script = folder.join("observed");
    // The sampler hands its own output to the program, so that a second process observes it.
    let mode = match plan {
        ReusePlan::Off => "count",
        ReusePlan::Every => "every",
        _ => "sparse",
    };
    let observed = Command::new(std::env::current_exe().unwrap())
        .args(["observer", "--exact", "--nocapture", "--ignored"])
        .env("DBI_COMMAND", command.join("\u{1}"))
        .env("DBI_MODE", mode)
        .env("DBI_OUTPUT", &script)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(observed.status.success(), "{command:?}: {}", text(&observed.stdout));
    let (output, error) =
        (fs::read(script.with_extension("out")).unwrap(), fs::read(script.with_extension("err")).unwrap());
    assert!(output == native.stdout, "{command:?}: standard output differs");
    assert_eq!(text(&error), text(&native.stderr), "{command:?}");
    let summary: Vec<String> = fs::read_to_string(&script).unwrap().lines().map(str::to_owned).collect();
    let exit: i32 = summary[0].parse().unwrap();
    assert_eq!(Some(exit), native.status.code(), "{command:?}");
    Run { windows: Vec::new(), exit: Some(TargetExit::Code(exit)), warnings: summary[1..].to_vec() }
}

/// Not a test of its own: observes the program in the environment, its output redirected to files.
#[test]
#[ignore = "started by the other tests"]
fn observer() {
    let Ok(command) = std::env::var("DBI_COMMAND") else { return };
    let output = PathBuf::from(std::env::var_os("DBI_OUTPUT").unwrap());
    let plan = match std::env::var("DBI_MODE").unwrap().as_str() {
        "count" => ReusePlan::Off,
        "every" => ReusePlan::Every,
        _ => ReusePlan::Sparse(SampleGap::mean(100.0).unwrap()),
    };
    let words: Vec<&str> = command.split('\u{1}').collect();
    let file = |name: &str| fs::File::create(output.with_extension(name)).unwrap();
    let kept =
        (std::io::stdout().as_fd().try_clone_to_owned(), std::io::stderr().as_fd().try_clone_to_owned());
    nix::unistd::dup2_stdout(file("out")).unwrap();
    nix::unistd::dup2_stderr(file("err")).unwrap();
    let done = run(&words, &DbiOptions::windows_of(1_000_000), |_| plan);
    nix::unistd::dup2_stdout(kept.0.unwrap()).unwrap();
    nix::unistd::dup2_stderr(kept.1.unwrap()).unwrap();
    let exit = match done.exit {
        Some(TargetExit::Code(code)) => code,
        other => panic!("{other:?}"),
    };
    fs::write(&output, format!("{exit}\n{}", done.warnings.join("\n"))).unwrap();
}

#[test]
fn programs_print_and_end_as_they_do_natively() {
    let folder = folder("programs");
    let lines = lines(&folder);
    let counted =
        "my %x; $x{$_ % 1000} += $_ for 1..20000; print join(q(,), map {qq($_=$x{$_})} sort keys %x); exit 3";
    let trapped =
        "trap 'echo trapped' USR1; for i in 1 2 3; do kill -USR1 $$; done; echo after; sleep 0.01 & wait";
    let commands: [&[&str]; 11] = [
        &["true"],
        &["ls", "-la", "/usr/lib"],
        &["sort", &lines],
        &["gzip", "-c", &lines],
        &["xz", "-1", "-c", &lines],
        &["sha256sum", &lines],
        &["grep", "-c", "word7", &lines],
        &["perl", "-e", counted],
        &["sh", "-c", "echo one; (exit 5); echo $?; ls / | wc -l; exit 7"],
        &["bash", "-c", trapped],
        &["python3", "-c", "import json; d = {i: str(i) for i in range(2000)}; print(len(json.dumps(d)))"],
    ];
    for command in commands {
        if installed(command[0]) {
            for plan in [ReusePlan::Off, ReusePlan::Sparse(SampleGap::mean(100.0).unwrap()), ReusePlan::Every]
            {
                agrees(&folder, command, plan);
            }
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Instructions that the program executes, repeated string instructions once, by single-stepping it.
fn stepped(command: &[&str]) -> Option<u64> {
    let mut child = Command::new(command[0]);
    child.args(&command[1..]).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    child.stdout(std::io::stderr().as_fd().try_clone_to_owned().unwrap()); // as below
    let trace = || {
        let _ = personality::get().and_then(|old| personality::set(old | Persona::ADDR_NO_RANDOMIZE));
        ptrace::traceme().map_err(std::io::Error::from)
    };
    // SAFETY: the closure makes system calls only.
    unsafe { child.pre_exec(trace) };
    let Ok(child) = child.spawn() else {
        println!("skipped: a process cannot be traced here");
        return None;
    };
    let pid = Pid::from_raw(child.id() as i32);
    waitpid(pid, None).unwrap();
    let (mut steps, mut last) = (0, 0);
    loop {
        let at = ptrace::getregs(pid).unwrap().rip;
        steps += u64::from(at != last);
        last = at;
        ptrace::step(pid, None).unwrap();
        if let WaitStatus::Exited(..) | WaitStatus::Signaled(..) = waitpid(pid, None).unwrap() {
            return Some(steps);
        }
    }
}

#[test]
fn instructions_are_those_of_single_stepping() {
    for (command, plan) in [
        (["/bin/true", ""], ReusePlan::Off),
        (["/bin/true", ""], ReusePlan::Every),
        (["/bin/ls", "/dev/null"], ReusePlan::Off),
    ] {
        let Some(steps) = stepped(&command) else { return };
        let mut options = DbiOptions::windows_of(10_000).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        options.output_to_stderr = true;
        let mut done = run(&command, &options, |_| plan);
        assert_eq!(done.exit, Some(TargetExit::Code(0)), "{:?}", done.warnings);
        assert_eq!(done.instructions(), steps, "{command:?}");
        // Windows end before the block that would exceed them, and the next makes up for it.
        let last = done.windows.pop().unwrap();
        assert!(last.instructions <= 10_000 + 64);
        let mut total = 0;
        for (window, end) in done.windows.iter().zip((10_000..).step_by(10_000)) {
            total += window.instructions;
            assert!(total <= end && total + 64 > end, "window {} ends at {total}", window.index.0);
            assert_eq!(window.code.iter().map(|(_, count)| count).sum::<u64>(), window.instructions);
        }
    }
}

/// A program without a C library that makes a known number of accesses of each kind.
const KNOWN: &str = r#"
__attribute__((aligned(64))) static char memory[4096];
void _start(void) {
    __asm__ volatile(
        "mov $1000, %%ecx\n"
        "lea %0, %%rdi\n"
        "1: mov (%%rdi), %%rax\n"          // 1000 loads
        "mov %%rax, 64(%%rdi)\n"           // 1000 stores
        "incq 128(%%rdi)\n"                // 1000 loads, 1000 stores
        "lock incq 192(%%rdi)\n"           // 1000 stores
        "movups 252(%%rdi), %%xmm0\n"      // 2000 loads: two lines
        "movups %%xmm0, 320(%%rdi)\n"      // 1000 stores
        "push %%rax\n pop %%rax\n"         // 1000 stores, 1000 loads
        "prefetcht0 (%%rdi)\n lea 8(%%rdi), %%rax\n nopl 8(%%rdi)\n"
        "dec %%ecx\n jnz 1b\n"
        "lea %0, %%rsi\n lea 2048(%%rsi), %%rdi\n mov $100, %%ecx\n rep movsq\n" // 100 loads, 100 stores
        "xor %%edi, %%edi\n mov $60, %%eax\n syscall\n"
        : "+m"(memory) : : "rax", "rcx", "rdi", "rsi", "memory");
}
"#;

#[test]
fn accesses_are_those_of_a_program_whose_accesses_are_known() {
    let folder = folder("known");
    let flags = ["-O1", "-static", "-nostdlib", "-fno-stack-protector", "-fcf-protection=none"];
    let Some(program) = compile(&folder, KNOWN, &flags) else { return };
    let (loads, stores) = (1000 + 1000 + 2000 + 1000 + 100, 1000 + 1000 + 1000 + 1000 + 1000 + 100);
    let done = run(&[&program], &DbiOptions::windows_of(1_000), |_| ReusePlan::Every);
    assert_eq!(done.exit, Some(TargetExit::Code(0)), "{:?}", done.warnings);
    assert_eq!(done.accesses(), loads + stores);
    let arrivals = |pick: fn(&Arrivals) -> u64| -> u64 {
        done.windows.iter().filter_map(|window| window.arrivals.as_ref()).map(pick).sum()
    };
    assert_eq!(arrivals(|a| a.loads.total_weight()), loads);
    assert_eq!(arrivals(|a| a.stores.total_weight()), stores);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_sample_is_reported_once_and_plans_move_no_boundary() {
    let folder = folder("samples");
    let lines = lines(&folder);
    let command = ["sort", "-o", "/dev/null", &lines];
    let options = DbiOptions::windows_of(1_000_000).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    let counted = run(&command, &options, |_| ReusePlan::Off);
    let mixed = run(&command, &options, |window| match window % 4 {
        0 => ReusePlan::Every,
        1 => ReusePlan::Sparse(SampleGap::mean(50.0).unwrap()),
        2 => ReusePlan::Watch,
        _ => ReusePlan::Off,
    });
    let lengths = |run: &Run| run.windows.iter().map(|window| window.instructions).collect::<Vec<_>>();
    assert_eq!(lengths(&counted), lengths(&mixed));
    for (one, other) in counted.windows.iter().zip(&mixed.windows) {
        assert!(one.code == other.code, "the code of window {} differs", one.index.0);
    }
    let mut reported = HashMap::<u64, u64>::new();
    for window in &mixed.windows {
        for (started, _, count, weight) in window.outcomes() {
            *reported.entry(started.0).or_default() += count * weight;
        }
    }
    for window in mixed.windows.iter().filter(|window| window.index.0 % 4 == 0) {
        let accesses = window.accesses.get().unwrap();
        assert_eq!(reported.get(&window.index.0), Some(&accesses), "window {}", window.index.0);
    }
    fs::remove_dir_all(folder).unwrap();
}

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
            .args(["observer", "--exact", "--nocapture", "--ignored"])
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
            .args(["observer", "--exact", "--nocapture", "--ignored"])
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
fn signals_arrive_as_they_do_natively() {
    let folder = folder("signals");
    let Some(program) = compile(&folder, include_str!("signals.c"), &["-O2"]) else { return };
    for plan in [ReusePlan::Off, ReusePlan::Every] {
        let done = agrees(&folder, &[&program], plan);
        assert_eq!(done.exit, Some(TargetExit::Code(9)));
        assert!(!done.warnings.iter().any(|w| w.contains("natively")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Runs the program in `threads.c`, which ends in three ways.
fn threads(folder: &Path, check: impl Fn(&str, &str, i32)) {
    let Some(program) = compile(folder, include_str!("threads.c"), &["-O1", "-pthread", "-ldl"]) else {
        return;
    };
    for (ending, exit) in [("", 7), ("group", 8), ("each", 0)] {
        check(&program, ending, exit);
    }
}

#[test]
fn threads_run_as_they_do_natively() {
    let folder = folder("threads");
    threads(&folder, |program, ending, exit| {
        let command = [program, ending];
        for plan in [ReusePlan::Off, ReusePlan::Every] {
            // One ending is enough where recording what spins takes long.
            if plan == ReusePlan::Off || ending == "group" {
                let done = agrees(&folder, &command[..1 + usize::from(!ending.is_empty())], plan);
                assert_eq!(done.exit, Some(TargetExit::Code(exit)));
                assert!(!done.warnings.iter().any(|w| w.contains("natively")), "{:?}", done.warnings);
            }
        }
    });
    fs::remove_dir_all(folder).unwrap();
}

/// Threads that do the same, each a known amount.
const EQUAL: &str = r#"
#include <pthread.h>
static long memory[4][4096];
static void *work(void *n) {
    long *own = memory[(long)n];
    for (int pass = 0; pass < 100; pass++) for (int i = 0; i < 4096; i++) own[i] += i;
    return 0;
}
int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

#[test]
fn each_thread_has_its_own_windows_and_samples() {
    let folder = folder("equal");
    let Some(program) = compile(&folder, EQUAL, &["-O1", "-pthread"]) else { return };
    let done = run(&[&program], &DbiOptions::windows_of(100_000), |_| ReusePlan::Every);
    assert_eq!(done.exit, Some(TargetExit::Code(0)), "{:?}", done.warnings);
    let mut indices: Vec<u64> = done.windows.iter().map(|window| window.index.0).collect();
    indices.sort_unstable();
    assert!(indices.iter().copied().eq(0..done.windows.len() as u64), "{indices:?}");
    let mut accesses = HashMap::<u32, u64>::new();
    let mut reported = HashMap::<u32, u64>::new();
    for window in &done.windows {
        assert!(window.instructions <= 100_064, "{}", window.instructions);
        *accesses.entry(window.thread.0).or_default() += window.accesses.get().unwrap();
        let outcomes = window.outcomes();
        *reported.entry(window.thread.0).or_default() +=
            outcomes.map(|(_, _, count, weight)| count * weight).sum::<u64>();
    }
    assert_eq!(accesses, reported, "every access is a sample, reported once");
    assert_eq!(accesses.len(), 5);
    for thread in 1..5 {
        // A load and a store, and what the C library does at either end.
        let made = accesses[&thread];
        assert!((819_200..822_000).contains(&made), "thread {thread}: {made}");
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

#[test]
fn code_that_changes_is_observed() {
    let folder = folder("changes");
    let Some(program) = compile(&folder, include_str!("changes.c"), &["-O1", "-pthread"]) else { return };
    for plan in [ReusePlan::Off, ReusePlan::Every] {
        let done = agrees(&folder, &[&program], plan);
        assert_eq!(done.exit, Some(TargetExit::Code(6)));
        assert!(!done.warnings.iter().any(|w| w.contains("natively")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// A thread of several replaces the program by another one.
const REPLACED: &str = r#"
#include <pthread.h>
#include <unistd.h>
static void *spins(void *n) { for (;;); }
static void *replaces(void *n) {
    execl("/nonexistent", "none", (char *)0);
    execlp("sort", "sort", (char *)n, (char *)0);
    return 0;
}
int main(int count, char **arguments) {
    pthread_t thread;
    for (int i = 0; i < 2; i++) pthread_create(&thread, 0, spins, 0);
    pthread_create(&thread, 0, replaces, arguments[1]);
    for (;;) pause();
}
"#;

#[test]
fn executed_programs_are_observed() {
    let folder = folder("executed");
    let lines = lines(&folder);
    let options = DbiOptions::windows_of(1_000_000);
    let sorted = run(&["sort", "-o", "/dev/null", &lines], &options, |_| ReusePlan::Every);
    let words = ["sh", "-c", "exec nice -n 1 sort -o /dev/null \"$0\"", &lines];
    let replaced = run(&words, &options, |_| ReusePlan::Every);
    assert!(!replaced.warnings.iter().any(|w| w.contains("unobserved")), "{:?}", replaced.warnings);
    assert_eq!(replaced.exit, Some(TargetExit::Code(0)));
    // The shell and `nice` execute some 300,000 each.
    let more = replaced.instructions() - sorted.instructions();
    assert!((100_000..2_000_000).contains(&more), "{more}");
    assert!(replaced.windows.iter().all(|window| window.thread.0 == 0));
    // Addresses of one program are not those of another.
    let mut sampler = DbiSampler::spawn(words[0], &words[1..], &options).unwrap();
    let mut files = HashMap::<PathBuf, u64>::new();
    let mut windows = Vec::new();
    while let Some(window) = sampler.next_window(&WindowPlan::count_only()).unwrap() {
        windows.push(window);
    }
    for (address, count) in windows.into_iter().flat_map(|window| window.code) {
        if let Some(location) = sampler.locate(address) {
            *files.entry(location.file).or_default() += count;
        }
    }
    for name in ["sh", "nice", "sort"] {
        let path = fs::canonicalize(format!("/usr/bin/{name}")).unwrap();
        assert!(files.get(&path).is_some_and(|&count| count > 100), "{name}: {files:?}");
    }
    if let Some(program) = compile(&folder, REPLACED, &["-O1", "-pthread"]) {
        let done = agrees(&folder, &[&program, &lines], ReusePlan::Off);
        assert!(!done.warnings.iter().any(|w| w.contains("unobserved")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

const SEGMENT: &str = r#"
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    static long place = 5;
    long own;
    syscall(SYS_arch_prctl, 0x1001, &place); // ARCH_SET_GS
    __asm__("mov %%gs:0, %0" : "=r"(own));
    printf("%ld\n", own);
    return 4;
}
"#;

#[test]
fn what_is_not_supported_runs_natively_and_is_said() {
    let folder = folder("unsupported");
    if let Some(program) = compile(&folder, SEGMENT, &["-O1"]) {
        let done = agrees(&folder, &[&program], ReusePlan::Off);
        assert!(done.warnings.iter().any(|w| w.contains("uses the GS register")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_run_is_an_error() {
    let options = DbiOptions::default();
    let none: [&str; 0] = [];
    let missing = DbiSampler::spawn("/nonexistent/program", none, &options).unwrap_err();
    assert!(missing.to_string().contains("no such program"), "{missing}");
    assert!(DbiSampler::spawn("/bin/true", none, &DbiOptions::windows_of(0)).is_err());
}

#[test]
#[cfg(feature = "laws")]
fn keeps_the_laws_of_samplers() {
    reuse_sampler::laws::sampler(|| DbiSampler::spawn("true", [""; 0], &DbiOptions::windows_of(20_000)))
        .unwrap();
}
