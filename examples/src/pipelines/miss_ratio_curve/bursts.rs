//! A run of unknown length, divided into a given number of parts of about equal length.
//!
//! The sampler returns many short windows. Their profiles are kept one by one at first; whenever there are too
//! many, neighbours are merged in pairs, so that memory stays bounded and the parts stay equally long. At the end
//! they are merged into the number of parts asked for, which then differ in length by a few percent.

use reuse_sampler::{Error, LineSize, ReuseProfile, Window};

/// Profiles kept per part that is asked for, at least; twice as many at most.
const PER_PART: usize = 24;

/// Profiles of consecutive stretches of a run.
#[derive(Debug)]
pub struct Bursts {
    parts: usize, // >= 1
    line_size: LineSize,
    windows_each: u32,           // binary logarithm of the windows in each profile
    profiles: Vec<ReuseProfile>, // at most 2 * PER_PART * parts
    samples: u64,
    accesses: u64,
}

impl Bursts {
    /// Nothing yet, to be divided into `parts` parts (0 is taken as 1).
    #[must_use]
    pub fn new(parts: usize, line_size: LineSize) -> Self {
        let parts = parts.max(1);
        Self { parts, line_size, windows_each: 0, profiles: Vec::new(), samples: 0, accesses: 0 }
    }

    /// Adds a window. Each of its samples goes to the stretch in which it was started.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`] if the window's profile is of another line size.
    pub fn add(&mut self, window: &Window) -> Result<(), Error> {
        let accesses = window.accesses.get().unwrap_or(0);
        self.stretch(window.index.0)?.add_accesses(accesses);
        self.accesses += accesses;
        for (started_in, outcome, count, weight) in window.outcomes() {
            self.stretch(started_in.0)?.record_many(outcome, count, weight);
            self.samples += count;
        }
        for overlap in &window.overlaps {
            self.stretch(overlap.started_in.0)?.record_overlap(overlap);
        }
        Ok(())
    }

    /// The profile of the stretch that window number `index` belongs to.
    fn stretch(&mut self, index: u64) -> Result<&mut ReuseProfile, Error> {
        while (index >> self.windows_each) as usize >= 2 * PER_PART * self.parts {
            self.halve()?;
        }
        let stretch = (index >> self.windows_each) as usize;
        if self.profiles.len() <= stretch {
            self.profiles.resize(stretch + 1, ReuseProfile::new(self.line_size));
        }
        Ok(&mut self.profiles[stretch])
    }

    fn halve(&mut self) -> Result<(), Error> {
        self.profiles = merged(&self.profiles, self.profiles.len().div_ceil(2), |i, _| i / 2)?;
        self.windows_each += 1;
        Ok(())
    }

    /// Samples so far.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Accesses so far.
    #[must_use]
    pub const fn accesses(&self) -> u64 {
        self.accesses
    }

    /// The parts, each with at least one sample; fewer than asked for where the run was too short.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`] cannot happen once the windows were added.
    pub fn into_parts(self) -> Result<Vec<ReuseProfile>, Error> {
        let stretches = self.profiles.len();
        let parts = self.parts.min(stretches);
        let mut parts = merged(&self.profiles, parts, |i, parts| i * parts / stretches)?;
        parts.retain(|part| !part.is_empty());
        Ok(parts)
    }
}

/// Merges neighbours: profile `i` goes to number `to(i, count)`, which never falls and is below `count`.
fn merged(
    profiles: &[ReuseProfile],
    count: usize,
    to: impl Fn(usize, usize) -> usize,
) -> Result<Vec<ReuseProfile>, Error> {
    let mut merged: Vec<ReuseProfile> = Vec::with_capacity(count);
    for (i, profile) in profiles.iter().enumerate() {
        match merged.get_mut(to(i, count)) {
            Some(part) => part.merge(profile)?,
            None => merged.push(profile.clone()),
        }
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;
    use reuse_sampler::{AccessCount, Outcome, ReuseCount, ReuseDistance, ThreadId, WindowIndex};

    use super::*;

    /// A window with one sample of its own, whose distance is its number, and one that the window before left.
    fn window(index: u64, accesses: u64) -> Window {
        let mut window = Window::new(WindowIndex(index), ThreadId(0));
        window.accesses = AccessCount::Measured(accesses);
        let count = |started_in, distance| ReuseCount {
            outcome: Outcome::Reused(ReuseDistance(distance)),
            started_in: WindowIndex(started_in),
            count: 1,
        };
        window.counts.push(count(index, index % 1000));
        if let Some(before) = index.checked_sub(1) {
            window.counts.push(count(before, before % 1000));
        }
        window
    }

    fn bursts(parts: usize, windows: u64) -> Bursts {
        let mut bursts = Bursts::new(parts, LineSize::B64);
        for index in 0..windows {
            bursts.add(&window(index, 10)).unwrap();
        }
        bursts
    }

    quickcheck! {
        fn nothing_is_lost_and_the_order_is_kept(parts: u8, windows: u16) -> bool {
            let (parts, windows) = (usize::from(parts % 30) + 1, u64::from(windows % 5000) + 1);
            let bursts = bursts(parts, windows);
            let totals = (bursts.accesses(), bursts.samples()) == (10 * windows, 2 * windows - 1);
            let divided = bursts.into_parts().unwrap();
            let mut next = 0;
            let in_order = divided.iter().all(|part| {
                // Windows next.. belong to this part, two samples each but for the last window of all.
                let own = part.accesses() / 10;
                let samples = 2 * own - u64::from(next + own == windows);
                next += own;
                part.samples() == samples
            });
            totals && in_order && next == windows && divided.len() == parts.min(windows as usize)
        }

        fn parts_of_a_long_run_are_about_equal(parts: u8, windows: u16) -> bool {
            let parts = usize::from(parts % 30) + 1;
            let windows = u64::from(windows) + (PER_PART * parts) as u64;
            let divided = bursts(parts, windows).into_parts().unwrap();
            let lengths = || divided.iter().map(ReuseProfile::accesses);
            let (Some(least), Some(most)) = (lengths().min(), lengths().max()) else { return false };
            // At least 24 stretches each, one more or less, the last of them partial.
            divided.len() == parts && most as f64 <= least as f64 * 24.0 / 22.0 + 10.0
        }
    }

    #[test]
    fn no_window_gives_no_part() {
        assert_eq!(Bursts::new(0, LineSize::B64).into_parts().unwrap(), []);
    }
}
