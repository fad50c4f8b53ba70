//! Programs recorded once, and predicted from their files.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::support::{Ended, Folder, run_pipeline, uniform};
use examples::tools::corun_variability::{Args, run_until};
use reuse_sampler::file::{PhaseProfile, ProfiledPhase};
use serde_json::Value;

const CHIP: [&str; 4] = ["--llc-size", "64KiB", "--l1-size", "1KiB"];

fn run(arguments: &[&str]) -> Ended {
    let interrupted = Arc::new(AtomicBool::new(false));
    run_pipeline(arguments, |args: &Args, out, messages| run_until(&interrupted, args, out, messages))
}

fn done(arguments: &[&str]) -> Ended {
    let ended = run(arguments);
    assert_eq!(ended.status, 0, "{arguments:?}: {}", ended.messages);
    ended
}

/// A program of two phases: a table of so many lines, and a small one.
fn trace(folder: &Folder, name: &str, lines: u64) -> String {
    let (mut text, mut state) = (String::new(), lines);
    for _ in 0..2 {
        uniform(&mut text, &mut state, 0, lines, 30_000);
        uniform(&mut text, &mut state, 1 << 20, 60, 30_000);
    }
    folder.file(name, text)
}

fn recorded(folder: &Folder, name: &str, what: &[&str]) -> String {
    let path = folder.path(name).to_str().unwrap().to_owned();
    done(&[&["record", "-o", &path, "--window", "3000"], &CHIP[..], what].concat());
    path
}

fn read(path: &str) -> PhaseProfile {
    PhaseProfile::read(fs::File::open(path).unwrap()).unwrap()
}

#[test]
fn what_is_predicted_from_files_is_what_is_predicted_in_process() {
    let folder = Folder::new();
    let (a, b) = (trace(&folder, "a.din", 1600), trace(&folder, "b.din", 500));
    for more in [&[][..], &["--core", "ooo", "--prefetch", "--bandwidth", "0.5", "--index", "hashed"]] {
        let traces = [&a, &b].map(|trace| [&["--trace", &**trace, "--mix", "0.3"], more].concat());
        let files: Vec<String> = (traces.iter().enumerate())
            .map(|(k, trace)| recorded(&folder, &format!("{k}.json"), trace))
            .collect();
        let alike = ["--json", "--offsets", "9", "--partition", "ucp"];
        let from_files = done(&[&["predict", &files[0], &files[1]], &alike[..]].concat()).out;
        let both = ["--trace", &a, "--trace", &b, "--mix", "0.3", "--window", "3000", "--simulate", "0"];
        let in_process = done(&[&both[..], more, &CHIP, &alike].concat()).out;
        assert_eq!(from_files, in_process);
        assert!(serde_json::from_str::<Value>(&from_files).unwrap()["slowdown"].as_f64().unwrap() > 1.01);
        // The word predict is not needed, and the chip may be named as it was.
        assert_eq!(done(&[&[&*files[0], &files[1]], more, &CHIP, &alike[..]].concat()).out, in_process);
    }
}

#[test]
fn phases_suffice_for_what_is_predicted_by_phase() {
    let folder = Folder::new();
    let a = trace(&folder, "a.din", 1600);
    let whole = recorded(&folder, "whole.json", &["--trace", &a]);
    let lean = recorded(&folder, "lean.json", &["--trace", &a, "--phases-only"]);
    let size = |path: &str| fs::metadata(path).unwrap().len();
    assert!(size(&lean) < size(&whole) / 3, "{} {}", size(&lean), size(&whole));
    let of = |path: &str| done(&["predict", path, path, "--json", "--offsets", "9"]).object();
    let (whole, lean) = (of(&whole), of(&lean));
    assert_eq!(whole["predicted"], lean["predicted"]);
    // Only windows show how even those of a phase are.
    for (whole, lean) in whole["ranges"].as_array().unwrap().iter().zip(lean["ranges"].as_array().unwrap()) {
        let of = |range: &Value, key: &str| range[key].as_f64().unwrap();
        assert!(
            of(lean, "low") <= of(whole, "low") && of(lean, "high") >= of(whole, "high"),
            "{whole} {lean}"
        );
        assert_eq!((&whole["slowdown"], &whole["first_pass"]), (&lean["slowdown"], &lean["first_pass"]));
    }
    let window = |of: &Value| of["methods"][0]["mean"].as_f64().unwrap();
    assert!((window(&whole) / window(&lean) - 1.0).abs() < 0.01, "{} {}", window(&whole), window(&lean));
}

