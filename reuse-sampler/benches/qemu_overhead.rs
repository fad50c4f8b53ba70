//! What observing a program costs: processor time of the whole pipeline against the program alone, the
//! emulator alone and valgrind's cachegrind, as a table.
//!
//! `cargo bench -p reuse-sampler --features qemu --bench qemu_overhead [-- PROGRAM ARGS]` measures one
//! program, or without PROGRAM the ones of the front page as far as they are installed. Processor time of
//! all processes, the least of three runs: a busy machine changes the times, hardly the ratios.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use reuse_sampler::qemu::{QemuOptions, QemuSampler};
use reuse_sampler::{ReusePlan, SampleGap, Sampler, WindowPlan};

/// Instructions in a window.
const WINDOW: u64 = 10_000_000;
const RUNS: usize = 3;

/// Ways to observe, by the name under which this program calls itself to observe in that way.
const MODES: [&str; 5] =
    ["count only", "1 of 10 windows, 1:1000", "1 of 10 windows, every", "1:1000", "every"];

fn plan(mode: &str, window: u64) -> WindowPlan {
    let sparse = ReusePlan::Sparse(SampleGap::mean(1000.0).unwrap());
    let one_in_ten = |plan| if window % 10 == 1 { plan } else { ReusePlan::Off };
    WindowPlan::new(match mode {
        "count only" => ReusePlan::Off,
        "1 of 10 windows, 1:1000" => one_in_ten(sparse),
        "1 of 10 windows, every" => one_in_ten(ReusePlan::Every),
        "1:1000" => sparse,
        "every" => ReusePlan::Every,
        other => panic!("no mode {other}"),
    })
}

/// The pipeline: runs the program and takes every window.
fn observe(mode: &str, command: &[OsString]) {
    let options = QemuOptions::windows_of(WINDOW);
    let mut sampler = QemuSampler::spawn(&command[0], &command[1..], &options).unwrap();
    let (mut windows, mut samples) = (0, 0);
    while let Some(window) = sampler.next_window(&plan(mode, windows)).unwrap() {
        windows += 1;
        samples += window.outcomes().map(|o| o.2).sum::<u64>();
    }
    assert!(windows > 0, "{:?} {samples}", sampler.exit_status());
}

