//! Bins of a reuse-distance histogram: exact for short distances, logarithmic beyond.
//!
//! Distances below [`EXACT`] have a bin each. Beyond, every octave is divided into [`PER_OCTAVE`] bins of
//! equal width, so that a bin is at most 1/128 of its lower edge wide and its middle is at most 1/256
//! (0.39 %) away from anything in it.

/// Distances below this have a bin of their own.
pub const EXACT: u64 = 1 << EXACT_BITS;
/// Bins per octave beyond [`EXACT`].
pub const PER_OCTAVE: u64 = 1 << OCTAVE_BITS;
/// Number of bins that cover all of `u64`.
pub const BINS: usize = (EXACT + (64 - EXACT_BITS as u64) * PER_OCTAVE) as usize;

const EXACT_BITS: u32 = 10;
const OCTAVE_BITS: u32 = 7;
/// Octaves of bins before those that are [`EXACT`] wide, less the one that a shifted distance brings along.
const OFFSET: u64 = EXACT / PER_OCTAVE - 1 - (EXACT_BITS - OCTAVE_BITS) as u64;

/// The bin of `distance`.
#[inline]
#[must_use]
pub const fn bin_of(distance: u64) -> usize {
    // Distances below EXACT are the smaller of the two, the others' bins are: no branch that would be hard to predict.
    let shift = (distance | EXACT).ilog2() - OCTAVE_BITS;
    let far = (shift as u64 + OFFSET) * PER_OCTAVE + (distance >> shift);
    if distance < far { distance as usize } else { far as usize }
}

/// Smallest and largest distance in `bin`, which is below [`BINS`].
#[inline]
#[must_use]
pub const fn bounds(bin: usize) -> (u64, u64) {
    let bin = bin as u64;
    if bin < EXACT {
        (bin, bin)
    } else {
        let octave = EXACT_BITS as u64 + (bin - EXACT) / PER_OCTAVE;
        let width_bits = octave - OCTAVE_BITS as u64;
        let low = ((bin - EXACT) % PER_OCTAVE + PER_OCTAVE) << width_bits;
        (low, low + ((1 << width_bits) - 1))
    }
}

/// The distance that stands for all of `bin`: its middle. It lies in the bin.
#[inline]
#[must_use]
pub const fn middle(bin: usize) -> u64 {
    let (low, high) = bounds(bin);
    low + (high - low) / 2
}

/// The coarse bin of `distance`, below 256: four bins to an octave of `distance` + 1.
#[inline]
#[must_use]
pub const fn coarse_of(distance: u64) -> u32 {
    let length = distance.saturating_add(1);
    let octave = length.ilog2();
    let quarter = if octave >= 2 { (length >> (octave - 2)) & 3 } else { (length << (2 - octave)) & 3 };
    4 * octave + quarter as u32
}

/// Smallest and largest distance in a coarse bin; `None` for those of the first two octaves that hold none.
#[must_use]
pub const fn coarse_bounds(bin: u32) -> Option<(u64, u64)> {
    let (octave, quarter) = (bin / 4, (bin % 4) as u128);
    if octave > 63 {
        return None;
    }
    let low = ((4 + quarter) << octave).div_ceil(4);
    let next = ((5 + quarter) << octave).div_ceil(4);
    if low < next { Some(((low - 1) as u64, (next - 2) as u64)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_tile_all_distances_in_order() {
        let mut next = 0_u64;
        for bin in 0..BINS {
            let (low, high) = bounds(bin);
            assert_eq!(low, next, "bin {bin}");
            assert_eq!((bin_of(low), bin_of(high), bin_of(middle(bin))), (bin, bin, bin));
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bin ends at u64::MAX");
    }

    #[test]
    fn the_middle_is_within_0_4_percent() {
        for bin in 0..BINS {
            let (low, high) = bounds(bin);
            let middle = middle(bin) as f64;
            assert!((high as f64 - middle) <= 0.004 * low as f64);
            assert!((middle - low as f64) <= 0.004 * low as f64);
        }
    }

    #[test]
    fn coarse_bins_tile_all_distances_in_order() {
        let mut next = 0_u64;
        for bin in 0..256 {
            if let Some((low, high)) = coarse_bounds(bin) {
                assert_eq!(low, next, "bin {bin}");
                assert_eq!((coarse_of(low), coarse_of(high)), (bin, bin));
                next = high + 1;
            }
        }
        // Lengths are one more than distances: the two largest distances share the largest length.
        assert_eq!((next, coarse_of(next)), (u64::MAX, 255));
        assert_eq!(coarse_bounds(256), None);
    }
}
