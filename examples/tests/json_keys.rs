//! `docs/json.md` lists the keys that the commands print, and no others.

use std::collections::{BTreeMap, BTreeSet};

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

#[test]
fn the_page_of_keys_lists_those_of_the_goldens() {
    let documented = documented();
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
    ] {
        let known = &documented[command];
        assert!(known.len() > 20, "{command}");
        for file in files {
            let path = format!("{}/tests/goldens/{file}.json", env!("CARGO_MANIFEST_DIR"));
            let printed: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            let mut keys = BTreeSet::new();
            gather(&printed, "", &mut keys);
            let unknown: Vec<_> = keys.iter().filter(|key| !known.contains_key(key.as_str())).collect();
            assert!(unknown.is_empty(), "{file} has {unknown:?}: list them in docs/json.md");
            let gone: Vec<_> = known
                .iter()
                .filter(|&(key, always)| *always && !keys.contains(*key))
                .map(|(key, _)| key)
                .collect();
            assert!(gone.is_empty(), "{file} lacks {gone:?}, which docs/json.md promises");
        }
    }
}
