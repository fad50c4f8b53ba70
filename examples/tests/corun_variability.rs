//! The pipeline `corun_variability` as its users meet it: programs in, a distribution of slowdowns out, held against
//! what happens when the programs really run together on the simulated chip.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::support::{Ended, run_pipeline, uniform};
use examples::cli::invoke;
use examples::tools::corun_variability::{Args, run_until};
use examples::tools::{cache_pirate, phase_guided_cache};
use serde_json::Value;

fn run_with(arguments: &[&str], interrupted: bool) -> Ended {
    let interrupted = Arc::new(AtomicBool::new(interrupted));
    run_pipeline(arguments, |args: &Args, out, messages| run_until(&interrupted, args, out, messages))
}

fn json(arguments: &[&str]) -> Value {
    run_with(&[&["--json"], arguments].concat(), false).object()
}

/// Two programs of two phases each, for a cache of 1024 lines: a table that uses all it can get and a small one; and a
/// small one and one far beyond it.
fn traces(folder: &Path) -> [String; 2] {
    let (mut a, mut b, mut state) = (String::new(), String::new(), 7);
    for _ in 0..2 {
        uniform(&mut a, &mut state, 0, 1600, 60_000);
        uniform(&mut a, &mut state, 1 << 20, 60, 60_000);
    }
    uniform(&mut b, &mut state, 0, 40, 90_000);
    uniform(&mut b, &mut state, 1 << 20, 8000, 90_000);
    [("a.din", a), ("b.din", b)].map(|(name, text)| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    })
}

const CHIP: [&str; 4] = ["--llc-size", "64KiB", "--l1-size", "1KiB"];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Programs on a chip whose memory is slower than they would like, with a prefetcher that does not wait for it.
#[test]
fn slowdowns_before_a_slow_memory_are_as_predicted() {
    for (target, beside) in [("store", "solver"), ("paths", "solver")] {
        let memory = ["--prefetch", "--bandwidth", "1", "--offsets", "2", "--", target, beside];
        let object = json(&[&CHIP[..], &memory].concat());
        let (predicted, simulated) =
            (number(&object["predicted"]["mean"]), number(&object["reference"]["mean"]));
        // Prefetched lines keep the others' waiting: a quarter and a third less was predicted when all lines waited alike.
        assert!((predicted / simulated - 1.0).abs() < 0.05, "{target}: {predicted} {simulated}");
        assert!(number(&object["time_waiting"]) > 0.1, "{object}");
        let ends = [&object["low"], &object["high"]].map(number);
        assert!((ends[0]..=ends[1]).contains(&simulated), "{target}: {ends:?} {simulated}");
        assert_eq!(object["flagged"], true);
    }
}

/// A line that was asked for ahead is used at once: 2.7 and 1.5 % too slow where only uses were counted.
#[test]
fn slowdowns_behind_a_prefetcher_are_as_predicted() {
    for (target, beside) in [("store", "solver"), ("store", "paths")] {
        let object = json(&[&CHIP[..], &["--prefetch", "--offsets", "2", "--", target, beside]].concat());
        let (predicted, simulated) =
            (number(&object["predicted"]["mean"]), number(&object["reference"]["mean"]));
        assert!((predicted / simulated - 1.0).abs() < 0.01, "{beside}: {predicted} {simulated}");
    }
}

/// What comes in is followed over time: 1.9 and 3.3 % too fast where programs settled as soon as a window began.
#[test]
fn slowdowns_where_lines_leave_at_random_are_as_predicted() {
    for (target, beside, error) in [("store", "mixed", 0.01), ("sorter", "mixed", 0.025)] {
        let object =
            json(&[&CHIP[..], &["--policy", "random", "--offsets", "2", "--", target, beside]].concat());
        let (predicted, simulated) =
            (number(&object["predicted"]["mean"]), number(&object["reference"]["mean"]));
        assert!((predicted / simulated - 1.0).abs() < error, "{target}: {predicted} {simulated}");
    }
}

