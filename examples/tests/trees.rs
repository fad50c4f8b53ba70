//! Programs of several processes and threads: processes in the reports, and whose cache a curve is of.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::process::Command;

use crate::support::{Ended, Folder, run_pipeline};
use examples::tools::{detect_phases, miss_ratio_curve, phase_guided_cache};
use serde_json::Value;

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

const PIPELINE: [&str; 4] = ["--", "sh", "-c", "seq 20000 | sort | tail -3 >&2; exit 3"];

fn curve(flags: &[&str], program: &[&str]) -> Ended {
    let arguments: Vec<&str> = ["--json"].iter().chain(flags).chain(program).copied().collect();
    run_pipeline(&arguments, miss_ratio_curve::run)
}

fn guided(flags: &[&str], program: &[&str]) -> Ended {
    let arguments: Vec<&str> = ["--json", "--backend", "qemu", "--window", "200000"]
        .iter()
        .chain(flags)
        .chain(program)
        .copied()
        .collect();
    run_pipeline(&arguments, phase_guided_cache::run)
}

fn phases(flags: &[&str], program: &[&str]) -> Ended {
    let arguments: Vec<&str> = ["--json", "--backend", "qemu", "--window", "200000"]
        .iter()
        .chain(flags)
        .chain(program)
        .copied()
        .collect();
    run_pipeline(&arguments, detect_phases::run)
}

fn last(ended: &Ended) -> Value {
    assert_eq!(ended.status, 3, "{}", ended.messages);
    serde_json::from_str(ended.out.lines().last().unwrap()).unwrap()
}

