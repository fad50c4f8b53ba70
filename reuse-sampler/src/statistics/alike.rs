//! Which windows of a run to model apart, decided by their samples.
//!
//! A model of many windows follows a program that changes, and a model of few has more samples in each. Two neighbouring
//! windows are put together if describing both by one distribution of reuse distances takes less code than describing
//! each by its own (minimum description length).

use crate::{Error, ReuseProfile};

/// Shorter distances are all alike: the smallest caches that are modelled hold so many lines.
const SHORTEST: u64 = 32;
/// Dangling samples, those below [`SHORTEST`], and an octave each.
const BINS: usize = 2 + 64;
/// How many times the usual half logarithm of the number of samples a further parameter must save. This and
/// [`FEWEST`] were chosen for the errors of StatStack and StatCache at one access in 100, 1,000 and 10,000 of gcc, gzip,
/// python, sort and xz.
const STRICT: f64 = 0.75;
/// Windows of fewer samples are merged whatever they show.
const FEWEST: u64 = 50;

/// Merges neighbouring windows whose samples do not show that their reuse distances are distributed differently. The
/// accesses of windows without samples count to the window before, or to the first one that has some.
///
/// The caller supplies consecutive windows in order; 64 are enough. Fit one model to each profile that is returned, and
/// combine them with [`Grouped::fit`](crate::Grouped::fit): that is the default for StatStack (with
/// `statstack::PooledCorrection`) and StatCache.
///
/// # Formula
/// With n samples in a window, of which n_k fall into octave k of the distance and b octaves are occupied, a window
/// takes -sum n_k ln(n_k / n) + 0.75 * b/2 * ln N nats, N being the samples of all windows. The pair of neighbours whose
/// merging saves most is merged until none saves anything. Before that, windows are merged until each has 50 samples.
///
/// # Accuracy
/// `docs/model-accuracy.md` in the repository compares it with fixed numbers of windows.
///
/// # Errors
/// [`Error::MixedLineSizes`], [`Error::MixedClocks`] and [`Error::MixedScopes`] for windows that were observed otherwise than
/// the first.
///
/// # Cost
/// O(windows squared), 66 logarithms for each merge.
///
/// # References
/// Rissanen, *Modeling by Shortest Data Description*, Automatica 14 (1978).
pub fn merge_alike(windows: &[ReuseProfile]) -> Result<Vec<ReuseProfile>, Error> {
    Ok(grouped(windows)?.into_iter().map(|group| group.profile).collect())
}

/// Which windows [`merge_alike`] merges: as many as each of the profiles that it returns has, in order. None where no window
/// has a sample.
///
/// # Errors
/// As [`merge_alike`].
pub fn count_alike(windows: &[ReuseProfile]) -> Result<Vec<usize>, Error> {
    Ok(grouped(windows)?.into_iter().map(|group| group.windows).collect())
}

fn grouped(windows: &[ReuseProfile]) -> Result<Vec<Group>, Error> {
    if let Some((first, others)) = windows.split_first() {
        others.iter().try_for_each(|other| first.check_alike(other))?;
    }
    let total: f64 = windows.iter().map(|window| window.samples() as f64).sum();
    let parameter = STRICT * 0.5 * total.max(2.0).ln();
    let mut groups: Vec<Group> = Vec::new();
    let mut passed = (0, 0); // windows and accesses until the first sample
    for window in windows {
        if window.is_empty() {
            match groups.last_mut() {
                Some(group) => {
                    group.windows += 1;
                    group.profile.add_accesses(window.accesses());
                }
                None => passed = (passed.0 + 1, window.accesses().saturating_add(passed.1)),
            }
            continue;
        }
        let mut window = Group::of(window, parameter);
        let (count, accesses) = std::mem::take(&mut passed);
        window.windows += count;
        window.profile.add_accesses(accesses);
        match groups.last_mut() {
            Some(group) if group.profile.samples() < FEWEST => group.absorb(&window, parameter)?,
            _ => groups.push(window),
        }
    }
    let mut saved: Vec<f64> = groups.windows(2).map(|pair| pair[0].saved(&pair[1], parameter)).collect();
    while let Some((at, _)) =
        saved.iter().enumerate().filter(|gain| *gain.1 > 0.0).max_by(|a, b| a.1.total_cmp(b.1))
    {
        let next = groups.remove(at + 1);
        groups[at].absorb(&next, parameter)?;
        saved.remove(at);
        for pair in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            if let (Some(gain), Some(right)) = (saved.get_mut(pair), groups.get(pair + 1)) {
                *gain = groups[pair].saved(right, parameter);
            }
        }
    }
    Ok(groups)
}