#[test]
fn slowdowns_of_traces_are_as_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = traces(folder.path());
    let traces = ["--trace", &*a, "--trace", &*b, "--mix", "0.3,0.4", "--offsets", "40", "--window", "3000"];
    let arguments = [&traces[..], &CHIP].concat();
    let object = json(&arguments);
    let (predicted, reference) = (&object["predicted"], &object["reference"]);
    let slowdowns = |of: &Value| of["slowdowns"].as_array().unwrap().iter().map(number).collect::<Vec<f64>>();
    let (predicted, reference) = (slowdowns(predicted), slowdowns(reference));
    assert_eq!((predicted.len(), reference.len()), (40, 40));
    // Phases meet or do not: there is something to predict.
    let spread = |of: &[f64]| {
        of.iter().fold(0.0, |m, &x| f64::max(m, x)) - of.iter().fold(9.0, |m, &x| f64::min(m, x))
    };
    assert!(spread(&reference) > 0.03, "{reference:?}");
    // Uniform accesses are what curves describe best. What is left: the cache's 64 sets are filled unevenly, and
    // where a phase begins the cache is not yet as it will be; each costs some tenths of a per cent.
    let methods = object["methods"].as_array().unwrap();
    for method in methods.iter().filter(|m| m["method"] != "oblivious") {
        assert!(number(&method["mean_error"]) < 0.01, "{method}");
    }
    for (predicted, simulated) in predicted.iter().zip(&reference) {
        assert!((predicted / simulated - 1.0).abs() < 0.025, "{predicted} {simulated}");
    }
    // Who knows no phases misses the spread.
    let oblivious = methods.iter().find(|m| m["method"] == "oblivious").unwrap();
    assert!(
        number(&oblivious["kolmogorov_smirnov"]) > 2.0 * number(&object["comparison"]["kolmogorov_smirnov"])
    );
    // Fewer phases meet than windows, and the same do again and again.
    let invocations: Vec<f64> = methods.iter().map(|m| number(&m["invocations"])).collect();
    assert!(
        invocations[0] > invocations[1] && invocations[1] > invocations[2] && invocations[2] > invocations[3]
    );
    // Sets of phases that end before they settle are followed besides.
    assert!(number(&object["co_phases"]) <= invocations[2]);
    let certainty = &object["certainty"];
    // Every slowdown exceeds some threshold and none a larger one; what is told is what the slowdowns say.
    for pair in certainty["exceeding"].as_array().unwrap() {
        let above =
            slowdowns(&object["predicted"]).iter().filter(|&&s| s > 1.0 + number(&pair[0]) / 100.0).count();
        assert!((number(&pair[1]) - above as f64 / 40.0).abs() < 1e-9, "{certainty}");
    }
    let interval = certainty["mean_interval"].as_array().unwrap();
    let mean = number(&object["predicted"]["mean"]);
    assert!(number(&interval[0]) < mean && mean < number(&interval[1]), "{certainty}");
    // 0.1 % of the mean from an interval of so many per cent after 40 runs.
    let half = (number(&interval[1]) - mean) / mean;
    let needed = number(&certainty["offsets_for_mean"]["offsets"]);
    assert!((needed / (40.0 * (half / 0.001).powi(2)) - 1.0).abs() < 0.01, "{certainty}");
    assert_eq!(number(&certainty["offsets_for_distribution"]["offsets"]), 185.0);
}

#[test]
fn equal_seeds_give_equal_output_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = traces(folder.path());
    let traces = ["--trace", &*a, "--trace", &*b, "--offsets", "6", "--json"];
    let with = |more: &[&str]| run_with(&[&traces[..], &CHIP, more].concat(), false).out;
    let one = with(&["--threads", "1"]);
    assert!(one.contains("\"reference\":{"), "{one}");
    assert_eq!(one, with(&["--threads", "3"]));
    assert_ne!(one, with(&["--seed", "1"]));
}

