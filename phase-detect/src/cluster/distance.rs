//! How far two signatures are apart.

/// A distance between two vectors of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Distance {
    /// Sum of absolute differences, `sum_i |a_i - b_i|`. At most 2 between frequency signatures.
    Manhattan,
    /// Root of the sum of squared differences, `sqrt(sum_i (a_i - b_i)^2)`. At most `sqrt(2)` between frequency
    /// signatures.
    Euclidean,
    /// Mean over entries of `|a_i - b_i| / ((|a_i| + |b_i|) / 2)` with 0/0 = 0. At most 2. Independent of the unit of
    /// each entry, which is why it suits counters of very different size.
    AveragePercentage,
}

impl Distance {
    /// The distance between `a` and `b`; of two vectors of different length, over the shorter one's entries.
    ///
    /// # References
    /// Manhattan: Sembrant, Eklöv, Hagersten, IISWC 2011, I.4-I.5. Average percentage difference: the POP paper,
    /// section III.B.
    pub fn between(self, a: &[f64], b: &[f64]) -> f64 {
        match self {
            Self::Manhattan => sum_over(a, b, |x, y| (x - y).abs()),
            Self::Euclidean => squared_euclidean(a, b).sqrt(),
            Self::AveragePercentage => sum_over(a, b, percentage) / a.len().min(b.len()).max(1) as f64,
        }
    }
}

/// `sum_i (a_i - b_i)^2`.
#[inline]
pub(crate) fn squared_euclidean(a: &[f64], b: &[f64]) -> f64 {
    sum_over(a, b, |x, y| (x - y) * (x - y))
}

/// `sum_i f(a_i, b_i)` in eight partial sums: they do not wait for each other, and fill vector registers.
#[inline]
pub(crate) fn sum_over(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> f64 {
    const LANES: usize = 8;
    let shared = a.len().min(b.len());
    let (a, b) = (a[..shared].chunks_exact(LANES), b[..shared].chunks_exact(LANES));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| f(*x, *y)).sum();
    let mut sums = [0.0; LANES];
    for (x, y) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += f(x[lane], y[lane]);
        }
    }
    let [p, q, r, s, t, u, v, w] = sums;
    ((p + t) + (q + u)) + ((r + v) + (s + w)) + rest
}

/// `|x - y| / ((|x| + |y|) / 2)`, 0/0 = 0.
#[inline]
pub(crate) fn percentage(x: f64, y: f64) -> f64 {
    let sum = x.abs() + y.abs();
    if sum == 0.0 { 0.0 } else { 2.0 * (x - y).abs() / sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms() {
        let (a, b) = ([0.5, 0.5, 0.0], [0.0, 0.5, 0.5]);
        assert_eq!(Distance::Manhattan.between(&a, &b), 1.0);
        assert_eq!(Distance::Euclidean.between(&a, &b), 0.5_f64.sqrt());
        // 2, 0 and 2, over three entries
        assert_eq!(Distance::AveragePercentage.between(&a, &b), 4.0 / 3.0);
        // 110 against 90: a difference of 20 from a mean of 100; 0 against 0 counts as equal
        assert_eq!(Distance::AveragePercentage.between(&[110.0, 0.0], &[90.0, 0.0]), 0.1);
    }

    /// Symmetry, identity, the triangle (Manhattan and Euclidean only), the stated maxima.
    #[test]
    fn laws() {
        fn law(raw: Vec<(u8, u8, u8)>) -> bool {
            let column = |pick: fn(&(u8, u8, u8)) -> u8| -> Vec<f64> {
                raw.iter().map(|t| f64::from(pick(t))).collect()
            };
            let (a, b, c) = (column(|t| t.0), column(|t| t.1), column(|t| t.2));
            [Distance::Manhattan, Distance::Euclidean, Distance::AveragePercentage].into_iter().all(|d| {
                let triangle = d == Distance::AveragePercentage
                    || d.between(&a, &c) <= d.between(&a, &b) + d.between(&b, &c) + 1e-9;
                let bounded = d != Distance::AveragePercentage || d.between(&a, &b) <= 2.0 + 1e-12;
                d.between(&a, &a) == 0.0 && d.between(&a, &b) == d.between(&b, &a) && triangle && bounded
            })
        }
        quickcheck::quickcheck(law as fn(Vec<(u8, u8, u8)>) -> bool);
    }
}