#[test]
fn every_report_lists_the_processes_and_the_whole_tree() {
    if !is_there("qemu-x86_64") {
        return;
    }
    type Pipeline = fn(&[&str], &[&str]) -> Ended;
    for (run, counts) in [(curve as Pipeline, true), (guided, true), (phases, false)] {
        let report = last(&run(&[], &PIPELINE));
        let report = report.get("summary").unwrap_or(&report);
        let processes = report["processes"].as_array().unwrap();
        assert_eq!(processes.len(), 4, "{processes:?}");
        let root = &processes[0];
        assert_eq!((&root["status"], &root["signal"]), (&Value::from(3), &Value::Null));
        for (program, status) in [("seq 20000", 0), ("sort", 0), ("tail -3", 0)] {
            let row = processes.iter().find(|row| row["command"] == program).unwrap();
            assert_eq!((&row["status"], &row["parent"]), (&Value::from(status), &root["pid"]), "{row}");
            assert!(row["instructions"].as_u64().unwrap() > 100_000, "{row}");
            assert_eq!(row["accesses"].is_u64(), counts, "{row}");
        }
        if let Some(instructions) = report["instructions"].as_u64() {
            let sum: u64 = processes.iter().map(|row| row["instructions"].as_u64().unwrap()).sum();
            assert!(sum.abs_diff(instructions) <= instructions / 1000, "{sum} {instructions}");
        }
        // Each process has one thread, of which nothing is said.
        let ignored = run(&["--children", "ignore"], &PIPELINE);
        let report = last(&ignored);
        let report = report.get("summary").unwrap_or(&report);
        assert_eq!(report["processes"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_program_that_runs_on_unobserved_was_observed_in_part() {
    if !is_there("gcc") {
        return;
    }
    let folder = Folder::new();
    let program = folder.path("filtered").display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/filtered.c");
    assert!(Command::new("gcc").args(["-O1", "-o", &program, source]).status().unwrap().success());
    let command = ["--", program.as_str()];
    let dbi = ["--backend", "dbi"];
    let exact = ["--backend", "dbi", "--model", "exact-lru"];
    let windows = ["--backend", "dbi", "--window", "1000000"];
    // The status is the program's own.
    let curves = [last(&curve(&dbi, &command)), last(&curve(&exact, &command))];
    let arguments: Vec<&str> = ["--json"].iter().chain(&windows).chain(&command).copied().collect();
    let guided = last(&run_pipeline(&arguments, phase_guided_cache::run));
    let phases = last(&run_pipeline(&arguments, detect_phases::run))["summary"].clone();
    for report in curves.iter().chain([&guided, &phases]) {
        assert_eq!(report["incomplete"], true, "{report}");
        assert!(report["notes"][0].as_str().unwrap().contains("installs a system call filter"), "{report}");
    }
}

/// Miss ratios in percent at 2.25 MiB and 16 MiB, and what was said.
#[test]
fn what_an_exact_curve_leaves_out_is_in_its_json() {
    for (flags, left_out) in [(["--model", "exact-lru"], false), (["--children", "ignore"], true)] {
        let flags = [["--backend", "dbi"], ["--model", "exact-lru"], flags].concat();
        let report = last(&curve(if left_out { &flags } else { &flags[..4] }, &PIPELINE));
        let notes: Vec<&str> = report["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let said = notes.iter().any(|note| note.contains("child process(es) ran unobserved"));
        assert_eq!(said, left_out, "{notes:?}");
        assert_eq!(report["processes"].as_array().unwrap().len() > 1, !left_out, "{report}");
    }
}

/// Thirty short processes are thirty windows, and little of what is executed.
#[test]
fn a_phase_has_its_share_of_the_instructions() {
    let work = "seq 60000 | sort >/dev/null; for n in 1 2 3 4 5 6; do seq 1 >/dev/null; seq 2 >/dev/null; \
                seq 3 >/dev/null; seq 4 >/dev/null; seq 5 >/dev/null; done; exit 3";
    let command = ["--backend", "dbi", "--window", "2000000", "--", "sh", "-c", work];
    let report = last(&run_pipeline(&[&["--json"], &command[..]].concat(), phase_guided_cache::run));
    let phases = report["phases"].as_array().unwrap();
    let sum = |key: &str, of: &dyn Fn(&&Value) -> bool| -> f64 {
        phases.iter().filter(of).map(|phase| phase[key].as_f64().unwrap()).sum()
    };
    let share = |key| sum(key, &|phase| phase["family"] == "A") / sum(key, &|_| true);
    let (of_windows, of_instructions) = (share("windows"), share("instructions"));
    assert!(of_instructions > 1.5 * of_windows, "{of_instructions} {of_windows}");
    let table = run_pipeline(&command, phase_guided_cache::run).messages;
    let row = table.lines().find(|line| line.starts_with("A ")).unwrap();
    let (words, _) = row.split_once(" %").unwrap();
    let shown: f64 = words.split_whitespace().last().unwrap().parse().unwrap();
    assert!((shown / 100.0 - of_instructions).abs() < 0.05, "{of_instructions} {of_windows}: {table}");
    assert!(table.contains("threads in 33 processes"), "{table}");
}

/// Two processes, one after the other, miss what each misses alone: they have no memory in common.
#[test]
fn an_exact_curve_is_that_of_all_processes() {
    let exact = |flags: &[&str], command: &str| {
        let all = ["--backend", "dbi", "--model", "exact-lru", "--sizes", "1KiB,4KiB,32KiB,16MiB"];
        let report = last(&curve(&[&all, flags].concat(), &["--", "sh", "-c", command]));
        let number = |value: &Value| value.as_f64().unwrap();
        let accesses = number(&report["accesses"]);
        let misses: Vec<f64> =
            (0..4).map(|at| accesses * number(&report["points"][at]["miss_ratio"])).collect();
        let rows = report["processes"].as_array().unwrap();
        let of_rows: f64 = rows.iter().map(|row| number(&row["accesses"])).sum();
        assert!((of_rows / accesses - 1.0).abs() < 1e-9, "{of_rows} of {accesses}");
        (accesses, misses, rows.len())
    };
    for scope in ["shared", "private"] {
        let flags = ["--scope", scope];
        let none = exact(&flags, "exit 3");
        let one = exact(&flags, "seq 60000 >/dev/null; exit 3");
        let two = exact(&flags, "seq 60000 >/dev/null; seq 60000 >/dev/null; exit 3");
        assert_eq!((none.2, one.2, two.2), (1, 2, 3));
        assert!(((two.0 - none.0) / (one.0 - none.0) - 2.0).abs() < 0.01, "{none:?} {one:?} {two:?}");
        for size in 0..4 {
            let twice = (two.1[size] - none.1[size]) / (one.1[size] - none.1[size]);
            assert!((twice - 2.0).abs() < 0.1, "{scope}, size {size}: {none:?} {one:?} {two:?}");
        }
    }
}

fn miss_ratios(flags: &[&str], program: &[&str]) -> ([f64; 2], String, Value) {
    let sizes = ["--sizes", "2304KiB,16MiB", "--windows", "1", "--draws", "0"];
    let ended = curve(&flags.iter().chain(&sizes).copied().collect::<Vec<_>>(), program);
    let report = ended.object();
    let ratio = |point: usize| 100.0 * report["points"][point]["miss_ratio"].as_f64().unwrap();
    ([ratio(0), ratio(1)], ended.messages, report["scope"].clone())
}

#[test]
fn a_shared_cache_holds_the_lines_of_all_threads() {
    if !is_there("qemu-x86_64") || !is_there("gcc") {
        return;
    }
    let folder = Folder::new();
    let program = folder.path("threads").to_str().unwrap().to_owned();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/threads.c");
    let built = Command::new("gcc").args(["-O2", "-pthread", "-o", &program, source]).status().unwrap();
    assert!(built.success());
    for mode in ["shared", "private", "producer", "false_sharing", "lock", "pool"] {
        let command = ["--", &program, mode, "2"];
        let (exact, _, scope) = miss_ratios(&["--model", "exact-lru"], &command);
        assert_eq!(scope, "shared");
        let (shared, said, scope) = miss_ratios(&["--scope", "shared"], &command);
        assert_eq!((scope, said.contains("threads")), (Value::from("shared"), false), "{said}");
        // Every window is profiled: whose cache it is is asked here, not what leaving windows out costs.
        let every = ["--scope", "shared", "--gap-limit", "1", "--sizes", "2304KiB,16MiB", "--draws", "0"];
        let guided = guided(&every, &command).object();
        let by_phase = [0, 1].map(|at| 100.0 * guided["average"][at]["miss_ratio"].as_f64().unwrap());
        assert_eq!((&guided["scope"], guided["notes"].as_array().map(Vec::len)), (&"shared".into(), Some(0)));
        println!("{mode:14} exact {exact:.2?} shared {shared:.2?} guided {by_phase:.2?}");
        for (exact, by_phase) in exact.into_iter().zip(by_phase) {
            assert!((exact - by_phase).abs() < 1.0, "{mode}: {exact} {by_phase}");
        }
        for (exact, shared) in exact.into_iter().zip(shared) {
            assert!((exact - shared).abs() < 1.0, "{mode}: {exact} {shared}");
        }
        // Four arrays of 2 MiB fit a private cache each, but not a shared one.
        if mode == "private" {
            let (own, said, scope) = miss_ratios(&[], &command);
            assert_eq!(scope, "private");
            assert!(said.contains("there were 5 threads") && said.contains("--scope shared"), "{said}");
            assert!(exact[0] - own[0] > 5.0, "{exact:?} {own:?}");
        }
    }
    let arguments = ["--backend", "perf", "--scope", "shared", "--", &program, "lock"];
    let refused = run_pipeline(&arguments, phase_guided_cache::run);
    assert!(refused.status == 2 && refused.messages.contains("--backend dbi"), "{}", refused.messages);
}

/// A program that is killed within its first window: translated, it is reported; an emulator's last window is lost, which is
/// said. The status is the program's own.
#[test]
fn a_short_program_that_is_killed_passes_its_status() {
    if !is_there("qemu-x86_64") {
        return;
    }
    type Pipeline = fn(&[&str]) -> Ended;
    let commands: [Pipeline; 3] = [
        |arguments| run_pipeline(arguments, detect_phases::run),
        |arguments| run_pipeline(arguments, phase_guided_cache::run),
        |arguments| run_pipeline(arguments, miss_ratio_curve::run),
    ];
    for (number, run) in commands.into_iter().enumerate() {
        for (backend, observes) in [("dbi", true), ("qemu", false)] {
            let ended = run(&["--json", "--backend", backend, "--", "sh", "-c", "kill -TERM $$"]);
            let what = format!("{number} {backend}: {}", ended.messages);
            assert_eq!((ended.status, ended.out.is_empty()), (128 + 15, !observes), "{what}");
            assert!(ended.messages.contains("killed by SIGTERM (signal 15)"), "{what}");
            assert!(!ended.messages.contains("before it executed"), "{what}");
        }
    }
}

/// Processes of a pipeline by themselves, against cachegrind, both shown the processor that valgrind shows.
#[test]
fn an_exact_curve_of_a_pipeline_is_cachegrinds() {
    if !is_there("valgrind") {
        assert!(std::env::var_os("REQUIRE_VALGRIND").is_none());
        return;
    }
    let folder = Folder::new();
    let work = "seq 40000 | sort -r --parallel=1 --buffer-size=4M | uniq -c | tail -1; exit 3";
    let program = ["env", "LC_ALL=C", "sh", "-c", work];
    let ended = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--D1=32768,512,64", "--trace-children=yes", "-q"])
        .arg(format!("--cachegrind-out-file={}", folder.path("out.%p").display()))
        .args(program)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    let (mut files, mut references, mut misses) = (0, 0.0, 0.0);
    for file in std::fs::read_dir(folder.path("")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let words =
            |start| text.lines().find_map(|line| line.strip_prefix(start)).unwrap().split_whitespace();
        for (event, count) in words("events: ").zip(words("summary: ")) {
            let count: f64 = count.parse().unwrap();
            references += if ["Dr", "Dw"].contains(&event) { count } else { 0.0 };
            misses += if ["D1mr", "D1mw"].contains(&event) { count } else { 0.0 };
        }
        files += 1;
    }
    let flags = ["--backend", "dbi", "--cpu", "x86-64-v3", "--model", "exact-lru", "--scope", "private"];
    let report =
        last(&curve(&[&flags[..], &["--sizes", "32KiB"]].concat(), &[&["--"], &program[..]].concat()));
    let number = |value: &Value| value.as_f64().unwrap();
    let operands = number(&report["operands"]);
    let missed = number(&report["accesses"]) * number(&report["points"][0]["miss_ratio"]);
    println!("{files} processes: {operands} operands of {references}, misses {missed} of {misses}");
    let processes = report["processes"].as_array().unwrap().len();
    assert!(processes >= 5 && files >= processes, "{files} files, {processes} processes");
    assert!(
        (operands - references).abs() < 0.005 * references + 30_000.0 * files as f64,
        "{operands} {references}"
    );
    let points = 100.0 * (missed / operands - misses / references);
    assert!(points.abs() < 0.3, "{points} points");
}

/// The cache that all threads of all processes share, by phase.
#[test]
fn phases_of_a_shared_cache_are_those_of_all_processes() {
    let flags = ["--json", "--backend", "dbi", "--window", "200000", "--scope", "shared"];
    let arguments: Vec<&str> = flags.iter().chain(&PIPELINE).copied().collect();
    let report = last(&run_pipeline(&arguments, phase_guided_cache::run));
    let rows = report["processes"].as_array().unwrap();
    let all: u64 = rows.iter().map(|row| row["instructions"].as_u64().unwrap()).sum();
    assert_eq!((rows.len(), report["instructions"].as_u64()), (4, Some(all)), "{report}");
}
