//! The `qemu` backend on programs whose accesses are known. Skipped where there is no emulator, unless
//! `REQUIRE_QEMU` is set.
#![cfg(target_os = "linux")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../cachegrind/mod.rs"]
#[allow(dead_code)] // other tests use the rest
mod cachegrind;
mod children;
mod lives;
#[allow(dead_code)] // the plugin's, of which the tests use a part
#[path = "../../plugin/operand.rs"]
mod operand;
mod operands;
mod run;
mod targets;
mod trace;
#[allow(dead_code)]
#[path = "../../plugin/x86.rs"]
mod x86;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reuse_sampler::auto::{self, AutoOptions, Choice};
use reuse_sampler::qemu::{QemuOptions, QemuSampler, TargetExit};
use reuse_sampler::{
    AccessCount, LineSize, Outcome, ReuseDistance, ReusePlan, ReuseProfile, Sampler, SamplerError, ThreadId,
    Window, WindowIndex, WindowPlan,
};
use run::{Run, emulator_version, every, off, qemu_is_missing, run, sampler, sparse, watch};
use targets::{LINES, PASSES};

/// Accesses that `strided` makes beyond doubt; starting up and ending makes some more.
const STRIDED: u64 = (LINES * PASSES) as u64;

/// Instructions differ from run to run with the addresses of the stack and the process's number: by a
/// thousandth at most, as other users of the emulator report.
const VARIATION: f64 = 1e-3;

fn close_to(a: u64, b: u64) -> bool {
    (a as f64 - b as f64).abs() <= VARIATION * b as f64
}

#[test]
fn a_known_pattern_gives_its_distances() {
    if qemu_is_missing() {
        return;
    }
    let run = run("strided", 1_000_000, |_| every());
    assert_eq!(run.exit, Some(TargetExit::Code(0)));
    assert_eq!(run.warnings, [""; 0]);
    // Each access but the first pass's finds its line after all the others.
    let distance = Outcome::Reused(ReuseDistance(LINES as u64 - 1));
    let expected = STRIDED - LINES as u64;
    let found: u64 = run.outcomes().filter(|o| o.1 == distance).map(|o| o.2).sum();
    assert!((expected..expected + expected / 100).contains(&found), "{found} of {expected}");
    // A line that is never touched again dangles, whichever it is, and nothing is censored.
    let dangling: u64 = run.outcomes().filter(|o| o.1 == Outcome::Dangling).map(|o| o.2).sum();
    assert!((LINES as u64..20_000).contains(&dangling), "{dangling}");
    assert!(!run.outcomes().any(|o| matches!(o.1, Outcome::Censored { .. })));
}

#[test]
fn windows_tile_the_run_whatever_their_length_and_plan() {
    if qemu_is_missing() {
        return;
    }
    let total = run("strided", 1_000_000_000, |_| off());
    assert_eq!(total.windows.len(), 1);
    let total = total.windows[0].instructions;
    assert!(total > STRIDED, "{total}");
    for length in [10_000, 300_000, 1_000_000] {
        for plan in [|_| off(), |_| every(), |n| mixed(n)] {
            let run = run("strided", length, plan);
            let instructions: u64 = run.windows.iter().map(|w| w.instructions).sum();
            assert!(close_to(instructions, total), "{instructions} {total}");
            let mut end = 0;
            for (n, window) in run.windows.iter().enumerate() {
                assert_eq!(window.code.iter().map(|c| c.1).sum::<u64>(), window.instructions);
                assert!(window.code.windows(2).all(|pair| pair[0].0 < pair[1].0));
                end += window.instructions;
                // Overshoot is less than a block and is carried: the boundaries do not drift.
                let boundary = (n as u64 + 1) * length;
                assert!(n + 1 == run.windows.len() || (boundary..boundary + 1000).contains(&end));
            }
        }
    }
}

/// All plans, changing in every window.
fn mixed(n: usize) -> WindowPlan {
    [off(), every(), watch(), sparse(1.0), off(), watch(), sparse(7.0), every()][n % 8]
}