#[test]
fn reuse_times_are_estimated_where_they_are_asked_for() {
    let folder = Folder::new();
    let a = trace(&folder, "a.din", 1600);
    let how = ["--trace", &a, "--curves", "statstack"];
    let without = recorded(&folder, "without.json", &how);
    let with = recorded(&folder, "with.json", &[&how[..], &["--estimate-reuse-times"]].concat());
    let mean = |path: &str| {
        let object = done(&["predict", path, path, "--json", "--offsets", "9"]).object();
        object["predicted"]["mean"].as_f64().unwrap()
    };
    let (without, with) = (mean(&without), mean(&with));
    assert!(without > 1.02 && with != without && (with / without - 1.0).abs() < 0.1, "{without} {with}");
}

#[test]
fn runs_become_one_whenever_they_are_recorded() {
    let folder = Folder::new();
    let (a, b) = (trace(&folder, "a.din", 1600), trace(&folder, "b.din", 500));
    let at_once = recorded(&folder, "both.json", &["--trace", &a, "--trace", &b, "--name", "p"]);
    let first = recorded(&folder, "first.json", &["--trace", &a, "--name", "p"]);
    let one = read(&first);
    // Updated in place.
    recorded(&folder, "first.json", &["--merge", &first, "--trace", &b]);
    let (both, updated) = (read(&at_once), read(&first));
    assert_eq!(both, updated);
    assert!(both.windows.len() > one.windows.len() && both.program == "p");
    // The reuse of all windows is kept, by phase.
    let accesses = |profile: &PhaseProfile| profile.phases.iter().map(|p| p.profile.accesses()).sum::<u64>();
    assert_eq!((accesses(&one), accesses(&both)), (120_000, 240_000));
    let merged = recorded(&folder, "merged.json", &["--merge", &first, "--merge", &at_once]);
    assert_eq!(read(&merged).windows.len(), 2 * both.windows.len());
}

#[test]
fn what_a_pirate_measured_says_what_it_could_not() {
    let folder = Folder::new();
    let curve = folder.file(
        "curve.json",
        r#"{"format": "cache-curve", "version": 1, "line_size": 64, "cache_bytes": 65536, "points": [
            {"bytes": 16384, "cpi": 3.0, "miss_ratio": 0.02}, {"bytes": 32768, "cpi": 9.0, "miss_ratio": 0.5, "trusted": false},
            {"bytes": 65536, "cpi": 1.5, "miss_ratio": 0.01}],
            "phases": [{"phase": 3}, {"phase": 5}], "windows": [{"work": 1000, "phase": 3}, {"work": 500, "phase": 5}]}"#,
    );
    let path = folder.path("measured.json").to_str().unwrap().to_owned();
    let said = done(&["record", "-o", &path, "--measured-curves", &curve, "--json"]).object();
    let remarks = said["remarks"].to_string();
    assert!(remarks.contains("no reuse times") && remarks.contains("1 of 3 points"), "{remarks}");
    assert_eq!((said["windows"].as_u64(), said["machine"]["cache_bytes"].as_u64()), (Some(2), Some(65536)));
    let object = done(&["predict", &path, &path, "--json", "--offsets", "3"]).object();
    assert!(object["notes"].to_string().contains("no reuse times"), "{}", object["notes"]);
    // Half of the cache each: midway between the two points.
    let slowdown = object["predicted"]["mean"].as_f64().unwrap();
    assert!(slowdown > 1.2 && slowdown < 2.0, "{slowdown}");
}

