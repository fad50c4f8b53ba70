//! Trees of processes.

use super::*;
use crate::backends::perf::simulated::PROCESS;

/// A program, its child with another thread, and the child's child: all instructions are in the windows, those of each
/// process in its record, and an execution is one process's alone.
#[test]
fn every_process_of_a_tree_has_its_instructions() {
    for seed in 0..20 {
        let mut sim = Sim::new(seed, abilities(), walk(50), 60_000);
        let child = sim.fork(PROCESS, random(300, 1), 40_000);
        let grandchild = sim.fork(child, walk(80), 20_000);
        sim.add(walk(20), 10_000);
        sim.faults.execs = if seed < 10 { 0 } else { 30 };
        let done = run(sim, settings(7_000, seed), |_| every(300.0));
        let session = &done.session;
        let (tree, trace) = (&session.tree, &session.kernel.trace);
        let executed: usize = trace.values().map(Vec::len).sum();
        let counted: u64 = done.windows.iter().map(|window| window.instructions).sum();
        assert_eq!(counted, executed as u64, "seed {seed}");
        let records: Vec<_> = (0..3).map(|number| tree.get(number).account.record()).collect();
        let sum: u64 = records.iter().map(|record| record.instructions).sum();
        assert_eq!(sum, counted);
        let of = |process: i32| records.iter().find(|record| record.pid == process as u32).unwrap();
        assert_eq!((of(child).parent, of(grandchild).parent), (PROCESS as u32, child as u32));
        if seed < 10 {
            let each = [PROCESS, child, grandchild].map(|process| of(process).instructions);
            assert_eq!(each, [70_000, 40_000, 20_000]);
            assert_eq!(tree.programs.len(), 1);
        } else {
            assert!(tree.programs.len() > 1);
        }
        // Threads are numbered over the tree, windows too.
        let threads: std::collections::BTreeSet<u32> = done.windows.iter().map(|w| w.thread.0).collect();
        assert!(threads.len() == 4 && done.session.warnings.is_empty(), "{:?}", done.session.warnings);
    }
}

/// A child that the kernel lets nobody observe runs on, and is reported; the program's own thread would be an error.
#[test]
fn a_child_that_cannot_be_observed_runs_on() {
    for forbidden in [PROCESS, PROCESS + 101] {
        let mut sim = Sim::new(1, abilities(), walk(50), 30_000);
        assert_eq!(sim.fork(PROCESS, walk(50), 30_000), PROCESS + 101);
        sim.hidden = Some(forbidden);
        let mut session = Session::new(sim, settings(7_000, 1), abilities(), Arc::default());
        if forbidden == PROCESS {
            assert!(session.next_window(every(300.0)).is_err());
            continue;
        }
        let mut counted = 0;
        while let Some(window) = session.next_window(every(300.0)).unwrap() {
            counted += window.instructions;
        }
        assert_eq!(counted, 30_000);
        assert_eq!(session.kernel.trace.values().map(Vec::len).sum::<usize>(), 60_000);
        let record = session.tree.get(1).account.record();
        assert!(record.unobserved.is_some() && record.instructions == 0, "{record:?}");
        assert!(session.warnings[0].contains("ran unobserved from window"), "{:?}", session.warnings);
    }
}
