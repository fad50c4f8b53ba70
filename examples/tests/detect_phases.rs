//! The pipeline `detect_phases` as its users meet it, against known phases, a naive clusterer and valgrind's own counts.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::support::{Ended, run_pipeline};
use examples::tools::detect_phases::{Args, run_until};
use phase_detect::metrics::adjusted_rand_index;
use phase_detect::simpoint::{SimulationPoint, bb_windows, read_labels, read_points};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tempfile::TempDir;

fn run_with(arguments: &[&str], interrupted: bool) -> Ended {
    let interrupted = AtomicBool::new(interrupted);
    run_pipeline(arguments, |args: &Args, out, messages| run_until(&interrupted, args, out, messages))
}

fn run(arguments: &[&str]) -> Ended {
    run_with(arguments, false)
}

/// The objects of the windows, and the summary.
fn json(arguments: &[&str]) -> (Vec<Value>, Value) {
    let mut windows = run(&[&["--json"], arguments].concat()).objects();
    let mut last = windows.pop().unwrap();
    (windows, last["summary"].take())
}

fn phases(windows: &[Value]) -> Vec<u64> {
    windows.iter().map(|window| window["phase"].as_u64().unwrap()).collect()
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Windows of four loops of 12 blocks each that take turns, and which loop each window ran. Each window counts 1,000
/// instructions drawn from its loop.
fn loops() -> (Vec<BTreeMap<u64, u32>>, Vec<u32>) {
    let mut random = StdRng::seed_from_u64(5);
    let truth: Vec<u32> = [0, 1, 0, 2, 0, 1, 0, 3].repeat(6).into_iter().flat_map(|p| [p; 5]).collect();
    let windows = truth
        .iter()
        .map(|&phase| {
            let mut counts = BTreeMap::new();
            for _ in 0..1000 {
                // a triangle over the loop's blocks; a sixth of them belong to the next loop, too
                let block = random.random_range(0..7) + random.random_range(0..6);
                *counts.entry(1 + u64::from(phase) * 10 + block).or_insert(0) += 1;
            }
            counts
        })
        .collect();
    (windows, truth)
}

fn as_bb(windows: &[BTreeMap<u64, u32>]) -> String {
    let line = |window: &BTreeMap<u64, u32>| -> String {
        let pairs: Vec<String> = window.iter().map(|(block, count)| format!(":{block}:{count}")).collect();
        format!("T{}\n", pairs.join(" "))
    };
    windows.iter().map(line).collect::<String>() + "# the end\n"
}

fn as_csv(windows: &[BTreeMap<u64, u32>]) -> String {
    let row = |window: &BTreeMap<u64, u32>| -> String {
        let cells: Vec<String> = (1..=45).map(|b| window.get(&b).unwrap_or(&0).to_string()).collect();
        cells.join(",") + "\n"
    };
    let header: Vec<String> = (1..=45).map(|b| format!("block {b}")).collect();
    header.join(",") + "\n" + &windows.iter().map(row).collect::<String>()
}

#[test]
fn every_clusterer_finds_the_loops_of_every_input() {
    let folder = tempfile::tempdir().unwrap();
    let (windows, truth) = loops();
    let bb = write(&folder, "loops.bb", as_bb(&windows));
    let csv = write(&folder, "loops.csv", as_csv(&windows));
    for input in [["--bbv", &bb], ["--signatures", &csv]] {
        for clusterer in [
            &["leader-follower", "--threshold", "0.3"][..],
            &["leader-follower", "--threshold", "0.3", "--max-phases", "4"],
            &["k-means", "--max-phases", "4"],
            &["simpoint"],
            &["pop"],
        ] {
            let (found, summary) = json(&[&input[..], &["--clusterer"], clusterer].concat());
            let agreement = adjusted_rand_index(&phases(&found), &truth).unwrap();
            assert!(agreement > 0.99, "{input:?} {clusterer:?}: {agreement}");
            assert_eq!((&summary["windows"], &summary["phases"]), (&240.into(), &4.into()));
            // half of the windows are those of loop 0, a quarter those of loop 1
            assert_eq!((&summary["coverage"]["0.8"], &summary["coverage"]["0.9"]), (&3.into(), &4.into()));
            // turns of 5 windows; online, the first two windows of each phase are in transition
            let transition = found.iter().filter(|window| window.get("transition").is_some()).count();
            let run = summary["mean_run_length"].as_f64().unwrap();
            assert!((run - (240 - transition) as f64 / 48.0).abs() < 1e-12, "{run}, {transition}");
            assert!(transition == 0 || transition == 8, "{transition}");
        }
    }
}

/// Options that change nothing are named in the result, where a script sees them.
#[test]
fn options_that_are_not_used_are_named() {
    let unused = ["--clusterer", "k-means", "--threshold", "0.3", "--coverage", "60"];
    let (_, summary) = json(&[&["--workload", "few"][..], &unused].concat());
    let notes = summary["notes"].as_array().unwrap();
    for flag in ["--threshold is not used", "--coverage is not used"] {
        assert!(notes.iter().any(|note| note.as_str().unwrap().contains(flag)), "{notes:?}");
    }
    let (_, summary) = json(&["--workload", "few", "--threshold", "0.3"]);
    assert_eq!(summary["notes"], serde_json::json!([]));
}

/// A bound below the number of phases gives up phases, and their numbers are not used again.
#[test]
fn bounds_replace_phases() {
    let folder = tempfile::tempdir().unwrap();
    let bb = write(&folder, "loops.bb", as_bb(&loops().0));
    let (found, _) = json(&["--bbv", &bb, "--threshold", "0.3", "--max-phases", "2"]);
    // 0 1 0 2 0 1 0 3: loop 0 always stays, each other one is new whenever it comes
    let expected: Vec<u64> =
        (0..48).flat_map(|turn| [if turn % 2 == 0 { 0 } else { turn / 2 + 1 }; 5]).collect();
    assert_eq!(phases(&found), expected);
}

#[test]
fn predictions_are_scored_as_they_were_printed() {
    let folder = tempfile::tempdir().unwrap();
    let bb = write(&folder, "loops.bb", as_bb(&loops().0));
    for predictor in ["ppm", "run-length", "last-value", "scored"] {
        let (found, summary) = json(&["--bbv", &bb, "--threshold", "0.3", "--predictor", predictor]);
        // Windows in transition, the first two of each phase, are not predicted.
        let settled = |window: &Value| window.get("transition").is_none();
        let pairs: Vec<_> = found
            .windows(2)
            .filter(|pair| settled(&pair[1]) && !pair[0]["predicted_next"].is_null())
            .collect();
        let right = pairs.iter().filter(|pair| pair[0]["predicted_next"] == pair[1]["phase"]).count();
        let accuracy = right as f64 / pairs.len() as f64;
        let told = summary["prediction_accuracy"].as_f64().unwrap();
        assert!((told - accuracy).abs() < 1e-12, "{predictor}: {told}, {accuracy}"); // rounded in print
        assert_eq!((&summary["predictions"], &summary["changes"]), (&pairs.len().into(), &47.into()));
        // what stays the same is always right, what changes never, for the last value
        let last = summary["last_value_accuracy"].as_f64().unwrap();
        assert!((last - (pairs.len() - 47) as f64 / pairs.len() as f64).abs() < 1e-12, "{last}");
        match predictor {
            "last-value" => assert_eq!(accuracy, last),
            // of the 47 changes those of the first round of 8 turns and a few of the second cannot be known
            _ => assert!(accuracy > 1.0 - 30.0 / pairs.len() as f64, "{predictor}: {accuracy}"),
        }
        for (index, window) in found.iter().enumerate() {
            let keys: Vec<&String> = window.as_object().unwrap().keys().collect();
            assert_eq!(window["window"], index);
            let expected = ["change_within", "confidence", "phase", "predicted_next", "transition", "window"];
            assert!(keys.iter().all(|key| expected.contains(&key.as_str())), "{keys:?}");
            match window["predicted_next"].is_null() {
                true => assert!(window["confidence"].is_null() && !settled(window)),
                false => assert!((0.0..=1.0).contains(&window["confidence"].as_f64().unwrap())),
            }
        }
    }
}

#[test]
fn compression_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = as_bb(&loops().0);
    let plain = write(&folder, "a.bb", &text);
    let mut gzip = flate2::read::GzEncoder::new(text.as_bytes(), flate2::Compression::fast());
    let mut compressed = Vec::new();
    gzip.read_to_end(&mut compressed).unwrap();
    let packed = write(&folder, "b.bb", &compressed);
    assert_eq!(json(&["--bbv", &plain]).0, json(&["--bbv", &packed]).0);
    let cut = write(&folder, "c.bb", &compressed[..compressed.len() / 2]);
    let ended = run(&["--bbv", &cut]);
    assert_eq!(ended.status, 1);
    assert!(ended.messages.contains("c.bb: ") && ended.messages.contains("truncated"), "{}", ended.messages);
}

