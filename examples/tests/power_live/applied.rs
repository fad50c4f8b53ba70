//! Schedules applied while programs run: what that saves against what was predicted.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use examples::machines::ooo::{CoreSettings, nehalem_points};
use examples::tools::power_frequency::accuracy;
use examples::tools::power_frequency::calibrate::Calibration;
use examples::tools::power_frequency::counted::{self, Models, Setup};
use examples::tools::power_frequency::study::Advice;
use examples::tools::power_frequency::{run, suite};
use phase_detect::{Ppm, Predictor};
use powersleuth::analysis::{Cost, Goal, Objective};
use powersleuth::linux::{Follower, Pin, Tree, policies};
use powersleuth::{Hertz, Joules};

use crate::support::run_pipeline;

const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

/// Sysfs of a processor with these frequencies, in kilohertz as the kernel has them.
fn laid_out(frequencies: &[Hertz]) -> (tempfile::TempDir, Tree) {
    under("acpi-cpufreq", "schedutil", frequencies)
}

/// The same under some driver; one that leaves the choice to the processor lists no frequencies.
fn under(driver: &str, governor: &str, frequencies: &[Hertz]) -> (tempfile::TempDir, Tree) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(POLICY);
    fs::create_dir_all(&folder).unwrap();
    let khz: Vec<String> = frequencies.iter().map(|f| format!("{:.0}", f.0 / 1e3)).collect();
    let (least, most) = (&khz[0], &khz[khz.len() - 1]);
    let listed = khz.join(" ");
    let files = [
        ("related_cpus", "0"),
        ("scaling_driver", driver),
        ("scaling_governor", governor),
        ("cpuinfo_min_freq", least),
        ("cpuinfo_max_freq", most),
        ("scaling_min_freq", least),
        ("scaling_max_freq", most),
    ];
    for (file, text) in files {
        fs::write(folder.join(file), text).unwrap();
    }
    if driver == "acpi-cpufreq" {
        fs::write(folder.join("scaling_available_frequencies"), listed).unwrap();
    }
    let tree = Tree::new(root.path());
    (root, tree)
}

/// Each program of the evaluation suite, with models fitted on the training suite, runs interval by interval on the
/// reference core at the frequency that the follower has set for the phase predicted then. The frequency is read back
/// from the files, as the processor would.
#[test]
fn what_a_followed_schedule_saves_is_what_was_predicted() {
    const SEED: u64 = 3;
    let points = nehalem_points().unwrap();
    let frequencies: Vec<Hertz> = points.frequencies().step_by(2).collect();
    let stations = accuracy::stations(&points);
    let setup = Setup {
        frequencies: frequencies.clone(),
        profiled_at: stations[2],
        counters: 4,
        seed: SEED,
        core: CoreSettings::default(),
    };
    let never = AtomicBool::new(false);
    let calibration =
        Calibration::run(CoreSettings::default(), points.clone(), stations.to_vec(), SEED, &never).unwrap();
    let (mut sum, mut n) = (0.0, 0);
    for (name, workload) in suite::evaluation(SEED + 1, 1) {
        let models = Models::fitted(&calibration, &setup).unwrap();
        let study = counted::study(name, &workload, &points, models, &setup, &never, |_| ()).unwrap();
        let goal = Goal::least(Objective::Energy).within(0.1).unwrap();
        let advice = Advice::give(&study, goal, None, None).unwrap();
        let truth = study.truth.as_ref().unwrap();

        let (root, tree) = laid_out(&frequencies);
        let pin = Pin::guarded(tree.clone(), policies(&tree).unwrap()).unwrap();
        let mut follower = Follower::new(pin, advice.schedule.clone(), 0).unwrap();
        let mut predictor = Ppm::default();
        let (mut live, mut right) = (Cost::default(), 0);
        for interval in 0..truth.intervals() {
            let next = predictor.predict().map(|prediction| prediction.phase);
            follower.enter(next.as_ref()).unwrap();
            let khz: f64 = fs::read_to_string(root.path().join(POLICY).join("scaling_max_freq"))
                .unwrap()
                .parse()
                .unwrap();
            let level = frequencies.iter().position(|f| (f.0 / 1e3 - khz).abs() < 1.0).unwrap();
            live += truth.interval_costs(interval)[level];
            let instance = truth.instances().iter().find(|i| i.intervals.contains(&interval)).unwrap();
            right += usize::from(next == Some(instance.phase));
            predictor.observe(instance.phase);
        }
        follower.stop().unwrap();
        let saved = |energy: Joules, fastest: Joules| 1.0 - energy.0 / fastest.0;
        let at_most = truth.program_costs()[truth.fastest().0];
        let found = saved(live.energy, at_most.energy);
        let predicted = saved(advice.predicted.total.energy, advice.fastest.total.energy);
        println!(
            "{name}: saved {:.1} %, predicted {:.1} %; {:.1} % longer; {} intervals, {right} predicted right",
            100.0 * found,
            100.0 * predicted,
            100.0 * (live.time / at_most.time - 1.0),
            truth.intervals()
        );
        assert!((found - predicted).abs() <= 0.02, "{name}: {found} and not {predicted}");
        sum += found;
        n += 1;
    }
    assert!(n >= 5 && sum > 0.0, "something is saved");
}

