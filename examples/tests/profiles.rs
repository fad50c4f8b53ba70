//! The phase profile in every command that reads one: damaged files, three commands in a row, and Parquet.

use std::fs;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::support::{Ended, Folder, run_pipeline};
use examples::tools::{
    compare_profiles, corun_variability, detect_phases, miss_ratio_curve, phase_guided_cache, power_frequency,
};
use reuse_sampler::file::{PhaseProfile, ProfiledPhase, ProfiledWindow};
use reuse_sampler::{LineSize, Outcome, ReuseDistance, ReuseProfile};
use serde_json::{Value, json};

/// Two phases by turns, with all that the commands read.
fn example() -> PhaseProfile {
    let phase = |name: &str, far: u64| {
        let mut reuse = ReuseProfile::new(LineSize::B64);
        reuse.record_many(Outcome::Reused(ReuseDistance(10)), 70, 10);
        reuse.record_many(Outcome::Reused(ReuseDistance(far)), 25, 10);
        reuse.record_many(Outcome::Dangling, 5, 10);
        let mut phase = ProfiledPhase::new(name, reuse);
        (phase.windows, phase.profiled, phase.instructions) = (3, 1, 3_000_000);
        phase.accesses_per_instruction = Some(0.3);
        phase.code = vec![(format!("function_{name}"), 0.5)];
        phase
    };
    let mut profile = PhaseProfile::new("p", LineSize::B64);
    profile.phases = vec![phase("A", 20_000), phase("B", 300_000)];
    let window = |window| ProfiledWindow {
        window,
        thread: 0,
        instructions: 1_000_000,
        accesses: Some(300_000),
        phase: if window % 2 == 0 { "A" } else { "B" }.to_owned(),
    };
    profile.windows = (0..6).map(window).collect();
    let points = json!([{"miss_ratio": 0.3, "low": 0.28, "high": 0.32}, {"miss_ratio": 0.1, "low": 0.08, "high": 0.12}]);
    let curves = json!({"bytes": [4096, 1 << 20], "average": points, "phases": {"A": points, "B": points}});
    profile.set_section("miss_ratios", &curves).unwrap();
    profile
}

fn value() -> Value {
    serde_json::to_value(example()).unwrap()
}

const COMMANDS: [&str; 4] = ["predict", "record", "compare", "frequency"];

fn run(command: &str, bad: &str, good: &str, out: &str) -> Ended {
    let flag = Arc::new(AtomicBool::new(false));
    let corun = |arguments: &[&str]| {
        run_pipeline(arguments, |args: &corun_variability::Args, out, messages| {
            corun_variability::run_until(&flag, args, out, messages)
        })
    };
    match command {
        "predict" => corun(&["predict", bad, good, "--json", "--offsets", "3"]),
        "record" => corun(&["record", "--merge", bad, "-o", out, "--json"]),
        "compare" => run_pipeline(
            &[bad, good, "--sizes", "32KiB", "--json"],
            |args: &compare_profiles::Args, out, messages| compare_profiles::run(args, out, messages),
        ),
        _ => run_pipeline(
            &["--profile", bad, "--frequencies", "1.6,2.67", "--json"],
            |args: &power_frequency::Args, out, messages| {
                power_frequency::run_until(&flag, args, out, messages)
            },
        ),
    }
}

/// Runs the commands on a file; those named must refuse it, and whoever refuses says so in a line that names the file.
/// Returns what is wrong.
fn judge(what: &str, bad: &str, folder: &Folder, refused_by: &[&str]) -> Vec<String> {
    let good = folder.file("good.json", value().to_string());
    let out = folder.path("out.json");
    let mut problems = Vec::new();
    for command in COMMANDS {
        let ended = catch_unwind(|| run(command, bad, &good, out.to_str().unwrap()));
        let problem = match ended {
            Err(_) => "panics".to_owned(),
            Ok(Ended { status: 1 | 2, out, messages }) => {
                if messages.lines().count() == 1 && messages.contains(bad) && out.is_empty() {
                    continue;
                }
                format!("refuses by {messages:?}, having printed {out:?}")
            }
            Ok(Ended { status, out, messages }) => {
                let is_sound = [0, 3, 4].contains(&status) && serde_json::from_str::<Value>(&out).is_ok();
                if is_sound && !refused_by.contains(&command) {
                    continue;
                }
                format!("accepts, status {status}: {out:?} {messages:?}")
            }
        };
        problems.push(format!("{command}, {what}: {problem}"));
    }
    problems
}

