//! The non-increasing sequence nearest to a measured one: noise may make a larger cache look worse, and a
//! program that fetches more with more cache has no filling time.
//!
//! Pool adjacent violators (Ayer and others, *An Empirical Distribution Function for Sampling with Incomplete
//! Information*, Annals of Mathematical Statistics 26, 1955): least squares, so that noise averages out instead
//! of pulling the curve to one side.

/// Replaces `values` by the non-increasing sequence with the least sum of squared differences.
pub(super) fn make_non_increasing(values: &mut [f64]) {
    let mut pools: Vec<(f64, usize)> = Vec::with_capacity(values.len()); // mean, length
    for &value in values.iter() {
        let mut pool = (value, 1);
        while let Some(&(mean, length)) = pools.last() {
            if mean >= pool.0 {
                break;
            }
            pools.pop();
            let total = length + pool.1;
            pool = ((mean * length as f64 + pool.0 * pool.1 as f64) / total as f64, total);
        }
        pools.push(pool);
    }
    let flat = pools.iter().flat_map(|&(mean, length)| std::iter::repeat_n(mean, length));
    for (value, pooled) in values.iter_mut().zip(flat) {
        *value = pooled;
    }
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::make_non_increasing;

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
    }

    /// All non-increasing sequences over the given levels.
    fn sequences(length: usize, levels: &[f64], top: usize) -> Vec<Vec<f64>> {
        if length == 0 {
            return vec![Vec::new()];
        }
        (0..=top)
            .flat_map(|level| {
                sequences(length - 1, levels, level).into_iter().map(move |mut rest| {
                    rest.insert(0, levels[level]);
                    rest
                })
            })
            .collect()
    }

    #[test]
    fn nothing_that_falls_is_nearer() {
        let cases = [vec![3.0, 1.0, 2.0, 0.0], vec![0.0, 1.0, 2.0, 3.0], vec![2.0, 3.0, 1.0, 1.0, 2.0]];
        let levels: Vec<f64> = (0..=24).map(|i| f64::from(i) / 8.0).collect();
        for case in cases {
            let mut fitted = case.clone();
            make_non_increasing(&mut fitted);
            assert!(fitted.windows(2).all(|w| w[0] >= w[1]));
            let best = sequences(case.len(), &levels, levels.len() - 1)
                .iter()
                .map(|s| distance(s, &case))
                .fold(f64::INFINITY, f64::min);
            assert!(distance(&fitted, &case) <= best + 1e-12, "{case:?}: {fitted:?}");
        }
    }

    quickcheck! {
        fn a_sequence_that_falls_stays(values: Vec<u16>) -> bool {
            let mut values: Vec<f64> = values.into_iter().map(f64::from).collect();
            values.sort_by(|a, b| b.total_cmp(a));
            let mut fitted = values.clone();
            make_non_increasing(&mut fitted);
            fitted == values
        }

        fn the_mean_stays(values: Vec<u16>) -> bool {
            let mut fitted: Vec<f64> = values.iter().copied().map(f64::from).collect();
            let sum: f64 = fitted.iter().sum();
            make_non_increasing(&mut fitted);
            (fitted.iter().sum::<f64>() - sum).abs() <= 1e-9 * sum.max(1.0)
        }
    }
}