#[test]
fn every_way_to_measure_curves_serves() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = traces(folder.path());
    let traces = ["--trace", &*a, "--trace", &*b, "--mix", "0.3,0.4", "--offsets", "12", "--window", "3000"];
    let mean = |curves: &str| {
        let object = json(&[&traces[..], &CHIP, &["--curves", curves]].concat());
        (number(&object["predicted"]["mean"]), number(&object["reference"]["mean"]))
    };
    // The pirate cannot hold the last of its lines, and StatStack knows no sets: a few points either way.
    for (curves, tolerance) in [("ways", 0.01), ("pirate", 0.02), ("statstack", 0.03)] {
        let (predicted, simulated) = mean(curves);
        assert!((predicted / simulated - 1.0).abs() < tolerance, "{curves}: {predicted} {simulated}");
    }
}

#[test]
fn files_hold_the_figures_and_the_co_phases() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = traces(folder.path());
    let out = folder.path().join("out");
    let traces = ["--trace", &*a, "--trace", &*b, "--trace", &*b, "--offsets", "5", "--simulate", "2"];
    let object = json(&[&traces[..], &CHIP, &["--out", out.to_str().unwrap()]].concat());
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&read("corun.json")).unwrap(), object);
    for picture in ["slowdowns.svg", "trajectory.svg", "bandwidth.svg"] {
        assert!(read(picture).starts_with("<svg"), "{picture}");
        assert!(read("report.html").contains(read(picture).trim()), "{picture}");
    }
    let rows = |name: &str| read(name).lines().count() - 1;
    assert_eq!(rows("slowdowns.csv"), 5);
    // A row for each of three programs.
    assert_eq!(rows("cophases.csv") as f64, 3.0 * number(&object["co_phases"]));
    assert_eq!(rows("culprits.csv") as f64, number(&object["co_phases"]));
    // Two runs, predicted and simulated, at 101 shares of the time.
    assert_eq!(rows("bandwidth.csv"), 4 * 101);
    // What culprits cost adds up to what is lost.
    let costs = read("culprits.csv")
        .lines()
        .skip(1)
        .map(|row| row.rsplit(',').next().unwrap().parse::<f64>().unwrap())
        .sum::<f64>();
    assert!((costs - (number(&object["predicted"]["mean"]) - 1.0)).abs() < 1e-9, "{costs}");
    // Two runs were simulated, five predicted.
    assert_eq!(object["reference"]["slowdowns"].as_array().unwrap().len(), 2);
    assert_eq!(object["predicted"]["slowdowns"].as_array().unwrap().len(), 5);
}

#[test]
fn a_schedule_is_the_cheapest_of_all_pairings() {
    let names = ["--", "store", "sorter", "joiner", "mixed"];
    let chip = ["--llc-size", "32KiB", "--l1-size", "512", "--offsets", "5", "--simulate", "0", "--schedule"];
    let object = json(&[&chip[..], &names].concat());
    let schedule = &object["schedule"];
    let cost = |a: usize, b: usize| {
        let mean = |a: usize, b: usize| number(&schedule["mean_slowdowns"][a][b]);
        mean(a, b) + mean(b, a)
    };
    let totals = [cost(0, 1) + cost(2, 3), cost(0, 2) + cost(1, 3), cost(0, 3) + cost(1, 2)];
    let least = totals.iter().copied().fold(f64::INFINITY, f64::min);
    let most = totals.iter().copied().fold(0.0, f64::max);
    for (target, beside) in (0..4).flat_map(|target| (0..4).map(move |beside| (target, beside))) {
        let of = |key: &str| number(&schedule[key][target][beside]);
        assert!(of("low") <= of("mean_slowdowns") && of("mean_slowdowns") <= of("high"), "{schedule}");
        assert!(schedule["flagged"][target][beside].is_boolean(), "{schedule}");
    }
    assert!((number(&schedule["best_by_total"]["total"]) - least).abs() < 1e-9, "{schedule} {totals:?}");
    assert!((number(&schedule["worst_by_total"]["total"]) - most).abs() < 1e-9, "{schedule} {totals:?}");
    // The target of the whole prediction is the first beside all others, which cost it more than any one.
    assert!(number(&object["predicted"]["mean"]) > number(&schedule["mean_slowdowns"][0][3]));
    assert_eq!(object["reference"], Value::Null);
}