/// The files that SimPoint writes say the same as the lines, and each point is the window nearest its centre.
#[test]
fn simulation_points_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let bb = write(&folder, "loops.bb", as_bb(&loops().0));
    let out = folder.path().join("out");
    let simpoint = ["--bbv", &bb, "--clusterer", "simpoint", "--coverage", "60", "--out"];
    let (found, _) = json(&[&simpoint[..], &[out.to_str().unwrap()]].concat());
    let open = |name: &str| std::io::BufReader::new(fs::File::open(out.join(name)).unwrap());
    let labels = read_labels(open("phases.labels")).unwrap();
    let points = read_points(open("phases.simpoints"), open("phases.weights")).unwrap();
    assert!(labels.iter().map(|label| u64::from(label.phase.number())).eq(phases(&found)));
    assert_eq!(points.len(), 4);
    for point in &points {
        let of_phase = || labels.iter().filter(|label| label.phase == point.phase);
        assert_eq!(point.weight, of_phase().count() as f64 / labels.len() as f64);
        let nearest = of_phase().map(|l| l.distance.unwrap()).fold(f64::INFINITY, f64::min);
        assert_eq!(labels[point.window].distance, Some(nearest));
        assert_eq!(labels[point.window].phase, point.phase);
    }
    let largest = read_points(open("phases.simpoints.lpt0.6"), open("phases.weights.lpt0.6")).unwrap();
    let weight = |points: &[SimulationPoint]| points.iter().map(|point| point.weight).sum::<f64>();
    assert!(largest.len() < points.len() && (weight(&largest) - 1.0).abs() < 1e-5, "{largest:?}");
}

