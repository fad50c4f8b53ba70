//! Power-Sleuth end to end: predictions against a core that really runs at every frequency, and the command line's
//! promises.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use crate::support::{Ended, run_pipeline};
use examples::guided::{GuidedOptions, run_guided};
use examples::machines::ooo::{CoreSettings, Machine, nehalem_points, simulate};
use examples::tools::power_frequency::accuracy::{self, Row, Table};
use examples::tools::power_frequency::calibrate::{Calibration, INTERVAL};
use examples::tools::power_frequency::counted::Setup;
use examples::tools::power_frequency::modelled::TrafficModel;
use examples::tools::power_frequency::{Args, judge, run_until, suite};
use powersleuth::Hertz;
use powersleuth::analysis::{Goal, Objective};
use reuse_sampler::file::PhaseProfile;
use reuse_sampler::replay::{ReplayOptions, ReplaySampler, WindowLength};
use serde_json::Value;

const SEED: u64 = 0;

fn calibration() -> &'static Calibration {
    static CALIBRATION: OnceLock<Calibration> = OnceLock::new();
    CALIBRATION.get_or_init(|| {
        let points = nehalem_points().unwrap();
        let stations = accuracy::stations(&points);
        Calibration::run(CoreSettings::default(), points, stations.to_vec(), SEED, &AtomicBool::new(false))
            .unwrap()
    })
}

#[test]
fn predictions_are_as_good_as_promised() {
    let calibration = calibration();
    let goal = Goal::least(Objective::Edp).within(0.1).unwrap();
    let all: Vec<Hertz> = calibration.points().frequencies().collect();
    let stations = accuracy::stations(calibration.points());
    // What keeping the bound in truth costs, at all nine frequencies and at every other.
    let [table, coarse] = [1, 2].map(|step| {
        let setup = Setup {
            frequencies: all.iter().copied().step_by(step).collect(),
            profiled_at: stations[2],
            counters: 4,
            seed: SEED,
            core: CoreSettings::default(),
        };
        let judged =
            |(name, workload): (&str, _)| accuracy::row(name, &workload, calibration, &setup, &goal).unwrap();
        let rows: Vec<Row> = suite::evaluation(SEED + 1, 1).into_iter().map(judged).collect();
        let table = Table { stations, rows, unknown: None };
        let kept = table.mean(|row| row.regret.kept);
        assert!(kept >= 0.8, "saving {kept}");
        let within: Vec<&Row> = table.rows.iter().filter(|row| row.regret.violations.is_empty()).collect();
        assert!(within.iter().all(|row| row.regret.mean >= 0.0));
        let broken = table.worst(|row| row.regret.violations.iter().map(|(_, by)| *by).fold(0.0, f64::max));
        assert!(broken <= 0.005, "{broken}");
        table
    });
    // Of all programs together. A margin costs a whole step of frequency, and a coarser step costs more.
    let kept = [&table, &coarse].map(|table| judge::kept(table.rows.iter().map(|row| &row.regret)));
    println!("kept {kept:?}");
    assert!(kept[0] >= 0.8 && kept[1] >= 0.7, "saving {kept:?}");

    // The paper has 3.9 % on average and 15.1 % for the worst program, 2.4 % from the median, 4.2 % upwards.
    const CALIBRATED: usize = 2;
    let time = |route: usize| table.mean(|row| row.time[route][CALIBRATED].mean);
    let worst = |route: usize| table.worst(|row| row.time[route][CALIBRATED].mean);
    assert!(time(0) <= 0.03 && worst(0) <= 0.10, "max -> min {} {}", time(0), worst(0));
    assert!(time(1) <= 0.02, "median -> min {}", time(1));
    assert!(time(2) <= 0.035, "min -> max {}", time(2));
    // It is the memory that makes it hard: taking all cycles to scale is far off.
    let linear = table.worst(|row| row.time[0][0].mean);
    assert!(linear > 0.3, "linear {linear}");

    let power = [0, 1].map(|k| table.mean(|row| row.power[k].mean));
    assert!(power.iter().all(|&error| error <= 0.03), "power {power:?}");

    let filled = [0, 1].map(|k| table.mean(|row| row.filling[k]));
    assert!(filled[0] <= 0.5 * filled[1], "multiplexing {filled:?}");
}

