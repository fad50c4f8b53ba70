use quickcheck::{TestResult, quickcheck};

use super::*;

fn distribution(values: &[f64]) -> SlowdownDistribution {
    SlowdownDistribution::new(values.to_vec()).unwrap()
}

fn drawn(values: &[u8]) -> Option<SlowdownDistribution> {
    SlowdownDistribution::new(values.iter().map(|&v| 1.0 + f64::from(v) / 64.0).collect()).ok()
}

#[test]
fn known_answers() {
    let d = distribution(&[1.2, 1.0, 1.4, 1.1]);
    assert!((d.mean() - 1.175).abs() < 1e-12);
    assert!(
        (d.standard_deviation().powi(2)
            - (0.175_f64.powi(2) + 0.075_f64.powi(2) + 0.025_f64.powi(2) + 0.225_f64.powi(2)) / 3.0)
            .abs()
            < 1e-12
    );
    assert_eq!((d.least(), d.most(), d.quantile(0.0), d.quantile(1.0)), (1.0, 1.4, 1.0, 1.4));
    assert!((d.quantile(0.5) - 1.15).abs() < 1e-12);
    assert_eq!((d.at_most(1.1), d.exceeding(1.1), d.at_most(0.9), d.exceeding(2.0)), (0.5, 0.5, 0.0, 0.0));
}

#[test]
fn distances_of_shifted_distributions() {
    let a = distribution(&(0..100).map(|i| 1.0 + f64::from(i) / 1000.0).collect::<Vec<_>>());
    let b = distribution(&(0..100).map(|i| 1.01 + f64::from(i) / 1000.0).collect::<Vec<_>>());
    // A shift of ten of a hundred steps.
    assert!((a.kolmogorov_smirnov(&b) - 0.1).abs() < 1e-12);
    assert!((a.mean_difference(&b) - 0.01).abs() < 1e-9);
    // Allowing a shift of e * 1 for e: either way e = 0.01 / (1 + ...): F(x) <= G(x + e) + e with density 10 per
    // unit: 10 (0.01 - e) <= e.
    assert!((a.levy(&b, 1.0).unwrap() - 0.1 / 11.0).abs() < 2e-3);
    // Two distributions without spread: as far as can be, and by the resolution not far at all.
    let (c, d) = (distribution(&[1.05; 10]), distribution(&[1.0501; 10]));
    assert_eq!(c.kolmogorov_smirnov(&d), 1.0);
    assert!(c.levy(&d, 0.01).unwrap() < 0.0101);
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    // Means and medians of 60 uniform draws, 2000 times. Binomial: 95 % of 2000 is 1900 with a deviation of 9.7;
    // five deviations either way. The median's interval is conservative by the order statistics' steps.
    let mut state = 12345_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let (mut means, mut medians) = (0, 0);
    for _ in 0..2000 {
        let d = SlowdownDistribution::new((0..60).map(|_| 1.0 + uniform()).collect()).unwrap();
        let (low, high) = d.mean_interval(0.95).unwrap();
        means += u32::from((low..=high).contains(&1.5));
        let (low, high) = d.quantile_interval(0.5, 0.95).unwrap();
        medians += u32::from((low.unwrap()..=high.unwrap()).contains(&1.5));
    }
    assert!((1840..=1950).contains(&means), "{means}");
    assert!((1850..=1960).contains(&medians), "{medians}");
}

#[test]
fn offsets_needed_by_the_formulas() {
    let d = distribution(&[1.0, 1.2]);
    // s = 0.1414, mean 1.1: (1.96 * 0.1414 / 0.011)^2 = 634.9.
    assert_eq!(d.offsets_for_mean(0.01, 0.95).unwrap(), 635);
    assert_eq!(distribution(&[1.3]).offsets_for_mean(0.01, 0.95).unwrap(), 1);
    // ln 40 / 0.02 = 184.4 (Massart).
    assert_eq!(SlowdownDistribution::offsets_for_distribution(0.1, 0.95).unwrap(), 185);
}

#[test]
fn nonsense_is_refused() {
    assert!(matches!(SlowdownDistribution::new(vec![]), Err(Error::Count { .. })));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(SlowdownDistribution::new(vec![1.0, bad]), Err(Error::Value { .. })));
    }
    let d = distribution(&[1.0, 2.0]);
    for bad in [0.0, 1.0, -0.5, f64::NAN] {
        assert!(d.mean_interval(bad).is_err() && d.quantile_interval(bad, 0.9).is_err());
        assert!(d.quantile_interval(0.5, bad).is_err() && d.offsets_for_mean(0.1, bad).is_err());
        assert!(SlowdownDistribution::offsets_for_distribution(bad, 0.9).is_err());
    }
    assert!(d.levy(&d, 0.0).is_err() && d.offsets_for_mean(f64::NAN, 0.9).is_err());
}

quickcheck! {
    fn the_distance_is_the_largest_gap_by_brute_force(a: Vec<u8>, b: Vec<u8>) -> TestResult {
        let (Some(x), Some(y)) = (drawn(&a), drawn(&b)) else { return TestResult::discard() };
        let below = |values: &[u8], limit: u8| {
            values.iter().filter(|&&v| v <= limit).count() as f64 / values.len() as f64
        };
        let brute = (0..=255).map(|l| (below(&a, l) - below(&b, l)).abs()).fold(0.0, f64::max);
        let area: f64 = (0..255).map(|l| (below(&a, l) - below(&b, l)).abs() / 64.0).sum();
        TestResult::from_bool(
            (x.kolmogorov_smirnov(&y) - brute).abs() < 1e-12 && (x.mean_difference(&y) - area).abs() < 1e-9,
        )
    }

    fn the_levy_distance_is_a_distance(a: Vec<u8>, b: Vec<u8>, c: Vec<u8>) -> TestResult {
        let (Some(x), Some(y), Some(z)) = (drawn(&a), drawn(&b), drawn(&c)) else {
            return TestResult::discard();
        };
        let d = |p: &SlowdownDistribution, q: &SlowdownDistribution| p.levy(q, 0.5).unwrap();
        TestResult::from_bool(
            d(&x, &x) == 0.0
                && (d(&x, &y) - d(&y, &x)).abs() < 1e-9
                && d(&x, &z) <= d(&x, &y) + d(&y, &z) + 1e-9
                && d(&x, &y) <= x.kolmogorov_smirnov(&y) + 1e-9,
        )
    }

    fn quantiles_and_probabilities_are_each_others_inverse(a: Vec<u8>, p: u8) -> TestResult {
        let Some(x) = drawn(&a) else { return TestResult::discard() };
        let p = f64::from(p) / 255.0;
        let n = a.len() as f64;
        // At least a fraction p of the runs, to within one, lies at or below the p-quantile, and vice versa.
        let q = x.quantile(p);
        let strictly_below = x.sorted().partition_point(|&s| s < q) as f64 / n;
        TestResult::from_bool(x.at_most(q) >= p - 1.0 / n && strictly_below <= p + 1.0 / n)
    }
}
