//! Threads run, count and are sampled each by itself.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use reuse_sampler::dbi::DbiOptions;
use reuse_sampler::{ReusePlan, TargetExit};

use crate::run::{agrees, compile, folder, run};

/// Runs the program in `threads.c`, which ends in three ways.
pub fn threads(folder: &Path, check: impl Fn(&str, &str, i32)) {
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

/// A signal between the order to return from a handler and the thread's doing so was delivered for ever; so was one that
/// waited when a fault came.
#[test]
fn signals_are_delivered_once_whatever_else_happens() {
    let folder = folder("storm");
    let Some(program) = compile(&folder, include_str!("storm.c"), &["-O1", "-pthread"]) else { return };
    agrees(&folder, &[&program], ReusePlan::Off);
    for (faults, plan) in
        [("faults", ReusePlan::Off), ("faults", ReusePlan::Every), ("hurry", ReusePlan::Off)]
    {
        agrees(&folder, &[&program, faults], plan);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Threads that handle signals while another ends the program, whose memory is gone before they are.
const ENDED: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int handled;
static void on(int signal) { handled++; }
static void *raises(void *n) {
    for (;;) {
        raise(SIGUSR1);
        for (volatile int i = 0; i < 20000; i++);
    }
}
int main(void) {
    signal(SIGUSR1, on);
    pthread_t thread;
    for (int i = 0; i < 6; i++) pthread_create(&thread, 0, raises, 0);
    usleep(60000);
    exit(8);
}
"#;

#[test]
fn a_program_that_ends_while_its_threads_handle_signals_was_observed_to_its_end() {
    let folder = folder("ended");
    let Some(program) = compile(&folder, ENDED, &["-O1", "-pthread"]) else { return };
    for _ in 0..30 {
        let done = agrees(&folder, &[&program], ReusePlan::Off);
        assert_eq!((done.exit, done.warnings), (Some(TargetExit::Code(8)), vec![]));
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Threads that do the same, each a known amount.
pub const EQUAL: &str = r#"
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
