//! Saving and loading power models.
#![cfg(feature = "serde")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use powersleuth::power::{OperatingPoint, OperatingPoints, PowerModel, nehalem};
use powersleuth::{Cycles, Error, Hertz, Volts, Watts};

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
        // serde_json reads a number back to within its last digit.
        assert!((got.unwrap() / expected.unwrap() - 1.0).abs() < 1e-13);
    }
    assert!(loaded.check_machine("Intel Core i7 920").is_ok());
    let error = loaded.check_machine("Intel Core i9").unwrap_err();
    assert!(matches!(&error, Error::OtherMachine { .. }) && error.to_string().contains("i9"), "{error}");
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
