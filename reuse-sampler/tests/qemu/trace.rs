//! A trace replayed, against the same program sampled inside the emulator.

use std::collections::BTreeMap;

use reuse_sampler::Outcome;
use reuse_sampler::qemu::{QemuOptions, QemuTrace, TargetExit};
use reuse_sampler::replay::{Event, EventSource, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{Access, AccessKind, Sampler, Window};

use super::close_to;
use super::run::{every, off, qemu_is_missing, run, sparse};
use super::targets::{LINES, PASSES, TARGET};
#[cfg(target_arch = "x86_64")]
use super::targets::{STORE, STORES};

fn trace(target: &str) -> QemuTrace {
    let options = QemuOptions::default().env(TARGET, target);
    QemuTrace::spawn(std::env::current_exe().unwrap(), ["argument"], &options).unwrap()
}

fn fetches(target: &str) -> QemuTrace {
    let options = QemuOptions::default().env(TARGET, target);
    QemuTrace::fetches(std::env::current_exe().unwrap(), ["argument"], &options).unwrap()
}

/// The accesses of a trace by the instruction that makes them, and the instructions that its blocks count.
fn by_instruction(mut trace: QemuTrace) -> (BTreeMap<u64, Vec<Access>>, u64) {
    let (mut found, mut executed) = (BTreeMap::<u64, Vec<Access>>::new(), 0_u64);
    while let Some(event) = trace.next_event().unwrap() {
        match event {
            Event::Access(access) => found.entry(access.pc).or_default().push(access),
            Event::Block { instructions, .. } => executed += u64::from(instructions),
            _ => {}
        }
    }
    assert_eq!(trace.exit_status(), Some(TargetExit::Code(0)));
    (found, executed)
}

/// The instructions that are told most often, and how often each is: the loop of [`stride`](super::targets), which
/// compilers unroll.
fn hottest(found: &BTreeMap<u64, Vec<Access>>) -> (usize, usize) {
    let most = found.values().map(Vec::len).max().unwrap();
    (found.values().filter(|accesses| accesses.len() == most).count(), most)
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
fn accesses_are_made_by_the_instructions_that_samples_name() {
    if qemu_is_missing() {
        return;
    }
    // The sampler is told each instruction's address by the emulator; the trace puts it together from block and place.
    const PAGE: u64 = 4096;
    let gap = 50.0;
    let sampled = run("strided", 1_000_000, |_| sparse(gap));
    let mut samples = BTreeMap::<u64, f64>::new();
    for sample in sampled.windows.iter().flat_map(|window| &window.samples) {
        *samples.entry(sample.begin.pc % PAGE).or_default() += sample.weight as f64 / gap;
    }
    let (traced, _) = by_instruction(trace("strided"));
    let (loads, most) = hottest(&traced);
    assert_eq!(loads * most, PASSES * LINES, "the loads of the loop");
    // Emulators from version 10 on have the program and its libraries at other pages in the two runs.
    let mut placed = BTreeMap::<u64, usize>::new();
    for (pc, accesses) in &traced {
        *placed.entry(pc % PAGE).or_default() += accesses.len();
    }
    for (pc, accesses) in &placed {
        // Binomial, with room for what differs between two runs: a thousandth of all, and five standard deviations.
        let expected = *accesses as f64 / gap;
        let off = (samples.remove(pc).unwrap_or(0.0) - expected).abs();
        assert!(
            off <= 5.0 * expected.sqrt() + 0.001 * most as f64 / gap + 1.0,
            "{pc:#x}: {off} of {expected}"
        );
    }
    assert!(samples.values().sum::<f64>() <= 0.001 * most as f64 / gap, "other instructions: {samples:?}");
}

/// The program counters of the stores of the target "straight", and how often each was told with so many bytes.
#[cfg(target_arch = "x86_64")]
fn stores_of(found: &BTreeMap<u64, Vec<Access>>, bytes: u32) -> Vec<(u64, usize)> {
    let often = |accesses: &&Vec<Access>| accesses.iter().filter(|access| access.bytes == bytes).count();
    let all = found.iter().map(|(&pc, accesses)| (pc, often(&accesses)));
    all.filter(|&(_, count)| count == PASSES).collect()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn instructions_far_into_a_long_block_are_named() {
    if qemu_is_missing() {
        return;
    }
    let (found, _) = by_instruction(trace("straight"));
    let stores = stores_of(&found, 8);
    let run = stores.chunk_by(|a, b| b.0 - a.0 == STORE).map(<[_]>::len).max();
    assert_eq!(run, Some(STORES), "{} instructions: one every {STORE} bytes", stores.len());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn fetches_are_of_the_instructions_that_blocks_consist_of() {
    if qemu_is_missing() {
        return;
    }
    let (found, executed) = by_instruction(fetches("straight"));
    let told: usize = found.values().map(Vec::len).sum();
    assert_eq!(told as u64, executed, "each instruction is a fetch");
    let inside = run("straight", 1_000_000, |_| off());
    assert!(close_to(executed, inside.windows.iter().map(|window| window.instructions).sum()));
    for (pc, accesses) in &found {
        let itself = |access: &Access| access.address == *pc && access.kind == AccessKind::Load;
        assert!(accesses.iter().all(itself), "{pc:#x} fetches something else");
    }
    let stores = stores_of(&found, STORE as u32);
    let run = stores.chunk_by(|a, b| b.0 - a.0 == STORE).map(<[_]>::len).max();
    assert_eq!(run, Some(STORES));
}

#[test]
fn instructions_of_threads_are_not_mixed_up() {
    if qemu_is_missing() {
        return;
    }
    // Threads are told in stretches, which begin in the middle of blocks.
    let (loads, often) = hottest(&by_instruction(trace("threads")).0);
    assert_eq!(loads * often, 4 * PASSES * LINES, "the loads of four threads");
    let (instructions, fetched) = hottest(&by_instruction(fetches("threads")).0);
    assert!(
        instructions > loads && fetched == often,
        "{instructions} of {loads}, {fetched} of {often} times"
    );
}

#[test]
fn threads_are_distinguished_and_end() {
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
