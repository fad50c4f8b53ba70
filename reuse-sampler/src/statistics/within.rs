//! How the windows of one phase differ from the mean of the phase.

use crate::{CacheLines, CacheModel, Error, ReuseProfile};

/// By how much each of `windows`, which belong to one phase, is estimated to miss more than the phase on average, at each
/// of `sizes`. `model` is fitted to the whole phase.
///
/// The caller supplies the samples of each profiled window, in any order. The result holds, window by window, a
/// difference of miss ratios for each size; those of a window without samples are 0. Add them to the phase's curve; between
/// profiled windows, interpolate.
///
/// # Formula
/// The share of a window's samples that miss, judged by the phase's model, scatters because of chance and because windows
/// differ. The variance of the differences is what the scatter exceeds chance by (DerSimonian and Laird's moments); each
/// difference is shrunk by variance / (variance + chance), so that a window of few samples gets the phase's curve.
///
/// # Errors
/// [`Error::MixedLineSizes`] and [`Error::MixedClocks`] for a window that does not count as the model.
///
/// # Cost
/// One pass over the bins of each window and size.
///
/// # References
/// DerSimonian and Laird, *Meta-Analysis in Clinical Trials*, Controlled Clinical Trials 7 (1986).
pub fn differences_within_phase(
    windows: &[&ReuseProfile],
    model: &impl CacheModel,
    sizes: &[CacheLines],
) -> Result<Vec<Vec<f64>>, Error> {
    let mut found = vec![Vec::with_capacity(sizes.len()); windows.len()];
    for &size in sizes {
        let sampled = windows.iter().filter(|window| !window.is_empty());
        let share = |window: &&ReuseProfile| {
            let misses = model.miss_ratio_of(window, size)?;
            Ok(Share { misses, samples: window.samples() as f64 })
        };
        let shares = sampled.map(share).collect::<Result<Vec<Share>, Error>>()?;
        let mut differences = believed(&shares).into_iter();
        for (of_window, window) in found.iter_mut().zip(windows) {
            of_window.push(if window.is_empty() { 0.0 } else { differences.next().unwrap_or(0.0) });
        }
    }
    Ok(found)
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
    use super::*;
    use crate::engine::random::Random;
    use crate::{Evaluator, LineSize, Outcome, ReuseDistance};

    /// What is reused at once hits, and what dangles misses.
    struct Plain;

    impl CacheModel for Plain {
        fn line_size(&self) -> LineSize {
            LineSize::B64
        }
        fn at(&self, size: CacheLines) -> Evaluator<'_> {
            Evaluator::step(ReuseDistance(size.0))
        }
        fn miss_ratio(&self, _: CacheLines) -> f64 {
            0.0 // not asked for
        }
    }

    /// Windows of 80 samples; those of window k dangle with probability `misses(k)` and are reused at once otherwise.
    fn phase(windows: usize, misses: impl Fn(usize) -> f64, seed: u64) -> Vec<ReuseProfile> {
        let mut random = Random::from_state(seed);
        let mut window = |at| {
            let mut profile = ReuseProfile::new(LineSize::B64);
            let dangling = (0..80).filter(|_| random.unit() <= misses(at)).count() as u64;
            profile.record_many(Outcome::Dangling, dangling, 1);
            profile.record_many(Outcome::Reused(ReuseDistance(0)), 80 - dangling, 1);
            profile
        };
        (0..windows).map(&mut window).collect()
    }

    fn error(windows: &[ReuseProfile], truth: impl Fn(usize) -> f64) -> f64 {
        let windows: Vec<&ReuseProfile> = windows.iter().collect();
        let found = differences_within_phase(&windows, &Plain, &[CacheLines(64)]).unwrap();
        let off = |(at, difference): (usize, &Vec<f64>)| (difference[0] - truth(at)).powi(2);
        (found.iter().enumerate().map(off).sum::<f64>() / found.len() as f64).sqrt()
    }

    #[test]
    fn windows_that_differ_are_distinguished_and_chance_is_not() {
        // Chance: the root of 0.3 * 0.7 / 80, 0.051.
        let drift = |at: usize| 0.1 + 0.4 * at as f64 / 99.0;
        // Without differences the error would be that of a uniform law, 0.4 over the root of 12, 0.115; without
        // shrinking it would be chance, 0.05; the best possible with both is 0.047.
        let apart = error(&phase(100, drift, 1), |at| drift(at) - 0.3);
        assert!((0.035..0.055).contains(&apart), "{apart}");
        let same: f64 = (0..20).map(|seed| error(&phase(100, |_| 0.3, seed), |_| 0.0) / 20.0).sum();
        assert!(same < 0.012, "a quarter of chance at most: {same}");
    }

    #[test]
    fn one_window_and_windows_without_samples_do_not_differ() {
        let sizes = [CacheLines(64), CacheLines(128)];
        let windows = phase(2, |_| 0.5, 1);
        assert_eq!(differences_within_phase(&[&windows[0]], &Plain, &sizes).unwrap(), [[0.0, 0.0]]);
        let empty = ReuseProfile::new(LineSize::B64);
        let found = differences_within_phase(&[&windows[0], &empty, &windows[1]], &Plain, &sizes).unwrap();
        assert_eq!((found.len(), &found[1]), (3, &vec![0.0, 0.0]));
        assert!(found.iter().flatten().all(|difference| difference.is_finite()));
    }
}
