//! Repeated string instructions in phases: one instruction, any number of accesses.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::process::Command;

use examples::tools::{miss_ratio_curve, phase_guided_cache};

use crate::support::{Folder, run_pipeline};

/// The program's short and long copies are the same code, so that nothing but what these instructions access sets the long
/// ones apart; they hold most accesses of the run in a seventh of its windows.
#[test]
fn long_copies_are_a_phase_of_their_own() {
    if Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("skipped: gcc is not installed");
        return;
    }
    let folder = Folder::new();
    let program = folder.path("strings").to_str().unwrap().to_owned();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/strings.c");
    assert!(Command::new("gcc").args(["-O2", "-o", &program, source]).status().unwrap().success());
    let settings = ["--json", "--backend", "dbi", "--sizes", "4KiB,64KiB"];
    for kind in ["copy", "fill", "scan"] {
        let command = ["--", &program, "1", kind];
        let exact = ["--model", "exact-lru"].iter().chain(&settings).chain(&command);
        let exact = run_pipeline(&exact.copied().collect::<Vec<_>>(), miss_ratio_curve::run).object();
        // One draw in twenty may lie outside an interval of 95 %, and where windows begin within the program depends on what
        // the processor makes it do before `main`: six draws, with windows of six lengths, are judged together.
        let (mut held, mut narrow) = (0, 0);
        let draws = [
            ("1", "97000"),
            ("2", "98000"),
            ("3", "99000"),
            ("4", "100000"),
            ("5", "101000"),
            ("6", "102000"),
        ];
        for (seed, window) in draws {
            // Windows are chosen by phase from the first on.
            let chosen =
                ["--profile-first", "0", "--window", window, "--sample-rate", "0.01", "--seed", seed];
            let guided = settings.iter().chain(&chosen).chain(&command).copied();
            let guided = run_pipeline(&guided.collect::<Vec<_>>(), phase_guided_cache::run).object();
            let (windows, profiled) =
                (guided["windows"].as_u64().unwrap(), guided["profiled"].as_u64().unwrap());
            assert!(2 * profiled < windows, "{profiled} of {windows}");

            // The phase of most accesses is named first.
            let phase = &guided["phases"][0];
            assert!(phase["share"].as_f64().unwrap() < 0.25, "{kind} {phase}");
            assert!(phase["hottest_code_share"].as_f64().unwrap() > 0.9, "{kind} {phase}");
            assert!(phase["profiled"].as_u64().unwrap() >= 2, "{kind} {phase}");
            // Accesses of windows that were not profiled are estimated with those of the instructions: before they were
            // counted a quarter was seen.
            let accesses = |report: &serde_json::Value| report["accesses"].as_f64().unwrap();
            let ratio = accesses(&guided) / accesses(&exact);
            assert!((ratio - 1.0).abs() < 0.02, "{kind} {seed} {ratio}");
            // The window in which short ones become long may be like no other. What it may do to the curve is in the
            // intervals, and it is less than what a window of long ones alone accesses.
            let unlike = guided["unlike"].as_f64().unwrap();
            let of_phase = phase["share"].as_f64().unwrap() * windows as f64;
            assert!(unlike < 1.0 / of_phase, "{kind} {seed} {unlike} {of_phase}");
            for (truth, point) in
                exact["points"].as_array().unwrap().iter().zip(guided["average"].as_array().unwrap())
            {
                let number = |key: &str| point[key].as_f64().unwrap();
                let truth = truth["miss_ratio"].as_f64().unwrap();
                let (low, high) = (number("interval_low"), number("interval_high"));
                // Before, the ratio was wrong by 13 points at least.
                assert!(low - 0.03 <= truth && truth <= high + 0.03, "{kind} {seed} {truth} {point}");
                held += usize::from(low <= truth && truth <= high);
                narrow += usize::from(high - low < 0.03 + unlike);
            }
        }
        assert!(held >= 10 && narrow >= 10, "{kind} {held} {narrow}");
    }
}
