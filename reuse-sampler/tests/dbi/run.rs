//! Running a program translated, and what the tests share.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use reuse_sampler::dbi::{DbiOptions, DbiSampler};
use reuse_sampler::{ProcessRecord, ReusePlan, SampleGap, Sampler, TargetExit, Window, WindowPlan};

/// What a run gave.
pub struct Run {
    pub windows: Vec<Window>,
    pub exit: Option<TargetExit>,
    pub warnings: Vec<String>,
    pub processes: Vec<ProcessRecord>,
}

impl Run {
    pub fn instructions(&self) -> u64 {
        self.windows.iter().map(|window| window.instructions).sum()
    }

    pub fn accesses(&self) -> u64 {
        self.windows.iter().filter_map(|window| window.accesses.get()).sum()
    }
}

pub fn run(command: &[&str], options: &DbiOptions, mut plan: impl FnMut(usize) -> ReusePlan) -> Run {
    let mut sampler = DbiSampler::spawn(command[0], &command[1..], options).unwrap();
    let mut windows = Vec::new();
    while let Some(window) = sampler.next_window(&WindowPlan::new(plan(windows.len()))).unwrap() {
        windows.push(window);
    }
    Run {
        windows,
        exit: sampler.exit_status(),
        warnings: sampler.warnings().to_vec(),
        processes: sampler.processes(),
    }
}

pub fn installed(program: &str) -> bool {
    let found = program.contains('/')
        || Command::new("which").arg(program).output().is_ok_and(|o| o.status.success());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// Whether the test runs as root, which it says where it does not.
pub fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("skipped: only root can do this");
    }
    root
}

/// A folder of the test's own.
pub fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("reuse-sampler-dbi-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Compiles a C program; none where there is no compiler.
pub fn compile(folder: &Path, source: &str, flags: &[&str]) -> Option<String> {
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
pub fn lines(folder: &Path) -> String {
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

const SLOW: &[u8] = b"test run::observer has been running for over 60 seconds\n";

/// Runs the command natively and, observed by another process, translated; compares output and status. With
/// [`ReusePlan::Watch`] the windows are short, and of all kinds.
pub fn agrees(folder: &Path, command: &[&str], plan: ReusePlan) -> Run {
    let native = Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()).output().unwrap();
    let script = folder.join("observed");
    // The sampler hands its own output to the program, so that a second process observes it.
    let mode = match plan {
        ReusePlan::Off => "count",
        ReusePlan::Every => "every",
        ReusePlan::Watch => "mixed",
        _ => "sparse",
    };
    let observed = Command::new(std::env::current_exe().unwrap())
        .args(["run::observer", "--exact", "--nocapture", "--ignored"])
        .env("DBI_COMMAND", command.join("\u{1}"))
        .env("DBI_MODE", mode)
        .env("DBI_OUTPUT", &script)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(observed.status.success(), "{command:?}: {}", text(&observed.stdout));
    let (mut output, error) =
        (fs::read(script.with_extension("out")).unwrap(), fs::read(script.with_extension("err")).unwrap());
    // What a test says of itself that takes long.
    while let Some(at) = output.windows(SLOW.len()).position(|bytes| bytes == SLOW) {
        output.drain(at..at + SLOW.len());
    }
    let differing =
        output.split(|b| *b == b'\n').zip(native.stdout.split(|b| *b == b'\n')).find(|(a, b)| a != b);
    let shown = differing.map(|(ours, theirs)| (text(ours), text(theirs)));
    assert!(output == native.stdout, "{command:?}: standard output differs: {shown:?}");
    assert_eq!(text(&error), text(&native.stderr), "{command:?}");
    let summary: Vec<String> = fs::read_to_string(&script).unwrap().lines().map(str::to_owned).collect();
    let exit: i32 = summary[0].parse().unwrap();
    assert_eq!(Some(exit), native.status.code(), "{command:?}");
    Run {
        windows: Vec::new(),
        exit: Some(TargetExit::Code(exit)),
        warnings: summary[1..].to_vec(),
        processes: Vec::new(),
    }
}

/// Not a test of its own: observes the program in the environment, its output redirected to files.
#[test]
#[ignore = "started by the other tests"]
fn observer() {
    let Ok(command) = std::env::var("DBI_COMMAND") else { return };
    let output = PathBuf::from(std::env::var_os("DBI_OUTPUT").unwrap());
    let sparse = ReusePlan::Sparse(SampleGap::mean(100.0).unwrap());
    let (length, plans): (_, &[_]) = match std::env::var("DBI_MODE").unwrap().as_str() {
        "count" => (1_000_000, &[ReusePlan::Off]),
        "every" => (1_000_000, &[ReusePlan::Every]),
        "mixed" => (20_000, &[ReusePlan::Off, sparse, ReusePlan::Every, ReusePlan::Watch]),
        _ => (1_000_000, &[sparse]),
    };
    let words: Vec<&str> = command.split('\u{1}').collect();
    let file = |name: &str| fs::File::create(output.with_extension(name)).unwrap();
    let kept =
        (std::io::stdout().as_fd().try_clone_to_owned(), std::io::stderr().as_fd().try_clone_to_owned());
    nix::unistd::dup2_stdout(file("out")).unwrap();
    nix::unistd::dup2_stderr(file("err")).unwrap();
    let done = run(&words, &DbiOptions::windows_of(length), |window| plans[window % plans.len()]);
    nix::unistd::dup2_stdout(kept.0.unwrap()).unwrap();
    nix::unistd::dup2_stderr(kept.1.unwrap()).unwrap();
    let exit = match done.exit {
        Some(TargetExit::Code(code)) => code,
        other => panic!("{other:?}"),
    };
    fs::write(&output, format!("{exit}\n{}", done.warnings.join("\n"))).unwrap();
}
