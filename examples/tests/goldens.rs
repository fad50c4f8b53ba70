//! What every command prints with `--json` on small, seeded input, held against what it printed before.
//!
//! `UPDATE_GOLDENS=1 cargo test -p examples --test main goldens` writes the files anew: where a change of behaviour is meant, the
//! commit that makes it also holds the new figures. Numbers may differ by one part in 10^9, as mathematical libraries do.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;

use crate::support::{Folder, run_pipeline};
use examples::cli::{CommandLine, Failure};
use examples::reference::accuracy as model_accuracy;
use examples::tools::{
    cache_pirate, compare_detectors, convert_trace, corun_variability, detect_phases, miss_ratio_curve,
    phase_guided_cache, phase_guided_vs_periodic, power_frequency, statcc_accuracy, what_can_i_measure,
};
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

/// Runs a command on a line of arguments, where `DIN` is a small trace and `CSV` one of two threads, and compares what it prints with `name`.json.
fn golden<A: CommandLine>(
    name: &str,
    arguments: &str,
    command: impl FnOnce(&A, &mut dyn Write, &mut dyn Write) -> Result<u8, Failure>,
) {
    compare(name, printed(arguments, command));
}

fn printed<A: CommandLine>(
    arguments: &str,
    command: impl FnOnce(&A, &mut dyn Write, &mut dyn Write) -> Result<u8, Failure>,
) -> Value {
    let folder = Folder::new();
    let lines: String = (0..2).flat_map(|_| (0..65).map(|line| format!("0 {:x}\n", line * 64))).collect();
    let trace = folder.file("small.din", lines);
    let threads = (0..200).fold("thread,kind,address,bytes\n".to_owned(), |rows, i| {
        rows + &format!("{},{},{},8\n", i % 2, if i % 3 > 0 { "store" } else { "load" }, i * i % 31 * 8)
    });
    let threads = folder.file("threads.csv", threads);
    let arguments = arguments.replace("DIN", &trace).replace("CSV", &threads);
    let ended = run_pipeline(&arguments.split_whitespace().chain(["--json"]).collect::<Vec<_>>(), command);
    let mut printed = Value::Array(ended.objects());
    rename(&mut printed, &trace);
    rename(&mut printed, &threads);
    printed
}

fn compare(name: &str, printed: Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(format!("{name}.json"));
    if env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&path, serde_json::to_string_pretty(&printed).unwrap() + "\n").unwrap();
    }
    let before: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let mut differences = Vec::new();
    differ(&before, &printed, name.to_owned(), &mut differences);
    let first: Vec<_> = differences.iter().take(10).map(String::as_str).collect();
    assert!(
        differences.is_empty(),
        "{} values differ:\n{}\n(UPDATE_GOLDENS=1 accepts them, where the change is meant)",
        differences.len(),
        first.join("\n")
    );
}

/// The trace lies in another folder each time.
fn rename(value: &mut Value, trace: &str) {
    match value {
        Value::String(text) => {
            let name = Path::new(trace).file_name().unwrap().to_str().unwrap();
            *text = text.replace(trace, name);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, trace)),
        Value::Object(keys) => keys.values_mut().for_each(|item| rename(item, trace)),
        _ => {}
    }
}

