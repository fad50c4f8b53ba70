//! The one source of randomness: `SplitMix64`.
//!
//! Hash masks, projections and k-means seedings depend on it, and saved states and published numbers depend on
//! those. The generator is therefore fixed here, so that a seed gives the same phases on every machine and in every
//! release, which general-purpose generator crates do not promise.
//!
//! Reference: Steele, Lea, Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014.

/// A 64-bit generator with 64 bits of state. Not for cryptography.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Uniform in 0..1 (1 excluded), 53 random bits.
    pub(crate) fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }
}

/// The upper 53 bits as a fraction in 0..1.
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The finaliser of `SplitMix64`: a bijection in which every input bit reaches every output bit.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for seed 0 of the reference implementation by Vigna (`splitmix64.c`).
    #[test]
    fn matches_the_reference_sequence() {
        let mut rng = SplitMix64::new(0);
        let got: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(got, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }
}
