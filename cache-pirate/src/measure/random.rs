//! Random numbers for the gaps between measurement cycles.

/// A seeded generator.
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Exponentially distributed: `-mean * ln(u)`, `u` uniform in (0, 1].
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// Uniform in (0, 1].
    pub(super) fn uniform(&mut self) -> f64 {
        // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((z >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_tail_are_those_of_an_exponential() {
        let mut random = Random::new(7);
        let drawn: Vec<f64> = (0..100_000).map(|_| random.exponential(3.0)).collect();
        let mean = drawn.iter().sum::<f64>() / 1e5;
        assert!((mean - 3.0).abs() < 5.0 * 3.0 / 1e5_f64.sqrt()); // 5 standard errors
        let beyond = drawn.iter().filter(|&&gap| gap > 6.0).count() as f64 / 1e5;
        let expected = (-2.0_f64).exp();
        assert!((beyond - expected).abs() < 5.0 * (expected / 1e5).sqrt());
        assert!(drawn.iter().all(|&gap| gap >= 0.0 && gap.is_finite()));
    }
}
