//! Quantiles of the normal distribution.

/// The value below which a standard normal variable lies with probability `p` in (0, 1).
///
/// P. J. Acklam's rational approximation, relative error below 1.2e-9.
pub(super) fn quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    const TAIL: f64 = 0.024_25;
    let polynomial = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    };
    if p < TAIL {
        tail(p)
    } else if p > 1.0 - TAIL {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        q * polynomial(&A, q * q) / polynomial(&B, q * q)
    }
}

#[cfg(test)]
mod tests {
    use super::quantile;

    /// Simpson's rule on the density, from 0.
    fn probability_below(x: f64) -> f64 {
        let n = 20_000;
        let h = x / f64::from(n);
        let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let weight = |i: i32| {
            if i == 0 || i == n {
                1.0
            } else if i % 2 == 1 {
                4.0
            } else {
                2.0
            }
        };
        0.5 + h / 3.0 * (0..=n).map(|i| weight(i) * density(h * f64::from(i))).sum::<f64>()
    }

    #[test]
    fn is_the_inverse_of_the_integrated_density() {
        for p in [1e-6, 1e-3, 0.02, 0.024_25, 0.03, 0.2, 0.5, 0.7, 0.95, 0.975, 0.98, 0.995, 0.999_9] {
            // The approximation's own bound, with the integration's rounding on top.
            assert!((probability_below(quantile(p)) - p).abs() < 1e-8, "{p}");
        }
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-8);
    }
}
