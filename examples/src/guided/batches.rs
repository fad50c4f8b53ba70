//! The profiled windows of a phase, in batches: what is redrawn to see how much the phase's curve owes to chance.

use reuse_sampler::{Error, ReuseProfile};

/// Most batches that are kept; when there would be more, neighbours are merged.
const MOST: u64 = 40;

/// Profiles of about equally many profiled windows each.
#[derive(Clone, Debug)]
pub struct Batches {
    empty: ReuseProfile,
    windows_each: u32, // binary logarithm of the windows in a batch
    windows: u64,
    kept: Vec<Batch>, // at most MOST
}

#[derive(Clone, Debug)]
struct Batch {
    profile: ReuseProfile,
    windows: f64,
    represents: f64,
}

impl Batches {
    /// None yet, each to begin as `empty`.
    pub const fn new(empty: ReuseProfile) -> Self {
        Self { empty, windows_each: 0, windows: 0, kept: Vec::new() }
    }

    /// Makes room for one more profiled window, which represents so many, and returns its number.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`] cannot happen: all profiles have one line size.
    pub fn begin(&mut self, represents: f64) -> Result<u64, Error> {
        let window = self.windows;
        self.windows += 1;
        while window >> self.windows_each >= MOST {
            let mut halved: Vec<Batch> = Vec::with_capacity(MOST as usize);
            for pair in self.kept.chunks(2) {
                let mut both = pair[0].clone();
                if let Some(second) = pair.get(1) {
                    both.profile.merge(&second.profile)?;
                    both.windows += second.windows;
                    both.represents += second.represents;
                }
                halved.push(both);
            }
            self.kept = halved;
            self.windows_each += 1;
        }
        let batch = (window >> self.windows_each) as usize;
        if self.kept.len() <= batch {
            self.kept.push(Batch { profile: self.empty.clone(), windows: 0.0, represents: 0.0 });
        }
        let batch = &mut self.kept[batch];
        batch.windows += 1.0;
        batch.represents += represents;
        Ok(window)
    }

    /// The profile that profiled window number `window` goes to, one that has begun.
    pub fn of(&mut self, window: u64) -> &mut ReuseProfile {
        &mut self.kept[(window >> self.windows_each) as usize].profile
    }

    /// The batches, in order, the samples of each weighted by how many windows one of its windows represents.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn weighted(&self) -> Result<Vec<ReuseProfile>, Error> {
        self.kept.iter().map(|batch| self.merged(std::slice::from_ref(batch))).collect()
    }

    /// All of them together.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn together(&self) -> Result<ReuseProfile, Error> {
        self.merged(&self.kept)
    }

    fn merged(&self, batches: &[Batch]) -> Result<ReuseProfile, Error> {
        let mut all = self.empty.clone();
        for batch in batches {
            all.merge_weighted(&batch.profile, batch.represents / batch.windows)?;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use reuse_sampler::{LineSize, Outcome, ReuseDistance};

    use super::*;

    #[test]
    fn windows_are_kept_in_order_and_batches_stay_few() {
        let mut batches = Batches::new(ReuseProfile::new(LineSize::B64));
        for at in 0..1000 {
            let window = batches.begin(1.0).unwrap();
            assert_eq!(window, at);
            batches.of(window).record(Outcome::Reused(ReuseDistance(at)), 1);
        }
        // 40 windows of 1, 2, 4, 8, 16 each, then of 32.
        let sizes: Vec<u64> = batches.weighted().unwrap().iter().map(ReuseProfile::samples).collect();
        assert_eq!(sizes, [[32; 31].as_slice(), &[8]].concat());
        let mut next = 0;
        for profile in batches.weighted().unwrap() {
            for (low, high, _) in profile.reused_bins() {
                assert!(low <= next && next <= high);
                next = high + 1;
            }
        }
        // A window reported late finds its batch.
        batches.of(0).record(Outcome::Dangling, 1);
        assert_eq!(batches.weighted().unwrap()[0].dangling_weight(), 1);
    }

    #[test]
    fn samples_weigh_what_their_windows_represent() {
        let mut batches = Batches::new(ReuseProfile::new(LineSize::B64));
        for represents in [1.0, 4.0] {
            let window = batches.begin(represents).unwrap();
            batches.of(window).record(Outcome::Dangling, 10);
        }
        let weighted = batches.weighted().unwrap();
        assert_eq!([0, 1].map(|at: usize| weighted[at].dangling_weight()), [10, 40]);
        assert_eq!([0, 1].map(|at: usize| weighted[at].samples()), [1, 1]);
    }
}