#[test]
fn single_windows_are_as_predicted_or_flagged() {
    let chip = ["--llc-size", "256KiB", "--l1-size", "8KiB", "--index", "hashed"];
    let object = json(&[&chip[..], &["--experiment", "windows"]].concat());
    let sets = object["sets"].as_array().unwrap();
    let of_size = |members: usize| {
        sets.iter().filter(|set| set["members"].as_array().unwrap().len() == members).collect::<Vec<_>>()
    };
    // All pairs of ten programs with themselves and each other, in three sizes.
    assert_eq!((of_size(2).len(), of_size(4).len()), (3 * 55, 3 * 20));
    for (what, members) in [("pairs", 2), ("groups of four", 4)] {
        // What is summed up is what the sets say.
        let all: Vec<&Value> =
            of_size(members).into_iter().flat_map(|set| set["members"].as_array().unwrap()).collect();
        let (flagged, others): (Vec<&Value>, Vec<&Value>) =
            all.iter().partition(|member| member["on_cliff"] == true);
        let error = |m: &&Value| (number(&m["predicted"]) / number(&m["simulated"]) - 1.0).abs();
        let mean = others.iter().map(error).sum::<f64>() / others.len() as f64;
        let near = |m: &&&Value| {
            let simulated = number(&m["simulated"]);
            (number(&m["range"][0]) * 0.97..=number(&m["range"][1]) * 1.03).contains(&simulated)
        };
        let inside = flagged.iter().filter(near).count();
        let summary = object["summary"].as_array().unwrap();
        let told = summary.iter().find(|s| s["windows"] == what && s["cache_bytes"].is_null()).unwrap();
        assert_eq!(number(&told["on_cliff"]) as usize, flagged.len());
        assert_eq!(number(&told["within_3_percent_of_range"]) as usize, inside);
        assert!((number(&told["mean_error"]) - mean).abs() < 1e-9, "{told} {mean}");
        // The smallest of these caches has sixteen sets, which chance fills unevenly.
        assert!(mean < 0.015, "{what}: {mean}");
        // Four programs stand on each other's cliffs more often than two.
        let most = if members == 2 { 0.3 } else { 0.36 };
        assert!((flagged.len() as f64) < most * all.len() as f64, "{what}: {}", flagged.len());
        assert!(inside as f64 > 0.95 * flagged.len() as f64, "{what}: {inside} of {}", flagged.len());
    }
}

