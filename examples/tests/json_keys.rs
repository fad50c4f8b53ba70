//! `docs/json.md` lists the keys that the commands print, and no others.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Folder, run_pipeline};
use examples::tools::{
    compare_profiles, convert_trace, corun_variability, phase_guided_cache, statcc_accuracy,
};
use serde_json::Value;

const PAGE: &str = include_str!("../../docs/json.md");

/// The keys of each command by the page, with whether they are in every output.
fn documented() -> BTreeMap<&'static str, BTreeMap<&'static str, bool>> {
    let sections = PAGE.split("\n## ").skip(1).map(|section| {
        let (name, body) = section.split_once('\n').unwrap();
        let rows = body.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
        let keys = rows.flat_map(|keys| keys.split(", ")).map(|key| {
            let key = key.trim_start_matches('`');
            key.strip_suffix("`°")
                .map_or_else(|| (key.strip_suffix('`').expect(key), true), |key| (key, false))
        });
        (name, keys.collect())
    });
    sections.collect()
}

fn gather(value: &Value, at: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| gather(item, at, keys)),
        Value::Object(object) => {
            for (key, value) in object {
                let place = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                gather(value, &place, keys);
                keys.insert(place);
            }
        }
        _ => {}
    }
}

/// Whether `printed` has all keys that the page promises in section `name`, and no other.
fn holds(name: &str, printed: &Value, by: &str) {
    let documented = documented();
    let known = documented.get(name).unwrap_or_else(|| panic!("docs/json.md has no section {name}"));
    let mut keys = BTreeSet::new();
    gather(printed, "", &mut keys);
    let unknown: Vec<_> = keys.iter().filter(|key| !known.contains_key(key.as_str())).collect();
    assert!(unknown.is_empty(), "{by} has {unknown:?}: list them in docs/json.md");
    let gone: Vec<_> =
        known.iter().filter(|&(key, always)| *always && !keys.contains(*key)).map(|(key, _)| key).collect();
    assert!(gone.is_empty(), "{by} lacks {gone:?}, which docs/json.md promises");
}

#[test]
fn the_page_of_keys_lists_those_of_the_goldens() {
    for (command, files) in [
        ("phase_guided_cache", &["phase_guided_cache"][..]),
        (
            "miss_ratio_curve",
            &[
                "miss_ratio_curve",
                "miss_ratio_curve_exact",
                "miss_ratio_curve_spots",
                "miss_ratio_curve_threads",
            ],
        ),
        ("detect_phases", &["detect_phases", "detect_phases_simpoint"]),
        ("convert_trace", &["convert_trace"]),
        ("phase_guided_vs_periodic", &["phase_guided_vs_periodic"]),
        ("compare_detectors", &["compare_detectors"]),
        ("model_accuracy", &["model_accuracy"]),
        ("cache_pirate", &["cache_pirate"]),
        ("cache_pirate --experiment", &["cache_pirate_experiments"]),
        ("statcc_accuracy", &["statcc_accuracy"]),
        ("corun_variability", &["corun_variability"]),
        ("power_frequency", &["power_frequency"]),
        ("what_can_i_measure", &["what_can_i_measure"]),
    ] {
        for file in files {
            let path = format!("{}/tests/goldens/{file}.json", env!("CARGO_MANIFEST_DIR"));
            let printed: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            holds(command, &printed, file);
        }
    }
}

/// What has no golden file.
#[test]
fn the_page_of_keys_lists_those_of_other_forms() {
    let folder = Folder::new();
    let trace =
        folder.file("a.din", (0..4000).map(|i| format!("0 {:x}\n", i % 700 * 64)).collect::<String>());
    let path = |name: &str| folder.path(name).to_str().unwrap().to_owned();
    let words = ["--json", "--llc-size", "64KiB", "--l1-size", "1KiB", "--trace", &trace, "--trace", &trace];
    let played = run_pipeline(&words, statcc_accuracy::run).object();
    holds("statcc_accuracy --trace", &played, "statcc_accuracy --trace");
    let converted =
        run_pipeline(&["--json", "-o", &path("a.csv"), "--to", "csv", &trace], convert_trace::run).object();
    holds("convert_trace -o", &converted, "convert_trace -o");
    let recorded = path("recorded.json");
    let words = ["record", "--json", "-o", &recorded, "--llc-size", "64KiB", "--trace", &trace];
    for more in [&[][..], &["--core", "ooo", "--l1-size", "4KiB", "--l2", "8KiB"]] {
        let said = run_pipeline(&[&words[..], more].concat(), corun_variability::run).object();
        holds("corun_variability record", &said, "corun_variability record");
    }
    let written = path("report");
    let words = ["--workload", "few", "--out", &written];
    assert_eq!(run_pipeline(&words, phase_guided_cache::run).status, 0);
    let profile = format!("{written}/profile.json");
    let words = ["--json", "--tolerance", "100", &profile, &profile];
    let compared = run_pipeline(&words, compare_profiles::run).object();
    holds("compare_profiles", &compared, "compare_profiles");
}
