//! Private caches of threads with the misses that they cause each other, and the cache that all share: models against exact
//! simulation of the same interleaving.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;
use std::rc::Rc;

use crate::support::{Folder, run_pipeline};
use examples::tools::miss_ratio_curve;
use reuse_sampler::qemu::{QemuOptions, QemuTrace};
use reuse_sampler::reference::{ExactLru, MesiCaches};
use reuse_sampler::replay::{Event, EventSource, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    CacheLines, CacheModel, Grouped, LineSize, ReusePlan, ReuseProfile, SampleGap, Sampler, SamplerError,
    ThreadId, Window, WindowPlan,
};
use serde_json::Value;
use statstack::StatStack;

/// 32 KiB and 1 MiB for each thread; 2 and 16 MiB for all.
const PRIVATE: [CacheLines; 2] = [CacheLines(512), CacheLines(1 << 14)];
const SHARED: [CacheLines; 2] = [CacheLines(1 << 15), CacheLines(1 << 18)];
/// Accesses of a thread that have a model of their own.
const PART: u64 = 1 << 18;

/// Exact caches, played the events that a sampler reads.
struct Truth {
    private: MesiCaches,
    shared: ExactLru,
    thread: ThreadId,
}

struct Tee(QemuTrace, Rc<RefCell<Truth>>);

impl EventSource for Tee {
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        let event = self.0.next_event()?;
        let truth = &mut *self.1.borrow_mut();
        match &event {
            Some(Event::Thread(id)) => truth.thread = *id,
            Some(Event::Access(access)) => {
                truth.private.access(truth.thread, access);
                LineSize::B64.lines(access).for_each(|line| truth.shared.access(line));
            }
            _ => {}
        }
        Ok(event)
    }
}

/// Profiles of the parts of one stream of windows, by the window that started each sample.
#[derive(Default)]
struct Parts {
    part_of: BTreeMap<u64, usize>,
    profiles: Vec<ReuseProfile>,
    accesses: u64,
}

impl Parts {
    fn add(&mut self, window: &Window) {
        let part = (self.accesses / PART) as usize;
        self.profiles.resize(part + 1, ReuseProfile::new(LineSize::B64));
        self.part_of.insert(window.index.0, part);
        let accesses = window.accesses.get().unwrap();
        self.accesses += accesses;
        self.profiles[part].add_accesses(accesses);
        for (started_in, outcome, count, weight) in window.outcomes() {
            self.profiles[self.part_of[&started_in.0]].record_many(outcome, count, weight);
        }
        for overlap in &window.overlaps {
            self.profiles[self.part_of[&overlap.started_in.0]].record_overlap(overlap);
        }
    }
}

fn modelled<'a>(parts: impl Iterator<Item = &'a Parts>, size: CacheLines) -> f64 {
    let profiles = parts.flat_map(|parts| &parts.profiles).filter(|profile| !profile.is_empty());
    100.0 * Grouped::fit(profiles, StatStack::fit).unwrap().miss_ratio(size)
}

