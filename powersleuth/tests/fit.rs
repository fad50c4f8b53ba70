//! The least-squares fit against certified values, closed forms and noise of known size.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use powersleuth::performance::Event;
use powersleuth::power::{OperatingPoint, TrainingSet};
use powersleuth::{Cycles, Error, Hertz, Volts, Watts};

/// A point at which power *is* effective capacitance.
const UNIT: OperatingPoint =
    OperatingPoint { frequency: Hertz(1.0), voltage: Volts(1.0), static_power: Watts(0.0) };

fn set(events: usize, rows: &[(Vec<f64>, f64)]) -> TrainingSet {
    let mut set = TrainingSet::new((0..events).map(|i| Event::fixed(format!("event {i}")))).unwrap();
    for (rates, capacitance) in rows {
        set.push(rates, Cycles(1.0), &UNIT, Watts(*capacitance)).unwrap();
    }
    set
}

/// Longley's data (JASA 1967), famous for its collinearity: employment, then price deflator, national product,
/// unemployed, armed forces, population, year.
const LONGLEY: [[f64; 7]; 16] = [
    [60323.0, 83.0, 234_289.0, 2356.0, 1590.0, 107_608.0, 1947.0],
    [61122.0, 88.5, 259_426.0, 2325.0, 1456.0, 108_632.0, 1948.0],
    [60171.0, 88.2, 258_054.0, 3682.0, 1616.0, 109_773.0, 1949.0],
    [61187.0, 89.5, 284_599.0, 3351.0, 1650.0, 110_929.0, 1950.0],
    [63221.0, 96.2, 328_975.0, 2099.0, 3099.0, 112_075.0, 1951.0],
    [63639.0, 98.1, 346_999.0, 1932.0, 3594.0, 113_270.0, 1952.0],
    [64989.0, 99.0, 365_385.0, 1870.0, 3547.0, 115_094.0, 1953.0],
    [63761.0, 100.0, 363_112.0, 3578.0, 3350.0, 116_219.0, 1954.0],
    [66019.0, 101.2, 397_469.0, 2904.0, 3048.0, 117_388.0, 1955.0],
    [67857.0, 104.6, 419_180.0, 2822.0, 2857.0, 118_734.0, 1956.0],
    [68169.0, 108.4, 442_769.0, 2936.0, 2798.0, 120_445.0, 1957.0],
    [66513.0, 110.8, 444_546.0, 4681.0, 2637.0, 121_950.0, 1958.0],
    [68655.0, 112.6, 482_704.0, 3813.0, 2552.0, 123_366.0, 1959.0],
    [69564.0, 114.2, 502_601.0, 3931.0, 2514.0, 125_368.0, 1960.0],
    [69331.0, 115.7, 518_173.0, 4806.0, 2572.0, 127_852.0, 1961.0],
    [70551.0, 116.9, 554_894.0, 4007.0, 2827.0, 130_081.0, 1962.0],
];

/// Certified by NIST (Statistical Reference Datasets, Longley): weight and its standard error.
const CERTIFIED: [(f64, f64); 6] = [
    (15.061_872_271_373_3, 84.914_925_774_766_9),
    (-0.035_819_179_292_591_0, 0.033_491_007_772_243_2),
    (-2.020_229_803_816_83, 0.488_399_681_651_699),
    (-1.033_226_867_173_59, 0.214_274_163_161_675),
    (-0.051_104_105_653_580_7, 0.226_073_200_069_370),
    (1_829.151_464_613_55, 455.478_499_142_212),
];

fn longley() -> TrainingSet {
    set(6, &LONGLEY.map(|row| (row[1..].to_vec(), row[0])))
}

fn close(got: f64, expected: f64, relative: f64) -> bool {
    (got - expected).abs() <= relative * expected.abs()
}

