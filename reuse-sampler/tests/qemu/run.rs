//! Runs a target under plans and keeps what comes back.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use reuse_sampler::qemu::{QemuOptions, QemuSampler, TargetExit};
use reuse_sampler::{
    Outcome, ProcessRecord, ReusePlan, SampleGap, Sampler, SamplerError, ThreadId, Window, WindowIndex,
    WindowPlan,
};

use crate::targets::{DRIVEN, TARGET};

/// A finished run.
pub struct Run {
    pub windows: Vec<Window>,
    pub plans: BTreeMap<WindowIndex, WindowPlan>,
    pub exit: Option<TargetExit>,
    pub warnings: Vec<String>,
    pub processes: Vec<ProcessRecord>,
}

impl Run {
    pub fn outcomes(&self) -> impl Iterator<Item = (WindowIndex, Outcome, u64, u64)> + '_ {
        self.windows.iter().flat_map(Window::outcomes)
    }
}

pub fn off() -> WindowPlan {
    WindowPlan::count_only()
}

pub fn watch() -> WindowPlan {
    WindowPlan::new(ReusePlan::Watch)
}

pub fn every() -> WindowPlan {
    WindowPlan::new(ReusePlan::Every)
}

pub fn sparse(mean: f64) -> WindowPlan {
    WindowPlan::new(ReusePlan::Sparse(SampleGap::mean(mean).unwrap()))
}

/// Whether there is no emulator to test with; says so.
pub fn qemu_is_missing() -> bool {
    static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
        let options = QemuOptions::default().env(TARGET, "brief");
        match QemuSampler::spawn(std::env::current_exe().unwrap(), [""; 0], &options) {
            Err(SamplerError::Unsupported { missing, .. }) => Some(missing),
            _ => None,
        }
    });
    if let Some(missing) = &*MISSING {
        assert!(std::env::var_os("REQUIRE_QEMU").is_none(), "REQUIRE_QEMU is set, but {missing}");
        eprintln!("skipped: {missing}");
    }
    MISSING.is_some()
}

/// This program as one of the targets.
pub fn sampler(target: &str, options: QemuOptions) -> QemuSampler {
    let options = options.env(TARGET, target);
    QemuSampler::spawn(std::env::current_exe().unwrap(), ["argument"], &options).unwrap()
}

/// A target in windows of `length` instructions; `plan` gives the plan of each thread's n-th window.
pub fn run(target: &str, length: u64, plan: impl Fn(usize) -> WindowPlan) -> Run {
    run_with(target, QemuOptions::windows_of(length), plan)
}

/// The same with options.
pub fn run_with(target: &str, options: QemuOptions, plan: impl Fn(usize) -> WindowPlan) -> Run {
    let mut sampler = sampler(target, options);
    let mut next: BTreeMap<ThreadId, WindowPlan> = BTreeMap::new();
    let mut counts: BTreeMap<ThreadId, usize> = BTreeMap::new();
    let (mut windows, mut plans) = (Vec::new(), BTreeMap::new());
    let mut now = plan(0);
    while let Some(window) = sampler.next_window(&now).unwrap() {
        plans.insert(window.index, next.get(&window.thread).copied().unwrap_or_else(|| plan(0)));
        let count = counts.entry(window.thread).or_default();
        *count += 1;
        now = plan(*count);
        next.insert(window.thread, now);
        windows.push(window);
    }
    let (exit, warnings, processes) =
        (sampler.exit_status(), sampler.warnings().to_vec(), sampler.processes());
    Run { windows, plans, exit, warnings, processes }
}

/// Runs a target with its streams connected to ours: this program calls itself to sample itself.
pub fn in_a_process_of_its_own(target: &str, input: &str) -> Output {
    let mut driver = Command::new(std::env::current_exe().unwrap())
        .env(DRIVEN, target)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    driver.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    driver.wait_with_output().unwrap()
}

/// What the other process does.
pub fn drive(target: &str) {
    let run = run(target, 100_000, |n| if n % 2 == 0 { every() } else { off() });
    eprintln!("driver saw {:?}", run.exit);
}

/// Major version of the emulator in the path.
pub fn emulator_version() -> u32 {
    let output = Command::new("qemu-x86_64").arg("--version").output().unwrap().stdout;
    let text = String::from_utf8(output).unwrap();
    let number = text.split_whitespace().nth(2).unwrap().split('.').next().unwrap();
    number.parse().unwrap()
}
