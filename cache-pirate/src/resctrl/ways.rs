//! Which bits of a capacity mask the target gets, and which the others.

/// The ways of one cache that masks can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ways {
    usable: u32,   // bits that may be given, at least two if anything is to be measured
    at_least: u32, // in a mask, >= 1
    hardware: u32, // bits that devices use as well
    from_top: bool,
}

impl Ways {
    /// `all` bits of the cache but those `reserved` by groups that do not share; masks of one run of bits, of
    /// `at_least` so many, unless they may be `sparse`.
    pub(super) fn new(all: u32, reserved: u32, hardware: u32, at_least: u32, sparse: bool) -> Self {
        let free = all & !reserved;
        let usable = if sparse { free } else { longest_run(free) };
        let mut ways =
            Self { usable, at_least: at_least.max(1), hardware: hardware & usable, from_top: false };
        // The target lies at that end of the cache that devices use less.
        let half = ways.count() / 2;
        let at_bottom = (ways.target(half) & hardware).count_ones();
        ways.from_top = true;
        ways.from_top = (ways.target(half) & hardware).count_ones() < at_bottom;
        ways
    }

    /// How many there are.
    pub(super) const fn count(self) -> u32 {
        self.usable.count_ones()
    }

    /// Numbers of ways that the target can have, the smallest first.
    pub(super) fn choices(self) -> impl Iterator<Item = u32> {
        (1..=self.count()).filter(move |&ways| self.allows(ways))
    }

    pub(super) const fn allows(self, ways: u32) -> bool {
        ways >= self.at_least && (ways == self.count() || ways + self.at_least <= self.count())
    }

    /// Mask of a target with so many ways.
    pub(super) fn target(self, ways: u32) -> u32 {
        self.take(ways, self.from_top)
    }

    /// Mask of everybody else. It overlaps the target's only if that one has all ways.
    pub(super) fn others(self, ways: u32) -> u32 {
        self.take((self.count() - ways.min(self.count())).max(self.at_least), !self.from_top)
    }

    /// Ways of such a target that devices use as well.
    pub(super) fn shared_with_hardware(self, ways: u32) -> u32 {
        (self.target(ways) & self.hardware).count_ones()
    }

    fn take(self, ways: u32, from_top: bool) -> u32 {
        let bits = (0..u32::BITS).filter(|bit| self.usable >> bit & 1 == 1);
        let skipped = if from_top { self.count().saturating_sub(ways) } else { 0 };
        bits.skip(skipped as usize).take(ways as usize).fold(0, |mask, bit| mask | 1 << bit)
    }
}

/// The longest run of ones, the lowest of equals.
fn longest_run(mask: u32) -> u32 {
    let (mut best, mut run) = (0_u32, 0_u32);
    for bit in 0..u32::BITS {
        run = if mask >> bit & 1 == 1 { run | 1 << bit } else { 0 };
        if run.count_ones() > best.count_ones() {
            best = run;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_runs_at_the_end_that_devices_use_less() {
        // Skylake: 11 ways, devices in the upper two.
        let ways = Ways::new(0x7ff, 0, 0x600, 1, false);
        assert_eq!((ways.count(), ways.target(3), ways.others(3)), (11, 0b111, 0x7f8));
        assert_eq!((ways.shared_with_hardware(9), ways.shared_with_hardware(10)), (0, 1));
        // Haswell asks for two.
        let ways = Ways::new(0xf_ffff, 0, 0xc_0000, 2, false);
        assert_eq!(ways.choices().collect::<Vec<_>>(), (2..=18).chain([20]).collect::<Vec<_>>());
        assert_eq!(ways.others(20), 0xc_0000);
        // Devices at the bottom.
        let ways = Ways::new(0xff, 0, 0x3, 1, false);
        assert_eq!((ways.target(3), ways.others(3)), (0xe0, 0x1f));
    }

    #[test]
    fn reserved_ways_split_a_cache_unless_masks_may_be_sparse() {
        let run = Ways::new(0xfff, 0x030, 0, 1, false);
        assert_eq!((run.count(), run.target(2), run.others(2)), (6, 0x0c0, 0xf00));
        let sparse = Ways::new(0xfff, 0x030, 0, 1, true);
        assert_eq!((sparse.count(), sparse.target(5), sparse.others(5)), (10, 0x04f, 0xf80));
        assert_eq!(Ways::new(0xfff, 0xfff, 0, 1, true).choices().count(), 0);
    }
}
