//! The performance models against machines whose time at any frequency is known in closed form.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use powersleuth::performance::{
    Counts, Linear, MissBased, OverlappingStalls, PerformanceModel, QuadraticStalls, Scaling, SlowdownErrors,
    StallBased,
};
use powersleuth::{Cycles, Error, Hertz, Seconds};
use quickcheck::quickcheck;

const HIGH: Hertz = Hertz::from_ghz(2.66);
const LOW: Hertz = Hertz::from_ghz(1.6);
const LATENCY: Seconds = Seconds::from_ns(60.0);

/// Counts of a core that computes for `busy` cycles and then waits, doing nothing, for `misses` one by one.
fn blocking(busy: f64, misses: f64, at: Hertz) -> Counts {
    let stalls = LATENCY * at * misses;
    let counts = Counts::new(busy, Cycles(busy) + stalls, stalls, misses).unwrap();
    counts.with_leading_misses(misses).unwrap()
}

#[test]
fn stall_and_miss_models_are_exact_on_a_core_that_blocks() {
    for (busy, misses) in [(1e6, 0.0), (1e6, 1e3), (1e6, 1e4), (1e3, 1e6)] {
        let truth = blocking(busy, misses, LOW).cycles() / LOW;
        let counts = blocking(busy, misses, HIGH);
        let models: [(&str, &dyn PerformanceModel); 3] = [
            ("stall-based", &StallBased::new(LATENCY).unwrap()),
            ("stalls as counted", &StallBased::exact_stalls()),
            ("miss-based", &MissBased::new(LATENCY).unwrap()),
        ];
        for (name, model) in models {
            let time = model.time_at(&counts, HIGH, LOW);
            assert!(((time - truth) / truth).abs() < 1e-12, "{name}: {time} {truth}");
        }
    }
}

#[test]
fn linear_scaling_is_off_by_the_ratio_of_clocks_where_all_is_memory() {
    let truth = blocking(1.0, 1e6, LOW).cycles() / LOW;
    let error = Linear.time_at(&blocking(1.0, 1e6, HIGH), HIGH, LOW) / truth - 1.0;
    assert!((error - (2.66 / 1.6 - 1.0)).abs() < 1e-6, "{error}");
}

#[test]
fn the_smaller_of_stalls_and_misses_is_taken() {
    // 1000 stall cycles and 10 misses of 159.6 cycles: all 1000 may be memory's. With 2 misses only 319.2 can.
    let model = StallBased::new(LATENCY).unwrap();
    let memory =
        |misses| model.memory_cycles(&Counts::new(1e3, Cycles(5e3), Cycles(1e3), misses).unwrap(), HIGH).0;
    assert!((memory(10.0) - 1000.0).abs() < 1e-9);
    assert!((memory(2.0) - 319.2).abs() < 1e-9);
}

#[test]
fn overlapping_misses_wait_for_the_first_of_them() {
    // Clusters of two misses, 40 cycles of work apart; the core stops 100 cycles after the first. Each cluster takes
    // 60 ns from its first miss and 40 cycles of work after the second's data, at any clock of at least 100/60 GHz.
    let clusters = 1000.0;
    let cycles_at = |f: Hertz| (LATENCY * f + Cycles(40.0)) * clusters;
    let stalls = (LATENCY * HIGH - Cycles(100.0)) * clusters;
    let counts = Counts::new(1e5, cycles_at(HIGH), stalls, 2.0 * clusters).unwrap();
    let counts = counts.with_leading_misses(clusters).unwrap();
    let low = Hertz::from_ghz(1.7);
    let truth = cycles_at(low) / low;
    let miss_based = MissBased::new(LATENCY).unwrap().time_at(&counts, HIGH, low);
    assert!(((miss_based - truth) / truth).abs() < 1e-12);
    // The stall-based model leaves out the 100 cycles in which the buffer fills: too slow at the lower clock.
    let stall_based = StallBased::new(LATENCY).unwrap().time_at(&counts, HIGH, low);
    assert!(stall_based > truth * 1.05, "{stall_based} {truth}");
}

#[test]
fn resource_stalls_scale_only_where_they_exceed_the_wait_for_memory() {
    let k = 2.0;
    assert_eq!(Scaling::Fixed.rescale(500.0, Cycles(300.0), k), 500.0);
    assert_eq!(Scaling::ResourceStalls.rescale(500.0, Cycles(300.0), k), 350.0);
    assert_eq!(Scaling::ResourceStalls.rescale(200.0, Cycles(300.0), k), 200.0);
    assert_eq!(Scaling::ExecutionStalls.rescale(500.0, Cycles(300.0), k), 350.0);
    assert_eq!(Scaling::ExecutionStalls.rescale(200.0, Cycles(300.0), k), 100.0);
}

