//! All windows against all windows.

use crate::{Distance, Error, Signature, cluster::Shape};

/// Distances between the signatures of every two windows: the picture in which phases show as dark triangles along
/// the diagonal and their returns as dark rectangles off it.
///
/// # Cost
/// `n (n - 1) / 2` distances, computed and kept.
///
/// # References
/// Paper I, I.4, figures I.3 and I.4; Sherwood, Perelman, Calder, PACT 2001.
#[derive(Clone, Debug, PartialEq)]
pub struct SimilarityMatrix {
    windows: usize,
    // row by row: (0,1) (0,2) ... (0,n-1) (1,2) ...
    upper: Vec<f64>,
}

impl SimilarityMatrix {
    /// The matrix of `signatures` under `distance`.
    ///
    /// # Errors
    /// [`Error::NoWindows`] without signatures, [`Error::Kind`] and [`Error::Length`] if they do not compare.
    pub fn new(signatures: &[Signature], distance: Distance) -> Result<Self, Error> {
        let shape = Shape::of(signatures.first().ok_or(Error::NoWindows)?);
        for signature in signatures {
            shape.check(signature)?;
        }
        let n = signatures.len();
        let mut upper = Vec::with_capacity(n * (n - 1) / 2);
        for (i, a) in signatures.iter().enumerate() {
            upper.extend(signatures[i + 1..].iter().map(|b| distance.between(a.values(), b.values())));
        }
        Ok(Self { windows: n, upper })
    }

    /// Number of windows.
    pub fn windows(&self) -> usize {
        self.windows
    }

    /// Distance between windows `a` and `b`, in either order; `None` if there is no such window.
    pub fn get(&self, a: usize, b: usize) -> Option<f64> {
        let (low, high) = (a.min(b), a.max(b));
        if high >= self.windows {
            return None;
        }
        if low == high {
            return Some(0.0);
        }
        let row = low * (2 * self.windows - low - 1) / 2;
        self.upper.get(row + high - low - 1).copied()
    }

    /// Mean absolute difference of two matrices, element by element: how well cheaper signatures show what better
    /// ones show, whatever is done with them later. 0 for a single window.
    ///
    /// # Errors
    /// [`Error::Windows`] if the matrices are not of the same windows.
    pub fn mean_difference(&self, other: &Self) -> Result<f64, Error> {
        super::check_lengths("windows", self.windows, other.windows)?;
        let sum: f64 = self.upper.iter().zip(&other.upper).map(|(a, b)| (a - b).abs()).sum();
        Ok(sum / self.upper.len().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signatures(rows: &[[u8; 3]]) -> Vec<Signature> {
        rows.iter().map(|r| Signature::raw(r.map(f64::from).to_vec()).unwrap()).collect()
    }

    #[test]
    fn every_pair_is_where_it_belongs() {
        fn law(rows: Vec<(u8, u8, u8)>) -> bool {
            let rows: Vec<[u8; 3]> = rows.into_iter().map(|(a, b, c)| [a, b, c]).collect();
            let signatures = signatures(&rows);
            let Ok(matrix) = SimilarityMatrix::new(&signatures, Distance::Manhattan) else {
                return rows.is_empty();
            };
            let n = rows.len();
            (0..n).all(|i| {
                (0..n).all(|j| {
                    let want = Distance::Manhattan.between(signatures[i].values(), signatures[j].values());
                    matrix.get(i, j) == Some(want)
                })
            }) && matrix.get(0, n).is_none()
        }
        quickcheck::quickcheck(law as fn(Vec<(u8, u8, u8)>) -> bool);
    }

    #[test]
    fn difference_of_two_matrices() {
        let a = SimilarityMatrix::new(&signatures(&[[0; 3], [1; 3], [2; 3]]), Distance::Manhattan).unwrap();
        let b = SimilarityMatrix::new(&signatures(&[[0; 3], [1; 3], [3; 3]]), Distance::Manhattan).unwrap();
        // distances 3, 6, 3 against 3, 9, 6
        assert_eq!(a.mean_difference(&b).unwrap(), 2.0);
        assert_eq!(a.mean_difference(&a).unwrap(), 0.0);
        let short = SimilarityMatrix::new(&signatures(&[[0; 3]]), Distance::Manhattan).unwrap();
        assert!(matches!(a.mean_difference(&short), Err(Error::Windows { .. })));
        assert_eq!(short.mean_difference(&short).unwrap(), 0.0);
    }
}
