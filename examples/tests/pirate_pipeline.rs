//! The pipeline `cache_pirate` as its users meet it: arguments in, curve, messages and exit status out.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Ended, Folder, binary, run_pipeline};
use cache_pirate::curve::CurveFile;
use examples::machines::testbed::modelled::modelled_curve;
use examples::machines::testbed::truth::alone_with_ways;
use examples::tools::cache_pirate::{Args, run_until};
use reuse_sampler::file::PhaseProfile;
use reuse_sampler::reference::ExactLru;
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{Access, CacheLines, Line, LineSize, ReusePlan, ReuseProfile, Sampler, WindowPlan};
use serde_json::{Value, json};
use statstack::StatStack;

fn run_with(arguments: &[&str], interrupted: bool) -> Ended {
    let interrupted = Arc::new(AtomicBool::new(interrupted));
    run_pipeline(arguments, |args: &Args, out, messages| run_until(&interrupted, args, out, messages))
}

fn json(arguments: &[&str]) -> Value {
    run_with(&[arguments, &["--json"]].concat(), false).object()
}

/// A walk over `lines` lines, `times` times, as a din trace.
fn walk(lines: u64, times: usize) -> String {
    let mut text = String::new();
    for line in (0..lines).cycle().take(lines as usize * times) {
        writeln!(text, "0 {:x}", 64 * line).unwrap();
    }
    text
}

#[test]
fn a_traces_working_set_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.din");
    // 400 lines on 64 KiB: all of 7 of 16 ways, not 6. In the trace once: it is repeated as needed.
    fs::write(&path, walk(400, 1)).unwrap();
    let trace = path.to_str().unwrap();
    let object = json(&["--trace", trace, "--mix", "0.5", "--cache", "64KiB"]);
    let points = object["points"].as_array().unwrap();
    assert_eq!(points.len(), 16);
    let mut trusted = 0;
    for (i, point) in points.iter().enumerate() {
        let ways = i as u64 + 1;
        assert_eq!(point["bytes"], ways * 4096);
        if point["trusted"] == true {
            trusted += 1;
            // 64 sets: 16 of them hold 7 lines of the walk, 48 hold 6. LRU misses all of a set that does not fit.
            let expected = match ways {
                1..=5 => 1.0,
                6 => 16.0 * 7.0 / 400.0,
                _ => 0.0,
            };
            let number = |name: &str| point[name].as_f64().unwrap();
            assert!((number("miss_ratio") - expected).abs() < 0.005, "{point}");
            assert_eq!(number("miss_ratio"), number("fetch_ratio"));
            // Two instructions per access; 130 cycles a miss, 10 a hit (the private cache holds 16 lines).
            let access = 130.0 * number("miss_ratio") + 10.0 * (1.0 - number("miss_ratio"));
            assert!((number("cpi") - (1.0 + 0.5 * access)).abs() < 0.01, "{point}");
        }
    }
    assert!(trusted >= 13, "{trusted}");
    // The whole object is a cache-curve file.
    let file: CurveFile = serde_json::from_value(object).unwrap();
    assert_eq!((file.mix, file.cache_bytes), (0.5, Some(64 << 10)));
    assert_eq!(file.curve().unwrap().points().len(), 16);
}

