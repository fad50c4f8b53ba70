//! Phase-guided against periodic profiling: what is recorded against samplers and simulations that know nothing of it,
//! the comparison on workloads small enough for a test, and the command line's promises.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use crate::support::run_pipeline;
use examples::tools::phase_guided_vs_periodic::{
    self as pipeline, Args, Guided, Periodic, Recorder, Recording, RecordingOptions, Score, thin,
};
use examples::workloads::{Sink, Workload};
use rand::SeedableRng;
use rand::rngs::StdRng;
use reuse_sampler::reference::ExactLru;
use reuse_sampler::reference::SpatialRate;
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{CacheLines, LineSize, Outcome, ReusePlan, SampleGap, Sampler, Window, WindowPlan};

const WINDOW: u64 = 500_000;

fn workload() -> Workload {
    Workload::few(3, 1)
}

fn record(workload: &Workload) -> Recording {
    let mut recorder = Recorder::new(RecordingOptions {
        window: WINDOW,
        line_size: LineSize::B64,
        sizes: vec![CacheLines(64), CacheLines(1024), CacheLines(16_384)],
        shards: vec![SpatialRate::new(0.1).unwrap(), SpatialRate::new(1.0).unwrap()],
        seeds: vec![5, 6],
    });
    workload.events().unwrap().for_each(|event| recorder.event(event));
    recorder.finish("few".to_owned(), false, Vec::new())
}

fn replay(workload: &Workload, plan: ReusePlan) -> Vec<Window> {
    let options = ReplayOptions::windows_of(WindowLength::Instructions(WINDOW)).seed(9);
    let mut sampler = ReplaySampler::new(workload.events().unwrap(), options).unwrap();
    let mut windows = Vec::new();
    while let Some(window) = sampler.next_window(&WindowPlan::new(plan)).unwrap() {
        windows.push(window);
    }
    windows
}

/// Samples by the octave of their distance; those never reused apart.
fn octaves(outcomes: impl Iterator<Item = (Outcome, u64)>) -> BTreeMap<Option<u32>, u64> {
    let mut sums = BTreeMap::new();
    for (outcome, count) in outcomes {
        let octave = match outcome {
            // Octaves that no bin of a profile straddles.
            Outcome::Reused(distance) => Some(distance.0.max(1).ilog2()),
            _ => None,
        };
        *sums.entry(octave).or_default() += count;
    }
    sums
}

#[test]
fn a_recording_holds_what_every_access_sampled_and_simulated_shows() {
    let workload = workload();
    let recording = record(&workload);
    let sampled = replay(&workload, ReusePlan::Every);
    // The last window may be too short to count.
    assert!((sampled.len() - 1..=sampled.len()).contains(&recording.windows.len()));
    let mut started: BTreeMap<u64, Vec<(Outcome, u64)>> = BTreeMap::new();
    for (window, outcome, count, _) in sampled.iter().flat_map(Window::outcomes) {
        started.entry(window.0).or_default().push((outcome, count));
    }
    for (index, (recorded, window)) in recording.windows.iter().zip(&sampled).enumerate() {
        assert_eq!(recorded.instructions, window.instructions);
        assert_eq!(Some(recorded.accesses), window.accesses.get());
        assert_eq!(recorded.code, window.code);
        let expected = octaves(started[&(index as u64)].iter().copied());
        let found = octaves(recorded.reuse.iter().copied().filter(|r| r.1 > 0));
        assert_eq!(found, expected, "window {index}");
    }

    let mut lru = ExactLru::new();
    for event in workload.events().unwrap() {
        if let Event::Access(access) = event {
            LineSize::B64.lines(&access).for_each(|line| lru.access(line));
        }
    }
    let dropped = sampled.len() > recording.windows.len();
    let exact = lru.total().curve(LineSize::B64, &recording.sizes);
    for (found, (_, expected)) in recording.average().iter().zip(exact.points) {
        // All accesses but those of a last short window.
        assert!((found - expected).abs() < if dropped { 5e-3 } else { 1e-12 }, "{found} {expected}");
    }
    // SHARDS that follows everything is the simulation.
    let all = recording.shards.iter().find(|run| run.rate == 1.0).unwrap();
    for (window, recorded) in all.windows.iter().zip(&recording.windows) {
        assert_eq!(*window, recorded.miss_ratio);
    }
}

#[test]
fn thinning_is_sampling() {
    let workload = workload();
    let recording = record(&workload);
    let gap = 50.0;
    let sampled = replay(&workload, ReusePlan::Sparse(SampleGap::mean(gap).unwrap()));
    let sampled = octaves(sampled.iter().flat_map(Window::outcomes).map(|o| (o.1, o.2)));
    let mut random = StdRng::seed_from_u64(4);
    let thinned = octaves(recording.windows.iter().flat_map(|w| thin(&w.reuse, gap, &mut random)));
    let short_window = 2.0 * WINDOW as f64 / gap;
    for (octave, &expected) in &sampled {
        let found = thinned.get(octave).copied().unwrap_or(0) as f64;
        // Two independent draws of as many samples: five standard deviations of their difference.
        let allowed = 5.0 * (2.0 * (expected as f64 + 1.0)).sqrt();
        let missing = if octave.is_none() { 0.0 } else { short_window };
        assert!((found - expected as f64).abs() < allowed + missing, "{octave:?}: {found} {expected}");
    }
}

