//! Drawn orders.

/// Fisher and Yates' shuffle with a `SplitMix64` generator (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn shuffle(order: &mut [usize], mut state: u64) {
    for last in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let choice = (u128::from(z) * (last as u128 + 1)) >> 64;
        order.swap(last, choice as usize);
    }
}
