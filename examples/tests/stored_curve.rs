//! The profile that `miss_ratio_curve` writes, against the curve that it prints.

use std::fs;

use crate::support::Folder;
use crate::support::curve::json;
use reuse_sampler::file::PhaseProfile;
use reuse_sampler::{CacheLines, CacheModel, Grouped, ReuseProfile};
use serde_json::Value;
use statcache::StatCache;
use statstack::PooledCorrection;

fn curve(model: impl CacheModel) -> [f64; 3] {
    [64, 512, 16_384].map(|lines| model.miss_ratio(CacheLines(lines)))
}

/// Models fitted to the phases of `profile.json` and averaged are the curve that was printed.
#[test]
fn profiles_give_the_curve_back() {
    let folder = Folder::new();
    let threads = (0..6000_u64).fold("thread,kind,address,bytes\n".to_owned(), |rows, i| {
        rows + &format!("{},{},{},8\n", i % 2, if i % 5 > 0 { "load" } else { "store" }, i * i % 4001 * 8)
    });
    let threads = folder.file("threads.csv", threads);
    let workload = ["--workload", "hash_join"];
    for (number, arguments) in [
        &workload[..],
        &["--workload", "hash_join", "--windows", "1"],
        &["--workload", "hash_join", "--sample-rate", "0.01", "--hot-spots", "32KiB"],
        &["--workload", "hash_join", "--model", "statcache"],
        &["--trace", &threads],
        &["--trace", &threads, "--scope", "private"],
        &["--trace", &threads, "--model", "statcache"],
    ]
    .into_iter()
    .enumerate()
    {
        let out = folder.path(&number.to_string());
        let common = ["--draws", "0", "--sizes", "4KiB,32KiB,1MiB", "--out", out.to_str().unwrap()];
        let object = json(&[arguments, &common[..]].concat());
        let stored = PhaseProfile::read(fs::File::open(out.join("profile.json")).unwrap()).unwrap();
        assert_eq!((object["source"].as_str(), stored.incomplete), (Some(&*stored.program), false));
        assert_eq!(object["windows"], stored.windows.len());
        let samples: u64 = stored.phases.iter().map(|phase| phase.profile.samples()).sum();
        assert_eq!((object["samples"].as_u64(), stored.phases.is_empty()), (Some(samples), false));
        let accesses: u64 = stored.windows.iter().filter_map(|window| window.accesses).sum();
        assert_eq!(object["accesses"].as_u64(), Some(accesses));
        // Each phase is a window, in order; those without samples take time.
        assert!(stored.windows.iter().zip(&stored.phases).all(|(window, phase)| window.phase == phase.phase));
        let all: Vec<ReuseProfile> = stored.phases.iter().map(|phase| phase.profile.clone()).collect();
        let described = stored.described_phases().unwrap();
        let profiles = || described.iter().map(|of| of.profile);
        let ratios = match (object["model"].as_str(), object.get("in_time").and_then(Value::as_bool)) {
            (Some("statcache"), Some(true)) => curve(StatCache::fit_in_time(&all).unwrap()),
            (Some("statcache"), _) => curve(Grouped::fit(profiles(), StatCache::fit).unwrap()),
            _ => {
                let pooled = PooledCorrection::of(profiles()).unwrap();
                curve(Grouped::fit(profiles(), |profile| pooled.fit(profile)).unwrap())
            }
        };
        for (point, ratio) in object["points"].as_array().unwrap().iter().zip(ratios) {
            let printed = point["miss_ratio"].as_f64().unwrap();
            assert!((printed - ratio).abs() < 1e-9, "{arguments:?}: {printed} {ratio}");
        }
    }
    for what in [&["--model", "exact-lru"][..], &["--prefetch", "stride"], &["--scope", "shared"]] {
        let out = folder.path(what[1]);
        let object = json(&[&workload, what, &["--draws", "0", "--out", out.to_str().unwrap()]].concat());
        let notes = object["notes"].as_array().unwrap();
        let why = notes.iter().any(|note| note.as_str().unwrap().starts_with("no profile.json is written: "));
        assert!(why && out.join("curve.csv").exists() && !out.join("profile.json").exists(), "{notes:?}");
    }
}