#[test]
fn longley_agrees_with_the_certified_values() {
    let fit = longley().fit().unwrap();
    // The data cost a double-precision solver about five of its sixteen digits.
    let tolerance = 1e-9;
    for (event, (weight, error)) in CERTIFIED.into_iter().enumerate() {
        assert!(close(fit.capacitance().weights()[event].0, weight, tolerance), "weight {event}");
        assert!(close(fit.standard_errors()[event].0, error, tolerance), "error {event}");
    }
    assert!(close(fit.capacitance().constant().0, -3_482_258.634_595_82, tolerance));
    assert!(close(fit.constant_error().0, 890_420.383_607_373, tolerance));
    assert!(close(fit.residual_deviation().0, 304.854_073_561_965, tolerance));
    assert!(close(fit.r_squared(), 0.995_479_004_577_296, tolerance));
}

#[test]
fn longley_is_collinear_as_published() {
    // Variance inflation factors as textbooks print them (Chatterjee and Hadi, Regression Analysis by Example),
    // and the eigenvalues of the correlation matrix, 4.60338 and 0.000377: to the digits printed.
    let fit = longley().fit().unwrap();
    let published = [135.53, 1788.51, 33.62, 3.59, 399.15, 758.98];
    for (got, expected) in fit.collinearity().inflation.iter().zip(published) {
        assert!((got - expected).abs() < 0.01, "{got} {expected}");
    }
    assert!(close(fit.collinearity().condition_number, (4.603_38_f64 / 0.000_377).sqrt(), 2e-3));
    assert_eq!(fit.collinearity().suspects().collect::<Vec<_>>(), [0, 1, 2, 4, 5]);
    let warning = fit.warning().unwrap();
    assert!(warning.contains("event 1 (variance inflated 1789-fold)"), "{warning}");
    assert!(!warning.contains("event 3 "), "{warning}");
}

/// A small design with two uncorrelated events.
fn orthogonal(noise: impl Fn(usize) -> f64) -> Vec<(Vec<f64>, f64)> {
    (0..40)
        .map(|i| {
            let (x, y) = ((i % 8) as f64 / 8.0, (i / 8) as f64 / 5.0);
            (vec![x, y], 2.0 + 0.5 * x + 3.0 * y + noise(i))
        })
        .collect()
}

#[test]
fn without_noise_the_weights_come_back_and_nothing_is_suspected() {
    let fit = set(2, &orthogonal(|_| 0.0)).fit().unwrap();
    assert!(close(fit.capacitance().constant().0, 2.0, 1e-12));
    assert!(close(fit.capacitance().weights()[0].0, 0.5, 1e-12));
    assert!(close(fit.capacitance().weights()[1].0, 3.0, 1e-12));
    assert!(close(fit.collinearity().condition_number, 1.0, 1e-12));
    assert!(fit.warning().is_none() && fit.residual_deviation().0 < 1e-12);
}

/// Draws from (0, 1), the same on every run.
fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

#[test]
fn standard_errors_are_the_scatter_of_repeated_fits() {
    let mut draw = uniform(7);
    let mut weights = Vec::new();
    let mut claimed = 0.0;
    let repetitions = 2000;
    for _ in 0..repetitions {
        // Sum of twelve uniform numbers: normal enough, deviation 0.1.
        let noise: Vec<f64> = (0..40).map(|_| 0.1 * ((0..12).map(|_| draw()).sum::<f64>() - 6.0)).collect();
        let fit = set(2, &orthogonal(|i| noise[i])).fit().unwrap();
        weights.push(fit.capacitance().weights()[1].0);
        claimed += fit.standard_errors()[1].0.powi(2) / f64::from(repetitions);
    }
    let mean: f64 = weights.iter().sum::<f64>() / f64::from(repetitions);
    let variance = weights.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / f64::from(repetitions - 1);
    // A variance from 2000 draws has a relative deviation of sqrt(2 / 2000) = 3 %; three of them.
    assert!(close(variance, claimed, 0.1), "{variance} {claimed}");
    assert!((mean - 3.0).abs() < 4.0 * (claimed / f64::from(repetitions)).sqrt(), "{mean}");
}