/// Lower and upper limit.
fn limits(root: &Path) -> [String; 2] {
    ["scaling_min_freq", "scaling_max_freq"]
        .map(|file| fs::read_to_string(root.join(POLICY).join(file)).unwrap().trim().to_owned())
}

#[test]
fn the_command_applies_what_it_recommends_and_leaves_no_trace() {
    let all: Vec<Hertz> = nehalem_points().unwrap().frequencies().collect();
    // Four times as long as by default, where the predictor still learns the phases: `mixed` then saves 2.4 points less.
    for (driver, governor, workload, scale) in
        [("acpi-cpufreq", "userspace", "mixed", "4"), ("intel_pstate", "powersave", "database", "1")]
    {
        let (root, _) = under(driver, governor, &all);
        let before = limits(root.path());
        let words = ["--json", "--apply", "--system", root.path().to_str().unwrap(), "--objective", "energy"];
        let words = [&words[..], &["--workload", workload, "--scale", scale]].concat();
        let schedule = &run_pipeline(&words, run).object()["schedule"];
        let joules = |part: &str, key: &str| schedule[part][key].as_f64().unwrap();
        let saved = 1.0 - joules("applied", "joules") / joules("applied", "joules_at_highest");
        let predicted = 1.0 - joules("predicted", "joules") / joules("at_highest", "joules");
        assert!((saved - predicted).abs() <= 0.02 && saved > 0.0, "{workload}: {saved} and not {predicted}");
        assert!(schedule["applied"]["transitions"].as_u64().unwrap() > 0);
        assert_eq!(limits(root.path()), before, "{driver}");
    }
}

#[test]
fn a_schedule_is_not_applied_where_it_does_not_belong() {
    let ended = run_pipeline(&["--apply"], run);
    assert_eq!(ended.status, 2);
    assert!(ended.messages.contains("--system"), "{}", ended.messages);
    let (root, _) = laid_out(&[1.0, 2.0].map(Hertz::from_ghz));
    let before = limits(root.path());
    let ended = run_pipeline(&["--apply", "--system", root.path().to_str().unwrap()], run);
    assert_eq!(ended.status, 1);
    assert!(ended.messages.contains("policy 0 cannot run at"), "{}", ended.messages);
    assert_eq!(limits(root.path()), before);
}

const APPLYING: &str = "POWER_FREQUENCY_APPLIES_BELOW";

/// Nothing, unless the test below runs it as a process of its own.
#[test]
fn applying_process() {
    let Ok(root) = std::env::var(APPLYING) else { return };
    let words = ["--apply", "--system", &root, "--workload", "mixed", "--scale", "6", "--frequencies"];
    run_pipeline(&[&words[..], &["1.6,2.13,2.67"]].concat(), run);
}

#[test]
fn the_limits_are_restored_after_a_kill() {
    let frequencies = [0, 4, 8].map(|n| nehalem_points().unwrap().frequencies().nth(n).unwrap());
    let (root, _) = laid_out(&frequencies);
    let before = limits(root.path());
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "power_live::applied::applying_process"])
        .env(APPLYING, root.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(300);
        while !holds() {
            assert!(Instant::now() < deadline, "never came about: {what}");
            sleep(Duration::from_millis(1));
        }
    };
    eventually("a frequency is set", &mut || {
        assert!(process.try_wait().unwrap().is_none(), "it ended before it could be killed");
        // A file that is being written is empty for a moment.
        let [low, high] = limits(root.path());
        low == high && !low.is_empty()
    });
    process.kill().unwrap();
    process.wait().unwrap();
    eventually("the limits are back", &mut || limits(root.path()) == before);
}
