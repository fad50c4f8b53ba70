//! Models, analyses and schedules come back as they were saved, and what contradicts itself is refused.
#![cfg(feature = "serde")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::analysis;
use powersleuth::analysis::{Analysis, Goal, Objective, Outcome, ParetoPoint, Plan, Profile, Schedule};
use powersleuth::performance::{Counts, Event, MissBased, OverlappingStalls, SlowdownErrors, StallBased};
use powersleuth::power::{
    CrossValidation, EffectiveCapacitance, Fit, OperatingPoint, OperatingPoints, PowerModel, TrainingSet,
    nehalem,
};
use powersleuth::{Cycles, Error, Hertz, Seconds, Volts, Watts};
use quickcheck::quickcheck;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn again<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

fn model() -> PowerModel {
    let points = nehalem::BUS_MULTIPLIERS.map(|multiplier| OperatingPoint {
        frequency: Hertz(f64::from(multiplier) * 400e6 / 3.0),
        voltage: Volts(0.9 + 0.03 * f64::from(multiplier - 12)),
        static_power: Watts(10.0),
    });
    let points = OperatingPoints::new(points).unwrap();
    PowerModel::new("Intel Core i7 920", points, nehalem::effective_capacitance().unwrap())
}

#[test]
fn what_is_loaded_is_what_was_saved() {
    let saved = serde_json::to_string_pretty(&model()).unwrap();
    let loaded: PowerModel = serde_json::from_str(&saved).unwrap();
    assert_eq!(loaded.capacitance().events(), model().capacitance().events());
    assert_eq!(loaded.points().as_slice().len(), 9);
    let (counts, cycles) = ([1.2e6, 1e4, 2e4, 3e5, 5e5, 1e3], Cycles(1e6));
    for at in loaded.points().frequencies() {
        let (got, expected) = (loaded.power(at, &counts, cycles), model().power(at, &counts, cycles));
        assert_eq!(got.unwrap(), expected.unwrap());
    }
    assert!(loaded.check_machine("Intel Core i7 920").is_ok());
    let error = loaded.check_machine("Intel Core i9").unwrap_err();
    assert!(matches!(&error, Error::OtherMachine { .. }) && error.to_string().contains("i9"), "{error}");
}

