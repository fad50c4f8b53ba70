//! Schedules applied while programs run: what that saves against what was predicted.

use std::fs;
use std::sync::atomic::AtomicBool;

use examples::machines::ooo::{CoreSettings, nehalem_points};
use examples::tools::power_frequency::accuracy;
use examples::tools::power_frequency::calibrate::Calibration;
use examples::tools::power_frequency::counted::{self, Models, Setup};
use examples::tools::power_frequency::study::Advice;
use examples::tools::power_frequency::suite;
use phase_detect::{Ppm, Predictor};
use powersleuth::analysis::{Cost, Goal, Objective};
use powersleuth::linux::{Follower, Pin, Tree, policies};
use powersleuth::{Hertz, Joules};

const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

/// Sysfs of a processor with these frequencies, in kilohertz as the kernel has them.
fn laid_out(frequencies: &[Hertz]) -> (tempfile::TempDir, Tree) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(POLICY);
    fs::create_dir_all(&folder).unwrap();
    let khz: Vec<String> = frequencies.iter().map(|f| format!("{:.0}", f.0 / 1e3)).collect();
    let (least, most) = (&khz[0], &khz[khz.len() - 1]);
    let listed = khz.join(" ");
    let files = [
        ("related_cpus", "0"),
        ("scaling_driver", "acpi-cpufreq"),
        ("scaling_governor", "schedutil"),
        ("scaling_available_frequencies", &listed),
        ("cpuinfo_min_freq", least),
        ("cpuinfo_max_freq", most),
        ("scaling_min_freq", least),
        ("scaling_max_freq", most),
    ];
    for (file, text) in files {
        fs::write(folder.join(file), text).unwrap();
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