quickcheck! {
    /// Whatever was counted: no change of clock changes nothing, a slower clock never takes less time nor more
    /// than linearly, and its number of cycles never rises.
    fn time_lies_between_memory_bound_and_linear(busy: u32, stalls: u32, misses: u32, leading: u32) -> bool {
        let cycles = Cycles(f64::from(busy) + f64::from(stalls) + 1.0);
        let counts = Counts::new(1.0, cycles, Cycles(f64::from(stalls)), f64::from(misses))
            .and_then(|c| c.with_leading_misses(f64::from(leading)))
            .and_then(|c| c.with_resource_stalls(Cycles(f64::from(busy))))
            .unwrap();
        let models: [Box<dyn PerformanceModel>; 5] = [
            Box::new(OverlappingStalls::new(LATENCY, 0.8, 1e8, [0.9; 6]).unwrap()),
            Box::new(QuadraticStalls::new(LATENCY, [1.2, -0.2, 0.0, 0.0, 0.0]).unwrap()),
            Box::new(Linear),
            Box::new(StallBased::new(LATENCY).unwrap()),
            Box::new(MissBased::new(LATENCY).unwrap()),
        ];
        models.iter().all(|model| {
            let now = cycles / HIGH;
            let slower = model.time_at(&counts, HIGH, LOW);
            let linear = Linear.time_at(&counts, HIGH, LOW);
            let tolerance = Seconds(1e-9 * linear.0);
            model.cycles_at(&counts, HIGH, HIGH) == cycles
                && slower + tolerance >= now
                && slower <= linear + tolerance
                && model.cycles_at(&counts, HIGH, LOW) <= cycles + Cycles(1e-9 * cycles.0)
        })
    }
}

/// A core on which memory's cycles are truly 0.6 of the execution and 0.4 of the resource stalls.
fn mixed(execution: f64, resource: f64) -> (Counts, Cycles) {
    let cycles = Cycles(1e6);
    let counts = Counts::new(1e6, cycles, Cycles(execution), 1e6).unwrap();
    let memory = Cycles(0.6 * execution + 0.4 * resource);
    let slow = cycles - memory + memory * (LOW / HIGH);
    (counts.with_resource_stalls(Cycles(resource)).unwrap(), slow)
}

#[test]
fn calibration_finds_the_shares_that_made_the_runs() {
    let made =
        [(1e5, 2e5), (5e5, 1e4), (3e5, 6e5), (0.0, 0.0), (7e5, 1e5), (1e5, 8e5), (4e5, 3e5), (6e5, 7e5)];
    let runs = made.map(|(execution, resource)| mixed(execution, resource));
    let model = QuadraticStalls::fit(LATENCY, HIGH, LOW, runs).unwrap();
    // One that it has not seen, to what the penalty on weights leaves, and the way back to where nothing is due to
    // memory for want of misses.
    let (counts, slow) = mixed(4e5, 5e5);
    assert!((model.cycles_at(&counts, HIGH, LOW) / slow - 1.0).abs() < 5e-3);
    let exact = QuadraticStalls::new(LATENCY, [0.6, 0.4, 0.0, 0.0, 0.0]).unwrap();
    assert!((exact.cycles_at(&counts, HIGH, LOW) / slow - 1.0).abs() < 1e-9);
    let hits = Counts::new(1e6, Cycles(1e6), Cycles(4e5), 0.0).unwrap();
    let hits = hits.with_resource_stalls(Cycles(5e5)).unwrap();
    assert_eq!(model.cycles_at(&hits, HIGH, LOW), Cycles(1e6));
    assert_eq!(model.missing(&hits), None);
}

#[test]
fn each_useless_calibration_is_refused() {
    let (counts, slow) = mixed(1e5, 2e5);
    let fit = |latency, to, run| QuadraticStalls::fit(latency, HIGH, to, [run]).unwrap_err();
    assert!(matches!(fit(LATENCY, HIGH, (counts, slow)), Error::Duplicate { .. }));
    assert!(matches!(fit(Seconds(0.0), LOW, (counts, slow)), Error::OutOfRange { .. }));
    let without = Counts::new(1.0, Cycles(1.0), Cycles(0.5), 1.0).unwrap();
    assert!(matches!(fit(LATENCY, LOW, (without, Cycles(1.0))), Error::NotCounted { .. }));
    assert!(matches!(fit(LATENCY, LOW, (counts, Cycles(0.0))), Error::OutOfRange { .. }));
    assert!(matches!(fit(LATENCY, LOW, (counts, slow)), Error::TooFewObservations { .. }));
    let model = QuadraticStalls::new(LATENCY, [0.5, 0.5, 0.0, 0.0, 0.0]).unwrap();
    assert_eq!(model.missing(&without), Some("resource stalls"));
    assert!(matches!(QuadraticStalls::new(LATENCY, [f64::NAN; 5]), Err(Error::OutOfRange { .. })));
}