#[test]
fn without_counters_the_effect_of_the_clock_is_modelled_within_a_tenth() {
    let calibration = calibration();
    let model = TrafficModel::fit(calibration, SEED).unwrap();
    let [lowest, _, highest] = accuracy::stations(calibration.points());
    let mut errors = Vec::new();
    for (name, workload) in suite::evaluation(SEED + 1, 1) {
        if !["compute", "database", "graph", "streaming"].contains(&name) {
            continue;
        }
        let replay = ReplayOptions::windows_of(WindowLength::Instructions(INTERVAL)).seed(SEED);
        let mut sampler = ReplaySampler::new(workload.events().unwrap(), replay).unwrap();
        let run = run_guided(&mut sampler, GuidedOptions::default(), |_| false).unwrap();
        let (predicted, _) = model.predict(&run, &[lowest, highest]).unwrap();
        let machine =
            Machine { core: CoreSettings::default(), frequencies: vec![lowest, highest], interval: INTERVAL };
        let truth = simulate(workload.events().unwrap(), &machine, usize::MAX).unwrap();
        let seconds = |clock: usize, f: Hertz| {
            truth.intervals.iter().map(|i| i.clocks[clock].cycles).sum::<f64>() / f.0
        };
        let costs = predicted.program_costs();
        let time = costs[1].time.0 / seconds(1, highest);
        let slowdown = (costs[0].time.0 / costs[1].time.0) / (seconds(0, lowest) / seconds(1, highest));
        errors.push([time, slowdown]);
    }
    // Nothing tells whether misses overlap or wait for each other, so that time itself is a matter of a factor. How it
    // changes with the clock depends on the share of memory in it only, which is within a tenth.
    assert!(errors.iter().all(|[time, _]| (1.0 / 3.0..=3.0).contains(time)), "{errors:?}");
    let slowdown = errors.iter().map(|e| (e[1] - 1.0).abs()).sum::<f64>() / errors.len() as f64;
    assert!(slowdown <= 0.1, "{errors:?}");
}

fn run_with(arguments: &[&str], interrupted: bool) -> Ended {
    let interrupted = Arc::new(AtomicBool::new(interrupted));
    run_pipeline(arguments, |args: &Args, out, messages| run_until(&interrupted, args, out, messages))
}

#[test]
fn mistakes_are_one_clear_line() {
    for (arguments, status, part) in [
        (&["--workload", "nothing"][..], 2, "no embedded workload \"nothing\"; there are compute, sorting"),
        (&["--frequencies", "0.5"], 2, "the core runs at 1.60 to 2.67 GHz, not at 0.5"),
        (&["--frequencies", "fast"], 2, "give a finite number above 0"),
        (&["--bound=-1"], 2, "give a finite number of at least 0"),
        (&["--bound", "nan"], 2, "give a finite number of at least 0"),
        (&["--objective", "speed"], 2, "[possible values: energy, edp, ed2p]"),
        (&["--out", "/dev/null/there"], 2, "give a directory that can be written to"),
        (&["--modelled", "--counters", "2"], 2, "cannot be used with"),
        (&["--deadline", "0"], 2, "give a finite number above 0"),
        (&["--power-cap", "x"], 2, "give a finite number above 0"),
        (&["--core-width", "0"], 2, "0 is not in 1..=16"),
        (&["--calibrate=there"], 2, "[possible values: here, simulated]"),
        (&["--calibrate", "--accuracy"], 2, "cannot be used with"),
        (&["--deadline", "1", "--hysteresis", "1"], 2, "cannot be used with"),
        (&["--power-model", "/nonexistent"], 2, "power model /nonexistent: No such file"),
    ] {
        let ended = run_with(arguments, false);
        assert_eq!(ended.status, status, "{arguments:?}: {}", ended.messages);
        assert!(ended.messages.contains(part), "{arguments:?}: {}", ended.messages);
        assert_eq!(ended.messages.lines().count(), 1, "{arguments:?}: {}", ended.messages);
        assert_eq!(ended.out, "");
    }
    let ended = run_with(&[], true);
    assert_eq!((ended.status, ended.out.as_str()), (1, ""));
    assert!(ended.messages.contains("interrupted before anything was measured"), "{}", ended.messages);
}

