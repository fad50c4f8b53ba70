//! The normal distribution function.

/// Probability that a standard normal variable is at most `z`, within 1e-7.
///
/// # References
/// Abramowitz and Stegun, *Handbook of Mathematical Functions*, 7.1.26.
pub fn below(z: f64) -> f64 {
    let x = z.abs() * std::f64::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series =
        0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429)));
    let tail = 0.5 * t * series * (-x * x).exp();
    if z < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_tables() {
        for (z, p) in [(0.0, 0.5), (1.0, 0.841_344_746), (1.959_964, 0.975), (3.0, 0.998_650_102)] {
            assert!((below(z) - p).abs() < 2e-7, "{z}");
            assert!((below(-z) - (1.0 - p)).abs() < 2e-7, "-{z}");
        }
        assert!(below(-40.0) < 1e-300 && below(40.0) == 1.0);
    }
}
