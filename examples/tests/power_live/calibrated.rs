//! A machine calibrated by its own counters.

use super::*;

const CPUINFO: (&str, &str) =
    ("proc/cpuinfo", "vendor_id: X\ncpu family: 1\nmodel: 2\nstepping: 3\nmodel name: reference\n");

/// The reference core, calibrated by the quantities that a machine's counters show.
fn calibrated() -> MachineModel {
    let machine = Machine {
        core: CoreSettings::default(),
        frequencies: program().frequencies.clone(),
        interval: INTERVAL,
    };
    let points = nehalem_points().unwrap();
    let events = NativeBench::<Tree, PerfCounters>::events(&everything());
    let mut calibration = Calibration::new(events, machine.frequencies.iter().copied()).unwrap();
    let measured = |part: &[Interval], clock: usize| {
        let frequency = machine.frequencies[clock];
        let point = points.at(frequency).unwrap();
        let (mut sums, mut instructions, mut cycles, mut joules) = ([0.0; 9], 0.0, 0.0, 0.0);
        for interval in part {
            sums.iter_mut().zip(counts(interval, clock)).for_each(|(sum, count)| *sum += count);
            instructions += interval.activity.instructions as f64;
            let here = interval.clocks[clock].cycles;
            cycles += here;
            let parts = PowerTruth::parts(interval, clock, &point, powersleuth::Kelvin(0.0));
            joules += (parts[0] + parts[1]).0 * here / frequency.0;
        }
        let stalls = Cycles(sums[STALLS].min(cycles));
        let counts = Counts::new(instructions, Cycles(cycles), stalls, sums[MISSES]).unwrap();
        Measurement {
            counts: counts.with_resource_stalls(Cycles(sums[3])).unwrap(),
            events: std::iter::once(instructions).chain(sums[..STALLS].iter().copied()).collect(),
            time: Cycles(cycles) / frequency,
            energy: Joules(joules),
            temperature: None,
        }
    };
    for (number, (_, workload)) in suite::training(0).into_iter().enumerate() {
        let run = simulate(workload.events().unwrap(), &machine, 9).unwrap();
        for part in run.intervals.chunks(3) {
            calibration.push(number, vec![measured(part, 0), measured(part, 1)]).unwrap();
        }
    }
    calibration.fit("X 1 2 3 reference", None).unwrap()
}

#[test]
fn a_calibrated_machine_predicts_by_its_own_models_and_says_how_well() {
    let choice = everything();
    let system = System::with(&[CPUINFO]);
    let by = |power: Option<MachineModel>| {
        let (observed, mut source) = observed(&choice, Shown::on(&choice), &system);
        let setup = Setup { program: "program", window: INTERVAL, counters: 4, incomplete: false };
        study(&observed, &choice, &Settings { power, ..settings() }, &system, setup, &mut source)
    };
    let model = calibrated();
    let study = by(Some(model.clone())).unwrap();
    assert_eq!((study.models.performance, study.models.errors.len()), ("overlapping stalls", 2));
    assert!(study.margin.is_some_and(|margin| margin > 0.0));
    assert!(!study.notes.iter().any(|note| note.contains("allows for no error")), "{:?}", study.notes);
    // Half of what the stall-based model is off by, on counters in turns.
    let off = |study: &Study| (seconds(study)[0] / truth(0) - 1.0).abs();
    let stall_based = by(None).unwrap();
    assert_eq!(stall_based.models.performance, "stall-based");
    assert!(off(&study) < 0.04 && off(&study) < off(&stall_based), "{} {}", off(&study), off(&stall_based));
    // Power is what the core draws.
    let points = nehalem_points().unwrap();
    for (level, cost) in study.predicted.program_costs().iter().enumerate() {
        let point = points.at(program().frequencies[level]).unwrap();
        let (mut drawn, mut cycles) = (0.0, 0.0);
        for interval in &program().intervals {
            let here = interval.clocks[level].cycles;
            let parts = PowerTruth::parts(interval, level, &point, powersleuth::Kelvin(0.0));
            drawn += (parts[0] + parts[1]).0 * here;
            cycles += here;
        }
        let error = cost.power().0 / (drawn / cycles) - 1.0;
        assert!(error.abs() < 0.03, "{level} {error}");
    }
    let mut elsewhere = calibrated();
    elsewhere.power = powersleuth::power::PowerModel::new(
        "another",
        model.power.points().clone(),
        model.power.capacitance().clone(),
    );
    assert!(by(Some(elsewhere)).unwrap_err().to_string().contains("another"));
}

