//! How far two courses of a quantity over time are apart, moments aside.

/// CDF error: the area between the time-weighted distributions of a reference and of an estimate, which is the mean
/// absolute difference of the two after sorting each. Both give a value for each window, `time` says how long each
/// window is (any unit, not negative). In the unit of the values; 0 where nothing has a length.
///
/// # Panics
/// Never; where one of the three is shorter, the rest of the others is ignored.
///
/// # References
/// CGO 2012, section 5.1.
///
/// ```
/// // Right for half of the time, 2 too large for a quarter and 2 too small for another: the order does not count.
/// let error = examples::guided::cdf_error(&[1.0, 3.0, 1.0, 1.0], &[3.0, 1.0, 1.0, 3.0], &[1.0; 4]);
/// assert_eq!(error, 0.5);
/// ```
pub fn cdf_error(reference: &[f64], estimate: &[f64], time: &[f64]) -> f64 {
    let sorted = |values: &[f64]| {
        let mut pairs: Vec<(f64, f64)> = values.iter().copied().zip(time.iter().copied()).collect();
        pairs.truncate(reference.len().min(estimate.len()));
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        pairs
    };
    let (a, b) = (sorted(reference), sorted(estimate));
    let total: f64 = a.iter().map(|pair| pair.1).sum();
    if total <= 0.0 {
        return 0.0;
    }
    let (mut area, mut i, mut j) = (0.0, 0, 0);
    let (mut left, mut right) = (a[0].1, b[0].1);
    while i < a.len() && j < b.len() {
        let step = left.min(right);
        area += step * (a[i].0 - b[j].0).abs();
        left -= step;
        right -= step;
        if left <= 0.0 {
            i += 1;
            left = a.get(i).map_or(0.0, |pair| pair.1);
        }
        if right <= 0.0 {
            j += 1;
            right = b.get(j).map_or(0.0, |pair| pair.1);
        }
    }
    area / total
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        /// The area between two distribution functions, summed over values instead of time.
        fn is_the_area_between_the_distributions(windows: Vec<(u8, u8, u8)>) -> bool {
            let column = |get: fn(&(u8, u8, u8)) -> u8| -> Vec<f64> {
                windows.iter().map(|w| f64::from(get(w))).collect()
            };
            let (a, b, time) = (column(|w| w.0), column(|w| w.1), column(|w| w.2));
            let total: f64 = time.iter().sum();
            let below = |values: &[f64], limit: f64| -> f64 {
                values.iter().zip(&time).filter(|pair| *pair.0 <= limit).map(|pair| pair.1).sum()
            };
            let area: f64 = (0..255_u8).map(f64::from).map(|v| (below(&a, v) - below(&b, v)).abs()).sum();
            let expected = if total > 0.0 { area / total } else { 0.0 };
            (cdf_error(&a, &b, &time) - expected).abs() < 1e-9 * (1.0 + expected)
        }
    }
}
