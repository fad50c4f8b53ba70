//! The profiled windows of a phase, in batches: what is redrawn to see how much the phase's curve owes to chance.

use reuse_sampler::{Error, LineSize, ReuseProfile};

/// Most batches that are kept; when there would be more, neighbours are merged.
const MOST: u64 = 40;

/// Profiles of about equally many profiled windows each.
#[derive(Clone, Debug)]
pub struct Batches {
    line_size: LineSize,
    windows_each: u32, // binary logarithm of the windows in a batch
    windows: u64,
    profiles: Vec<ReuseProfile>, // at most MOST
}

impl Batches {
    /// None yet.
    pub const fn new(line_size: LineSize) -> Self {
        Self { line_size, windows_each: 0, windows: 0, profiles: Vec::new() }
    }

    /// Makes room for one more profiled window and returns its number.
    pub fn begin(&mut self) -> u64 {
        self.windows += 1;
        self.windows - 1
    }

    /// The profile that profiled window number `window` goes to.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`] cannot happen: all profiles have one line size.
    pub fn of(&mut self, window: u64) -> Result<&mut ReuseProfile, Error> {
        while window >> self.windows_each >= MOST {
            let mut halved: Vec<ReuseProfile> = Vec::with_capacity(MOST as usize);
            for pair in self.profiles.chunks(2) {
                let mut both = pair[0].clone();
                pair.get(1).map_or(Ok(()), |second| both.merge(second))?;
                halved.push(both);
            }
            self.profiles = halved;
            self.windows_each += 1;
        }
        let batch = (window >> self.windows_each) as usize;
        if self.profiles.len() <= batch {
            self.profiles.resize(batch + 1, ReuseProfile::new(self.line_size));
        }
        Ok(&mut self.profiles[batch])
    }

    /// The batches, in order.
    pub fn profiles(&self) -> &[ReuseProfile] {
        &self.profiles
    }
}

#[cfg(test)]
mod tests {
    use reuse_sampler::{Outcome, ReuseDistance};

    use super::*;

    #[test]
    fn windows_are_kept_in_order_and_batches_stay_few() {
        let mut batches = Batches::new(LineSize::B64);
        for at in 0..1000 {
            let window = batches.begin();
            assert_eq!(window, at);
            batches.of(window).unwrap().record(Outcome::Reused(ReuseDistance(at)), 1);
        }
        // 40 windows of 1, 2, 4, 8, 16 each, then of 32.
        let sizes: Vec<u64> = batches.profiles().iter().map(ReuseProfile::samples).collect();
        assert_eq!(sizes, [[32; 31].as_slice(), &[8]].concat());
        let mut next = 0;
        for profile in batches.profiles() {
            for (low, high, _) in profile.reused_bins() {
                assert!(low <= next && next <= high);
                next = high + 1;
            }
        }
        // A window reported late finds its batch.
        batches.of(0).unwrap().record(Outcome::Dangling, 1);
        assert_eq!(batches.profiles()[0].dangling_weight(), 1);
    }
}
