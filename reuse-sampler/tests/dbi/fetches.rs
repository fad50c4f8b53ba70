//! Fetches of instructions, for instruction caches.

use std::path::Path;

use reuse_sampler::dbi::{DbiOptions, DbiTrace};
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::{AccessKind, TargetExit};

use crate::cachegrind::{Cache, SHARE, START, cachegrinds, programs, words};
use crate::operands::as_under_valgrind;
use crate::run::folder;

/// Instructions and misses of a command.
fn ours(command: &[&str], folder: &Path) -> (u64, u64) {
    let mut trace = DbiTrace::fetches(command[0], &command[1..], &as_under_valgrind(folder)).unwrap();
    let (mut cache, mut instructions, mut misses) = (Cache::new(), 0, 0);
    while let Some(event) = trace.next_event().unwrap() {
        if let Event::Access(fetch) = event {
            instructions += 1;
            let lines = fetch.address >> 6..=(fetch.address + u64::from(fetch.bytes) - 1) >> 6;
            // One that straddles misses once, as cachegrind has it.
            let missed = lines.fold(false, |missed, line| cache.misses(line) | missed);
            misses += u64::from(missed);
        }
    }
    assert_eq!(trace.exit_status(), Some(TargetExit::Code(0)), "{command:?}");
    assert_eq!(trace.operands(), 0);
    (instructions, misses)
}

#[test]
fn instruction_caches_miss_as_cachegrinds_do() {
    let folder = folder("fetches");
    println!("{:14} {:>12} {:>12} {:>10} {:>10}", "", "cachegrind", "ours", "misses", "ours");
    let mut wrong = Vec::new();
    for (name, command) in programs(&folder) {
        if ["numpy", "rustc"].contains(&name) {
            continue; // one executes other instructions under valgrind, the other has string instructions of its own
        }
        let command = words(&command);
        let Some(theirs) = cachegrinds(&command, &folder) else { return };
        let (instructions, misses) = ours(&command, &folder);
        let theirs = (theirs.instructions as f64, theirs.fetch_misses as f64);
        let ours = (instructions as f64, misses as f64);
        println!("{name:14} {:12.0} {:12.0} {:10.0} {:10.0}", theirs.0, ours.0, theirs.1, ours.1);
        let points = 100.0 * (ours.1 / ours.0 - theirs.1 / theirs.0).abs();
        if (ours.0 - theirs.0).abs() > SHARE * theirs.0 + START || points > 0.02 {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Each instruction of each block is a fetch, one behind the other, also of children; processes of one program have its
/// code in common.
#[test]
fn every_instruction_is_fetched_once() {
    let script = "seq 2000 >/dev/null; seq 2000 >/dev/null; (exit 3); exit 0";
    let mut trace = DbiTrace::fetches("sh", ["-c", script], &DbiOptions::default()).unwrap();
    let (mut executed, mut fetched, mut next) = (0, 0, None);
    while let Some(event) = trace.next_event().unwrap() {
        match event {
            Event::Block { address, instructions } => {
                executed += u64::from(instructions);
                next = Some(address);
            }
            Event::Access(fetch) => {
                fetched += 1;
                assert_eq!(next, Some(fetch.address));
                assert_eq!((fetch.pc, fetch.kind), (fetch.address, AccessKind::Load));
                assert!((1..16).contains(&fetch.bytes), "{fetch:?}");
                next = Some(fetch.address + u64::from(fetch.bytes));
            }
            _ => {}
        }
    }
    let processes = trace.processes();
    assert_eq!(processes.len(), 4, "{processes:?}");
    assert_eq!(executed, processes.iter().map(|process| process.instructions).sum::<u64>());
    assert_eq!(fetched, executed);
}