#[test]
fn two_commands_lead_from_a_program_to_its_slowdown() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (phases, curve) = (path("phases"), path("curve"));
    let mut sink = Vec::new();
    let guided = ["phase_guided_cache", "--workload", "same_code", "--out", &*phases];
    let status =
        invoke(guided, &mut sink, &mut Vec::new(), |args: &phase_guided_cache::Args, out, messages| {
            phase_guided_cache::run(args, out, messages)
        });
    assert_eq!(status, 0);
    let mut trace = String::new();
    uniform(&mut trace, &mut 3, 0, 20_000, 200_000);
    fs::write(path("t.din"), trace).unwrap();
    let trace = path("t.din");
    let pirate = [
        "cache_pirate",
        "--trace",
        &*trace,
        "--mix",
        "0.3",
        "--sizes",
        "1MiB,1536KiB,2MiB",
        "--out",
        &*curve,
    ];
    let status = invoke(pirate, &mut sink, &mut Vec::new(), |args: &cache_pirate::Args, out, messages| {
        cache_pirate::run_until(&Arc::new(AtomicBool::new(false)), args, out, messages)
    });
    assert_eq!(status, 0);
    let files = [format!("{curve}/curve.json"), format!("{phases}/profile.json")];
    let object = json(&[&*files[0], &*files[1], "--offsets", "20"]);
    assert_eq!(object["reference"], Value::Null);
    assert!(object["notes"][0].as_str().unwrap().contains("has no windows"));
    let mean = number(&object["predicted"]["mean"]);
    // Its 1.2 MiB fit alone; beside a table of 4 MiB read at random for a quarter of the time they do not.
    assert!(mean > 1.02 && mean < 2.0, "{mean}");
    // What cache_pirate left is the same curve, with a remark.
    let profiled = json(&[&*format!("{curve}/profile.json"), &*files[1], "--offsets", "20"]);
    assert_eq!(profiled["predicted"], object["predicted"]);
    assert!(profiled["notes"].to_string().contains("beside a pirate"));
    // It beside itself: two tables of 1.2 MiB, each with half of 2 MiB. Uniform accesses miss by what is not there.
    let itself = json(&[&*files[0], &*files[0], "--offsets", "3"]);
    let misses = 1.0 - (1 << 20) as f64 / (20_000.0 * 64.0);
    let l1 = 512.0 / 20_000.0;
    let cpi = |misses: f64| 1.0 + 0.3 * (l1 + (1.0 - l1 - misses) * 10.0 + misses * 130.0);
    let expected = cpi(misses) / cpi(0.0);
    // The sets of the cache are filled unevenly: some 1 % of the lines do not fit even alone.
    assert!((number(&itself["predicted"]["mean"]) / expected - 1.0).abs() < 0.03, "{itself} {expected}");
}

#[test]
fn mistakes_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let (other, broken) = (path("other.json", "{\"format\": \"poem\"}"), path("broken.json", "{"));
    let small = path(
        "small.json",
        r#"{"format": "cache-curve", "version": 1, "line_size": 64, "points": [{"bytes": 4096, "cpi": 1.5, "miss_ratio": 0.1}]}"#,
    );
    let din = path("one.din", "0 40\n");
    for (arguments, status, message) in [
        (&["missing.json", "missing.json"][..], 1, "missing.json: No such file"),
        (&[&*other, &*other], 1, "neither a cache-curve nor a phase-profile file"),
        (&[&*broken, &*other], 1, "broken.json: not a profile"),
        (&[&*small], 2, "give at least two"),
        (&[&*small, &*small], 1, "measured up to 4096 bytes"),
        (&["--trace", &*din], 2, "give --trace at least 2 times"),
        (&["--trace", &*din, "--trace", &*din, "--mix", "0"], 2, "--mix"),
        (&["--trace", &*din, &*small], 2, "cannot be used with"),
        (&["--offsets", "0"], 2, "--offsets"),
        (&["--method", "guess"], 2, "invalid value 'guess'"),
        (&["--bandwidth=-1"], 2, "--bandwidth"),
        (&["--index", "random"], 2, "invalid value 'random'"),
        (
            &["--experiment", "windows", "--llc-size", "8KiB"],
            2,
            "single windows are run in a 16th of the caches, too",
        ),
        (&["--", "paths"], 2, "name at least two"),
        (&["--", "paths", "nonesuch"], 2, "no embedded program \"nonesuch\""),
    ] {
        let ended = run_with(arguments, false);
        assert_eq!(ended.status, status, "{arguments:?}: {}", ended.messages);
        assert_eq!(ended.messages.lines().count(), 1, "{}", ended.messages);
        assert!(ended.messages.contains(message), "{arguments:?}: {}", ended.messages);
        assert!(ended.out.is_empty());
    }
    // With extrapolation the small curve serves: it is level, and nobody loses anything.
    let object = json(&[&*small, &*small, "--extrapolate"]);
    assert!((number(&object["predicted"]["mean"]) - 1.0).abs() < 1e-9);
}

#[test]
fn an_interrupted_run_ends_at_once() {
    let ended = run_with(&CHIP, true);
    assert_eq!(ended.status, 1);
    assert_eq!(ended.messages, "corun_variability: interrupted before anything was predicted\n");
}
