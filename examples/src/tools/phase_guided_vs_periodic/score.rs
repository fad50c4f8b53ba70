//! How near a strategy came to the truth, and at what price.

use super::recording::Recording;
use super::strategies::Estimate;
use crate::guided::cdf_error;

/// One strategy at one setting, over several seeds. Errors are in percentage points of miss ratio, averaged over the
/// cache sizes.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Score {
    /// CDF error with each seed.
    pub cdf_errors: Vec<f64>,
    /// Their mean.
    pub cdf_error: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// Mean absolute difference of each window's miss ratio, at its time.
    pub course_error: f64,
    /// Absolute difference of the whole run's miss ratio.
    pub average_error: f64,
    /// Samples taken, mean over the seeds.
    pub samples: f64,
    /// Windows sampled, mean over the seeds.
    pub profiled: f64,
    /// Phases found, mean over the seeds.
    pub phases: f64,
}

impl Score {
    /// Scores the estimates of several seeds. There is at least one.
    pub fn of(recording: &Recording, estimates: &[Estimate]) -> Self {
        let time: Vec<f64> = recording.windows.iter().map(|w| recording.time(w)).collect();
        let weight: Vec<f64> = recording.windows.iter().map(|w| w.accesses as f64).collect();
        let (mut errors, mut course, mut average) = (Vec::new(), Vec::new(), Vec::new());
        for estimate in estimates {
            let (mut sum, mut in_time, mut whole) = (0.0, 0.0, 0.0);
            for size in 0..recording.sizes.len() {
                let truth: Vec<f64> = recording.windows.iter().map(|w| w.miss_ratio[size]).collect();
                let found: Vec<f64> = estimate.windows.iter().map(|w| w[size]).collect();
                sum += cdf_error(&truth, &found, &time);
                let apart: Vec<f64> = truth.iter().zip(&found).map(|(a, b)| (a - b).abs()).collect();
                in_time += weighted(&apart, &time);
                whole += (weighted(&truth, &weight) - weighted(&found, &weight)).abs();
            }
            let points = 100.0 / recording.sizes.len().max(1) as f64;
            errors.push(points * sum);
            course.push(points * in_time);
            average.push(points * whole);
        }
        let count = |get: fn(&Estimate) -> f64| mean(&estimates.iter().map(get).collect::<Vec<_>>());
        Self {
            cdf_error: mean(&errors),
            deviation: deviation(&errors),
            course_error: mean(&course),
            average_error: mean(&average),
            samples: count(|e| e.samples as f64),
            profiled: count(|e| e.profiled as f64),
            phases: count(|e| e.phases as f64),
            cdf_errors: errors,
        }
    }
}

fn weighted(values: &[f64], weights: &[f64]) -> f64 {
    let total: f64 = weights.iter().sum();
    values.iter().zip(weights).map(|(value, weight)| value * weight).sum::<f64>()
        / total.max(f64::MIN_POSITIVE)
}

/// The mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The standard deviation of a sample; 0 of less than two.
pub fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    (squares / (values.len().max(2) - 1) as f64).sqrt()
}

/// Fewest samples with which settings of a strategy, given as (samples, error), come to `error`: between two settings
/// on the way to less error straight in logarithms, as the curves are. `None` if no setting comes near enough.
pub fn samples_for(error: f64, settings: &[(f64, f64)]) -> Option<f64> {
    let mut sorted: Vec<(f64, f64)> = settings.iter().copied().filter(|s| s.0 > 0.0 && s.1 > 0.0).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut best: Option<(f64, f64)> = None; // the last setting better than all cheaper ones
    for (samples, reached) in sorted {
        if best.is_some_and(|(_, so_far)| reached >= so_far) {
            continue;
        }
        if reached <= error {
            return Some(match best {
                None => samples,
                Some((fewer, worse)) => {
                    let share = (worse / error).ln() / (worse / reached).ln();
                    fewer * (samples / fewer).powf(share)
                }
            });
        }
        best = Some((samples, reached));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_off_the_lower_envelope() {
        let settings = [(100.0, 4.0), (1_000.0, 1.0), (500.0, 9.0), (10_000.0, 1.5)];
        assert_eq!(samples_for(4.0, &settings), Some(100.0));
        assert_eq!(samples_for(5.0, &settings), Some(100.0));
        // Half way in logarithms.
        assert!((samples_for(2.0, &settings).unwrap() - 100_000_f64.sqrt()).abs() < 1e-6);
        assert_eq!(samples_for(0.9, &settings), None);
        assert_eq!(samples_for(1.0, &[]), None);
    }

    #[test]
    fn means_and_deviations() {
        assert_eq!((mean(&[1.0, 3.0]), deviation(&[1.0, 3.0])), (2.0, 2_f64.sqrt()));
        assert_eq!((mean(&[]), deviation(&[5.0])), (0.0, 0.0));
    }
}
