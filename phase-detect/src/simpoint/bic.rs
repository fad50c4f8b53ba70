//! How many phases are enough: the Bayesian information criterion.
//!
//! k-means always fits better with more clusters. The criterion takes windows for draws from spherical Gaussians of
//! one common variance, one per cluster, and charges each parameter for its place in the description.

use super::BicScore;
use crate::cluster::kmeans::{Fit, Points};

/// Smallest variance within clusters, as a share of the variance of all windows. The likelihood grows without limit as
/// the variance within clusters goes to 0, so that clean phases would be split by differences that nobody asks about.
const SMALLEST_VARIANCE: f64 = 1e-2;

/// The score of one clustering of `windows` points.
///
/// # Formula
/// `sum_i R_i ln(R_i / R) - (R d / 2) ln(2 pi v) - inertia / (2 v) - (p / 2) ln R` with `R_i` of `R` windows in cluster
/// `i`, `d` dimensions, `v = max(inertia / (d (R - k)), floor)` the variance per dimension, and `p = k + k d` parameters
/// (k - 1 shares, k centres, one variance).
///
/// References: Pelleg, Moore, *X-means*, ICML 2000; Sherwood et al., ASPLOS 2002, section 4. The variance is per
/// dimension, as a spherical Gaussian has it; the first paper leaves the dimension out in one place.
pub(super) fn score(fit: &Fit, windows: usize, dimensions: usize, floor: f64) -> f64 {
    let (r, d) = (windows as f64, dimensions as f64);
    let k = fit.clusters() as f64;
    let free = d * (r - k).max(1.0);
    let variance = (fit.inertia() / free).max(floor);
    let shares: f64 = fit.members().iter().map(|&m| m as f64 * (m as f64 / r).ln()).sum();
    let exponent = fit.inertia() / (2.0 * variance);
    let likelihood = shares - r * d / 2.0 * (2.0 * std::f64::consts::PI * variance).ln() - exponent;
    let parameters = k + k * d;
    likelihood - parameters / 2.0 * r.ln()
}

/// Smallest variance per dimension within clusters of `points`; positive.
pub(super) fn variance_floor(points: &Points, dimensions: usize) -> f64 {
    let n = points.len() as f64;
    let mut mean = vec![0.0; points.width()];
    for row in points.rows() {
        mean.iter_mut().zip(row).for_each(|(m, v)| *m += v / n);
    }
    let squares: f64 = (0..points.len()).map(|i| points.distance(i, &mean).powi(2)).sum();
    SMALLEST_VARIANCE * squares / (n * dimensions as f64) + f64::MIN_POSITIVE
}

/// Index of the first score that reaches `share` of the way from the lowest to the highest; 0 without scores.
pub(super) fn smallest_sufficient(scores: &[BicScore], share: f64) -> usize {
    let values = || scores.iter().map(|s| s.score);
    let lowest = values().fold(f64::INFINITY, f64::min);
    let highest = values().fold(f64::NEG_INFINITY, f64::max);
    let enough = if share == 1.0 { highest } else { lowest + share * (highest - lowest) };
    values().position(|s| s >= enough).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::kmeans::{Seeding, lloyd};
    use crate::rng::SplitMix64;

    /// The likelihood added up window by window from the Gaussian density and the share of its cluster.
    fn by_density(fit: &Fit, rows: &[Vec<f64>]) -> f64 {
        let (r, d) = (rows.len() as f64, rows[0].len() as f64);
        let k = fit.clusters() as f64;
        let phases: Vec<(u64, Vec<f64>)> = fit.phases().map(|(_, m, c)| (m, c.to_vec())).collect();
        let variance = fit.inertia() / (d * (r - k));
        let likelihood: f64 = rows
            .iter()
            .zip(fit.labels())
            .map(|(row, label)| {
                let (members, centre) = &phases[label.index()];
                let density: f64 = row
                    .iter()
                    .zip(centre)
                    .map(|(x, c)| {
                        -(x - c).powi(2) / (2.0 * variance)
                            - 0.5 * (2.0 * std::f64::consts::PI * variance).ln()
                    })
                    .sum();
                density + (*members as f64 / r).ln()
            })
            .sum();
        likelihood - (k - 1.0 + k * d + 1.0) / 2.0 * r.ln()
    }

    #[test]
    fn equals_the_sum_over_windows() {
        let mut rng = SplitMix64::new(3);
        let rows: Vec<Vec<f64>> =
            (0..50).map(|i| (0..6).map(|_| rng.unit() + f64::from(i % 3)).collect()).collect();
        let points = Points::new(6, rows.iter().map(|r| &r[..])).unwrap();
        let mut seeding = Seeding::new(&points, 1);
        for _ in 0..5 {
            let fit = lloyd(&points, &seeding, 50);
            let (got, want) = (score(&fit, 50, 6, 0.0), by_density(&fit, &rows));
            // the same terms in another order
            assert!((got - want).abs() < 1e-9 * want.abs(), "{} clusters: {got} {want}", fit.clusters());
            assert!(seeding.choose());
        }
    }

    #[test]
    fn the_first_that_suffices() {
        let scores: Vec<BicScore> = [0.0, 50.0, 91.0, 100.0, 95.0]
            .iter()
            .enumerate()
            .map(|(i, &score)| BicScore { clusters: i + 1, score })
            .collect();
        for (share, index) in [(0.0, 0), (0.5, 1), (0.9, 2), (0.95, 3), (1.0, 3)] {
            assert_eq!(smallest_sufficient(&scores, share), index, "{share}");
        }
        assert_eq!(smallest_sufficient(&[], 0.9), 0);
    }
}