/// Processor time of a command and everything it waits for, in seconds: the least of some runs.
fn seconds(program: impl AsRef<OsStr>, arguments: &[OsString], mode: Option<&str>) -> f64 {
    let once = || {
        let before = children();
        let mut command = Command::new(program.as_ref());
        command.args(arguments).env("LC_ALL", "C").stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(mode) = mode {
            command.env("QEMU_OVERHEAD_MODE", mode);
        }
        let status = command.stdin(Stdio::null()).status().unwrap();
        assert!(status.success(), "{:?} {arguments:?}: {status}", program.as_ref());
        children() - before
    };
    (0..RUNS).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Processor time of the children that ended, in seconds.
fn children() -> f64 {
    #[repr(C)]
    struct Usage {
        times: [i64; 4], // user and system, each in seconds and microseconds
        rest: [i64; 14],
    }
    unsafe extern "C" {
        fn getrusage(who: i32, usage: *mut Usage) -> i32;
    }
    let mut usage = Usage { times: [0; 4], rest: [0; 14] };
    // SAFETY: the structure is the one of 64-bit Linux.
    assert_eq!(unsafe { getrusage(-1, &raw mut usage) }, 0);
    let [user, user_micros, system, system_micros] = usage.times;
    (user + system) as f64 + (user_micros + system_micros) as f64 * 1e-6
}

fn measure(name: &str, command: &[OsString]) {
    let native = seconds(&command[0], &command[1..], None);
    let mut row = vec![format!("{native:.2} s")];
    row.push(ratio(seconds("qemu-x86_64", command, None), native));
    for mode in MODES {
        row.push(ratio(seconds(env::current_exe().unwrap(), command, Some(mode)), native));
    }
    let valgrind = ["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"];
    if Command::new("valgrind").arg("--version").output().is_ok_and(|answer| answer.status.success()) {
        let arguments: Vec<OsString> =
            valgrind.iter().map(OsString::from).chain(command.iter().cloned()).collect();
        row.push(ratio(seconds("valgrind", &arguments, None), native));
    } else {
        row.push("-".into());
    }
    println!("| {name} | {} |", row.join(" | "));
}

fn ratio(seconds: f64, native: f64) -> String {
    format!("{:.1}", seconds / native)
}

/// The programs of the front page, with input made here. The addresses are found as a shell finds them; what
/// is not installed is left out.
fn programs(directory: &Path) -> Vec<(&'static str, Vec<OsString>)> {
    let file = |name: &str, content: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        path.into_os_string()
    };
    let mut random = 1_u64;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let lines: String = (0..1_000_000).map(|i| format!("{} {i:x}\n", draw())).collect();
    // Half text, half noise.
    let mixed: Vec<u8> =
        (0..4_000_000).map(|i| if i / 4096 % 2 == 0 { lines.as_bytes()[i] } else { draw() as u8 }).collect();
    let script = "
def sieve(n):
    prime = [True] * n
    for i in range(2, int(n ** 0.5) + 1):
        if prime[i]:
            for j in range(i * i, n, i): prime[j] = False
    return sum(prime)
words = {}
for i in range(200000): words[str(i * 7919 % 5003)] = words.get(str(i % 977), 0) + i
print(sieve(400000), len(words))
";
    let functions: String = (0..1500)
        .map(|i| {
            format!(
                "int f{i}(int *a, int n) {{ int s = {i}; for (int i = 0; i < n; i++) \
                 {{ a[i] = a[i] * {i} + s; if (a[i] > n) s += a[i] >> 3; }} return s; }}\n"
            )
        })
        .collect();
    let compiler = Command::new("gcc").arg("-print-prog-name=cc1").output();
    let compiler = compiler.map(|answer| String::from_utf8(answer.stdout).unwrap().trim().to_owned());
    let mut programs = vec![
        ("sort, 1 M lines", vec!["sort".into(), "--parallel=1".into(), file("lines", lines.as_bytes())]),
        ("xz -3, 4 MB", vec!["xz".into(), "-3".into(), "-kc".into(), file("mixed", &mixed)]),
        ("python3 script", vec!["/usr/bin/python3".into(), file("script.py", script.as_bytes())]),
    ];
    if let Ok(compiler) = compiler {
        // What `gcc -O2 -c` runs: the driver itself does nothing worth observing.
        let source = file("functions.c", functions.as_bytes());
        let output = directory.join("functions.s").into_os_string();
        let command = vec![compiler.into(), "-O2".into(), "-quiet".into(), source, "-o".into(), output];
        programs.push(("gcc -O2 -c, 1500 functions", command));
    }
    programs.retain(|(_, command)| {
        let mut asked = Command::new(&command[0]);
        asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    });
    programs
}

fn main() {
    let arguments: Vec<OsString> = env::args_os().skip(1).filter(|argument| argument != "--bench").collect();
    if let Ok(mode) = env::var("QEMU_OVERHEAD_MODE") {
        // SAFETY: no thread was started yet.
        unsafe { env::remove_var("QEMU_OVERHEAD_MODE") };
        return observe(&mode, &arguments);
    }
    if let Err(error) = QemuSampler::spawn("true", [""; 0], &QemuOptions::default()) {
        println!("skipped: {error}");
        return;
    }
    println!("| program | native | emulator alone | {} | cachegrind |", MODES.join(" | "));
    println!("|---|{}", "---|".repeat(MODES.len() + 3));
    if arguments.is_empty() {
        let directory = env::temp_dir().join(format!("qemu-overhead-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for (name, command) in programs(&directory) {
            measure(name, &command);
        }
        std::fs::remove_dir_all(&directory).unwrap();
    } else {
        measure(&arguments[0].to_string_lossy(), &arguments);
    }
}
