//! `--backend` of the pipelines that run programs: what is chosen, and what is said where it is not to be had.

use crate::support::{Ended, Folder, run_pipeline};
use examples::tools::{detect_phases, miss_ratio_curve, phase_guided_cache};
use reuse_sampler::perf::probe;

fn phases(arguments: &[&str]) -> Ended {
    run_pipeline(arguments, |args: &detect_phases::Args, out, messages| {
        detect_phases::run(args, out, messages)
    })
}

fn curves(arguments: &[&str]) -> Ended {
    run_pipeline(arguments, |args: &phase_guided_cache::Args, out, messages| {
        phase_guided_cache::run(args, out, messages)
    })
}

fn one_curve(arguments: &[&str]) -> Ended {
    run_pipeline(arguments, |args: &miss_ratio_curve::Args, out, messages| {
        miss_ratio_curve::run(args, out, messages)
    })
}

/// Without counters the answer is one line that names them; with them the run succeeds. Nothing else happens.
#[test]
fn counters_that_are_not_there_are_named() {
    let found = probe();
    let command = ["--backend", "perf", "--window", "20000", "--json", "--", "true"];
    for (ended, counted) in [
        (phases(&command), found.stops.is_ok() && found.instructions.is_ok()),
        (curves(&command), found.has_counters()),
        (
            one_curve(&["--backend", "perf", "--sample-rate", "0.001", "--json", "--", "true"]),
            found.has_counters(),
        ),
    ] {
        if counted {
            assert_eq!(ended.status, 0, "{}", ended.messages);
            continue;
        }
        assert_eq!((ended.status, ended.messages.lines().count()), (1, 1), "{}", ended.messages);
        let named = ["instructions cannot be counted", "memory accesses cannot be counted", "Linux 5.13"];
        assert!(named.iter().any(|what| ended.messages.contains(what)), "{}", ended.messages);
        assert_eq!(ended.out, "");
    }
}

#[test]
fn a_backend_is_chosen_for_programs_only_and_by_name() {
    for (arguments, problem) in [
        (&["--backend", "perf"][..], "required arguments were not provided"),
        (&["--backend", "pref", "--", "true"], "invalid value 'pref'"),
    ] {
        for ended in [phases(arguments), curves(arguments), one_curve(arguments)] {
            assert_eq!(ended.status, 2, "{}", ended.messages);
            assert!(ended.messages.contains(problem), "{}", ended.messages);
        }
    }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_program_is_shown_the_processor_that_is_asked_for() {
    let asked = |cpu, backend| {
        let folder = Folder::new();
        let out = folder.path("out");
        let words = ["--cpu", cpu, "--backend", backend, "--sizes", "32KiB", "--out", out.to_str().unwrap()];
        let ended = one_curve(&[&words[..], &["--", "/bin/true"]].concat());
        (ended.status, ended.messages, std::fs::read_to_string(out.join("profile.json")).unwrap_or_default())
    };
    let (status, messages, profile) = asked("x86-64", "dbi");
    assert!(status == 0 && profile.contains("shown as x86-64\""), "{messages}");
    let (status, messages, _) = asked("x86-64", "perf");
    assert!(status == 1 && messages.contains("processor that it runs on"), "{messages}");
    let (status, messages, _) = asked("haswell", "dbi");
    assert!(status == 2 && messages.contains("x86-64-v3"), "{messages}");
}

/// Counters see no access after the other: what needs that says so before anything runs.
#[test]
fn what_needs_every_access_is_not_asked_of_counters() {
    for (asked, named) in [(&["--model", "exact-lru"], "exact-lru"), (&["--side", "instruction"], "--side")] {
        let ended = one_curve(&[&asked[..], &["--backend", "perf", "--", "true"]].concat());
        assert_eq!(ended.status, 2, "{}", ended.messages);
        assert!(
            ended.messages.contains(named) && ended.messages.contains("--backend qemu"),
            "{}",
            ended.messages
        );
    }
}

/// Not a test of its own: run by the next one in an environment where no emulator is found.
#[test]
#[ignore = "started by another test"]
fn in_an_environment_without_the_emulator() {
    let arguments = ["--window", "100000", "--json", "--", "/bin/ls", "/"];
    for ended in [phases(&arguments), curves(&arguments)] {
        assert_eq!(ended.status, 0, "{}", ended.messages);
        assert!(ended.out.contains("\"window"), "no windows");
    }
    let traced = one_curve(&["--model", "exact-lru", "--json", "--", "/bin/ls", "/"]);
    assert_eq!(traced.status, 0, "{}", traced.messages);
    let fetched = one_curve(&["--side", "instruction", "--json", "--", "/bin/ls", "/"]);
    assert_eq!(fetched.status, 0, "{}", fetched.messages);
}

/// On a machine without counters and without the emulator, a program is translated: nothing need be installed.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn without_the_emulator_a_program_is_translated() {
    if probe().has_counters() {
        eprintln!("skipped: this machine has counters, which are preferred");
        return;
    }
    let ended = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "backend::in_an_environment_without_the_emulator", "--ignored", "--nocapture"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && text.contains("1 passed"), "{text}");
}
