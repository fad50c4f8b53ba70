//! Two runs compared: what counts as a change, what does not, and files that are refused.

use crate::support::{Ended, Folder, run_pipeline};
use examples::report::{StoredCurves, StoredPoint};
use examples::tools::{compare_profiles, phase_guided_cache};
use reuse_sampler::file::{PhaseProfile, ProfiledPhase, ProfiledWindow};
use reuse_sampler::{LineSize, ReuseProfile};
use serde_json::Value;

fn compare(arguments: &[&str]) -> Ended {
    run_pipeline(arguments, |args: &compare_profiles::Args, out, messages| {
        compare_profiles::run(args, out, messages)
    })
}

fn object(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap()
}

fn verdict(ended: &Ended) -> String {
    object(ended)["verdict"].as_str().unwrap().to_owned()
}

/// Two phases, `sort` and `product`, of which the second misses as given, at 32 KiB; nothing misses at 1 MiB.
fn stored(product: f64, margin: f64) -> String {
    let mut profile = PhaseProfile::new("program", LineSize::B64);
    for (name, code) in [("A", "sort (a.c:3)"), ("B", "product (a.c:9)")] {
        let mut phase = ProfiledPhase::new(name, ReuseProfile::new(LineSize::B64));
        (phase.windows, phase.instructions) = (10, 10_000);
        phase.hottest_code = Some(code.to_owned());
        phase.code = vec![(code.to_owned(), 0.9)];
        profile.phases.push(phase);
    }
    let window = |window: u64| ProfiledWindow {
        window,
        thread: 0,
        instructions: 1_000,
        accesses: Some(400),
        phase: if window % 2 == 0 { "A" } else { "B" }.to_owned(),
    };
    profile.windows = (0..20).map(window).collect();
    let at = |miss_ratio: f64| {
        let point = |m: f64, w: f64| StoredPoint {
            miss_ratio: m,
            low: (m - w).max(0.0),
            high: m + w,
            model_error: 0.0,
        };
        vec![point(miss_ratio, margin), point(0.0, 0.0)]
    };
    let curves = StoredCurves {
        bytes: vec![32 << 10, 1 << 20],
        average: at((0.02 + product) / 2.0),
        phases: [("A".to_owned(), at(0.02)), ("B".to_owned(), at(product))].into(),
    };
    profile.set_section("miss_ratios", &curves).unwrap();
    let mut text = Vec::new();
    profile.write(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_change_counts_where_it_exceeds_what_is_left_open() {
    let folder = Folder::new();
    let file = |name: &str, product, margin| folder.file(name, stored(product, margin));
    let (before, worse) = (file("a.json", 0.02, 0.003), file("b.json", 0.06, 0.003));
    let sizes = ["--json", "--sizes", "32KiB,1MiB"];
    let with = |one: &str, other: &str| compare(&[&sizes[..], &[one, other]].concat());

    let ended = with(&before, &worse);
    assert_eq!((verdict(&ended).as_str(), ended.status), ("worse", 3), "{}", ended.messages);
    let comparison = &object(&ended)["comparison"];
    let change = &comparison["levels"][0]["change"];
    assert!((change["value"].as_f64().unwrap() - 0.02).abs() < 1e-9, "{change}");
    assert!((change["margin"].as_f64().unwrap() - 0.003 * 2.0_f64.sqrt()).abs() < 1e-9, "{change}");
    assert_eq!(comparison["levels"][1]["verdict"], "none");
    let product = comparison["phases"].as_array().unwrap().iter().find(|p| p["before"] == "B").unwrap();
    assert_eq!((&product["after"], &product["levels"][0]["verdict"]), (&"B".into(), &"worse".into()));

    let out = folder.path("out");
    compare(&["--out", out.to_str().unwrap(), &before, &worse]);
    let stored: Value = serde_json::from_slice(&std::fs::read(out.join("comparison.json")).unwrap()).unwrap();
    assert_eq!(stored["verdict"], "worse");
    assert!(std::fs::read_to_string(out.join("comparison.txt")).unwrap().contains("Worse: more misses"));

    let ended = with(&worse, &before);
    assert_eq!((verdict(&ended).as_str(), ended.status), ("better", 0));
    // The same, less sure; a change too small to count; the same file.
    let unsure = file("c.json", 0.06, 0.02);
    let small = file("d.json", 0.028, 0.0001);
    for other in [&unsure, &small, &before] {
        let ended = with(&before, other);
        assert_eq!((verdict(&ended).as_str(), ended.status), ("none", 0), "{other}");
    }
    // A cache for each thread is not held against one for all.
    let shared =
        folder.file("s.json", std::fs::read_to_string(&worse).unwrap().replacen("private", "shared", 1));
    let refused = with(&before, &shared);
    assert!(
        refused.status == 2 && refused.messages.contains("with the same --scope"),
        "{}",
        refused.messages
    );
    // A version that makes a tenth of the accesses misses less, whatever its miss ratio.
    let text = std::fs::read_to_string(&worse).unwrap();
    let text = text.replace("\"accesses\":400", "\"accesses\":40");
    let fewer = folder.file("f.json", text);
    let ended = with(&before, &fewer);
    let level = &object(&ended)["comparison"]["levels"][0];
    assert_eq!((verdict(&ended).as_str(), ended.status), ("better", 0), "{level}");
    assert!((level["change"]["value"].as_f64().unwrap() - 0.02).abs() < 1e-9, "{level}");
    assert!((level["misses"].as_f64().unwrap() + 0.8).abs() < 1e-9, "{level}");
    // What other phases stand in for is said.
    let borrowed = std::fs::read_to_string(&worse).unwrap();
    let borrowed = borrowed.replacen("\"borrows_from\":null", "\"borrows_from\":\"B\"", 1);
    let borrowed = folder.file("g.json", borrowed);
    let comparison = &object(&with(&before, &borrowed))["comparison"];
    assert_eq!(comparison["borrowed"], serde_json::json!([0.0, 0.5]));
    let said = compare(&["--sizes", "32KiB", &before, &borrowed]).out;
    assert!(said.contains(" after are in phases that were never profiled"), "{said}");
    // Several runs that agree show the small change, too.
    let others = format!("{small},{small}");
    let sure = file("e.json", 0.02, 0.0001);
    assert_eq!(verdict(&with(&format!("{sure},{sure}"), &others)), "worse");
    assert_eq!(verdict(&compare(&["--json", "--tolerance", "0.1", &sure, &small])), "worse");
}

#[test]
fn runs_of_one_program_on_other_data_do_not_differ() {
    // Also what phase_guided_cache writes is what is read.
    let folder = Folder::new();
    let run = |seed: &str| {
        let to = folder.path(seed);
        let ended = run_pipeline(
            &["--seed", seed, "--draws", "100", "--out", to.to_str().unwrap()],
            |args: &phase_guided_cache::Args, out, messages| phase_guided_cache::run(args, out, messages),
        );
        assert_eq!(ended.status, 0, "{}", ended.messages);
        to.join("profile.json").to_str().unwrap().to_owned()
    };
    let ended = compare(&[&run("1"), &run("2"), "--sizes", "32KiB,1MiB"]);
    assert_eq!(ended.status, 0, "{}", ended.out);
    assert!(ended.out.contains("No difference beyond what the runs leave open."), "{}", ended.out);
    assert!(ended.out.contains("matmul_blocked::inner"), "{}", ended.out);
}

#[test]
fn what_cannot_be_compared_is_named() {
    let folder = Folder::new();
    let good = folder.file("good.json", stored(0.02, 0.0));
    let bare = folder.file("bare.json", stored(0.02, 0.0).replace("miss_ratios", "colours"));
    let broken = folder.file("broken.json", "{");
    for (other, problem) in [
        ("missing.json", "missing.json: No such file"),
        (&*bare, "has no section miss_ratios: record it with phase_guided_cache --out DIR"),
        (&*broken, "broken.json: not a phase profile"),
    ] {
        let ended = compare(&[&good, other]);
        assert_eq!((ended.status, ended.messages.lines().count()), (1, 1), "{}", ended.messages);
        assert!(ended.messages.contains(problem), "{}", ended.messages);
    }
    let ended = compare(&[&good, &good, "--tolerance=-1"]);
    assert_eq!(ended.status, 2);
}