#[test]
fn the_report_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let arguments =
        ["--workload", "compute", "--frequencies", "1.6,2.13,2.67", "--bound", "60", "--json", "--out"];
    let ended = run_with(&[&arguments[..], &[path.to_str().unwrap()]].concat(), false);
    assert_eq!((ended.status, ended.messages.as_str()), (0, ""));
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    assert_eq!(told["modelled"], Value::Bool(false));
    let ghz: Vec<f64> = told["frequencies_ghz"].as_array().unwrap().iter().map(number).collect();
    assert_eq!(ghz.len(), 3);
    // Phases add up to the program, and energy is power times time.
    for level in 0..3 {
        let phases = told["phases"].as_array().unwrap();
        for what in ["seconds", "joules"] {
            let sum: f64 = phases.iter().map(|phase| number(&phase["costs"][level][what])).sum();
            let whole = number(&told["program_costs"][level][what]);
            assert!((sum / whole - 1.0).abs() < 1e-9, "{what} {sum} {whole}");
        }
        let cost = &told["program_costs"][level];
        let product = number(&cost["watts"]) * number(&cost["seconds"]);
        assert!((product / number(&cost["joules"]) - 1.0).abs() < 1e-9);
    }
    // So loose a bound does not bind: the schedule is that of each phase's least energy-delay product, and what
    // following it costs is the sum of what its phases cost there.
    let mut expected = 0.0;
    for phase in told["phases"].as_array().unwrap() {
        let costs = phase["costs"].as_array().unwrap();
        let product = |cost: &&Value| number(&cost["joules"]) * number(&cost["seconds"]);
        let best = costs.iter().min_by(|a, b| product(a).total_cmp(&product(b))).unwrap();
        assert_eq!(phase["recommended_ghz"], best["ghz"]);
        expected += number(&best["joules"]);
    }
    let schedule = &told["schedule"];
    assert!((number(&schedule["predicted"]["joules"]) / expected - 1.0).abs() < 1e-9);
    let best = |of: &str| number(&schedule[of]["joules"]) * number(&schedule[of]["seconds"]);
    assert!(best("best_by_instance") <= best("predicted") * (1.0 + 1e-9));

    let intervals = told["intervals"].as_u64().unwrap() as usize;
    let csv = fs::read_to_string(path.join("intervals.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 3 * intervals);
    let page = fs::read_to_string(path.join("report.html")).unwrap();
    assert!(page.contains("matmul_naive::inner") && page.matches("<svg").count() == 4);
    for file in
        ["energy.svg", "phases.svg", "schedule.svg", "pareto.svg", "phases.csv", "pareto.csv", "report.json"]
    {
        assert!(path.join(file).is_file(), "{file}");
    }
}

/// Where cycles are modelled, those of all processes of a command are.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn every_process_takes_its_time() {
    let run = |children: &str| {
        let flags = ["--modelled", "--json", "--frequencies", "2.67", "--window", "500000"];
        let program = ["--children", children, "--", "sh", "-c", "seq 20000 | sort | tail -3 >&2; exit 3"];
        let ended = run_with(&[&flags[..], &program].concat(), false);
        assert_eq!(ended.status, 3, "{}", ended.messages);
        serde_json::from_str::<Value>(&ended.out).unwrap()
    };
    let (all, first) = (run("follow"), run("ignore"));
    let seconds = |report: &Value| report["program_costs"][0]["seconds"].as_f64().unwrap();
    let processes = |report: &Value| report["processes"].as_array().unwrap().len();
    assert_eq!((processes(&all), processes(&first)), (4, 1));
    assert!(seconds(&all) > 20.0 * seconds(&first), "{all} {first}");
    assert!(all["notes"].to_string().contains("4 threads, those of children included"), "{all}");
    assert!(first["notes"].to_string().contains("3 child process(es) ran unobserved"), "{first}");
}

