//! Random numbers.

/// A small seeded generator (`SplitMix64`, Steele, Lea and Flood, OOPSLA 2014). The engine carries its own so
/// that a seed chooses the same accesses in every backend.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that starts at `state`: those of different states are parts of one sequence.
    #[must_use]
    pub const fn from_state(state: u64) -> Self {
        Self(state)
    }

    /// A generator for one of several streams of the same seed.
    #[cfg(feature = "replay")]
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixer = Self::from_state(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        mixer.next();
        Self(mixer.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform from 0 to below `bound`, which is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Uniform in (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Exponential gap in whole accesses, at least 1: the number of trials up to and with the first success of
    /// probability 1/mean. `scale` is what the logarithm of a uniform number is multiplied with to give it.
    #[cfg(feature = "replay")]
    pub fn geometric(&mut self, scale: f64) -> u64 {
        if scale == 0.0 {
            return 1;
        }
        1_u64.saturating_add((self.unit().ln() * scale) as u64)
    }

    /// Exponential, in whole accesses.
    #[cfg(feature = "replay")]
    pub fn exponential(&mut self, mean: f64) -> u64 {
        (-self.unit().ln() * mean).round() as u64
    }
}