/// Runs a program once. In percent, exact and modelled: the misses of private caches, then of shared ones.
fn compare(program: &str, arguments: &[&str], plan: ReusePlan) -> Vec<(f64, f64)> {
    let mut options = QemuOptions::default().stretch(256).env("LC_ALL", "C");
    options.output_to_stderr = true;
    let trace = QemuTrace::spawn(program, arguments, &options).unwrap();
    let private = MesiCaches::new(&PRIVATE, LineSize::B64).unwrap();
    let truth = Rc::new(RefCell::new(Truth { private, shared: ExactLru::new(), thread: ThreadId(0) }));
    let windows = ReplayOptions::windows_of(WindowLength::Accesses(16_384)).coherent();
    let mut sampler = ReplaySampler::new(Tee(trace, truth.clone()), windows).unwrap();
    let (mut threads, mut process) = (BTreeMap::<ThreadId, Parts>::new(), Parts::default());
    while let Some(window) = sampler.next_window(&WindowPlan::new(plan)).unwrap() {
        threads.entry(window.thread).or_default().add(&window);
        window.process.iter().for_each(|all| process.add(all));
    }
    let truth = truth.borrow();
    let own = truth.private.total();
    assert_eq!(own[0].accesses, process.accesses);
    let private = own.iter().map(|of| (100.0 * of.miss_ratio(), modelled(threads.values(), of.size)));
    let all = truth.shared.total().curve(LineSize::B64, &SHARED).points.into_iter();
    let shared = all.map(|(size, ratio)| (100.0 * ratio, modelled(std::iter::once(&process), size)));
    let found: Vec<(f64, f64)> = private.chain(shared).collect();
    let coherence = 100.0 * own[1].coherence() as f64 / own[1].accesses as f64;
    let count = threads.len();
    println!(
        "{program} {arguments:?}: {count} threads, coherence {coherence:.4}; exact, modelled {found:.3?}"
    );
    found
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// `threads.c`, compiled.
fn threads(folder: &Folder) -> String {
    let program = folder.path("threads").to_str().unwrap().to_owned();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/threads.c");
    let built = Command::new("gcc").args(["-g", "-O2", "-pthread", "-o", &program, source]).status().unwrap();
    assert!(built.success());
    program
}

#[test]
fn models_agree_with_simulation_of_the_same_interleaving() {
    if !is_there("qemu-x86_64") || !is_there("gcc") {
        return;
    }
    let folder = Folder::new();
    let program = threads(&folder);
    let parts = std::env::var("PARTS").unwrap_or_else(|_| "2".into());
    // More than 2^17 lines, which sort in two threads, and several blocks, which compress in four.
    let text: String = (0..140_000_u64).fold(String::new(), |mut text, i| {
        writeln!(text, "{:06}", i * i * 7_919 % 1_000_003).unwrap();
        text
    });
    let few = folder.file("few", &text[..text.len() / 7]);
    let text = folder.file("text", text);
    let xz = ["-T4", "--block-size=36KiB", "-0", "-c", "-k", few.as_str()];
    let sort = ["--parallel=4", "-S", "64M", text.as_str()];
    let sparse = ReusePlan::Sparse(SampleGap::mean(50.0).unwrap());
    let mut cases: Vec<(&str, Vec<&str>, ReusePlan)> =
        ["shared", "private", "producer", "false_sharing", "lock", "pool"]
            .map(|mode| (program.as_str(), vec![mode, parts.as_str()], ReusePlan::Every))
            .to_vec();
    cases.push((program.as_str(), vec!["false_sharing", &parts], sparse));
    cases.push((program.as_str(), vec!["pool", &parts], sparse));
    if is_there("xz") {
        cases.push(("xz", xz.to_vec(), ReusePlan::Every));
    }
    if is_there("sort") {
        cases.push(("sort", sort.to_vec(), ReusePlan::Every));
    }
    for (program, arguments, plan) in cases {
        for (exact, modelled) in compare(program, &arguments, plan) {
            // A point of miss ratio; 0.02 of the accesses have 4 standard errors of 0.7 at most.
            assert!((exact - modelled).abs() < 1.0, "{program} {arguments:?} {plan:?}: {exact} {modelled}");
        }
    }
}

fn curve(arguments: &[&str]) -> Value {
    let all: Vec<&str> = ["--json", "--scope", "private"].iter().chain(arguments).copied().collect();
    run_pipeline(&all, miss_ratio_curve::run).object()
}

#[test]
fn falsely_shared_lines_are_named() {
    if !is_there("qemu-x86_64") || !is_there("gcc") {
        return;
    }
    let folder = Folder::new();
    let program = threads(&folder);
    let report = curve(&["--model", "exact-lru", "--sizes", "32KiB", "--", &program, "false_sharing"]);
    assert_eq!((&report["scope"], &report["stretch"]), (&"private".into(), &256.into()));
    let threads = report["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 5);
    let line = &report["falsely_shared"][0];
    assert_eq!((&line["variable"], &line["threads"]), (&"counters".into(), &4.into()), "{line}");
    assert!(line["missed_by"].as_str().unwrap().starts_with("work (threads.c:"), "{line}");
    // Each thread increments its counter a million times, two accesses each; a stretch holds some 80 of those.
    let misses = line["false_sharing"].as_u64().unwrap();
    assert!(misses > 10_000, "{line}");
    let point = &report["points"][0];
    let [miss_ratio, coherence, is_true, is_false] =
        ["miss_ratio", "coherence", "true_sharing", "false_sharing"].map(|key| point[key].as_f64().unwrap());
    assert!(miss_ratio >= coherence && (coherence - is_true - is_false).abs() < 1e-12, "{point}");
    assert!(is_false * report["accesses"].as_f64().unwrap() >= misses as f64 * 0.999, "{point}");
}

/// Two threads that take a line from each other; one of them walks over lines of its own as well.
const ROUNDS: usize = 4_000;

fn ping_pong(folder: &Folder) -> String {
    let mut rows = "thread,kind,address,bytes\n".to_owned();
    for round in 0..ROUNDS {
        writeln!(rows, "0,store,0,8\n0,load,{},8\n1,store,8,8\n1,load,8,8", 64 * (100 + round % 300))
            .unwrap();
    }
    folder.file("ping_pong.csv", rows)
}

#[test]
fn models_and_simulation_print_the_same_of_a_trace() {
    let folder = Folder::new();
    let trace = ping_pong(&folder);
    let sizes = ["--windows", "1", "--draws", "0", "--sizes", "1KiB,64KiB", "--trace", &trace];
    let run = |model: &str, flags: &[&str]| {
        let flags: Vec<&str> = ["--model", model].iter().chain(flags).chain(&sizes).copied().collect();
        curve(&flags)
    };
    let exact = run("exact-lru", &[]);
    assert!(exact.get("stretch").is_none(), "the order is the trace's");
    for (model, flags) in
        [("statstack", &[][..]), ("statcache", &[]), ("statstack", &["--sample-rate", "0.5"])]
    {
        let found = run(model, flags);
        for at in 0..2 {
            for key in ["miss_ratio", "coherence"] {
                let value = |report: &Value| report["points"][at][key].as_f64().unwrap();
                let off = (value(&exact) - value(&found)).abs();
                // 16,000 accesses; half of them have 4 standard errors of 0.023 at most. Random replacement is not LRU.
                let limit = if flags.is_empty() && model == "statstack" { 1e-3 } else { 0.023 };
                assert!(off < limit, "{model} {at} {key}: {off} {found}");
            }
            let shared = found["points"][at]["shared"].as_f64().unwrap();
            let expected = if at == 0 { 0.25 } else { 301.0 / (4 * ROUNDS) as f64 };
            assert!((shared - expected).abs() < 0.023, "one line for both: {shared}");
        }
        for thread in 0..2 {
            let of = |report: &Value| report["threads"][thread]["points"][1]["coherence"].as_f64().unwrap();
            assert!((of(&exact) - of(&found)).abs() < 0.032, "{found}");
        }
    }
    // Without the flag, models leave out what others invalidate, and say so.
    let arguments: Vec<&str> = ["--json"].iter().chain(&sizes).copied().collect();
    let ended = run_pipeline(&arguments, miss_ratio_curve::run);
    assert!(ended.messages.contains("--scope private counts that"), "{}", ended.messages);
    let point = &ended.object()["points"][1];
    assert!(point.get("coherence").is_none() && point["miss_ratio"].as_f64().unwrap() < 0.03, "{point}");
}

#[test]
fn private_caches_that_cannot_be_simulated_are_refused() {
    let folder = Folder::new();
    let trace = ping_pong(&folder);
    for flags in [&["--model", "exact-random"][..], &["--model", "exact-lru", "--ways", "8"]] {
        let arguments: Vec<&str> =
            ["--scope", "private", "--trace", &trace].iter().chain(flags).copied().collect();
        let refused = run_pipeline(&arguments, miss_ratio_curve::run);
        assert!(refused.status == 2 && refused.messages.contains("--scope shared"), "{}", refused.messages);
    }
}

/// One thread writes lines that another then takes, each once. Until the first thread touches them again there is no
/// coherence miss; then it touches a tenth of them.
#[test]
fn lines_that_nobody_comes_back_to_are_no_coherence_misses() {
    let folder = Folder::new();
    for (name, returns) in [("left", 0), ("returned", 200)] {
        let mut rows = "thread,kind,address,bytes\n".to_owned();
        let mut row = |thread: u32, kind: &str, line: u64| {
            writeln!(rows, "{thread},{kind},{},8", 64 * line).unwrap();
        };
        (0..2_000).for_each(|line| row(0, "store", line));
        (0..2_000).for_each(|line| row(1, "store", line));
        (0..returns).for_each(|line| row(0, "load", line));
        (0..2_000).for_each(|line| row(0, "load", 1_000_000 + line % 50));
        let trace = folder.file(name, rows);
        let flags = ["--draws", "0", "--sizes", "256KiB", "--format", "csv", "--trace", &trace];
        let point = |model: &[&str]| curve(&[model, &flags].concat())["points"][0].clone();
        let exact = point(&["--model", "exact-lru"]);
        let expected = returns as f64 / (6_000 + returns) as f64;
        assert!((exact["coherence"].as_f64().unwrap() - expected).abs() < 1e-9, "{exact}");
        // A rate of 0.9 samples single accesses; 200 of them have 4 standard errors of 0.003 of all accesses at most.
        for (model, limit) in [
            (&["--model", "statstack"][..], 1e-3),
            (&["--model", "statcache"], 1e-3),
            (&["--model", "statstack", "--sample-rate", "0.9"], 0.006),
        ] {
            let modelled = point(model);
            for key in ["coherence", "miss_ratio"] {
                let off = (exact[key].as_f64().unwrap() - modelled[key].as_f64().unwrap()).abs();
                assert!(
                    off < limit || key == "miss_ratio" && off < 0.02,
                    "{name} {model:?} {key}: {exact} {modelled}"
                );
            }
        }
    }
}
