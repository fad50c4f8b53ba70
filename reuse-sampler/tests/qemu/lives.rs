//! An emulated program, and all it has started, ends with its observer.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use reuse_sampler::Sampler;
use reuse_sampler::qemu::QemuOptions;

use crate::run::{off, qemu_is_missing, sampler};
use crate::targets::DRIVEN;

/// State of a process: R, S, T, t, Z.
fn state(process: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}

/// The command line of a process.
fn command(process: u32) -> String {
    let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).into_owned()
}

/// Waits until none of the processes runs.
fn end(processes: &[u32], why: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let lives = |process: &&u32| state(**process).is_some_and(|state| state != 'Z');
    while let Some(process) = processes.iter().find(lives) {
        assert!(Instant::now() < deadline, "{why}: {process} of {processes:?} runs on");
        thread::sleep(Duration::from_millis(10));
    }
}

/// An observer in a process of its own, and the numbers of the `count` processes that its target reports.
fn observe(target: &str, count: usize) -> (Child, Vec<u32>) {
    let mut observer = Command::new(std::env::current_exe().unwrap())
        .env(DRIVEN, target)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(observer.stdout.take().unwrap()).lines();
    let numbers: Vec<u32> = lines.take(count).map(|line| line.unwrap().parse().unwrap()).collect();
    assert_eq!(numbers.len(), count);
    (observer, numbers)
}

#[test]
fn a_killed_observer_takes_the_whole_tree_with_it() {
    if qemu_is_missing() {
        return;
    }
    for (target, count) in [("tree", 4), ("become a sleeper", 1)] {
        let (mut observer, processes) = observe(target, count);
        // The last program may not have begun yet.
        thread::sleep(Duration::from_millis(300));
        assert!(processes.iter().all(|&process| state(process).is_some()), "{target}: {processes:?}");
        observer.kill().unwrap();
        observer.wait().unwrap();
        end(&processes, target);
    }
}

#[test]
fn an_observer_killed_before_its_first_window_leaves_nothing() {
    if qemu_is_missing() {
        return;
    }
    // At random moments of starting up; numbers are not known, so that the emulators are counted by their target.
    for pause in [0, 5, 20, 60] {
        let target = format!("started {pause} {}", std::process::id());
        let mut observer = Command::new(std::env::current_exe().unwrap())
            .env(DRIVEN, "spin")
            .env("REUSE_SAMPLER_TEST_MARK", &target)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(pause));
        observer.kill().unwrap();
        observer.wait().unwrap();
        end(&marked(&target), &target);
    }
}

/// Processes whose environment has the mark.
fn marked(mark: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |process: &u32| {
        std::fs::read(format!("/proc/{process}/environ"))
            .is_ok_and(|environment| environment.windows(mark.len()).any(|part| part == mark.as_bytes()))
    };
    numbers.filter(has).collect()
}

#[test]
fn stopping_and_dropping_end_the_whole_tree() {
    if qemu_is_missing() {
        return;
    }
    for stop in [true, false] {
        let mut sampler = sampler("tree", QemuOptions::windows_of(1_000_000));
        let own = sampler.process_id();
        // The forked child has windows too, however far its parent is: until that has started its last, a program.
        let deadline = Instant::now() + Duration::from_secs(20);
        let children = loop {
            sampler.next_window(&off()).unwrap().unwrap();
            let tasks = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
            let children: Vec<u32> = tasks.split_whitespace().map(|number| number.parse().unwrap()).collect();
            if children.len() == 2 && children.iter().any(|&child| command(child).contains("sleep")) {
                break children;
            }
            assert!(Instant::now() < deadline, "{children:?}");
        };
        if stop {
            sampler.stop().unwrap();
        }
        drop(sampler);
        end(&[own], "the program");
        end(&children, "its children");
    }
}
