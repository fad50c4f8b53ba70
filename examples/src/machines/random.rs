//! The chance of the simulated machines: `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The next number of a generator.
#[inline]
pub(super) const fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    mixed(*state)
}

/// Number `n` of the generator with this seed, the seed's own being 0.
#[inline]
pub(super) const fn nth(seed: u64, n: u64) -> u64 {
    mixed(seed.wrapping_add(n.wrapping_mul(GOLDEN)))
}

const fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
