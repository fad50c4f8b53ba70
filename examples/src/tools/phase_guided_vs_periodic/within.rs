//! How windows of one phase differ: what is said of each beyond the mean of its phase.
//!
//! A phase has one curve, made of all its samples. The share of one window's samples that miss, judged by the phase's
//! model, scatters around it by chance and because windows differ. How much they differ is estimated from by how much the
//! scatter exceeds chance (DerSimonian and Laird's moments), and each profiled window is drawn towards the phase as far as
//! chance explains it (empirical Bayes): windows of few samples, and phases that are what they should be, get the phase's
//! curve. Between the profiled windows of a phase the differences run in straight lines.

use reuse_sampler::{CacheLines, CacheModel, ReuseProfile};

/// A profiled window of a phase: its number among the windows of the phase, and its samples.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Counted from 0; the windows of a phase are given in order.
    pub at: usize,
    /// Its samples.
    pub profile: ReuseProfile,
}

/// By how much each window of `seen` is believed to miss more than `model`, that of the phase, at each size.
#[must_use]
pub fn differences(seen: &[Seen], model: &impl CacheModel, sizes: &[CacheLines]) -> Vec<(usize, Vec<f64>)> {
    let seen: Vec<&Seen> = seen.iter().filter(|window| window.profile.samples() > 0).collect();
    let mut found: Vec<(usize, Vec<f64>)> =
        seen.iter().map(|window| (window.at, Vec::with_capacity(sizes.len()))).collect();
    for &size in sizes {
        let share = |window: &&Seen| Share {
            misses: model.miss_ratio_of(&window.profile, size),
            samples: window.profile.samples() as f64,
        };
        let shares: Vec<Share> = seen.iter().map(share).collect();
        for ((_, of_window), difference) in found.iter_mut().zip(believed(&shares)) {
            of_window.push(difference);
        }
    }
    found
}

/// What misses of a window's samples.
#[derive(Clone, Copy, Debug)]
struct Share {
    misses: f64,  // in [0, 1]
    samples: f64, // > 0
}

/// What to believe of the differences of shares from their mean: 0 of all where chance alone could have made them.
fn believed(shares: &[Share]) -> Vec<f64> {
    let samples: f64 = shares.iter().map(|share| share.samples).sum();
    let mean = shares.iter().map(|share| share.misses * share.samples).sum::<f64>() / samples;
    // Each sample misses or does not, whichever window it is of.
    let chance = mean * (1.0 - mean);
    if shares.len() < 2 || chance <= 0.0 {
        return vec![0.0; shares.len()];
    }
    let squares: f64 = shares.iter().map(|s| (s.misses - mean).powi(2) * s.samples / chance).sum();
    let weights = samples / chance;
    let of_weights = shares.iter().map(|s| (s.samples / chance).powi(2)).sum::<f64>() / weights;
    let variance = ((squares - (shares.len() as f64 - 1.0)) / (weights - of_weights)).max(0.0);
    let draw = |share: &Share| (share.misses - mean) * variance / (variance + chance / share.samples);
    shares.iter().map(draw).collect()
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use reuse_sampler::{LineSize, Outcome, ReuseDistance};
    use statstack::StatStack;

    use super::*;

    /// Windows of 80 samples, of which those of window k dangle with probability `misses(k)` and are reused at once
    /// otherwise; and the model of all.
    fn phase(windows: usize, misses: impl Fn(usize) -> f64, seed: u64) -> (Vec<Seen>, StatStack) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut all = ReuseProfile::new(LineSize::B64);
        let seen: Vec<Seen> = (0..windows)
            .map(|at| {
                let mut profile = ReuseProfile::new(LineSize::B64);
                let dangling = (0..80).filter(|_| random.random::<f64>() < misses(at)).count() as u64;
                profile.record_many(Outcome::Dangling, dangling, 1);
                profile.record_many(Outcome::Reused(ReuseDistance(0)), 80 - dangling, 1);
                all.merge(&profile).unwrap();
                Seen { at, profile }
            })
            .collect();
        (seen, StatStack::fit(&all).unwrap())
    }

    fn error(found: &[(usize, Vec<f64>)], truth: impl Fn(usize) -> f64) -> f64 {
        let off = |(at, difference): &(usize, Vec<f64>)| (difference[0] - truth(*at)).powi(2);
        (found.iter().map(off).sum::<f64>() / found.len() as f64).sqrt()
    }

    #[test]
    fn what_differs_is_told_and_what_chance_makes_is_not() {
        let size = [CacheLines(64)];
        // Chance: the root of 0.3 * 0.7 / 80, 0.051.
        let drift = |at: usize| 0.1 + 0.4 * at as f64 / 99.0;
        let (seen, model) = phase(100, drift, 1);
        let found = differences(&seen, &model, &size);
        // Without differences the error would be that of a uniform law, 0.4 over the root of 12, 0.115; without
        // drawing it would be chance, 0.05; the best possible with both is 0.047.
        let apart = error(&found, |at| drift(at) - 0.3);
        assert!((0.035..0.055).contains(&apart), "{apart}");
        let mut told = 0.0;
        for seed in 0..20 {
            let (seen, model) = phase(100, |_| 0.3, seed);
            told += error(&differences(&seen, &model, &size), |_| 0.0) / 20.0;
        }
        assert!(told < 0.012, "a quarter of chance at most: {told}");
    }

    #[test]
    fn nothing_is_told_of_one_window_or_of_windows_without_samples() {
        let (mut seen, model) = phase(3, |_| 0.5, 1);
        let sizes = [CacheLines(64), CacheLines(128)];
        assert_eq!(differences(&seen[..1], &model, &sizes), [(0, vec![0.0, 0.0])]);
        seen[1].profile = ReuseProfile::new(LineSize::B64);
        let found = differences(&seen, &model, &sizes);
        assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [0, 2]);
        assert!(found.iter().flat_map(|f| &f.1).all(|d| d.is_finite()));
    }
}
