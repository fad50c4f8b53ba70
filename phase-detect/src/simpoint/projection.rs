//! Random projection: many dimensions to few, with distances kept on average.
//!
//! The matrix is never stored. Its entries are computed from the seed, the row and the column, so that block numbers
//! may be as large and as sparse as they like.

use super::BlockVector;
use crate::Error;
use crate::cluster::kmeans::at_least_one;
use crate::rng::{mix, unit};

/// A random linear map to a few dimensions.
///
/// # Formula
/// `y_d = sum_i x_i m(i, d)` with `m` uniform in -1..1, fixed by the seed.
///
/// # References
/// Sherwood, Perelman, Hamerly, Calder, ASPLOS 2002, section 4; the wavelet paper draws its clusters by the same
/// method in two dimensions (3.4, figure 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Projection {
    dimensions: usize, // at least 1
    seed: u64,
}

impl Projection {
    /// A projection to `dimensions`, drawn from `seed`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for no dimensions.
    pub fn new(dimensions: usize, seed: u64) -> Result<Self, Error> {
        at_least_one("dimensions", dimensions)?;
        Ok(Self { dimensions, seed })
    }

    /// Dimensions projected to.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The projection of a vector.
    pub fn project(&self, values: &[f64]) -> Vec<f64> {
        self.sum(values.iter().enumerate().map(|(i, &v)| (i as u64, v)))
    }

    /// The projection of a block vector divided by its sum.
    pub fn project_blocks(&self, window: &BlockVector) -> Vec<f64> {
        let total = window.total();
        self.sum(window.blocks().iter().map(|&(id, count)| (id, count / total)))
    }

    fn sum(&self, entries: impl Iterator<Item = (u64, f64)>) -> Vec<f64> {
        let mut projected = vec![0.0; self.dimensions];
        for (id, value) in entries {
            let row = self.row(id);
            for (dimension, sum) in projected.iter_mut().enumerate() {
                *sum += value * coefficient(row, dimension);
            }
        }
        projected
    }

    /// What the coefficients of entry `id` are computed from.
    fn row(&self, id: u64) -> u64 {
        mix(self.seed ^ mix(id.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    /// The coefficients of the first `entries` entries, for vectors that are projected in large numbers.
    pub(super) fn matrix(&self, entries: usize) -> Matrix {
        let coefficients = (0..entries as u64)
            .flat_map(|id| {
                let row = self.row(id);
                (0..self.dimensions).map(move |d| coefficient(row, d))
            })
            .collect();
        Matrix { dimensions: self.dimensions, coefficients }
    }
}

/// Uniform in -1..1.
fn coefficient(row: u64, dimension: usize) -> f64 {
    2.0 * unit(mix(row.wrapping_add(dimension as u64))) - 1.0
}

pub(super) struct Matrix {
    dimensions: usize,
    // one row per entry
    coefficients: Vec<f64>,
}

impl Matrix {
    pub(super) fn project(&self, values: &[f64]) -> Vec<f64> {
        let mut projected = vec![0.0; self.dimensions];
        for (row, value) in self.coefficients.chunks_exact(self.dimensions).zip(values) {
            projected.iter_mut().zip(row).for_each(|(p, c)| *p += value * c);
        }
        projected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Squared distances are kept on average: the variance of a uniform in -1..1 is 1/3, so that a projected squared
    /// length has a mean of dimensions / 3 times the original. Over 2000 projections of 15 dimensions the relative
    /// standard error is about sqrt(2/15/2000) < 1 %, and 3 % is more than three of them.
    #[test]
    fn lengths_are_kept_on_average() {
        let vector = [0.3, -0.2, 0.0, 0.5, 0.1, -0.7];
        let length: f64 = vector.iter().map(|v| v * v).sum();
        let mean: f64 = (0..2000)
            .map(|seed| {
                let projected = Projection::new(15, seed).unwrap().project(&vector);
                projected.iter().map(|v| v * v).sum::<f64>() * 3.0 / 15.0
            })
            .sum::<f64>()
            / 2000.0;
        assert!((mean / length - 1.0).abs() < 0.03, "{mean} {length}");
    }

    /// Dense and sparse forms are the same map, and it is linear.
    #[test]
    fn all_forms_agree() {
        let projection = Projection::new(4, 9).unwrap();
        let values = [0.1, 0.0, 0.6, 0.3];
        let dense = projection.project(&values);
        assert_eq!(projection.matrix(4).project(&values), dense);
        let blocks = BlockVector::new([(0, 1.0), (2, 6.0), (3, 3.0)]).unwrap();
        for (a, b) in projection.project_blocks(&blocks).iter().zip(&dense) {
            assert!((a - b).abs() < 1e-15);
        }
        let double = projection.project(&values.map(|v| 2.0 * v));
        assert!(dense.iter().zip(&double).all(|(a, b)| (2.0 * a - b).abs() < 1e-15));
    }
}
