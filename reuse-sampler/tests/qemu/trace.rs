//! A trace replayed, against the same program sampled inside the emulator.

use std::collections::BTreeMap;

use reuse_sampler::Outcome;
use reuse_sampler::qemu::{QemuOptions, QemuTrace, TargetExit};
use reuse_sampler::replay::{Event, EventSource, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{Sampler, Window};

use super::close_to;
use super::run::{every, qemu_is_missing, run};
use super::targets::TARGET;

fn trace(target: &str) -> QemuTrace {
    let options = QemuOptions::default().env(TARGET, target);
    QemuTrace::spawn(std::env::current_exe().unwrap(), ["argument"], &options).unwrap()
}

fn by_outcome(windows: &[Window]) -> BTreeMap<u64, u64> {
    let mut sums = BTreeMap::new();
    for (_, outcome, count, _) in windows.iter().flat_map(Window::outcomes) {
        let far = match outcome {
            Outcome::Reused(distance) => (distance.0 + 1).ilog2().into(),
            _ => u64::MAX,
        };
        *sums.entry(far).or_default() += count;
    }
    sums
}

#[test]
fn a_replayed_trace_gives_what_sampling_in_the_emulator_gives() {
    if qemu_is_missing() {
        return;
    }
    let inside = run("strided", 1_000_000, |_| every());
    let options = ReplayOptions::windows_of(WindowLength::Instructions(1_000_000));
    let mut replay = ReplaySampler::new(trace("strided"), options).unwrap();
    let mut windows = Vec::new();
    while let Some(window) = replay.next_window(&every()).unwrap() {
        windows.push(window);
    }
    assert_eq!(windows.len(), inside.windows.len());
    let sum = |windows: &[Window]| {
        let accesses: u64 = windows.iter().filter_map(|w| w.accesses.get()).sum();
        (windows.iter().map(|w| w.instructions).sum::<u64>(), accesses)
    };
    let (found, expected) = (sum(&windows), sum(&inside.windows));
    assert!(close_to(found.0, expected.0) && close_to(found.1, expected.1), "{found:?} {expected:?}");
    let (found, expected) = (by_outcome(&windows), by_outcome(&inside.windows));
    for (far, count) in &expected {
        // Two runs differ by as much as the program's environment does: a thousandth of everything.
        let off = found.get(far).copied().unwrap_or(0).abs_diff(*count);
        assert!(off as f64 <= 1e-3 * sum(&windows).1 as f64, "2^{far}: {off} of {count}");
    }
}

#[test]
fn threads_are_told_apart_and_end() {
    if qemu_is_missing() {
        return;
    }
    let mut trace = trace("threads");
    let (mut begun, mut ended, mut accesses) = (1, Vec::new(), 0_u64);
    while let Some(event) = trace.next_event().unwrap() {
        match event {
            Event::Thread(id) => begun = begun.max(id.0 + 1),
            Event::Exit(id) => ended.push(id.0),
            Event::Access(_) => accesses += 1,
            _ => {}
        }
    }
    ended.sort_unstable();
    assert_eq!(trace.exit_status(), Some(TargetExit::Code(0)));
    assert!(begun > 1 && accesses > 0, "{begun} {accesses}");
    assert_eq!(ended, (0..begun).collect::<Vec<_>>(), "each thread ends once");
    assert_eq!(trace.warnings(), [""; 0]);
}

#[test]
fn a_trace_that_is_dropped_ends_its_program() {
    if qemu_is_missing() {
        return;
    }
    let mut trace = trace("spin");
    for _ in 0..100_000 {
        assert!(trace.next_event().unwrap().is_some());
    }
    drop(trace);
}
