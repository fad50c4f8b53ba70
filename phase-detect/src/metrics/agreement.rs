//! How far two classifications of the same windows agree, whatever they call their phases.

use std::collections::BTreeMap;

use super::check_lengths;
use crate::Error;

/// The adjusted Rand index: 1 for the same partition, about 0 for an independent one, negative below chance.
///
/// # Formula
/// `(S - E) / ((A + B) / 2 - E)` with `S = sum_ij C(n_ij, 2)` over the contingency table, `A` and `B` the same sums
/// over its row and column totals, and `E = A B / C(n, 2)`. Where the denominator is 0 both partitions are trivial in
/// the same way (one phase, or every window on its own), and the index is 1.
///
/// # Errors
/// [`Error::Windows`] unless both have the same number of labels, [`Error::NoWindows`] without any.
///
/// # References
/// Hubert, Arabie, *Comparing partitions*, Journal of Classification 2, 1985.
pub fn adjusted_rand_index<P: Ord, Q: Ord>(a: &[P], b: &[Q]) -> Result<f64, Error> {
    check_lengths("labels", a.len(), b.len())?;
    let both = pairs(a.iter().zip(b));
    let (in_a, in_b) = (pairs(a.iter()), pairs(b.iter()));
    let all = choose2(a.len() as u64);
    let expected = if all == 0.0 { 0.0 } else { in_a * in_b / all };
    let most = f64::midpoint(in_a, in_b);
    Ok(if most == expected { 1.0 } else { (both - expected) / (most - expected) })
}

/// Pairs of windows with the same label.
fn pairs<L: Ord>(labels: impl Iterator<Item = L>) -> f64 {
    let mut counts: BTreeMap<L, u64> = BTreeMap::new();
    for label in labels {
        *counts.entry(label).or_default() += 1;
    }
    counts.into_values().map(choose2).sum()
}

fn choose2(n: u64) -> f64 {
    n as f64 * (n as f64 - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition over pairs of windows: a and b agree, corrected for chance.
    fn by_pairs(a: &[u8], b: &[u8]) -> f64 {
        let (mut together, mut only_a, mut only_b, mut apart) = (0.0, 0.0, 0.0, 0.0);
        for i in 0..a.len() {
            for j in 0..i {
                *match (a[i] == a[j], b[i] == b[j]) {
                    (true, true) => &mut together,
                    (true, false) => &mut only_a,
                    (false, true) => &mut only_b,
                    (false, false) => &mut apart,
                } += 1.0;
            }
        }
        // the pair-counting form of the index (Hubert and Arabie, equation 5 rearranged)
        let top: f64 = 2.0 * (together * apart - only_a * only_b);
        let bottom = (together + only_a) * (only_a + apart) + (together + only_b) * (only_b + apart);
        if bottom == 0.0 { 1.0 } else { top / bottom }
    }

    #[test]
    fn equals_counting_pairs() {
        fn law(labels: Vec<(u8, u8)>) -> bool {
            let (a, b): (Vec<u8>, Vec<u8>) = labels.into_iter().map(|(a, b)| (a % 3, b % 4)).unzip();
            if a.is_empty() {
                return adjusted_rand_index(&a, &b).is_err();
            }
            let index = adjusted_rand_index(&a, &b).unwrap();
            (index - by_pairs(&a, &b)).abs() < 1e-9
                && (adjusted_rand_index(&b, &a).unwrap() - index).abs() < 1e-12
        }
        quickcheck::quickcheck(law as fn(Vec<(u8, u8)>) -> bool);
    }

    #[test]
    fn names_do_not_matter() {
        assert_eq!(adjusted_rand_index(&[0, 0, 1, 2], &['z', 'z', 'x', 'y']).unwrap(), 1.0);
        assert_eq!(adjusted_rand_index(&[0], &[1]).unwrap(), 1.0);
    }
}