#[test]
fn each_bad_count_is_refused() {
    let refused = |instructions, cycles, stalls, misses| {
        Counts::new(instructions, Cycles(cycles), Cycles(stalls), misses).unwrap_err()
    };
    for error in [
        refused(0.0, 1.0, 0.0, 0.0),
        refused(1.0, 0.0, 0.0, 0.0),
        refused(1.0, f64::INFINITY, 0.0, 0.0),
        refused(1.0, 1.0, -1.0, 0.0),
        refused(1.0, 1.0, 0.0, f64::NAN),
    ] {
        assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    }
    assert!(matches!(refused(1.0, 1.0, 2.0, 0.0), Error::StallsExceedCycles { .. }));
    assert!(Counts::new(1.0, Cycles(1.0), Cycles(0.0), 0.0).unwrap().with_leading_misses(-1.0).is_err());
    for latency in [0.0, -1.0, f64::NAN] {
        assert!(StallBased::new(Seconds(latency)).is_err() && MissBased::new(Seconds(latency)).is_err());
    }
}

#[test]
fn errors_of_slowdowns_are_those_of_programs_left_out() {
    // Group 0 is made with a weight of 0.2, group 1 with 0.6: each is predicted with the other's.
    let (latency, from, to) = (Seconds::from_ns(100.0), Hertz::from_ghz(3.0), Hertz::from_ghz(1.5));
    let made = [(0.2, 300.0, 500.0), (0.2, 100.0, 400.0), (0.6, 300.0, 500.0), (0.6, 100.0, 400.0)];
    let runs = made.map(|(weight, execution, resource)| {
        let memory = weight * execution + (1.0 - weight) * resource;
        let counts = Counts::new(900.0, Cycles(1000.0), Cycles(execution), 100.0).unwrap();
        let counts = counts.with_resource_stalls(Cycles(resource)).unwrap();
        let other = QuadraticStalls::new(latency, [0.8 - weight, 0.2 + weight, 0.0, 0.0, 0.0]).unwrap();
        // Half the clock: memory takes half the cycles.
        let cycles = [counts.cycles(), Cycles(1000.0 - memory / 2.0), other.cycles_at(&counts, from, to)];
        (cycles, 1.0)
    });
    let errors = SlowdownErrors::of(from, to, runs).unwrap();
    // Group 0 by 0.6: memory taken for 0.4 * (resource - execution) / 1000 less than it is, so that less scales than
    // predicted; group 1 the other way round.
    for (coverage, expected) in [(0.25, 0.0), (0.5, 0.0), (0.75, 0.08), (1.0, 0.12)] {
        let margin = errors.margin(coverage).unwrap();
        assert!((margin - expected).abs() < 1e-9, "{coverage}: {margin}");
    }
    assert!(matches!(SlowdownErrors::of(from, to, []), Err(Error::Empty { .. })));
    assert!(errors.margin(0.0).is_err());
}

/// A stretch of which memory truly has the share that the formula with these weights finds, and its cycles at `LOW`.
fn overlapping(model: &OverlappingStalls, [execution, resource, misses]: [f64; 3]) -> (Counts, Cycles) {
    let cycles = Cycles(1e6);
    let counts = Counts::new(1e6, cycles, Cycles(execution * 1e6), misses).unwrap();
    let counts = counts.with_resource_stalls(Cycles(resource * 1e6)).unwrap();
    let slow = model.cycles_at(&counts, HIGH, LOW);
    (counts, slow)
}