#[test]
fn files_hold_what_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.din");
    fs::write(&path, walk(300, 2)).unwrap();
    let out = folder.path().join("out");
    let arguments = [
        "--trace",
        path.to_str().unwrap(),
        "--cache",
        "32KiB",
        "--sizes",
        "8KiB,32KiB,1KiB",
        "--threads",
        "1",
        "--out",
        out.to_str().unwrap(),
    ];
    let object = json(&arguments);
    let bytes: Vec<u64> =
        object["points"].as_array().unwrap().iter().map(|p| p["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [1024, 8192, 32768]);
    let stored: Value = serde_json::from_str(&fs::read_to_string(out.join("curve.json")).unwrap()).unwrap();
    assert_eq!(stored, object);
    let profile = PhaseProfile::read(File::open(out.join("profile.json")).unwrap()).unwrap();
    let section: Value = profile.section("cache-curve").unwrap().unwrap();
    assert_eq!((&section["points"][2]["bytes"], &section["mix"]), (&json!(32768), &object["mix"]));
    assert_eq!((profile.phases.len(), profile.windows.len(), profile.machine), (0, 0, None));
    let csv = fs::read_to_string(out.join("curve.csv")).unwrap();
    assert_eq!(csv.lines().count(), 4);
    assert!(csv.starts_with("bytes,cpi,miss_ratio,fetch_ratio,"));
    let picture = fs::read_to_string(out.join("curves.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("bytes per cycle"));
    // Half of a set's 8 lines of 16: a pirate cannot hold 15.5 ways of 16, and the points are hollow there.
    assert_eq!(object["points"][0]["trusted"], false);
    let reason = object["points"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("the pirate"));
    let trusted =
        object["points"].as_array().unwrap().iter().filter(|point| point["trusted"] == true).count();
    let circles = |filled: bool| {
        let circles = picture.split("<circle").skip(1).filter_map(|rest| rest.split_once('>'));
        circles
            .filter(|(circle, _)| circle.contains("fill=\"none\"") != filled && !circle.contains("#FFFFFF"))
            .count()
    };
    // CPI, bandwidth, misses and fetches.
    assert_eq!((circles(true), circles(false)), (4 * trusted, 4 * (3 - trusted)), "{picture}");
    assert!(picture.contains("16 KiB") && !picture.contains("15.6 KiB"), "sizes are round in binary units");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains(&format!("not trusted: {reason}")), "{page}");
    let table = run_with(&arguments, false);
    assert!(
        table.out.contains("not trusted: the pirate") && table.out.contains("could be stolen"),
        "{}",
        table.out
    );
    assert_eq!(run_with(&arguments, false).out, table.out, "the same every time");
}

#[test]
fn a_program_can_be_confined_instead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.din");
    fs::write(&path, walk(400, 1)).unwrap();
    let common = ["--trace", path.to_str().unwrap(), "--mix", "0.5", "--cache", "64KiB"];
    let object = json(&[&common[..], &["--mechanism", "cat"]].concat());
    assert_eq!(object["mechanism"], "cat");
    let points = object["points"].as_array().unwrap();
    assert_eq!(points.len(), 16);
    for (ways, point) in (1..).zip(points) {
        assert_eq!((&point["bytes"], &point["trusted"]), (&Value::from(ways * 4096), &Value::from(true)));
        let expected = match ways {
            1..=5 => 1.0,
            6 => 16.0 * 7.0 / 400.0,
            _ => 0.0,
        };
        assert!((point["fetch_ratio"].as_f64().unwrap() - expected).abs() < 5e-3, "{ways}: {point}");
    }
    let notes = object["notes"].as_array().unwrap();
    assert!(
        notes.iter().any(|note| note.as_str().unwrap().contains("a cache of this size can miss")),
        "{notes:?}"
    );
    let ended = run_with(&[&common[..], &["--mechanism", "cat", "--sizes", "5KiB"]].concat(), false);
    assert!(ended.messages.contains("is not a number of ways"), "{}", ended.messages);
}

#[test]
fn mistakes_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.din");
    fs::write(&path, "").unwrap();
    let trace = path.to_str().unwrap();
    for (arguments, status, message) in [
        (&["--trace", trace][..], 1, "no memory access"),
        (&["--trace", "missing.din"], 1, "missing.din"),
        (&["--trace", trace, "--mix", "0"], 2, "give a finite number above 0"),
        (&["--mix", "0.3"], 2, "--trace"),
        (&["--workload", "nonesuch"], 2, "no embedded workload"),
        (&["--cache", "1000"], 2, "cache of 1000 bytes"),
        (&["--workload", "stream", "--sizes", "4MiB"], 2, "a size of 4194304 bytes"),
        (&["--threads", "0"], 2, "give a number from 1 to 62, or auto"),
        (&["--progress", "luck", "--", "true"], 2, "give instructions, cpu-time, io or file:PATH"),
        (&["--pid", "1", "--", "true"], 2, "cannot be used with"),
        (&["--policy", "nehalem", "--", "true"], 2, "cannot be used with"),
        (&["--experiment", "patterns", "--", "true"], 2, "cannot be used with"),
        (&["--experiment", "patterns", "--cache", "1000"], 2, "multiple of 32768"),
        (&["--overhead", "0"], 2, "give a finite number above 0"),
        (&["--overhead", "0.1", "--gap", "5"], 2, "cannot be used with"),
    ] {
        let ended = run_with(arguments, false);
        assert_eq!(ended.status, status, "{arguments:?}: {}", ended.messages);
        assert_eq!(ended.messages.lines().count(), 1);
        assert!(ended.messages.contains(message), "{}", ended.messages);
        assert!(ended.out.is_empty());
    }
}