#[test]
fn a_calibration_is_a_file_that_predicts_and_names_its_errors() {
    let folder = crate::support::Folder::new();
    let calibrate = ["--calibrate=simulated", "--frequencies", "1.6,2.13,2.67", "--seed", "3"];
    let ended = run_with(&[&calibrate[..], &["--json"]].concat(), false);
    let model = folder.file("machine.json", &ended.out);
    assert_eq!(ended.status, 0, "{}", ended.messages);
    let arguments = ["--workload", "compute", "--frequencies", "1.6,2.13,2.67", "--power-model", &model];
    let told = run_with(&[&arguments[..], &["--json"]].concat(), false).object();
    assert_eq!(told["models"]["performance"], "overlapping stalls");
    let number = |value: &Value| value.as_f64().unwrap();
    let errors = told["models"]["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 3);
    for (error, ghz) in errors.iter().zip([1.6, 2.13, 2.67]) {
        assert!((number(&error["ghz"]) - ghz).abs() < 0.01);
        assert!(number(&error["power"]["mean"]) < number(&error["power"]["interval"]));
    }
    // The truth of the simulated core agrees with what the calibration promised.
    for quantity in ["time", "power"] {
        let interval = number(&errors[0][quantity]["interval"]);
        assert!(number(&told["errors"][quantity]["mean"]) < interval, "{quantity}");
    }
    let page = run_with(&arguments, false).out;
    assert!(page.contains("on kernels left out of the calibration"), "{page}");
    let table = run_with(&calibrate, false).out;
    assert!(
        table.contains("Time by the overlapping stalls model") && table.contains("relative voltage"),
        "{table}"
    );
    // A core of another width is another machine.
    let other = run_with(&[&arguments[..], &["--core-width", "2"]].concat(), false);
    assert_eq!(other.status, 1);
    assert!(other.messages.contains("2 wide"), "{}", other.messages);
}

#[test]
fn a_deadline_is_kept_or_refused_with_the_least_that_can_be() {
    let number = |value: &Value| value.as_f64().unwrap();
    let common = [
        "--workload",
        "compute",
        "--frequencies",
        "1.6,2.13,2.67",
        "--objective",
        "energy",
        "--bound",
        "100",
    ];
    let run = |more: &[&str]| run_with(&[&common[..], more, &["--json"]].concat(), false);
    let free = run(&[]).object();
    let fast = number(&free["schedule"]["at_highest"]["seconds"]);
    let slow = number(&free["schedule"]["predicted"]["seconds"]);
    assert!(slow > 1.2 * fast, "{slow} {fast}");
    let deadline = format!("{:.6}", 0.5 * (slow + fast));
    let kept = run(&["--deadline", &deadline]).object();
    let predicted = &kept["schedule"]["predicted"];
    assert!(number(&predicted["seconds"]) <= 0.5 * (slow + fast), "{predicted}");
    assert!(number(&predicted["joules"]) < number(&kept["schedule"]["at_highest"]["joules"]));
    assert!(number(&predicted["joules"]) >= number(&free["schedule"]["predicted"]["joules"]));
    assert_eq!(number(&kept["schedule"]["limits"]["seconds"]), deadline.parse::<f64>().unwrap());
    let refused = run(&["--deadline", &format!("{:.6}", 0.9 * fast)]);
    assert_eq!(refused.status, 1);
    assert!(refused.messages.contains("no schedule keeps a deadline"), "{}", refused.messages);
    assert_eq!(refused.messages.lines().count(), 1, "{}", refused.messages);
}

/// A run that was counted is predicted from its file as it was then, at other frequencies as if they had been asked for,
/// and by the models of a calibration.
#[test]
fn a_counted_run_is_predicted_from_its_file() {
    let folder = crate::support::Folder::new();
    let json = |args: &[&str]| run_with(&[&["--json"], args].concat(), false).object();
    let (out, few) = (folder.path("out").display().to_string(), ["--frequencies", "1.6,2.13"]);
    let counted = json(&["--workload", "graph", "--out", &out]);
    let stored = format!("{out}/profile.json");
    let profile = PhaseProfile::read(fs::File::open(&stored).unwrap()).unwrap();
    assert_eq!((profile.machine.as_deref(), profile.incomplete), (None, false));
    assert_eq!(profile.phases.len(), counted["phases"].as_array().unwrap().len());
    // What is left out is what only a core that runs at every frequency knows.
    let without_truth = |object: &Value| {
        fn strip(value: &mut Value) {
            match value {
                Value::Object(map) => {
                    map.retain(|key, _| !key.starts_with("truth"));
                    for key in ["basis", "errors", "models", "loss_against_exhaustive_search"] {
                        map.remove(key);
                    }
                    map.values_mut().for_each(strip);
                }
                Value::Array(list) => list.iter_mut().for_each(strip),
                _ => {}
            }
        }
        let mut object = object.clone();
        strip(&mut object);
        object
    };
    let again = json(&["--profile", &stored]);
    assert!(!again["basis"].as_str().unwrap().contains("really"));
    assert_eq!(without_truth(&again), without_truth(&counted));
    let asked = json(&[&["--workload", "graph"], &few[..]].concat());
    assert_eq!(without_truth(&json(&[&["--profile", &stored], &few[..]].concat())), without_truth(&asked));
    let refused = |text: &str, said: &str| {
        let ended = run_with(&["--profile", &folder.file("bad.json", text)], false);
        assert_eq!(ended.status, 1, "{}", ended.messages);
        assert!(ended.messages.contains(said) && ended.messages.contains("bad.json"), "{}", ended.messages);
    };
    let text = fs::read_to_string(&stored).unwrap();
    let mut other: Value = serde_json::from_str(&text).unwrap();
    other["sections"]["counters"]["profile"]["phases"][0] = "Q".into();
    refused(&other.to_string(), "phase \"Q\"");
    other["sections"]["counters"]["profile"]["phases"].as_array_mut().unwrap().pop();
    refused(&other.to_string(), "counters");
    other["sections"]["counters"] = 7.into();
    refused(&other.to_string(), "counters");
    let ended = run_with(&["--profile", &stored, "--frequencies", "9"], false);
    assert_eq!(ended.status, 1, "{}", ended.messages);
    // Of a core of another width, and of this one.
    let simulated = ["--calibrate=simulated", "--frequencies", "1.6,2.67", "--seed", "3"];
    let model = json(&[&simulated[..], &["--core-width", "2"]].concat());
    let model = folder.file("wide.json", model.to_string());
    let ended = run_with(&["--profile", &stored, "--power-model", &model], false);
    assert!(ended.status == 1 && ended.messages.contains("2 wide"), "{}", ended.messages);
    let model = folder.file("model.json", json(&simulated).to_string());
    let by_model = ["--frequencies", "1.6,2.67", "--power-model", &*model];
    let now = json(&[&["--profile", &*stored], &by_model[..]].concat());
    let then = json(&[&["--workload", "graph"], &by_model[..]].concat());
    assert_eq!(without_truth(&now)["phases"], without_truth(&then)["phases"]);
    assert_eq!(now["models"], then["models"]);
}