#[test]
fn overlapping_stalls_find_what_made_the_runs() {
    // A list that is followed: 2 x 160 cycles of memory in a thousand, each with 40 more on the chip.
    let alone = 0.8;
    let waits = 0.8 * 1e6 / (LATENCY * HIGH).0;
    let weights = [0.05, -0.2, 0.15, 0.3, 0.45, -0.25];
    let truth = OverlappingStalls::new(LATENCY, alone, 1e9, weights).unwrap();
    let mut runs: Vec<(Counts, Cycles)> = (0..40)
        .map(|i| {
            let next = |step: i32| f64::from(i * step % 41) / 41.0;
            overlapping(&truth, [0.1 + 0.6 * next(7), 0.6 * next(11), 500.0 + 4e4 * next(17)])
        })
        .collect();
    let list = Counts::new(1e6, Cycles(1e6), Cycles(0.99e6), waits).unwrap();
    let list = list.with_resource_stalls(Cycles(1e6)).unwrap();
    runs.push((list, Cycles(1e6 * (1.0 - 0.8 * (1.0 - LOW / HIGH)))));
    // What keeps the channel busy is the largest rate that was seen.
    let rate =
        runs.iter().map(|(counts, _)| counts.llc_misses() / (Cycles(1e6) / HIGH).0).fold(0.0, f64::max);
    let truth = OverlappingStalls::new(LATENCY, alone, rate, weights).unwrap();
    for (counts, slow) in runs.iter_mut().take(40) {
        *slow = truth.cycles_at(counts, HIGH, LOW);
    }
    let model = OverlappingStalls::fit(LATENCY, HIGH, LOW, runs.iter().copied()).unwrap();
    let error = |model: &OverlappingStalls| {
        let off = runs.iter().map(|(counts, slow)| (model.cycles_at(counts, HIGH, LOW) / *slow - 1.0).abs());
        off.sum::<f64>() / runs.len() as f64
    };
    // The penalty on the weights leaves some.
    assert!(error(&model) < 0.01, "{}", error(&model));
    // However much stalls, a miss alone has no more of memory than the list's, and without misses nothing is memory's.
    let (counts, _) = overlapping(&truth, [1.0, 1.0, 2.0 * waits]);
    let channel = counts.llc_misses() / (Cycles(1e6) / HIGH).0 / rate;
    assert!(model.memory_cycles(&counts, HIGH).0 <= 1e6 * (0.8 + 0.2 * channel) + 1e-6);
    let (hits, slow) = overlapping(&truth, [0.4, 0.5, 0.0]);
    assert_eq!((model.memory_cycles(&hits, HIGH), slow), (Cycles(0.0), Cycles(1e6)));
    // Two kinds of stall that disagree are doubted.
    let doubt = |execution, resource| model.doubt(&overlapping(&truth, [execution, resource, 1e4]).0, HIGH);
    assert!(doubt(0.6, 0.1) > doubt(0.6, 0.6) && (doubt(0.6, 0.6) - 0.05).abs() < 1e-12);
}

#[test]
fn each_useless_run_of_overlapping_stalls_is_refused() {
    let new = |alone, rate, weight| OverlappingStalls::new(LATENCY, alone, rate, [weight; 6]);
    for refused in [new(1.1, 1.0, 0.0), new(f64::NAN, 1.0, 0.0), new(0.5, 0.0, 0.0), new(0.5, 1.0, f64::NAN)]
    {
        assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{refused:?}");
    }
    let model = new(0.8, 1e8, 0.1).unwrap();
    let without = Counts::new(1.0, Cycles(1.0), Cycles(0.5), 1.0).unwrap();
    assert_eq!(model.missing(&without), Some("resource stalls"));
    let fit = |to, counts: Counts, cycles: f64, number: usize| {
        OverlappingStalls::fit(LATENCY, HIGH, to, vec![(counts, Cycles(cycles)); number])
    };
    let (counts, _) = mixed(1e5, 2e5);
    assert!(matches!(fit(LOW, without, 1.0, 9), Err(Error::NotCounted { .. })));
    assert!(matches!(fit(HIGH, counts, 1.0, 9), Err(Error::Duplicate { .. })));
    assert!(matches!(fit(LOW, counts, 0.0, 9), Err(Error::OutOfRange { .. })));
    assert!(matches!(fit(LOW, counts, 9e5, 6), Err(Error::TooFewObservations { .. })));
}

#[test]
fn errors_of_any_model_are_in_units_of_its_doubt() {
    // At half the clock of 1000 cycles: memory of 400 was predicted as 600, and of 500 as 450.
    let run = |measured: f64, predicted: f64, doubt| {
        ([Cycles(1000.0), Cycles(1000.0 - measured / 2.0), Cycles(1000.0 - predicted / 2.0)], doubt)
    };
    let (from, to) = (Hertz::from_ghz(3.0), Hertz::from_ghz(1.5));
    let errors = SlowdownErrors::of(from, to, [run(400.0, 600.0, 0.5), run(500.0, 450.0, 0.5)]).unwrap();
    assert!((errors.margin(1.0).unwrap() - 0.4).abs() < 1e-12);
    assert_eq!(errors.margin(0.5).unwrap(), 0.0);
    assert!(matches!(SlowdownErrors::of(from, to, []), Err(Error::Empty { .. })));
    assert!(matches!(SlowdownErrors::of(from, to, [run(0.0, 0.0, 0.0)]), Err(Error::OutOfRange { .. })));
    assert!(matches!(SlowdownErrors::of(from, from, [run(0.0, 0.0, 1.0)]), Err(Error::Duplicate { .. })));
}