#[test]
fn a_budget_spaces_the_cycles_out() {
    let run = |more: &[&str]| {
        let few =
            ["--workload", "key_value", "--cache", "256KiB", "--sizes", "64KiB,256KiB", "--interval", "2e5"];
        json(&[&few[..], &["--threads", "1", "--cycles", "6"], more].concat())
    };
    let overhead = |object: &Value| object["overhead"].as_f64().unwrap();
    let (all, some) = (run(&[]), run(&["--overhead", "0.05"]));
    assert!(overhead(&all) > 0.1 && overhead(&some) < 0.07, "{} {}", overhead(&all), overhead(&some));
    let cpi = |object: &Value| object["points"][0]["cpi"].as_f64().unwrap();
    assert!((cpi(&some) / cpi(&all) - 1.0).abs() < 0.1, "{} {}", cpi(&some), cpi(&all));
}

#[test]
fn the_papers_experiments_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let arguments =
        ["--experiment", "stressmark,patterns", "--cache", "32KiB", "--out", out.to_str().unwrap()];
    let object = json(&arguments);
    assert_eq!(object["curves"].as_array().unwrap().len(), 4);
    let stored: Value =
        serde_json::from_str(&fs::read_to_string(out.join("experiments.json")).unwrap()).unwrap();
    assert_eq!(stored, object);
    let number = |name: &str| object["stressmark"][name].as_f64().unwrap();
    assert!(number("stressmark_cpi") > number("pirate_cpi"));
    let table = run_with(&arguments, false).out;
    assert!(table.contains("(figure 5)") && table.contains("(section III.6)"), "{table}");
    let ended = run_with(&arguments, true);
    assert_eq!((ended.status, ended.out.as_str()), (1, ""));
}

#[test]
fn an_interrupted_run_ends_at_once() {
    let ended = run_with(&["--workload", "stream"], true);
    assert_eq!(ended.status, 1);
    assert_eq!(ended.messages, "cache_pirate: interrupted before anything was measured\n");
}

#[test]
fn a_modelled_curve_is_near_the_simulated_one() {
    // Random accesses: what StatStack's full associativity changes least.
    let lines = 3000;
    let mut state = 1_u64;
    let accesses: Vec<Access> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Access::load(64 * ((state >> 33) % lines), 8)
    })
    .take(400_000)
    .collect();
    let settings = examples::machines::testbed::truth::scaled_nehalem(
        128 << 10,
        examples::machines::chip::Policy::default(),
    )
    .unwrap();
    let settings = examples::machines::chip::ChipSettings { lines_per_cycle: None, ..settings };
    let recording = examples::machines::chip::Recording::new(accesses.clone(), LineSize::B64).unwrap();
    let program =
        examples::machines::testbed::programs::Recorded::new("uniform".to_owned(), recording, 0.4).unwrap();
    let options = ReplayOptions::windows_of(WindowLength::Accesses(1 << 20));
    let mut sampler = ReplaySampler::new(accesses.iter().copied().map(Event::Access), options).unwrap();
    let mut lru = ExactLru::new();
    for access in &accesses {
        lru.access(Line(access.address / 64));
    }
    let mut profile = ReuseProfile::new(LineSize::B64);
    while let Some(window) = sampler.next_window(&WindowPlan::new(ReusePlan::Every)).unwrap() {
        profile.record_window(&window).unwrap();
    }
    let sizes: Vec<u64> = (2..=16).map(|ways| ways * (8 << 10)).collect();
    let curve = modelled_curve(&settings, &StatStack::fit(&profile).unwrap(), 0.4, 1.0, &sizes).unwrap();
    for (point, ways) in curve.points().iter().zip(2..) {
        let target = examples::machines::chip::CoreSettings::new(program.player().unwrap());
        let truth = alone_with_ways(&settings, ways, target, 0, 400_000).unwrap();
        assert!((point.cpi / truth.cpi() - 1.0).abs() < 0.03, "{ways} ways: {} {}", point.cpi, truth.cpi());
        let exact = lru.total().curve(LineSize::B64, &[CacheLines(point.bytes / 64)]).points[0].1;
        assert!((point.miss_ratio.unwrap() - exact).abs() < 0.02);
    }
}