/// A program of some hundred thousand instructions, of which every access is observed, or some.
#[cfg(target_os = "linux")]
#[test]
fn programs_are_recorded_as_they_run() {
    let folder = Folder::new();
    let words: String = (0..3000_u32).map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761))).collect();
    let words = folder.file("words", words);
    let path = folder.path("sort.json").to_str().unwrap().to_owned();
    let how = ["record", "-o", &path, "--instructions", "100000", "--json"];
    let ended = run(&[&how[..], &CHIP, &["--", "sort", &words]].concat());
    if ended.status != 0 {
        assert!(std::env::var_os("REQUIRE_QEMU").is_none(), "REQUIRE_QEMU is set, but {}", ended.messages);
        eprintln!("skipped: {}", ended.messages);
        return;
    }
    let said = ended.object();
    let (windows, work) = (said["windows"].as_u64().unwrap(), said["work"].as_f64().unwrap());
    assert!(windows > 5 && work / windows as f64 > 50_000.0, "{said}");
    let every = read(&path);
    let accesses: u64 = every.windows.iter().filter_map(|window| window.accesses).sum();
    // What the windows count is what the reuse of the phases counts.
    assert_eq!(every.phases.iter().map(|phase| phase.profile.accesses()).sum::<u64>(), accesses);
    let code_is_named = |of: &PhaseProfile| {
        let named = |phase: &ProfiledPhase| phase.hottest_code.is_some() && phase.distinct_code.is_some();
        assert!(of.machine.as_ref().is_some_and(|machine| !machine.is_empty()));
        assert!(of.phases.iter().any(named), "{:?}", of.phases);
    };
    code_is_named(&every);
    let exact = done(&["predict", &path, &path, "--json", "--offsets", "3"]).object();
    let sampled = ["--sampled", "--sample-rate", "0.1", "--backend", "exact", "--", "sort", &words];
    done(&[&how[..], &CHIP, &sampled].concat());
    let part = read(&path);
    code_is_named(&part);
    assert_eq!(part.phases.iter().map(|phase| phase.windows).sum::<u64>(), part.windows.len() as u64);
    // Also in what is recorded from it.
    let merged = folder.path("merged.json").to_str().unwrap().to_owned();
    done(&[&["record", "--merge", &path, "-o", &merged][..], &CHIP].concat());
    code_is_named(&read(&merged));
    // Ranges say that curves were modelled, whatever file they come from.
    let opens =
        |object: &Value| object["high"].as_f64().unwrap() / object["slowdown"].as_f64().unwrap() - 1.0;
    let from_merged = done(&["predict", &merged, &merged, "--json", "--offsets", "3"]).object();
    let sampled = done(&["predict", &path, &path, "--json", "--offsets", "3"]).object();
    assert!(opens(&sampled) >= 0.025 && opens(&from_merged) >= 0.025, "{sampled} {from_merged}");
    let printed = done(&["predict", &path, &path, "--offsets", "3"]).out;
    assert!(printed.contains("Curves were modelled, not measured: slowdowns may be 2.50 % off"), "{printed}");
    let mean = |object: &Value| object["predicted"]["mean"].as_f64().unwrap();
    assert!((mean(&sampled) / mean(&exact) - 1.0).abs() < 0.1, "{} {}", mean(&sampled), mean(&exact));
}

/// Cycles per instruction in the smallest and the largest cache, as a recorded file has them.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn cpi(path: &str) -> [f64; 2] {
    let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let curves = &file["sections"]["cache-curve"];
    let list = |of: &Value| of.as_array().unwrap().clone();
    let work = |window: &Value| window["work"].as_f64().unwrap();
    let windows = list(&curves["windows"]);
    let whole: f64 = windows.iter().map(work).sum();
    let mut sums = [0.0; 2];
    for window in &windows {
        let mut points = list(&window["points"]);
        if points.is_empty() {
            let phases = list(&curves["phases"]);
            let phase = phases.iter().find(|phase| phase["phase"] == window["phase"]).unwrap();
            points = list(&phase["points"]);
        }
        for (sum, point) in sums.iter_mut().zip([&points[0], points.last().unwrap()]) {
            *sum += work(window) / whole * point["cpi"].as_f64().unwrap();
        }
    }
    sums
}