#[test]
fn a_profiled_window_is_whole_however_its_neighbours_are_observed() {
    if qemu_is_missing() {
        return;
    }
    let whole = run("strided", 100_000, |_| every());
    let mixed = run("strided", 100_000, mixed);
    assert_eq!(whole.windows.len(), mixed.windows.len());
    let mut measured = 0;
    for (n, (w, m)) in whole.windows.iter().zip(&mixed.windows).enumerate() {
        assert!(matches!(w.accesses, AccessCount::Measured(_)));
        // Nothing is open after a window that was not observed: there is nothing to watch.
        let unobserved = mixed.plans[&m.index] == off() || n % 8 == 5;
        if unobserved {
            assert_eq!(m.accesses, AccessCount::Unknown);
        } else {
            // In the steady loop each window makes the same accesses in both runs, not one more or less. The
            // first windows start the program up and the last ends it: what they do varies.
            if (20..whole.windows.len() - 2).contains(&n) {
                assert!(accesses(w).abs_diff(accesses(m)) <= 1, "{n}: {:?} {:?}", w.accesses, m.accesses);
            }
            measured += 1;
        }
    }
    assert!(measured > 10);
}

fn accesses(window: &Window) -> u64 {
    match window.accesses {
        AccessCount::Measured(n) => n,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_sample_is_reported_once() {
    if qemu_is_missing() {
        return;
    }
    for (target, length) in [("strided", 50_000), ("strided", 1_000_000), ("threads", 100_000)] {
        let run = run(target, length, mixed);
        let mut ended: BTreeMap<WindowIndex, u64> = BTreeMap::new();
        for (started_in, _, count, _) in run.outcomes() {
            *ended.entry(started_in).or_default() += count;
        }
        for window in &run.windows {
            let ended = ended.get(&window.index).copied().unwrap_or(0);
            let plan = run.plans[&window.index];
            match plan.reuse {
                ReusePlan::Off | ReusePlan::Watch => assert_eq!(ended, 0),
                // Every access seen is a sample. A thread's first block may go unseen.
                ReusePlan::Every => match window.accesses {
                    AccessCount::Measured(n) => assert_eq!(ended, n),
                    AccessCount::Estimated(n) => assert!(ended <= n),
                    AccessCount::Unknown => assert_eq!(ended, 0),
                },
                ReusePlan::Sparse(gap) if gap.accesses() == 1.0 => match window.accesses {
                    AccessCount::Measured(n) | AccessCount::Estimated(n) => assert!(ended <= n),
                    AccessCount::Unknown => assert_eq!(ended, 0),
                },
                _ => {}
            }
        }
        // Only windows that were returned start samples.
        assert!(ended.keys().all(|index| run.windows.iter().any(|w| w.index == *index)));
    }
}

#[test]
fn sampling_and_measuring_everything_agree() {
    if qemu_is_missing() {
        return;
    }
    let profile = |run: &Run| {
        let mut profile = ReuseProfile::new(LineSize::B64);
        for window in &run.windows {
            profile.record_window(window).unwrap();
        }
        profile.distribution()
    };
    let whole = profile(&run("strided", 1_000_000, |_| every()));
    let sampled = run("strided", 1_000_000, |_| sparse(20.0));
    let samples: u64 = sampled.outcomes().map(|o| o.2).sum();
    let made: u64 = sampled.windows.iter().map(accesses).sum();
    assert!(made >= STRIDED && samples > 0);
    // Their number is binomial: five standard errors.
    let expected = made as f64 / 20.0;
    assert!((samples as f64 - expected).abs() < 5.0 * expected.sqrt(), "{samples} {expected}");
    let sampled = profile(&sampled);
    for distance in [1, 10, 400, LINES as u64 - 1, 600, 10_000] {
        let [w, s] = [&whole, &sampled].map(|d| d.beyond(distance));
        // Five standard errors of a fraction of so many samples.
        let tolerance = 5.0 * (0.25 / samples as f64).sqrt();
        assert!((w - s).abs() < tolerance, "{distance}: {w} {s}");
    }
}

#[test]
fn a_seed_repeats_a_run() {
    if qemu_is_missing() {
        return;
    }
    let outcomes = |seed| {
        let options = QemuOptions::windows_of(50_000).seed(seed);
        let run = run::run_with("strided", options, |n| if n % 3 == 0 { sparse(50.0) } else { off() });
        // Without the last window, in which the process looks at its number and the time.
        let steady = run.windows.len() - 1;
        run.windows[10..steady].iter().map(|w| w.samples.clone()).collect::<Vec<_>>()
    };
    let first = outcomes(1);
    assert!(first.iter().flatten().count() > 100);
    assert_eq!(first, outcomes(1));
    assert_ne!(first, outcomes(2));
}

#[test]
fn threads_have_windows_of_their_own() {
    if qemu_is_missing() {
        return;
    }
    let run = run("threads", 100_000, |n| if n % 2 == 0 { every() } else { off() });
    assert_eq!(run.exit, Some(TargetExit::Code(0)));
    let mut instructions: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for window in &run.windows {
        *instructions.entry(window.thread).or_default() += window.instructions;
    }
    assert_eq!(instructions.keys().map(|t| t.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    // The four workers do the same.
    let least = *instructions.values().skip(1).min().unwrap();
    let most = *instructions.values().skip(1).max().unwrap();
    assert!(least > STRIDED && most - least < least / 50, "{instructions:?}");
    let indices: BTreeMap<WindowIndex, ThreadId> = run.windows.iter().map(|w| (w.index, w.thread)).collect();
    assert_eq!(indices.len(), run.windows.len());
    // Samples stay with their thread.
    for window in &run.windows {
        assert!(window.outcomes().all(|o| indices[&o.0] == window.thread));
    }
}

#[test]
fn threads_that_come_and_go_are_distinguished() {
    if qemu_is_missing() {
        return;
    }
    let run = run("many threads", 1_000_000, |_| every());
    let threads: Vec<u32> = run.windows.iter().map(|w| w.thread.0).collect();
    assert_eq!((0..=40).filter(|t| threads.contains(t)).count(), 41);
    assert_eq!(run.exit, Some(TargetExit::Code(0)));
}

#[test]
fn a_process_may_end_while_its_threads_run() {
    if qemu_is_missing() {
        return;
    }
    for _ in 0..5 {
        let run = run("threads left running", 50_000, mixed);
        assert_eq!(run.exit, Some(TargetExit::Code(4)));
        assert_eq!(run.warnings, [""; 0]);
        let last: BTreeMap<ThreadId, &Window> = run.windows.iter().map(|w| (w.thread, w)).collect();
        assert!(last.len() <= 4 && last.values().all(|w| w.open_samples == 0));
    }
}

#[test]
fn a_program_killed_by_a_signal_says_so() {
    if qemu_is_missing() {
        return;
    }
    let run = run("killed", 100_000, |_| every());
    assert_eq!(run.exit, Some(TargetExit::Signal(11)));
    assert!(run.windows.len() > 10);
    if emulator_version() < 9 {
        assert!(run.warnings.len() == 1 && run.warnings[0].contains("signal 11"), "{:?}", run.warnings);
    } else {
        // It says so before it dies, so that nothing is lost.
        assert_eq!(run.warnings, [""; 0]);
        assert!(run.windows.last().unwrap().instructions < 100_000);
    }
}

#[test]
fn a_program_may_close_every_descriptor() {
    if qemu_is_missing() {
        return;
    }
    let file = std::env::temp_dir().join(format!("reuse-sampler-test-{}", std::process::id()));
    let options = QemuOptions::windows_of(100_000).env("REUSE_SAMPLER_TEST_FILE", &file);
    let run = run::run_with("close everything", options, mixed);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(run.exit, Some(TargetExit::Code(0)));
    assert!(run.windows.len() > 10);
}

#[test]
fn a_brief_program_gives_its_only_window() {
    if qemu_is_missing() {
        return;
    }
    let run = run("brief", 1_000_000_000, |_| every());
    assert_eq!((run.windows.len(), run.exit), (1, Some(TargetExit::Code(7))));
    assert_eq!(run.windows[0].open_samples, 0);
    assert!(accesses(&run.windows[0]) > 10_000);
}

#[test]
fn streams_and_status_pass_through() {
    if qemu_is_missing() {
        return;
    }
    let output = run::in_a_process_of_its_own("echo", "some text\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "some text\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("SOME TEXT\n"), "{said}");
    assert!(said.contains("driver saw Some(Code(0))"), "{said}");
}

/// What the caller does when the user interrupts: everything comes back quickly, open samples censored.
fn stop_after(target: &str, windows: usize, pause: Duration) {
    let mut sampler = sampler(target, QemuOptions::windows_of(100_000));
    let mut started = 0;
    let mut ended = 0;
    let mut censored = 0;
    let mut see = |window: Window| {
        started += accesses(&window);
        for (_, outcome, count, _) in window.outcomes() {
            ended += count;
            censored += if matches!(outcome, Outcome::Censored { .. }) { count } else { 0 };
        }
    };
    for _ in 0..windows {
        see(sampler.next_window(&every()).unwrap().unwrap());
    }
    std::thread::sleep(pause);
    let before = Instant::now();
    sampler.stop().unwrap();
    assert!(before.elapsed() < Duration::from_secs(4), "{:?}", before.elapsed());
    while let Some(window) = sampler.next_window(&every()).unwrap() {
        see(window);
    }
    assert_eq!(started, ended);
    assert!(censored >= LINES as u64);
    assert_eq!(sampler.exit_status(), Some(TargetExit::Signal(15)));
    assert!(sampler.stop().is_ok());
}

#[test]
fn stopping_reports_what_is_open() {
    if qemu_is_missing() {
        return;
    }
    stop_after("spin", 40, Duration::ZERO);
}

#[test]
fn stopping_a_sleeper_is_prompt() {
    if qemu_is_missing() {
        return;
    }
    // All windows but the one it sleeps in.
    let windows = run("strided", 100_000, |_| every()).windows.len() - 2;
    stop_after("sleep", windows, Duration::from_millis(300));
}

#[test]
fn stopping_before_the_first_window_ends_the_program() {
    if qemu_is_missing() {
        return;
    }
    let mut sampler = sampler("strided", QemuOptions::default());
    sampler.stop().unwrap();
    assert_eq!(sampler.next_window(&every()).unwrap(), None);
    assert!(sampler.exit_status().is_some());
}

#[test]
fn dropping_the_sampler_leaves_no_process() {
    if qemu_is_missing() {
        return;
    }
    let mut sampler = sampler("spin", QemuOptions::windows_of(100_000));
    sampler.next_window(&every()).unwrap().unwrap();
    let pid = sampler.process_id();
    let proc = std::path::PathBuf::from(format!("/proc/{pid}"));
    assert!(proc.exists());
    drop(sampler);
    assert!(!proc.exists());
}

#[test]
fn what_cannot_be_run_is_said_before_anything_runs() {
    let refusal = |program: &str, options: &QemuOptions| match QemuSampler::spawn(program, [""; 0], options) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{program} was started"),
    };
    let directory = std::env::temp_dir().join(format!("reuse-sampler-refusals-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let make = |name: &str, content: &[u8], mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let options = QemuOptions::default();
    let mut i386 = b"\x7FELF\x01\x01\x01".to_vec();
    i386.resize(64, 0);
    for (program, says) in [
        ("no-such-program-anywhere".to_owned(), "no such program in PATH"),
        ("/no/such/file".to_owned(), "no such file"),
        (directory.to_str().unwrap().to_owned(), "directory"),
        (String::new(), "empty"),
        (make("data", b"\x7FELF", 0o644), "not executable"),
        (make("script", b"#!/no/such/interpreter -x\n", 0o755), "no such file"),
        (make("no-interpreter", b"#!\n", 0o755), "names no interpreter"),
        (make("text", b"hello", 0o755), "not an ELF program"),
        (make("i386", &i386, 0o755), "32-bit"),
    ] {
        let error = refusal(&program, &options);
        assert!(error.contains(says), "{program}: {error}");
    }
    let length = QemuOptions::windows_of(0);
    assert!(refusal("true", &length).contains("length 0"));
    // An emulator that cannot load plugins.
    let static_build = make("qemu", b"#!/bin/sh\necho usage: qemu -strace\n", 0o755);
    let mut options = QemuOptions::default();
    options.emulator = Some(static_build.into());
    let error = QemuSampler::spawn(std::env::current_exe().unwrap(), [""; 0], &options).unwrap_err();
    assert!(matches!(error, SamplerError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("apt install qemu-user"), "{error}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn executed_code_is_located() {
    if qemu_is_missing() {
        return;
    }
    let mut sampler = sampler("strided", QemuOptions::windows_of(100_000));
    let mut hottest = (0, 0);
    while let Some(window) = sampler.next_window(&off()).unwrap() {
        let most = window.code.iter().map(|&(address, weight)| (weight, address)).max();
        hottest = hottest.max(most.unwrap());
    }
    let location = sampler.locate(hottest.1).unwrap();
    assert_eq!(location.file, std::env::current_exe().unwrap().canonicalize().unwrap());
    if cfg!(feature = "symbols") {
        let (symbol, offset) = location.symbol.clone().unwrap();
        assert!(symbol.contains("targets::stride"), "{symbol}");
        assert!(offset < 1000, "{offset}");
        let (file, line) = location.line.clone().unwrap();
        assert!(line > 0);
        let shown = location.to_string();
        assert!(shown.starts_with(&symbol) && shown.ends_with(&format!(":{line})")), "{shown}");
        drop(file); // The loop's lines may be inlined from the standard library.
    }
    assert_eq!(sampler.locate(8), None);
}

#[test]
fn code_is_located_after_a_program_that_was_over_at_once() {
    if qemu_is_missing() {
        return;
    }
    let mut sampler = sampler("strided", QemuOptions::windows_of(1 << 60));
    let window = sampler.next_window(&off()).unwrap().unwrap();
    assert!(sampler.next_window(&off()).unwrap().is_none()); // its mappings are gone with it
    let hottest = window.code.iter().map(|&(address, weight)| (weight, address)).max().unwrap();
    let location = sampler.locate(hottest.1).unwrap();
    assert_eq!(location.file, std::env::current_exe().unwrap().canonicalize().unwrap());
}

#[test]
fn auto_runs_the_emulator_where_it_is_asked_for() {
    if qemu_is_missing() {
        return;
    }
    let mut options = AutoOptions::default();
    options.environment.push((targets::TARGET.into(), "brief".into()));
    options.backend = Choice::Qemu;
    let mut sampler = auto::spawn(std::env::current_exe().unwrap(), [""; 0], &options).unwrap();
    assert_eq!(sampler.backend(), "qemu");
    let window = sampler.next_window(&off()).unwrap().unwrap();
    assert!(window.instructions > 10_000 && window.accesses == AccessCount::Unknown);
    assert_eq!(sampler.next_window(&off()).unwrap(), None);
    assert_eq!((sampler.exit_status(), sampler.warnings().len()), (Some(TargetExit::Code(7)), 0));
}

#[test]
#[cfg(feature = "laws")]
fn keeps_the_laws_of_samplers() {
    if qemu_is_missing() {
        return;
    }
    let options = QemuOptions::windows_of(20_000);
    // Version 10 places a program that is executed here or there from run to run.
    let commands = [&["true"][..], &["sh", "-c", "exec true"]];
    for command in &commands[..if emulator_version() < 10 { 2 } else { 1 }] {
        reuse_sampler::laws::sampler(|| QemuSampler::spawn(command[0], &command[1..], &options)).unwrap();
    }
}