/// Whether a real program can be measured here.
fn two_processors() -> bool {
    let cpus = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().filter_map(Result::ok);
    let cpus = cpus.filter(|e| {
        e.file_name().to_string_lossy().strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok())
    });
    let enough = cfg!(target_os = "linux") && cpus.count() > 1;
    if !enough {
        eprintln!("needs Linux and two processors: nothing to test");
    }
    enough
}

#[test]
fn a_program_that_runs_once_per_size_reads_its_file_each_time_and_writes_once() {
    if !two_processors() {
        return;
    }
    let folder = Folder::new();
    let input = folder.file("input", vec![b'x'; 1 << 20]);
    let result = folder.path("result.json");
    let mut command = Command::new(binary("cache_pirate"));
    command.args([
        "--cache",
        "1MiB",
        "--sizes",
        "512KiB,1MiB",
        "--cpu",
        "0",
        "--pirate-cpus",
        "1",
        "--json",
        "-o",
    ]);
    command.arg(&result).args(["--", "sh", "-c", "cat; sleep .3; echo once >&2; exit 3"]);
    let reasons = || {
        let object: Value = serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
        let points = object["points"].as_array().unwrap().clone();
        let others =
            points.iter().filter(|point| point["reason"].to_string().contains("other amounts")).count();
        (object["work"] == "run").then_some((points.len(), others))
    };
    let whole = command.stdin(File::open(&input).unwrap()).output().unwrap();
    let errors = String::from_utf8_lossy(&whole.stderr);
    assert_eq!(
        (whole.status.code(), whole.stdout.len(), errors.matches("once\n").count()),
        (Some(3), 1 << 20, 1)
    );
    // With counters it runs once for all sizes, which is too short here for any.
    if !result.exists() {
        return;
    }
    assert!(matches!(reasons(), None | Some((2, 0))));
    // What a pipe holds can be read once.
    let mut cat = Command::new("cat").arg(&input).stdout(Stdio::piped()).spawn().unwrap();
    let piped = command.stdin(cat.stdout.take().unwrap()).output().unwrap();
    cat.wait().unwrap();
    assert_eq!((piped.status.code(), piped.stdout.len()), (Some(3), 1 << 20));
    assert!(matches!(reasons(), None | Some((2, 1))));
}

#[test]
fn a_real_program_is_measured_and_ctrl_c_leaves_nothing_behind() {
    if !two_processors() {
        return;
    }
    // A target in a process of its own: reads half a megabyte over and over, for ever.
    let mut target = Command::new("sh")
        .args(["-c", "echo $$; while :; do head -c 500000 /dev/zero > /dev/null; done"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid: String = BufReader::new(target.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let stopped = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat[stat.rfind(')').unwrap() + 2..].starts_with('T')
    };
    let arguments = [
        "--pid",
        &pid,
        "--progress",
        "cpu-time",
        "--cache",
        "1MiB",
        "--sizes",
        "512KiB,1MiB",
        "--interval",
        "2e6",
        "--cycles",
        "1",
        "--threads",
        "1",
        "--cpu",
        "0",
        "--pirate-cpus",
        "1",
    ];
    let object = json(&arguments);
    assert_eq!(object["points"].as_array().unwrap().len(), 2);
    assert_eq!((&object["work"], &object["time"]), (&"nanosecond".into(), &"nanosecond".into()));
    assert!(!stopped());
    // Interrupted at once: it ends, says so, and the target runs.
    let ended = run_with(&arguments, true);
    assert_eq!(ended.status, 1, "{}", ended.messages);
    let deadline = Instant::now() + Duration::from_secs(10);
    while stopped() {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(5));
    }
    target.kill().unwrap();
    target.wait().unwrap();
}