/// All processes of a command are recorded, each in windows of its own: two at a time behave as one alone does.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn processes_are_recorded_in_turn() {
    let folder = Folder::new();
    let words: String = (0..3000_u32).map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761))).collect();
    let words = folder.file("words", words);
    let path = |name: &str| folder.path(name).to_str().unwrap().to_owned();
    let record = |name: &str, how: &[&str], program: &[&str]| {
        let path = path(name);
        let flags = ["record", "-o", &path, "--instructions", "200000", "--json", "--backend", "dbi"];
        done(&[&flags[..], how, &CHIP, &["--"], program].concat()).object()
    };
    let commands = |said: &Value| -> Vec<String> {
        let processes = said["processes"].as_array().unwrap().iter();
        processes.map(|process| process["command"].as_str().unwrap().to_owned()).collect()
    };
    let (alone, both) = (format!("sort {words}"), format!("sort {words} & sort {words}; wait"));
    let one = record("one", &[], &["sort", &words]);
    assert_eq!(commands(&one), [&*alone]);
    let two = record("two", &[], &["sh", "-c", &both]);
    let found = commands(&two);
    assert_eq!((found.len(), found.iter().filter(|&command| *command == alone).count()), (3, 2), "{found:?}");
    let work = |said: &Value| said["work"].as_f64().unwrap();
    assert!((2.0..2.1).contains(&(work(&two) / work(&one))), "{} {}", work(&two), work(&one));
    for (two, one) in cpi(&path("two")).into_iter().zip(cpi(&path("one"))) {
        assert!((two / one - 1.0).abs() < 0.1, "{two} for {one} cycles per instruction");
    }
    // Samples are of all of them, too, and so is a profile that another command has written.
    let sampled = record("sampled", &["--sampled"], &["sh", "-c", &both]);
    assert_eq!(commands(&sampled).len(), 3);
    assert!((work(&sampled) / work(&two) - 1.0).abs() < 0.02, "{} {}", work(&sampled), work(&two));
    let threads = sampled["remarks"].as_array().unwrap().iter().filter(|remark| {
        remark.as_str().unwrap().contains("has 3 threads: they are taken to run in turn on one core")
    });
    assert_eq!(threads.count(), 1, "{sampled}");
    for how in [&["--children", "ignore"][..], &["--children", "ignore", "--sampled"]] {
        let first = record("first", how, &["sh", "-c", &both]);
        assert_eq!(commands(&first).len(), 1);
        assert!(work(&first) < 0.1 * work(&one), "{first}");
        assert!(first["remarks"].to_string().contains("2 child process(es) ran unobserved"), "{first}");
    }
}

#[test]
fn mistakes_are_one_line() {
    let folder = Folder::new();
    let a = trace(&folder, "a.din", 500);
    let (one, other) = (
        recorded(&folder, "one.json", &["--trace", &a]),
        recorded(&folder, "other.json", &["--trace", &a, "--core", "ooo"]),
    );
    let curve = folder.file(
        "curve.json",
        r#"{"format": "cache-curve", "version": 1, "line_size": 64, "points": [{"bytes": 65536, "cpi": 1.5, "miss_ratio": 0.1}]}"#,
    );
    let path = folder.path("x.json").to_str().unwrap().to_owned();
    let record = |more: &[&'static str]| [&["record", "-o", "PATH"], more].concat();
    for (arguments, status, message) in [
        (record(&[]), 2, "nothing to record"),
        (vec!["record", "--trace", "TRACE"], 2, "-o <FILE>"),
        (record(&["--merge", "ONE", "--merge", "OTHER"]), 2, "measured on different machines"),
        (record(&["--merge", "CURVE"]), 2, "give them to --measured-curves"),
        (record(&["--measured-curves", "ONE"]), 2, "give it to --merge"),
        (record(&["--trace", "TRACE", "--embedded", "paths"]), 2, "cannot be used with"),
        (record(&["--embedded", "nonesuch"]), 2, "no embedded program"),
        (record(&["--sampled", "--core", "ooo", "--", "true"]), 2, "--sampled with --core ooo"),
        (vec!["predict", "ONE", "OTHER"], 2, "recorded on another chip than"),
        (vec!["predict", "ONE", "ONE", "--llc-size", "1MiB"], 2, "leave them out"),
        (vec!["--core", "in-order", "--outstanding", "4"], 2, "are of --core ooo"),
        (vec!["--core", "ooo", "--base-cpi", "0"], 2, "--base-cpi 0 with --core ooo"),
        (vec!["--l1-size", "32KiB", "--l2", "16KiB"], 2, "as large as the first"),
        (vec!["--l2", "64KiB", "--latency", "1,3,2,130"], 2, "at least as slow"),
        (vec!["--l2", "64KiB", "--latency", "5,10,130"], 2, "four numbers"),
        (vec!["--latency", "1,2,10,130"], 2, "without --l2"),
        (vec!["--inclusion", "inclusive", "--llc-size", "16KiB"], 2, "as large as they are"),
        (vec!["--prefetch=0,4"], 2, "two numbers from 1 to 64"),
        (vec!["--curves", "statstack", "--prefetch"], 2, "--curves statstack with --prefetch"),
    ] {
        let given = |word: &&str| match *word {
            "PATH" => path.clone(),
            "TRACE" => a.clone(),
            "ONE" => one.clone(),
            "OTHER" => other.clone(),
            "CURVE" => curve.clone(),
            word => word.to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(given).collect();
        let ended = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ended.status, status, "{arguments:?}: {}", ended.messages);
        assert_eq!(ended.messages.lines().count(), 1, "{arguments:?}: {}", ended.messages);
        assert!(ended.messages.contains(message), "{arguments:?}: {}", ended.messages);
    }
    assert!(!folder.path("x.json").exists());
}