#[test]
fn counts_of_a_run_are_read_back_and_checked() {
    let mut profile =
        Profile::new(Hertz::from_ghz(2.0), [Event::fixed("uops"), Event::fixed("misses")]).unwrap();
    for (phase, misses) in [("A", 5.0), ("B", 7.5)] {
        let counts = Counts::new(900.0, Cycles(1000.0), Cycles(400.0), misses).unwrap();
        profile.push(phase.to_owned(), counts, &[1200.0, misses]).unwrap();
    }
    assert_eq!(again(&profile), profile);
    let text = serde_json::to_string(&profile).unwrap();
    for (from, to, problem) in [
        ("[1200.0,5.0,", "[5.0,", "3 event counts were given where 4 are expected"),
        ("[1200.0,5.0,", "[-1200.0,5.0,", "an event count is -1200"),
        ("[\"A\",", "[", "2 counts of intervals were given where 1 are expected"),
        ("\"frequency\":2000000000.0", "\"frequency\":0.0", "the frequency in hertz is 0"),
    ] {
        assert!(text.contains(from), "{text}");
        let error = serde_json::from_str::<Profile<String>>(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[test]
fn errors_of_slowdowns_are_read_back_and_checked() {
    let runs = [0.9, 1.0, 1.2].map(|off| ([Cycles(1e9), Cycles(8e8), Cycles(8e8 * off)], 1.0));
    let errors = SlowdownErrors::of(Hertz::from_ghz(2.0), Hertz::from_ghz(1.0), runs).unwrap();
    assert_eq!(again(&errors), errors);
    assert!(serde_json::from_str::<SlowdownErrors>("{\"errors\":[]}").is_err());
}

#[test]
fn the_published_model_is_the_papers_sum() {
    // Table V.1 with one of each event in four cycles: (0.75 - 4.51 + 3.08 - 1.38 + 0.94 + 0.35) / 4 + 2.11.
    let got = nehalem::effective_capacitance().unwrap().predict(&[1.0; 6], Cycles(4.0)).nf();
    assert!((got - (2.11 - 0.77 / 4.0)).abs() < 1e-12, "{got}");
    // Many misses without anything else would take it below zero, which no capacitance is.
    let none = nehalem::effective_capacitance().unwrap().predict(&[0.0, 9.0], Cycles(4.0));
    assert_eq!(none.nf(), 0.0);
}

#[test]
fn damaged_and_newer_files_are_refused() {
    let mut saved = serde_json::to_value(model()).unwrap();
    saved["version"] = 2.into();
    let error = serde_json::from_value::<PowerModel>(saved.clone()).unwrap_err();
    assert!(error.to_string().contains("has format 2, this crate reads 1"), "{error}");
    saved["version"] = 1.into();
    saved["points"][0]["voltage"] = (-1.0).into();
    let error = serde_json::from_value::<PowerModel>(saved.clone()).unwrap_err();
    assert!(error.to_string().contains("the voltage is -1"), "{error}");
    saved["points"] = serde_json::json!([]);
    assert!(serde_json::from_value::<PowerModel>(saved).is_err());
}

quickcheck! {
    fn analyses_and_what_follows_from_them_come_back(phases: Vec<u8>, seed: u64) -> bool {
        let phases: Vec<u8> = std::iter::once(0).chain(phases.into_iter().map(|p| p % 5)).collect();
        let original = analysis(&phases, 4, seed);
        let read: Analysis<u8> = again(&original);
        let goal = Goal::least(Objective::Edp).within(0.2).unwrap();
        let (schedule, plan) = (original.schedule(&goal), original.best_plan(&goal));
        let front = original.pareto_front(0.01).unwrap();
        let outcome = original.outcome(&plan, goal.transition()).unwrap();
        read.program_costs() == original.program_costs()
            && read.phases() == original.phases()
            && read.instances() == original.instances()
            && read.doubt() == original.doubt()
            && (0..original.instances().len()).all(|i| read.instance_costs(i) == original.instance_costs(i))
            && read.schedule(&goal) == schedule
            && again::<Schedule<u8>>(&schedule) == schedule
            && again::<Plan>(&plan) == plan
            && again::<Outcome<u8>>(&outcome) == outcome
            && again::<Vec<ParetoPoint<u8>>>(&front) == front
    }
}

#[test]
fn fits_and_models_of_time_come_back() {
    let mut set = TrainingSet::new([Event::fixed("uops")]).unwrap();
    let point = OperatingPoint { frequency: Hertz(2e9), voltage: Volts(1.0), static_power: Watts(1.0) };
    for i in 0..20_u32 {
        let uops = f64::from(i * i % 7) / 7.0;
        set.push(&[uops * 1e6], Cycles(1e6), &point, Watts(5.0 + 3.0 * uops + f64::from(i % 3) / 10.0))
            .unwrap();
    }
    let fit = set.fit().unwrap();
    assert_eq!(again::<Fit>(&fit), fit);
    let validation = set.cross_validate(5, 1).unwrap();
    assert_eq!(again::<CrossValidation>(&validation), validation);
    assert_eq!(again::<EffectiveCapacitance>(fit.capacitance()), *fit.capacitance());
    let latency = Seconds::from_ns(70.0 / 3.0);
    for model in [StallBased::new(latency).unwrap(), StallBased::exact_stalls()] {
        assert_eq!(again::<StallBased>(&model), model);
    }
    let model = OverlappingStalls::new(latency, 0.78, 1e8 / 3.0, [0.1 / 3.0; 6]).unwrap();
    assert_eq!(again::<OverlappingStalls>(&model), model);
    assert!(refused(&model, "0.78", "1.78").contains("memory's share of a miss is 1.78"));
    let model = MissBased::new(latency).unwrap();
    assert_eq!(again::<MissBased>(&model), model);
    let counts =
        Counts::new(1e6 / 3.0, Cycles(1e6), Cycles(1e5), 10.0).unwrap().with_leading_misses(3.5).unwrap();
    assert_eq!(again::<Counts>(&counts), counts);
}

fn refused<T: Serialize + DeserializeOwned>(value: &T, from: &str, to: &str) -> String {
    let good = serde_json::to_string(value).unwrap();
    assert!(good.contains(from), "{from} is not in {good}");
    match serde_json::from_str::<T>(&good.replacen(from, to, 1)) {
        Ok(_) => panic!("{from} -> {to} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_contradicts_itself_is_refused_by_name() {
    let original = analysis(&[0, 0, 1, 0], 2, 1);
    for (from, to, problem) in [
        ("\"version\":1", "\"version\":2", "format 2"),
        ("\"frequencies\":[1000000000.0,", "\"frequencies\":[3e9,", "above the one listed before it"),
        ("\"frequencies\":[1000000000.0,", "\"frequencies\":[", "costs of intervals"),
        ("\"instances\":[[0,2]", "\"instances\":[[0,18446744073709551615]", "costs of intervals"),
        ("\"instances\":[[0,2]", "\"instances\":[[2,2]", "instructions of phases"),
        ("{\"time\":", "{\"time\":-", "the time of an interval in seconds is -"),
        ("\"instructions\":[3000000.0", "\"instructions\":[0.0", "the number of instructions is 0"),
        ("\"doubts\":[1.0,", "\"doubts\":[-1.0,", "the doubt of an interval is -1"),
        ("\"doubts\":[1.0,", "\"doubts\":[", "doubts of intervals"),
    ] {
        let error = refused(&original, from, to);
        assert!(error.contains(problem), "{error}");
    }
    let schedule = original.schedule(&Goal::least(Objective::Energy));
    for (from, to, problem) in
        [("[1,", "[0,", "listed twice"), ("[[0,", "[[0,7],[9,", "level 7 does not exist")]
    {
        let error = refused(&schedule, from, to);
        assert!(error.contains(problem), "{error}");
    }
    let stalls = StallBased::new(Seconds::from_ns(60.0)).unwrap();
    assert!(refused(&stalls, ":6", ":-6").contains("the memory latency in seconds"));
    let capacitance = nehalem::effective_capacitance().unwrap();
    assert!(refused(&capacitance, "\"weights\":[", "\"weights\":[1.0,").contains("7 weights of events"));
    let counts = Counts::new(1.0, Cycles(2.0), Cycles(1.0), 0.0).unwrap();
    assert!(refused(&counts, "\"stall_cycles\":1.0", "\"stall_cycles\":3.0").contains("3 stall cycles"));
}