#[test]
fn both_strategies_end_at_the_truth_when_they_sample_enough() {
    let recording = record(&workload());
    let periodic = Periodic { every: 1.0, gap: 1.0 }.estimate(&recording, 0);
    let all: u64 = recording.windows.iter().map(|w| w.accesses).sum();
    assert_eq!((periodic.samples, periodic.profiled), (all, recording.windows.len()));
    let guided =
        Guided { first_gap: 1.0, gap_limit: 1.0, ..Guided::default() }.estimate(&recording, 0).unwrap();
    assert_eq!((guided.samples, guided.profiled), (all, recording.windows.len()));
    for estimate in [periodic, guided] {
        // What is left is the model's error on windows of 200,000 accesses and what phases even out.
        let score = Score::of(&recording, &[estimate]);
        assert!(score.cdf_error < 1.5, "{score:?}");
        assert!(score.cdf_error <= score.course_error + 1e-9, "{score:?}");
    }
}

#[test]
fn phases_save_samples_at_no_loss() {
    let ended = run_pipeline(
        &["--workload", "few", "--window", "100000", "--seeds", "3", "--brief", "--json"],
        pipeline::run,
    );
    let object = ended.object();
    let program = &object["programs"][0];
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let [periodic, guided] = [&program["settings"][0]["score"], &program["settings"][1]["score"]];
    assert_eq!(periodic["cdf_errors"].as_array().unwrap().len(), 3);
    assert!(number(&program["overhead_ratio"]) > 3.0, "{program}");
    assert!(number(&guided["cdf_error"]) < number(&periodic["cdf_error"]) + 0.5, "{program}");
    // Taking all windows of each phase leaves nothing out, in whatever order.
    for order in ["in_order", "at_random"] {
        let errors = program["variation"][order].as_array().unwrap();
        assert!(number(errors.last().unwrap()) < 1e-9, "{order}");
    }
}

#[test]
fn files_are_written_and_seeds_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let arguments = ["--workload", "dual", "--seeds", "2", "--out", out, "--json"];
    let (first, second) = (run_pipeline(&arguments, pipeline::run), run_pipeline(&arguments, pipeline::run));
    assert_eq!(first.object(), second.object());
    for file in
        ["report.html", "samples.svg", "variation.svg", "settings.csv", "variation.csv", "results.json"]
    {
        assert!(folder.path().join(file).metadata().unwrap().len() > 100, "{file}");
    }
    let program = &first.object()["programs"][0];
    let shards: Vec<f64> = program["sweep"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|s| s["strategy"] == "SHARDS")
        .map(|s| s["score"]["cdf_error"].as_f64().unwrap())
        .collect();
    assert!(shards.len() > 4 && shards.last() < shards.first(), "{shards:?}");
}

#[test]
fn hierarchical_sampling_scatters_around_the_truth() {
    let ended = run_pipeline(
        &[
            "--experiment",
            "spread",
            "--workload",
            "key_value",
            "--accesses",
            "60000000",
            "--repetitions",
            "4",
            "--json",
        ],
        pipeline::run,
    );
    let object = ended.object();
    let spread = object["spread"].as_array().unwrap();
    assert_eq!(spread.len(), 2 * 9 * 3);
    for one in spread.iter().filter(|one| one["setting"] == "S1") {
        let exact = one["exact"].as_f64().unwrap();
        for found in one["repetitions"].as_array().unwrap() {
            // Four bursts of 1,500 samples: four standard deviations of a ratio of at most a half are 2.6 points, and
            // the model's own error is below 1.
            assert!((found.as_f64().unwrap() - exact).abs() < 3.6, "{one}");
        }
    }
}

#[test]
fn mistakes_are_one_line() {
    for (arguments, message) in [
        (&["--workload", "nothing"][..], "no embedded workload \"nothing\""),
        (&["--trace", "missing.din"], "missing.din"),
        (&["--trace", "x.unknown"], "cannot determine the format"),
        (&["--window", "0"], "0 is not in 1.."),
        (&["--command", " "], "--command is empty"),
        (&["--workload", "single", "--window", "10000000000"], "give shorter windows with --window"),
        (&["--experiment", "spread", "--command", "true"], "give --workload NAME"),
        (&["--sizes", "10"], "line"),
    ] {
        let ended = run_pipeline(arguments, pipeline::run);
        assert!(ended.status != 0 && ended.messages.contains(message), "{arguments:?}: {}", ended.messages);
        assert_eq!(ended.messages.trim_end().lines().count(), 1, "{}", ended.messages);
    }
}

#[test]
fn an_interrupted_run_shows_what_it_has() {
    let ended = run_pipeline(
        &["--workload", "multi", "--window", "1000", "--brief"],
        |args: &Args, out, messages| pipeline::run_until(&AtomicBool::new(true), args, out, messages),
    );
    assert_eq!(ended.status, 130);
    assert!(
        ended.out.contains("stopped before its end") && ended.messages.contains("interrupted"),
        "{}",
        ended.out
    );
}