/// Of more windows than are held until the end, phases are what they are, and their code is that of some windows.
#[test]
fn a_run_larger_than_memory_keeps_its_phases() {
    let folder = tempfile::tempdir().unwrap();
    // A signature of 65,536 entries is a 256th of what is kept.
    let window = |at: usize| if at % 30 < 20 { "T:1:700 :9:300\n" } else { "T:2:900 :9:100\n" };
    let bb = write(&folder, "two.bb", (0..600).map(window).collect::<String>());
    let (found, summary) = json(&["--bbv", &bb, "--clusterer", "simpoint", "--entries", "65536"]);
    assert!(phases(&found).into_iter().eq((0..600).map(|at| u64::from(at % 30 >= 20))));
    assert!(summary["notes"][0].as_str().unwrap().contains("one in 4 windows"), "{}", summary["notes"]);
    let code = |at: usize, key: &str| summary["phase_list"][at][key].clone();
    for (at, block, share) in [(0, "block 1", 0.7), (1, "block 2", 0.9)] {
        assert_eq!(
            (code(at, "distinct_code"), code(at, "distinct_code_share")),
            (block.into(), share.into())
        );
        assert_eq!(code(at, "windows"), [400, 200][at]);
    }
}

/// Windows that a change falls into are no phase of their own, and each phase is named by what only it executes.
#[test]
fn changes_within_windows_are_transitions() {
    let folder = tempfile::tempdir().unwrap();
    // Both phases spend most of their time in block 9.
    let window = |at: usize| match at % 20 {
        0..9 => "T:9:700 :1:300\n",
        9 => "T:9:710 :1:140 :2:150\n",
        10..19 => "T:9:720 :2:280\n",
        _ => "T:9:710 :1:150 :2:140\n",
    };
    let bb = write(&folder, "two.bb", (0..200).map(window).collect::<String>());
    let (found, summary) = json(&["--bbv", &bb, "--out", folder.path().join("out").to_str().unwrap()]);
    assert_eq!(found.len(), 200);
    let phases: Vec<&Value> = summary["phase_list"].as_array().unwrap().iter().collect();
    let (mixed, settled): (Vec<&Value>, Vec<&Value>) =
        phases.iter().partition(|phase| phase["transition"] == true);
    assert_eq!((mixed.len(), settled.len()), (1, 2), "{summary}");
    assert_eq!(mixed[0]["windows"], 20);
    assert_eq!(mixed[0]["mixture"], serde_json::json!([0, 2]));
    assert_eq!((&summary["phases"], &summary["transitions"]["windows"]), (&2.into(), &20.into()));
    for (phase, block) in settled.iter().zip(["block 1", "block 2"]) {
        assert_eq!((&phase["hottest_code"], &phase["distinct_code"]), (&"block 9".into(), &block.into()));
        assert_eq!(phase["distinct_code_elsewhere"], 0.0);
    }
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("<details><summary>1 cluster in transition between phases</summary>"));
}

