//! Two runs compared: what counts as a change, what does not, and files that are refused.

use crate::support::{Ended, Folder, run_pipeline};
use examples::report::{StoredCurves, StoredPoint};
use examples::tools::{compare_profiles, phase_guided_cache};
use reuse_sampler::file::{PhaseProfile, ProfiledPhase, ProfiledWindow};
use reuse_sampler::{LineSize, Outcome, ReuseProfile};
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
        let mut reuse = ReuseProfile::new(LineSize::B64);
        reuse.record(Outcome::Dangling, 1);
        let mut phase = ProfiledPhase::new(name, reuse);
        (phase.windows, phase.profiled, phase.instructions) = (10, 1, 10_000);
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
        model: "LRU (StatStack)".to_owned(),
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
    // Of both the samples, and a twentieth for the data of a single run.
    let margin = [0.003, 0.003, 0.001, 0.002].map(|m: f64| m.powi(2)).iter().sum::<f64>().sqrt();
    assert!((change["margin"].as_f64().unwrap() - margin).abs() < 1e-9, "{change}");
    assert_eq!(comparison["levels"][1]["verdict"], "none");
    let product = comparison["phases"].as_array().unwrap().iter().find(|p| p["before"] == "B").unwrap();
    assert_eq!((&product["after"], &product["levels"][0]["verdict"]), (&"B".into(), &"worse".into()));

    let out = folder.path("out");
    compare(&["--out", out.to_str().unwrap(), &before, &worse]);
    let stored: Value = serde_json::from_slice(&std::fs::read(out.join("comparison.json")).unwrap()).unwrap();
    assert_eq!(stored["verdict"], "worse");
    let written = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert!(written("comparison.txt").contains("Worse: more misses"));
    let page = written("report.html");
    assert!(page.contains("Worse: more misses") && page.matches("<svg").count() == 2, "{page}");

    let ended = with(&worse, &before);
    assert_eq!((verdict(&ended).as_str(), ended.status), ("better", 0));
    // The same, so unsure that a point more may hide in it.
    let unsure = with(&before, &file("c.json", 0.06, 0.02));
    assert_eq!((verdict(&unsure).as_str(), unsure.status), ("unclear", 4));
    // A change too small to count; the same file.
    let small = file("d.json", 0.028, 0.0001);
    for other in [&small, &before] {
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
    // Several runs that agree show the small change, too.
    let others = format!("{small},{}", file("d2.json", 0.028, 0.0001));
    let sure = file("e.json", 0.02, 0.0001);
    let both = format!("{sure},{}", file("e2.json", 0.02, 0.0001));
    assert_eq!(verdict(&with(&both, &others)), "worse");
    assert_eq!(verdict(&compare(&["--json", "--tolerance", "0.1", &sure, &small])), "worse");
}

/// The curve is recorded at 32 KiB, where it changes by two points, and at the size asked about, where it does not.
#[test]
fn a_change_at_the_next_recorded_size_may_be_one_here() {
    let folder = Folder::new();
    let file = |name: &str, product, large: &str| {
        folder.file(name, stored(product, 0.003).replace("1048576", large))
    };
    for (large, wanted, status) in [(45_000, "unclear", 4), (1 << 20, "none", 0)] {
        let text = large.to_string();
        let [before, after] = [("a", 0.02), ("b", 0.06)].map(|(name, product)| file(name, product, &text));
        let ended = compare(&["--json", "--sizes", &text, &before, &after]);
        assert_eq!((verdict(&ended).as_str(), ended.status), (wanted, status), "{large}: {}", ended.messages);
        let seen_at = &object(&ended)["comparison"]["levels"][0]["seen_at"];
        assert_eq!(seen_at.as_u64(), (wanted == "unclear").then_some(32 << 10));
        let table = compare(&["--sizes", &text, &before, &after]).out;
        assert_eq!(table.contains("nothing is seen, at 32 KiB a change"), wanted == "unclear", "{table}");
        assert!(!table.contains("compare more runs"), "{table}");
    }
}