fn differ(before: &Value, now: &Value, place: String, differences: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().filter(|key| !b.contains_key(*key)) {
                differences.push(format!("{place}: key {key:?} is gone"));
            }
            for (key, now) in b {
                let place = format!("{place}.{key}");
                match a.get(key) {
                    Some(before) => differ(before, now, place, differences),
                    None => differences.push(format!("{place} is new: UPDATE_GOLDENS=1 takes it in")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (k, (before, now)) in a.iter().zip(b).enumerate() {
                differ(before, now, format!("{place}[{k}]"), differences);
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let (x, y) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            if (x - y).abs() > TOLERANCE * x.abs().max(y.abs()).max(1e-3) {
                differences.push(format!("{place}: {a} before, {b} now"));
            }
        }
        _ if before == now => {}
        _ => differences.push(format!("{place}: {before} before, {now} now")),
    }
}

/// Replaces what was measured with a clock: columns in microseconds.
fn without_times(mut printed: Value) -> Value {
    for table in printed[0]["tables"].as_array_mut().unwrap() {
        let times: Vec<usize> = (table["columns"].as_array().unwrap().iter().enumerate())
            .filter(|(_, title)| title.as_str().unwrap().ends_with(" us"))
            .map(|(k, _)| k)
            .collect();
        for row in table["rows"].as_array_mut().unwrap() {
            times.iter().for_each(|k| row[*k] = Value::Null);
        }
    }
    printed
}

/// Each key and what kind of value it has, where the values depend on the machine.
fn keys_only(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(keys_only),
        Value::Object(keys) => keys.values_mut().for_each(keys_only),
        _ => *value = Value::Null,
    }
}

#[test]
fn phase_guided_cache_prints_what_it_did() {
    let mut printed = printed("--sizes 8KiB,256KiB", phase_guided_cache::run);
    // Miss ratios at the sizes of this machine's caches.
    let report = &mut printed[0];
    report["caches"] = Value::Null;
    report["caches_measured"] = Value::Null;
    for phase in report["phases"].as_array_mut().unwrap() {
        assert!(phase["miss_ratio"].is_object());
        phase["miss_ratio"] = Value::Null;
    }
    compare("phase_guided_cache", printed);
}

#[test]
fn miss_ratio_curve_prints_what_it_did() {
    golden("miss_ratio_curve", "--model statcache --sizes 4KiB,64KiB,1MiB", miss_ratio_curve::run);
    golden("miss_ratio_curve_exact", "--trace DIN --model exact-lru", miss_ratio_curve::run);
    let private = "--trace CSV --model exact-lru --scope private --sizes 128,1KiB";
    golden("miss_ratio_curve_threads", private, miss_ratio_curve::run);
    golden("miss_ratio_curve_spots", "--workload key_value --hot-spots 32KiB", miss_ratio_curve::run);
}

#[test]
fn convert_trace_prints_what_it_did() {
    golden("convert_trace", "DIN --to profile", convert_trace::run);
}

#[test]
fn model_accuracy_prints_what_it_did() {
    golden("model_accuracy", "DIN --workload matmul_blocked --limit 100000 --windows 4", model_accuracy::run);
}

#[test]
fn detect_phases_prints_what_it_did() {
    golden("detect_phases", "", detect_phases::run);
    golden("detect_phases_simpoint", "--clusterer simpoint", detect_phases::run);
}

#[test]
fn compare_detectors_prints_what_it_did() {
    let arguments =
        "--workload dual --limit 40 --experiment detectors,samples,rate,profiling,interval,points";
    compare("compare_detectors", without_times(printed(arguments, compare_detectors::run)));
}

#[test]
fn phase_guided_vs_periodic_prints_what_it_did() {
    golden("phase_guided_vs_periodic", "--workload few --seeds 1", phase_guided_vs_periodic::run);
}

#[test]
fn power_frequency_prints_what_it_did() {
    golden("power_frequency", "--workload compute --frequencies 1.6,2.67", power_frequency::run);
}

#[test]
fn corun_variability_prints_what_it_did() {
    golden("corun_variability", "--llc-size 64KiB --l1-size 1KiB --offsets 10", corun_variability::run);
}

#[test]
fn cache_pirate_prints_what_it_did() {
    golden("cache_pirate", "--trace DIN --mix 0.3 --cache 64KiB", cache_pirate::run);
    golden("cache_pirate_experiments", "--experiment patterns,stressmark --cache 32KiB", cache_pirate::run);
}

#[test]
fn statcc_accuracy_prints_what_it_did() {
    let arguments = "--accesses 100000 --llc-size 64KiB --l1-size 1KiB --mixes 1 --repetitions 0";
    golden("statcc_accuracy", arguments, statcc_accuracy::run);
}

#[test]
fn what_can_i_measure_has_the_keys_it_had() {
    let mut printed = printed("", what_can_i_measure::run);
    keys_only(&mut printed);
    compare("what_can_i_measure", printed);
}