/// Counters of a core that runs at a clock of its own.
struct Fixed {
    hertz: f64,
    asked: Vec<usize>,
}

impl CounterSource for Fixed {
    type Error = PerfError;

    fn start(&mut self, events: &[usize]) -> Result<(), PerfError> {
        self.asked = events.to_vec();
        Ok(())
    }

    fn stop(&mut self) -> Result<Reading, PerfError> {
        let second = Duration::from_secs(1);
        let count = |value: u64| Count { value, enabled: second, running: second };
        Ok(Reading {
            instructions: count(2_000_000_000),
            cycles: count(self.hertz as u64),
            counts: self.asked.iter().map(|&code| count((code as u64 + 1) * 1_000_000)).collect(),
        })
    }
}

#[test]
fn a_machine_is_measured_in_turns_and_put_back_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    for (path, text) in [
        (format!("{policy}/related_cpus"), "0\n"),
        (format!("{policy}/scaling_driver"), "intel_pstate\n"),
        (format!("{policy}/scaling_governor"), "powersave\n"),
        (format!("{policy}/cpuinfo_min_freq"), "1000000\n"),
        (format!("{policy}/cpuinfo_max_freq"), "2000000\n"),
        (format!("{policy}/scaling_min_freq"), "1000000\n"),
        (format!("{policy}/scaling_max_freq"), "2000000\n"),
        ("sys/class/powercap/intel-rapl:0/name".to_owned(), "package-0\n"),
        ("sys/class/powercap/intel-rapl:0/max_energy_range_uj".to_owned(), "262143328850\n"),
        ("sys/class/powercap/intel-rapl:0/energy_uj".to_owned(), "5\n"),
    ] {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let files = Tree::new(root.path());
    let limit = || std::fs::read_to_string(root.path().join(policy).join("scaling_max_freq")).unwrap();
    let pin = || Pin::guarded(files.clone(), policies(&files).unwrap()).unwrap();
    let kernel = kernels::all()[0]();
    let source = Fixed { hertz: 1e9, asked: Vec::new() };
    let mut bench =
        NativeBench::new(&files, pin(), source, everything(), 4, vec![kernel], Duration::from_millis(2))
            .unwrap();
    bench.set(Hertz::from_ghz(1.0)).unwrap();
    assert_eq!(limit(), "1000000");
    let measured = bench.run(0, 0).unwrap();
    // Eight events in two turns: counts are those of both turns' instructions.
    assert_eq!((measured.counts.instructions(), measured.counts.cycles()), (4e9, Cycles(2e9)));
    assert_eq!(measured.events.len(), 7);
    for (number, count) in measured.events[1..].iter().enumerate() {
        assert!((count / ((number as f64 + 1.0) * 2e6) - 1.0).abs() < 1e-9, "{number} {count}");
    }
    assert_eq!((measured.counts.llc_misses(), measured.temperature), (16e6, None));
    assert!(measured.time.0 >= 0.002 && measured.energy == Joules(0.0));
    // Set to twice the clock, the core does not follow.
    bench.set(Hertz::from_ghz(2.0)).unwrap();
    assert!(bench.run(0, 0).unwrap_err().to_string().contains("while it was set to 2;"));
    drop(bench);
    assert_eq!(limit(), "2000000");
    std::fs::remove_dir_all(root.path().join("sys/class/powercap")).unwrap();
    let source = Fixed { hertz: 1e9, asked: Vec::new() };
    let blind =
        NativeBench::new(&files, pin(), source, everything(), 4, Vec::new(), Duration::from_millis(2));
    let error = blind.err().unwrap().to_string();
    assert!(error.contains("powercap/intel-rapl:0"), "{error}");
}