#[test]
fn what_other_phases_lend_widens_the_interval() {
    let folder = Folder::new();
    let lent = |name: &str, product, at| {
        let text = stored(product, 0.0001);
        let place = text.match_indices("\"borrows_from\":null").nth(at).unwrap().0;
        let mut lent = text.clone();
        lent.replace_range(place..place + 19, "\"borrows_from\":\"B\"");
        folder.file(name, lent)
    };
    let before = folder.file("a.json", stored(0.02, 0.0001));
    let with = |other: &str| compare(&["--json", "--sizes", "32KiB", &before, other]);
    assert_eq!(verdict(&with(&folder.file("b.json", stored(0.06, 0.0001)))), "worse");
    // With one phase profiled, nothing shows how far off lending is.
    let ended = with(&lent("c.json", 0.06, 0));
    assert_eq!((verdict(&ended).as_str(), ended.status), ("unclear", 4), "{}", ended.out);
    assert_eq!(object(&ended)["comparison"]["borrowed"], serde_json::json!([0.0, 0.5]));
    let said = compare(&["--sizes", "32KiB", &before, folder.path("c.json").to_str().unwrap()]).out;
    assert!(said.contains("Cannot tell") && said.contains("record with --gap-limit 1"), "{said}");
}

#[test]
fn time_follows_from_misses_and_latencies() {
    let folder = Folder::new();
    let file = |name: &str, product| folder.file(name, stored(product, 0.001));
    let (before, after) = (file("a.json", 0.02), file("b.json", 0.06));
    let with = |latencies: &str| {
        let sizes = ["--json", "--sizes", "1MiB,32KiB", &format!("--latencies={latencies}")];
        compare(&[&sizes[..], &[&before, &after]].concat())
    };
    let time = &object(&with("4,104,250"))["comparison"]["time"];
    // 20000 instructions of a cycle, 8000 accesses of 4 cycles and 100 for each that misses at 32 KiB.
    let cycles = |miss_ratio: f64| 20_000.0 + 8_000.0 * (4.0 + 100.0 * miss_ratio);
    let near = |side: &str, wanted: f64| {
        assert!((time[side]["value"].as_f64().unwrap() - wanted).abs() < 1e-6, "{side} {time}");
    };
    near("before", cycles(0.02));
    near("after", cycles(0.04));
    near("change", cycles(0.04) / cycles(0.02) - 1.0);
    let margin = time["before"]["margin"].as_f64().unwrap();
    assert!((margin - 800_000.0 * 0.001 * 2.0_f64.sqrt()).abs() < 1e-6, "{time}");
    for (latencies, problem) in [
        ("4,50", "2 numbers for 2 caches: give one for each"),
        ("4,50,20", "none below the one before it"),
        ("-1,4,20", "give cycles from 0"),
        ("4,x,20", "invalid value 'x'"),
    ] {
        let ended = with(latencies);
        assert!(ended.status == 2 && ended.messages.contains(problem), "{}", ended.messages);
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn commands_are_recorded_and_compared() {
    let folder = Folder::new();
    let words: String =
        (0..20_000_u64).map(|n| format!("{}\n", n.wrapping_mul(0x9E37_79B9) % 100_003)).collect();
    let words = folder.file("some words, shuffled", words);
    let sort = format!("sort -o /dev/null '{words}'");
    let out = folder.path("out");
    let ended = compare(&[
        "--json",
        "--sizes",
        "1MiB",
        "--run",
        "--runs",
        "2",
        "--window",
        "500000",
        "--out",
        out.to_str().unwrap(),
        &sort,
        &sort,
    ]);
    let comparison = &object(&ended)["comparison"];
    assert_eq!(
        (&object(&ended)["before"], &comparison["runs"]),
        (&sort.as_str().into(), &serde_json::json!([2, 2]))
    );
    assert_eq!(comparison["borrowed"].to_string(), "[0.0,0.0]");
    assert!(
        ended.status != 3 && comparison["time"]["before"]["value"].as_f64().unwrap() > 1e6,
        "{}",
        ended.out
    );
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
    // What was recorded can be compared again.
    let stored = |side: &str| format!("{0}/{side}-1.json,{0}/{side}-2.json", out.display());
    let again = compare(&["--json", "--sizes", "1MiB", &stored("before"), &stored("after")]);
    assert_eq!(&object(&again)["comparison"], comparison);

    for (command, status, problem) in [
        ("false", 1, "false: exited with status 1: a run that failed is not compared"),
        ("no-such-program x", 1, "no-such-program"),
        ("'", 2, "' is not closed"),
    ] {
        let ended = compare(&["--run", "--runs", "1", "--window", "10000", command, "true"]);
        assert_eq!(ended.status, status, "{}", ended.messages);
        assert!(ended.messages.contains(problem), "{}", ended.messages);
    }
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
fn programs_that_have_no_code_in_common_are_named() {
    let folder = Folder::new();
    let one = folder.file("one.json", stored(0.02, 0.0));
    let strange =
        stored(0.09, 0.0).replace("sort (a.c:3)", "parse (b.c:1)").replace("product (a.c:9)", "emit (b.c:5)");
    let other = folder.file("other.json", strange);
    let said = |ended: &Ended| ended.out.contains("compare two programs, not a program with its change");
    let ended = compare(&[&one, &other, "--sizes", "32KiB"]);
    assert!(ended.status == 3 && said(&ended), "{}", ended.out);
    assert!(ended.out.contains("Only 0.0 % of the instructions before and 0.0 % after"), "{}", ended.out);
    // Nor does it help that the other one misses as much, or less.
    for miss_ratio in [0.02, 0.001] {
        let text = stored(miss_ratio, 0.0).replace("sort (a.c:3)", "f (b.c:1)");
        let same = folder.file("same.json", text.replace("product (a.c:9)", "g (b.c:5)"));
        let ended = compare(&[&one, &same, "--sizes", "32KiB"]);
        assert!(ended.status == 4 && said(&ended), "{}", ended.out);
        assert!(ended.out.contains("Cannot tell: these are two programs."), "{}", ended.out);
    }
    // Half of it is the same.
    let half = folder.file("half.json", stored(0.09, 0.0).replace("sort (a.c:3)", "parse (b.c:1)"));
    assert!(!said(&compare(&[&one, &half, "--sizes", "32KiB"])));
    assert!(!said(&compare(&[&one, &one, "--sizes", "32KiB"])));
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
    // Recorded in other ways, which files from before the model was named do not say.
    let text = stored(0.02, 0.0);
    let random = text.replace("LRU (StatStack)", "random replacement (StatCache)");
    let coarse = text.replace("\"line_size\":64", "\"line_size\":128");
    let shared = text.replace("\"scope\":\"private\"", "\"scope\":\"shared\"");
    for (other, problem) in [
        (random, "record both with the same --model"),
        (coarse, "lines of 128 bytes: record both with the same line size"),
        (shared, "shared caches: record both with the same --scope"),
    ] {
        let ended = compare(&[&good, &folder.file("other.json", other), "--sizes", "32KiB"]);
        assert_eq!((ended.status, ended.messages.lines().count()), (2, 1), "{}", ended.messages);
        assert!(ended.messages.contains(problem), "{}", ended.messages);
    }
    let before = folder.file("old.json", text.replace("\"model\":\"LRU (StatStack)\",", ""));
    assert_eq!(compare(&[&good, &before, "--sizes", "32KiB"]).status, 0);
    let list = format!("{good},{good}");
    let point = "{\"miss_ratio\":0.0,\"low\":0.0,\"high\":0.0";
    let falling = folder.file("falling.json", text.replace(point, &point.replace("0.0", "0.01")));
    for (arguments, problem) in [
        (&[&*good, &*good, "--tolerance=-1"][..], "--tolerance -1: give a number of points"),
        (&[&good, &good, "--sizes", "16KiB"], "caches of 32 KiB and more, not of 16 KiB: choose another"),
        (
            &[&falling, &falling, "--sizes", "32KiB,2MiB"],
            "caches of 32 KiB to 1 MiB, not of 2 MiB: choose another",
        ),
        (&[&list, &good, "--sizes", "32KiB"], "is listed twice on one side: give runs that differ"),
    ] {
        let ended = compare(arguments);
        assert_eq!((ended.status, ended.messages.lines().count()), (2, 1), "{}", ended.messages);
        assert!(ended.messages.contains(problem), "{}", ended.messages);
    }
}