/// Every window has its place in the pictures, which need nothing from elsewhere.
#[test]
fn the_report_stands_alone() {
    let folder = tempfile::tempdir().unwrap();
    let csv = write(&folder, "a<b.csv", as_csv(&loops().0));
    let out = folder.path().join("out");
    let ended = run(&["--signatures", &csv, "--threshold", "0.3", "--out", out.to_str().unwrap()]);
    assert_eq!(ended.status, 0, "{}", ended.messages);
    let text = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let page = text("report.html");
    assert!(page.contains("a&lt;b.csv") && !page.contains("a<b.csv"));
    assert!(!page.contains("src=") && !page.contains("href="));
    for picture in ["phases.svg", "similarity.svg", "projection.svg"] {
        assert!(page.contains(&text(picture)), "{picture}");
    }
    assert_eq!(text("projection.svg").matches("<circle").count(), 240);
    assert_eq!(text("phases.svg").matches("<title>phase").count(), 48); // one for each turn
    assert_eq!(text("windows.csv").lines().count(), 241);
    assert_eq!(text("windows.csv").lines().nth(1), Some("0,0,0,,,true,"));
}

#[test]
fn bad_input_is_one_line_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = 0;
    let mut input = |text: &str| {
        file += 1;
        write(&folder, &format!("input{file}"), text)
    };
    let cases = [
        (
            "--bbv",
            input("T:1:2 :3:4\nT:1:x\n"),
            &[][..],
            1,
            "line 2, column 5: expected a count: a whole number",
        ),
        ("--bbv", input("T:1:2\nT:1:-2\n"), &[], 1, "line 2, column 5: expected a count: a whole number"),
        ("--bbv", input("T:1:2\nbogus\n"), &[], 1, "line 2, column 1: expected a window"),
        ("--bbv", input("T:1:2\nT\n"), &[], 1, "line 2, column 1: a window needs at least one block"),
        ("--bbv", input("# nothing\n"), &[], 1, "no window in the file"),
        (
            "--signatures",
            input("a,b\n1,2\n3,-4\n"),
            &[],
            1,
            "line 3, column 3: frequencies must not be negative",
        ),
        (
            "--signatures",
            input("1,2\n3,NaN\n"),
            &["--kind", "raw"],
            1,
            "line 2, column 3: entries must be finite",
        ),
        ("--signatures", input("1,2\n3\n"), &[], 1, "line 2, column 2: this row has fewer fields"),
        ("--signatures", input("1,2\n0,0\n"), &[], 1, "line 2, column 1: a row of frequencies needs"),
        ("--signatures", input("1,2\n1,2,3\n"), &[], 1, "line 2, column 5: this row has more fields"),
        ("--signatures", input("header\n"), &[], 1, "there are no windows"),
        (
            "--signatures",
            input("1,2\n"),
            &["--clusterer", "k-means", "--max-phases", "2"],
            2,
            "ask for at most 1",
        ),
        ("--signatures", input("1,2\n"), &["--threshold", "1.5"], 2, "threshold is 1.5; it is a fraction"),
        ("--signatures", input("1,2\n"), &["--max-phases", "0"], 2, "room for at least 1 phase"),
        ("--signatures", input("1,2\n"), &["--kind", "raw"], 2, "leave --kind out"),
        ("--bbv", input("T:1:2\n"), &["--entries", "100"], 2, "power of two"),
        ("--bbv", input("T:1:2\n"), &["--signatures", "x"], 2, "cannot be used with"),
        ("--bbv", folder.path().join("missing").display().to_string(), &[], 1, "missing: No such file"),
        ("--workload", "nonesuch".to_owned(), &[], 2, "no embedded workload \"nonesuch\""),
    ];
    for (flag, path, more, status, message) in cases {
        let ended = run(&[&[flag, &path], more].concat());
        assert!(ended.messages.contains(message), "{message:?} in {:?}", ended.messages);
        assert_eq!((ended.status, ended.messages.lines().count()), (status, 1), "{}", ended.messages);
        assert_eq!(ended.out, "");
    }
}

#[test]
fn an_interrupted_run_keeps_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let bb = write(&folder, "loops.bb", as_bb(&loops().0));
    for arguments in [&["--bbv", bb.as_str()][..], &["--workload", "stream"]] {
        let ended = run_with(&[&["--json"], arguments].concat(), true);
        assert_eq!(ended.status, 130, "{}", ended.messages);
        assert!(ended.messages.contains("interrupted; the phases are those of the run until then"));
        let lines: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let summary = &lines.last().unwrap()["summary"];
        assert_eq!((&summary["incomplete"], &summary["windows"]), (&true.into(), &(lines.len() - 1).into()));
        assert!(lines.len() > 1);
    }
}