#[test]
fn leaving_one_out_agrees_with_the_closed_form() {
    // For one event, the error without observation i is e_i / (1 - h_i), h_i = 1/n + (x_i - mean)^2 / Sxx.
    let x = [0.1, 0.4, 0.5, 0.9, 1.3, 1.4, 2.2];
    let y = [1.0, 1.6, 1.4, 2.5, 2.9, 3.4, 4.1];
    let n = x.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let sxx: f64 = x.iter().map(|x| (x - mx).powi(2)).sum();
    let slope = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum::<f64>() / sxx;
    let rows: Vec<_> = x.iter().zip(y).map(|(&x, y)| (vec![x], y)).collect();
    let validation = set(1, &rows).cross_validate(x.len(), 3).unwrap();
    for ((x, y), got) in x.iter().zip(y).zip(validation.errors()) {
        let expected = (my + slope * (x - mx) - y) / (1.0 - 1.0 / n - (x - mx).powi(2) / sxx);
        assert!((got.0 - expected).abs() < 1e-12, "{got} {expected}");
    }
    let groups = set(1, &rows).cross_validate_groups(&[9, 3, 5, 1, 4, 2, 8]).unwrap();
    assert_eq!(groups, validation);
}

#[test]
fn folds_change_with_the_seed_and_sum_up_by_their_definition() {
    let mut draw = uniform(3);
    let noise: Vec<f64> = (0..40).map(|_| draw()).collect();
    let set = set(2, &orthogonal(|i| noise[i]));
    let first = set.cross_validate(5, 1).unwrap();
    assert_ne!(first, set.cross_validate(5, 2).unwrap());
    assert_eq!(first, set.cross_validate(5, 1).unwrap());
    let square: f64 = first.errors().iter().map(|e| e.0 * e.0).sum();
    assert!(close(first.root_mean_square().0, (square / 40.0).sqrt(), 1e-12));
    assert!(first.mean_relative() < first.worst_relative());
    // What was fitted with the observation present must fit it better.
    assert!(first.root_mean_square() > set.fit().unwrap().residual_deviation() * (37.0_f64 / 40.0).sqrt());
}

#[test]
fn each_unusable_set_is_refused_with_the_name_of_what_is_wrong() {
    let rows = orthogonal(|_| 0.0);
    assert!(matches!(
        set(2, &rows[..3]).fit(),
        Err(Error::TooFewObservations { observations: 3, parameters: 3 })
    ));
    let twice: Vec<_> = rows.iter().map(|(x, y)| (vec![x[0], x[1], x[0] * 2.0 + x[1]], *y)).collect();
    let error = set(3, &twice).fit().unwrap_err();
    assert!(error.to_string().contains("event 2"), "{error}");
    let constant: Vec<_> = rows.iter().map(|(x, y)| (vec![0.1, x[1]], *y)).collect();
    let error = set(2, &constant).fit().unwrap_err();
    assert!(error.to_string().contains("event 0"), "{error}");
    assert!(matches!(set(2, &rows).cross_validate(1, 0), Err(Error::OutOfRange { .. })));
    assert!(matches!(set(2, &rows).cross_validate(41, 0), Err(Error::OutOfRange { .. })));
    assert!(matches!(set(2, &rows).cross_validate_groups(&[0, 1]), Err(Error::Length { .. })));

    let mut set = set(2, &[]);
    assert!(set.is_empty());
    assert!(matches!(set.push(&[1.0], Cycles(1.0), &UNIT, Watts(1.0)), Err(Error::Length { .. })));
    for (counts, cycles, power) in [
        ([1.0, -1.0], 1.0, 1.0),
        ([1.0, f64::NAN], 1.0, 1.0),
        ([1.0, 1.0], 0.0, 1.0),
        ([1.0, 1.0], 1.0, -1.0),
    ] {
        let refused = set.push(&counts, Cycles(cycles), &UNIT, Watts(power));
        assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{counts:?} {cycles} {power}");
    }
    assert!(matches!(TrainingSet::new([Event::fixed("a"), Event::fixed("a")]), Err(Error::Duplicate { .. })));
}