#[test]
fn a_sound_profile_is_read_by_every_command() {
    let folder = Folder::new();
    let good = folder.file("good.json", value().to_string());
    for command in COMMANDS {
        let ended = run(command, &good, &good, folder.path("out.json").to_str().unwrap());
        // Two windows of a few samples cannot tell whether anything changed.
        let expected = if command == "compare" { 4 } else { 0 };
        assert_eq!(ended.status, expected, "{command}: {}", ended.messages);
    }
}

#[test]
fn files_that_are_no_profile_are_refused() {
    let folder = Folder::new();
    let text = value().to_string();
    let cut = &text.as_bytes()[..text.len() / 2];
    let deep = "[".repeat(100_000);
    let files: [(&str, &[u8]); 7] = [
        ("empty", b""),
        ("cut", cut),
        ("deep", deep.as_bytes()),
        ("binary", &[0xff, 0, 0xc3, 0x28]),
        ("list", b"[]"),
        ("other", br#"{"format":"else","version":1}"#),
        ("parquet", b"PAR1 and no more"),
    ];
    let mut problems = Vec::new();
    for (what, content) in files {
        problems.extend(judge(what, &folder.file(what, content), &folder, &COMMANDS));
    }
    problems.extend(judge("a folder", folder.path("").to_str().unwrap(), &folder, &COMMANDS));
    problems.extend(judge("nothing", folder.path("nothing.json").to_str().unwrap(), &folder, &COMMANDS));
    #[cfg(unix)]
    problems.extend(judge("/dev/null", "/dev/null", &folder, &COMMANDS));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn damaged_profiles_are_refused_or_read_and_nobody_panics() {
    const MODELS: [&str; 3] = ["predict", "record", "frequency"];
    let folder = Folder::new();
    let huge = u64::MAX;
    let reuse = |key: &str| format!("/phases/0/profile/{key}");
    // What is replaced, by what, and who must refuse it.
    let damages: Vec<(String, Value, &[&str])> = vec![
        ("/version".into(), json!(2), &COMMANDS),
        ("/version".into(), json!(-1), &COMMANDS),
        ("/line_size".into(), json!(3), &COMMANDS),
        ("/line_size".into(), json!(128), &COMMANDS), // not that of the phases
        ("/scope".into(), json!("numa"), &COMMANDS),
        ("/phases".into(), json!([]), &COMMANDS),
        ("/phases".into(), json!({}), &COMMANDS),
        ("/phases/1/phase".into(), json!("A"), &COMMANDS),
        ("/phases/0/borrows_from".into(), json!("Z"), &COMMANDS),
        ("/phases/0/borrows_from".into(), json!("A"), &COMMANDS),
        ("/phases/0/accesses_per_instruction".into(), json!(-1.0), &COMMANDS),
        ("/phases/0/accesses_per_instruction".into(), json!("NaN"), &COMMANDS),
        ("/phases/0/accesses_per_instruction".into(), json!(0.0), &[]),
        ("/phases/0/accesses_per_instruction".into(), json!(1e308), &COMMANDS),
        ("/phases/0/accesses_per_instruction".into(), json!(5e-324), &[]),
        ("/phases/0/code".into(), json!([["f", -0.5]]), &COMMANDS),
        ("/phases/0/windows".into(), json!(huge), &COMMANDS),
        ("/phases/0/instructions".into(), json!(huge), &COMMANDS),
        ("/windows".into(), json!([]), &MODELS),
        ("/windows".into(), json!("none"), &COMMANDS),
        ("/windows/0".into(), json!(null), &COMMANDS),
        ("/windows/0/phase".into(), json!("Z"), &COMMANDS),
        ("/windows/0/phase".into(), json!(7), &COMMANDS),
        ("/windows/0/thread".into(), json!(1_u64 << 32), &COMMANDS),
        ("/windows/0/instructions".into(), json!(-1), &COMMANDS),
        ("/windows/0/instructions".into(), json!(0.5), &COMMANDS),
        ("/windows/0/instructions".into(), json!(2e19), &COMMANDS),
        ("/windows/0/window".into(), json!(huge), &[]),
        (reuse("version"), json!(2), &COMMANDS),
        (reuse("samples"), json!(huge), &COMMANDS),
        (reuse("reused"), json!([[10, 0]]), &COMMANDS),
        (reuse("reused"), json!([[20, 5], [10, 5]]), &COMMANDS),
        (reuse("reused"), json!([[10, huge], [20, huge], [huge, huge]]), &[]),
        (reuse("dangling"), json!(huge), &[]),
        (reuse("accesses"), json!(huge), &[]),
        (reuse("clock"), json!("Time"), &COMMANDS),
        (reuse("overlaps"), json!([[256, {}]]), &COMMANDS),
        ("/sections".into(), json!([]), &COMMANDS),
        ("/sections/cache-curve".into(), json!("none"), &["predict", "record"]),
        (
            "/sections/cache-curve".into(),
            json!({"format": "cache-curve", "version": 2}),
            &["predict", "record"],
        ),
        ("/sections/miss_ratios".into(), json!([]), &["compare"]),
        ("/sections/miss_ratios/bytes".into(), json!([]), &["compare"]),
        ("/sections/miss_ratios/bytes".into(), json!([huge, 0]), &["compare"]),
        ("/sections/miss_ratios/average/0/miss_ratio".into(), json!(1e308), &["compare"]),
        ("/sections/miss_ratios/average/1/low".into(), json!(0.5), &["compare"]),
        ("/sections/miss_ratios/phases/A".into(), json!([]), &["compare"]),
        ("/phases/0/profiled".into(), json!(0), &COMMANDS),
        ("/phases/0/code".into(), json!([["f", 0.75], ["g", 0.5]]), &COMMANDS),
        ("/windows/1/instructions".into(), json!(2_000_000), &COMMANDS),
    ];
    let mut problems = Vec::new();
    for (place, with, refused_by) in damages {
        let mut profile = value();
        let (parent, key) = place.rsplit_once('/').unwrap();
        let parent = profile.pointer_mut(parent).unwrap();
        match parent.as_array_mut() {
            Some(list) => list[key.parse::<usize>().unwrap()] = with.clone(),
            None => parent[key] = with.clone(),
        }
        let bad = folder.file("bad.json", profile.to_string());
        problems.extend(judge(&format!("{place} = {with}"), &bad, &folder, refused_by));
    }
    for (key, number, refused_by) in [
        ("instructions", 0, &COMMANDS[..]), // not those of the phases
        ("instructions", huge, &COMMANDS),
        ("accesses", huge, &[]),
        ("accesses", 0, &[]),
    ] {
        let mut profile = value();
        for window in profile["windows"].as_array_mut().unwrap() {
            window[key] = json!(number);
        }
        let bad = folder.file("bad.json", profile.to_string());
        problems.extend(judge(&format!("{key} of all windows = {number}"), &bad, &folder, refused_by));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn from_profile_to_co_run_to_frequency_phases_keep_their_names() {
    let folder = Folder::new();
    let out = folder.path("p");
    let observed = run_pipeline(
        &["--workload", "few", "--json", "--out", out.to_str().unwrap()],
        |args: &phase_guided_cache::Args, out, messages| phase_guided_cache::run(args, out, messages),
    );
    assert_eq!(observed.status, 0, "{}", observed.messages);
    let path = out.join("profile.json");
    let path = path.to_str().unwrap();
    let profile = PhaseProfile::read(fs::File::open(path).unwrap()).unwrap();
    let known = |name: &Value| profile.phase(name.as_str().unwrap()).unwrap().clone();

    let co_run = run("predict", path, path, "").object();
    let culprits = co_run["culprits"].as_array().unwrap();
    assert!(!culprits.is_empty());
    for culprit in culprits {
        let place = culprit["phase"].as_u64().unwrap() as usize;
        assert_eq!(culprit["names"][0], *profile.phases[place].phase);
        known(&culprit["names"][1]);
    }

    // Windows, instructions and code are those of the phase of the same name.
    let frequency = run("frequency", path, "", "").object();
    assert_eq!((&frequency["source"], &frequency["modelled"]), (&json!("reuse"), &json!(true)));
    assert_eq!(frequency["program"], *profile.program);
    let phases = frequency["phases"].as_array().unwrap();
    assert_eq!(phases.len(), profile.phases.len());
    for phase in phases {
        let stored = known(&phase["phase"]);
        let windows = profile.windows.iter().filter(|window| window.phase == stored.phase);
        assert_eq!(phase["intervals"], windows.clone().count());
        assert_eq!(phase["instructions"].as_f64(), Some(windows.map(|w| w.instructions as f64).sum::<f64>()));
        assert_eq!(phase["hottest_code"].as_str(), stored.code.first().map(|(name, _)| &**name));
    }

    // A recorded file names them by letters too, and is read by both.
    let recorded = folder.path("recorded.json");
    let recorded = recorded.to_str().unwrap();
    assert_eq!(run("record", path, "", recorded).status, 0);
    let again = PhaseProfile::read(fs::File::open(recorded).unwrap()).unwrap();
    let names = |of: &PhaseProfile| of.phases.iter().map(|phase| phase.phase.clone()).collect::<Vec<_>>();
    assert_eq!(names(&again), names(&profile));
    assert_eq!(run("record", recorded, "", recorded).status, 0);
    assert_eq!(PhaseProfile::read(fs::File::open(recorded).unwrap()).unwrap(), again);
    assert_eq!(run("frequency", recorded, "", "").status, 0);
}

/// `detect_phases` names phases and windows as `phase_guided_cache` does, and takes no samples to predict from.
#[test]
fn a_run_without_samples_is_refused_with_the_remedy() {
    let folder = Folder::new();
    let read = |name: &str| {
        let path = folder.path(name).join("profile.json");
        PhaseProfile::read(fs::File::open(path).unwrap()).unwrap()
    };
    let out = |name: &str| folder.path(name).to_str().unwrap().to_owned();
    let words = ["--workload", "phased", "--out"];
    let detected = run_pipeline(&[&words[..], &[&out("detected"), "--json"]].concat(), detect_phases::run);
    let guided = run_pipeline(&[&words[..], &[&out("guided")]].concat(), phase_guided_cache::run);
    assert_eq!((detected.status, guided.status), (0, 0));
    let (found, guided) = (read("detected"), read("guided"));
    assert!(found.phases.len() > 2, "{}", found.phases.len());
    assert_eq!((&found.program, found.machine.as_ref()), (&guided.program, None));
    let windows = |of: &PhaseProfile| {
        of.windows.iter().map(|w| (w.window, w.thread, w.instructions, w.phase.clone())).collect::<Vec<_>>()
    };
    assert_eq!(windows(&found), windows(&guided));
    for (found, guided) in found.phases.iter().zip(&guided.phases) {
        assert_eq!((&found.phase, found.windows), (&guided.phase, guided.windows));
        assert_eq!((&found.hottest_code, &found.code), (&guided.hottest_code, &guided.code));
        assert_eq!(found.distinct_code, guided.distinct_code);
        assert!(found.profile.is_empty() && found.profiled == 0);
    }
    assert!(found.phases[0].distinct_code.is_some());

    // The numbers that `detect_phases` prints are those of its names.
    let mut printed = detected.objects();
    let summary = printed.pop().unwrap();
    let names: std::collections::BTreeMap<u64, &str> = summary["summary"]["phase_list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (of["phase"].as_u64().unwrap(), of["name"].as_str().unwrap()))
        .collect();
    assert!(printed.iter().zip(&found.windows).all(|(p, w)| names[&p["phase"].as_u64().unwrap()] == w.phase));

    let path = folder.path("detected").join("profile.json");
    let path = path.to_str().unwrap();
    for command in COMMANDS {
        let ended = run(command, path, path, folder.path("recorded.json").to_str().unwrap());
        let remedy = if command == "compare" { "no section miss_ratios" } else { "has reuse samples" };
        assert_eq!((ended.status, ended.messages.lines().count()), (1, 1), "{command}: {}", ended.messages);
        for part in [path, remedy, "phase_guided_cache --out DIR"] {
            assert!(ended.messages.contains(part), "{command}: {}", ended.messages);
        }
    }
}

#[test]
fn the_samples_of_a_curve_are_predicted_from() {
    let folder = Folder::new();
    let out = folder.path("curve");
    let words = ["--workload", "hash_join", "--draws", "0", "--out", out.to_str().unwrap()];
    assert_eq!(run_pipeline(&words, miss_ratio_curve::run).status, 0);
    let path = out.join("profile.json");
    let path = path.to_str().unwrap();
    let recorded = folder.path("recorded.json");
    for command in ["predict", "record", "frequency"] {
        let ended = run(command, path, path, recorded.to_str().unwrap());
        assert_eq!(ended.status, 0, "{command}: {}", ended.messages);
    }
    let frequency = run("frequency", path, path, "").object();
    let stored = PhaseProfile::read(fs::File::open(path).unwrap()).unwrap();
    assert_eq!(frequency["phases"].as_array().unwrap().len(), stored.phases.len());
    let instructions: u64 = stored.windows.iter().map(|window| window.instructions).sum();
    let predicted =
        frequency["phases"].as_array().unwrap().iter().map(|of| of["instructions"].as_f64().unwrap());
    assert_eq!(predicted.sum::<f64>(), instructions as f64);
    assert!(run("compare", path, path, "").messages.contains("record it with phase_guided_cache --out DIR"));
}

/// A program that nobody counts leaves its profile, with phases named as in the report.
#[test]
fn what_was_modelled_can_be_modelled_again() {
    let folder = Folder::new();
    let out = folder.path("power");
    let words = ["--modelled", "--workload", "compute", "--frequencies", "1.6,2.67", "--json", "--out"];
    let flag = Arc::new(AtomicBool::new(false));
    let ended = run_pipeline(
        &[&words[..], &[out.to_str().unwrap()]].concat(),
        |args: &power_frequency::Args, out, messages| power_frequency::run_until(&flag, args, out, messages),
    );
    assert_eq!(ended.status, 0, "{}", ended.messages);
    let again = run("frequency", out.join("profile.json").to_str().unwrap(), "", "").object();
    let phases = |object: &Value| {
        let phases = object["phases"].as_array().unwrap().iter();
        phases
            .map(|of| [&of["phase"], &of["intervals"], &of["instructions"]].map(Clone::clone))
            .collect::<Vec<_>>()
    };
    assert!(!phases(&again).is_empty());
    assert_eq!(phases(&again), phases(&ended.object()));
}

#[test]
fn what_cannot_be_modelled_is_named() {
    let folder = Folder::new();
    let mut coarse = PhaseProfile::new("p", LineSize::new(128).unwrap());
    coarse.phases = vec![ProfiledPhase::new("A", ReuseProfile::new(coarse.line_size()))];
    let path = folder.file("coarse.json", serde_json::to_string(&coarse).unwrap());
    let ended = run("frequency", &path, "", "");
    assert_eq!(ended.status, 1);
    assert!(
        ended.messages.contains("lines of 128 bytes: the modelled core has lines of 64"),
        "{}",
        ended.messages
    );
    // Two of them agree with each other, and not with the chip.
    for command in ["predict", "record"] {
        let ended = run(command, &path, &path, folder.path("out.json").to_str().unwrap());
        assert_eq!(ended.status, 1, "{command}");
        let expected = "lines of 128 bytes, and the chip has lines of 64: give --line-size 128";
        assert!(ended.messages.contains(expected), "{command}: {}", ended.messages);
    }
    let mut named = example();
    named.phases[1].phase = "compute".to_owned();
    named
        .windows
        .iter_mut()
        .filter(|window| window.phase == "B")
        .for_each(|w| w.phase = "compute".to_owned());
    let path = folder.file("named.json", serde_json::to_string(&named).unwrap());
    // One access per instruction would be a guess.
    let mut uncounted = example();
    uncounted.phases[1].accesses_per_instruction = None;
    let without = folder.file("uncounted.json", serde_json::to_string(&uncounted).unwrap());
    let ended = run("predict", &without, &path, "");
    assert_eq!((ended.status, ended.messages.lines().count()), (1, 1), "{}", ended.messages);
    assert!(
        ended.messages.contains("phase \"B\" has instructions but no accesses per"),
        "{}",
        ended.messages
    );
    let notes = run("predict", &path, &path, "").object()["notes"].to_string();
    assert!(notes.contains(r#"phases of p are named in order: B is \"compute\""#), "{notes}");
    let phases = run("frequency", &path, "", "").object()["phases"].to_string();
    assert!(phases.contains(r#""phase":"compute""#), "{phases}");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_the_feature_parquet_is_refused_with_the_remedy() {
    let folder = Folder::new();
    let good = folder.file("good.json", value().to_string());
    let ended = run("record", &good, "", folder.path("p.parquet").to_str().unwrap());
    assert!(ended.status != 0 && ended.messages.contains("--features parquet"), "{}", ended.messages);
    let ended = run("compare", &folder.file("p.parquet", "PAR1"), &good, "");
    assert!(ended.status == 1 && ended.messages.contains("--features parquet"), "{}", ended.messages);
}

#[cfg(feature = "parquet")]
mod parquet;