/// Whoever reads only the first lines ends the run, and that is no failure.
#[test]
fn a_closed_pipe_ends_the_run() {
    struct Closing(u32);
    impl Write for Closing {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(std::io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut messages = Vec::new();
    let status = examples::cli::invoke(
        ["detect_phases", "--json"],
        &mut Closing(40),
        &mut messages,
        |args: &Args, out, messages| run_until(&AtomicBool::new(false), args, out, messages),
    );
    assert!(status == 0 || status == 130, "{status}: {}", String::from_utf8_lossy(&messages));
}

/// Records block vectors of `xz` with valgrind, or answers `None` where there is no valgrind.
fn recorded(folder: &TempDir) -> Option<String> {
    let (bb, log) = (folder.path().join("xz.bb"), folder.path().join("log"));
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    let ended = Command::new("valgrind")
        .args(["--tool=exp-bbv", "--interval-size=200000"])
        .arg(format!("--bb-out-file={}", bb.display()))
        .arg(format!("--log-file={}", log.display()))
        .args(["xz", "--keep", "--stdout"])
        .arg(manifest)
        .stdout(std::process::Stdio::null())
        .status();
    match ended {
        Ok(status) if status.success() => Some(bb.to_str().unwrap().to_owned()),
        other => {
            assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "valgrind: {other:?}");
            eprintln!("skipped: valgrind does not run here ({other:?})");
            None
        }
    }
}

/// Leader-follower clustering on all blocks of a window, without hashing, keeping all members.
fn naive_phases(windows: &[BTreeMap<u64, f64>], threshold: f64) -> Vec<usize> {
    let mut members: Vec<Vec<usize>> = Vec::new();
    let mut labels = Vec::new();
    for (index, window) in windows.iter().enumerate() {
        let distance = |group: &Vec<usize>| -> f64 {
            let mut difference = window.clone();
            for &member in group {
                for (block, share) in &windows[member] {
                    *difference.entry(*block).or_default() -= share / group.len() as f64;
                }
            }
            difference.values().map(|d| d.abs()).sum::<f64>() / 2.0
        };
        let nearest = (0..members.len())
            .map(|phase| (distance(&members[phase]), phase))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|nearest| nearest.0 <= threshold);
        let phase = nearest.map_or(members.len(), |nearest| nearest.1);
        if phase == members.len() {
            members.push(Vec::new());
        }
        members[phase].push(index);
        labels.push(phase);
    }
    labels
}

#[test]
fn a_file_of_valgrind_is_classified_as_without_hashing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(bb) = recorded(&folder) else { return };
    let text = fs::read_to_string(&bb).unwrap();
    let windows: Vec<BTreeMap<u64, f64>> = bb_windows(text.as_bytes())
        .map(Result::unwrap)
        .map(|window| window.blocks().iter().map(|&(block, count)| (block, count / window.total())).collect())
        .collect();
    assert!(windows.len() > 50, "{}", windows.len());
    let (found, summary) =
        json(&["--bbv", &bb, "--entries", "4096", "--threshold", "0.2", "--predictor", "last-value"]);
    assert_eq!(found.len(), windows.len());
    // valgrind ends the file with its own count; it counts the instructions of an unfinished interval, too
    let told = text.lines().find_map(|line| line.strip_prefix("#   Total instructions: "));
    let (told, got): (u64, u64) =
        (told.unwrap().trim().parse().unwrap(), summary["instructions"].as_u64().unwrap());
    assert!(got <= told && told - got < 210_000, "{got} of {told}");
    // With 4,096 entries a few blocks still share one, so that a window near the threshold may go the other way.
    let naive = naive_phases(&windows, 0.2);
    let agreement = adjusted_rand_index(&phases(&found), &naive).unwrap();
    assert!(agreement > 0.9, "{agreement}");
}

/// A real program, observed by whatever there is: as many instructions as windows of that size.
#[test]
fn a_program_is_run_and_its_status_passed_on() {
    let shell = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; exit 3";
    let ended = run(&["--json", "--window", "500000", "--", "sh", "-c", shell]);
    if ended.status == 1 {
        assert!(std::env::var_os("REQUIRE_QEMU").is_none(), "REQUIRE_QEMU is set, but {}", ended.messages);
        eprintln!("skipped: {}", ended.messages);
        return;
    }
    assert_eq!(ended.status, 3, "{}", ended.messages);
    let lines: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, windows) = lines.split_last().unwrap();
    let summary = &summary["summary"];
    let instructions = summary["instructions"].as_u64().unwrap();
    assert_eq!(windows.len() as u64, instructions.div_ceil(500_000));
    assert!(windows.len() > 10);
    // the loop is one phase, and nearly all there is
    assert_eq!(summary["coverage"]["0.8"], 1);
    assert_eq!(summary["incomplete"], false);
}
