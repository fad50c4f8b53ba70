//! Averages of errors, as the paper's tables give them.

use serde::Serialize;

/// Average, median and standard deviation of absolute errors, and some quantiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// How many errors there are.
    pub count: usize,
    /// Their average size.
    pub mean: f64,
    /// Their median size.
    pub median: f64,
    /// Standard deviation of their sizes.
    pub deviation: f64,
    /// The size that 95 % of them do not exceed.
    pub p95: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Summarises the sizes of `errors`, whatever their signs.
    pub fn of(errors: impl IntoIterator<Item = f64>) -> Self {
        let mut sizes: Vec<f64> = errors.into_iter().map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let count = sizes.len();
        let Some(&max) = sizes.last() else { return Self::default() };
        let mean = sizes.iter().sum::<f64>() / count as f64;
        let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / count as f64;
        let quantile = |share: f64| sizes[((count as f64 * share).ceil() as usize).clamp(1, count) - 1];
        let median = f64::midpoint(sizes[(count - 1) / 2], sizes[count / 2]);
        Self { count, mean, median, deviation: variance.sqrt(), p95: quantile(0.95), max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_by_hand() {
        assert_eq!(Summary::of([]), Summary::default());
        let one = Summary::of([-2.0]);
        assert_eq!((one.mean, one.median, one.deviation, one.p95, one.max), (2.0, 2.0, 0.0, 2.0, 2.0));
        // Sizes 1 2 3 6: mean 3, squared differences 4 1 0 9.
        let four = Summary::of([1.0, -6.0, 3.0, 2.0]);
        assert_eq!((four.count, four.mean, four.median, four.max), (4, 3.0, 2.5, 6.0));
        assert_eq!(four.deviation, (14.0_f64 / 4.0).sqrt());
        // Of 1 to 100, 95 do not exceed 95.
        assert_eq!(Summary::of((1..=100).map(f64::from)).p95, 95.0);
    }
}
