//! Which order statistics enclose a quantile: counting how many of n draws fall below it.

/// Probabilities of 0 to `n` successes in `n` draws, each with probability `p` in (0, 1).
///
/// Computed outwards from the most likely count and normalised, so that nothing overflows.
fn probabilities(n: usize, p: f64) -> Vec<f64> {
    let mode = (((n + 1) as f64 * p) as usize).min(n);
    let odds = p / (1.0 - p);
    let mut table = vec![0.0; n + 1];
    table[mode] = 1.0;
    for k in mode + 1..=n {
        table[k] = table[k - 1] * odds * (n - k + 1) as f64 / k as f64;
    }
    for k in (0..mode).rev() {
        table[k] = table[k + 1] / odds * (k + 1) as f64 / (n - k) as f64;
    }
    let sum: f64 = table.iter().sum();
    for value in &mut table {
        *value /= sum;
    }
    table
}

/// Numbers (from 0) of two of `n` sorted draws between which the `p`-quantile lies with at least the given
/// confidence, leaving out at most half of the rest on either side; `None` on a side where no draw is far enough
/// out.
pub(super) fn enclosing(n: usize, p: f64, confidence: f64) -> (Option<usize>, Option<usize>) {
    let tail = (1.0 - confidence) / 2.0;
    let table = probabilities(n, p);
    // The draw number l lies above the quantile if at most l draws are below it.
    let (mut below, mut lower) = (0.0, None);
    for (k, probability) in table.iter().enumerate().take(n) {
        below += probability;
        if below > tail {
            break;
        }
        lower = Some(k);
    }
    // The draw number u lies below it if more than u are.
    let (mut above, mut upper) = (0.0, None);
    for (k, probability) in table.iter().enumerate().skip(1).rev() {
        above += probability;
        if above > tail {
            break;
        }
        upper = Some(k - 1);
    }
    (lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_agree_with_counting_all_outcomes() {
        for p in [0.05, 0.5, 0.9] {
            let n = 12;
            let mut counted = vec![0.0; n + 1];
            for outcome in 0_u32..1 << n {
                let k = outcome.count_ones() as i32;
                counted[k as usize] += f64::powi(p, k) * f64::powi(1.0 - p, n as i32 - k);
            }
            for (a, b) in probabilities(n, p).iter().zip(&counted) {
                assert!((a - b).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn the_published_interval_of_the_median() {
        // n = 100: the 40th and the 61st order statistic enclose the median with 95 % (e.g. Conover, Practical
        // Nonparametric Statistics, table A3).
        assert_eq!(enclosing(100, 0.5, 0.95), (Some(39), Some(60)));
    }

    #[test]
    fn a_few_draws_do_not_enclose_a_rare_quantile() {
        assert_eq!(enclosing(20, 0.99, 0.95).1, None);
        assert_eq!(enclosing(20, 0.01, 0.95).0, None);
    }
}