/// Windows that are merged.
struct Group {
    windows: usize,
    profile: ReuseProfile,
    counts: [f64; BINS], // samples
    length: f64,         // of its description, in nats
}

impl Group {
    fn of(window: &ReuseProfile, parameter: f64) -> Self {
        let each = window.total_weight() as f64 / window.samples().max(1) as f64; // accesses a sample stands for
        let mut counts = [0.0; BINS];
        counts[0] = window.dangling_weight() as f64 / each;
        for (low, _, weight) in
            window.reused_bins().chain(window.invalidated_bins()).chain(window.censored_bins())
        {
            let octave = if low < SHORTEST { 1 } else { 2 + (low / SHORTEST).ilog2() as usize };
            counts[octave] += weight as f64 / each;
        }
        Self { windows: 1, profile: window.clone(), length: length(&counts, parameter), counts }
    }

    fn together(&self, other: &Self) -> [f64; BINS] {
        std::array::from_fn(|k| self.counts[k] + other.counts[k])
    }

    fn saved(&self, other: &Self, parameter: f64) -> f64 {
        self.length + other.length - length(&self.together(other), parameter)
    }

    fn absorb(&mut self, other: &Self, parameter: f64) -> Result<(), Error> {
        self.windows += other.windows;
        self.profile.merge(&other.profile)?;
        self.counts = self.together(other);
        self.length = length(&self.counts, parameter);
        Ok(())
    }
}

/// Nats that describe so many samples and their distribution.
fn length(counts: &[f64; BINS], parameter: f64) -> f64 {
    let n: f64 = counts.iter().sum();
    let occupied = counts.iter().filter(|count| **count > 0.0);
    occupied.map(|count| parameter - count * (count / n).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::random::Random;
    use crate::{LineSize, Outcome, ReuseDistance};

    /// Windows of `samples` samples; those from number `change` on are reused four times as late.
    fn windows(samples: usize, change: usize) -> Vec<ReuseProfile> {
        let mut random = Random::from_state(3);
        let window = |k| {
            let mut profile = ReuseProfile::new(LineSize::B64);
            let longest = if k < change { 1000 } else { 4000 };
            for _ in 0..samples {
                profile.record(Outcome::Reused(ReuseDistance(random.below(longest) as u64)), 7);
            }
            profile
        };
        (0..16).map(window).collect()
    }

    #[test]
    fn windows_are_parted_where_they_change_and_nowhere_else() {
        for change in [5, 12] {
            let merged = merge_alike(&windows(100, change)).unwrap();
            let samples: Vec<u64> = merged.iter().map(ReuseProfile::samples).collect();
            assert_eq!(samples, [change as u64 * 100, (16 - change) as u64 * 100]);
        }
        assert_eq!(merge_alike(&windows(100, 16)).unwrap().len(), 1);
    }

    #[test]
    fn few_samples_are_merged_whatever_they_show_and_none_make_no_window() {
        assert_eq!(merge_alike(&windows(3, 8)).unwrap().len(), 1);
        assert!(merge_alike(&[ReuseProfile::new(LineSize::B64)]).unwrap().is_empty());
        assert!(count_alike(&[ReuseProfile::new(LineSize::B64)]).unwrap().is_empty());
        // They pass all the same: the run is as long as it was.
        let mut run = windows(100, 5);
        (0..16).for_each(|k| run.insert(2 * k, ReuseProfile::new(LineSize::B64)));
        for window in &mut run {
            window.add_accesses(1000);
        }
        let merged = merge_alike(&run).unwrap();
        assert_eq!(merged.iter().map(ReuseProfile::accesses).sum::<u64>(), 32_000);
        assert_eq!(merged.iter().map(ReuseProfile::samples).collect::<Vec<_>>(), [500, 1100]);
        assert_eq!(count_alike(&run).unwrap(), [11, 21]);
        let mixed = [LineSize::B64, LineSize::new(32).unwrap()].map(|line_size| {
            let mut profile = ReuseProfile::new(line_size);
            profile.record(Outcome::Dangling, 1);
            profile
        });
        assert_eq!(merge_alike(&mixed).unwrap_err(), Error::MixedLineSizes { left: 64, right: 32 });
    }
}
