//! Whether events move together so much that their weights cannot be separated.

use super::qr::{Solution, dot};

/// How far the events of a fit move together, the constant apart.
///
/// A collinear fit still predicts well for programs like those it was fitted on; its weights mean little one
/// by one, and it predicts badly where the events come apart.
///
/// # Formula
/// Variance inflation factor of event `j`: `1 / (1 - R_j^2)`, with `R_j^2` of the regression of its rate on all
/// the others. Condition number: the ratio of largest and smallest singular value of the centred columns, each
/// scaled to length 1.
///
/// # References
/// Belsley, Kuh, Welsch, *Regression Diagnostics*, 1980 (condition number above 30); Marquardt, 1970 (variance
/// inflation above 10).
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Collinearity {
    /// Condition number, at least 1.
    pub condition_number: f64,
    /// Variance inflation factor of each event, at least 1.
    pub inflation: Vec<f64>,
}

impl Collinearity {
    /// Above this, the events as a whole are collinear.
    pub const CONDITION_LIMIT: f64 = 30.0;
    /// Above this, an event is predicted by the others.
    pub const INFLATION_LIMIT: f64 = 10.0;

    pub(super) fn of(solution: &Solution) -> Self {
        let inflation = solution.inverse_triangle().iter().map(|row| dot(row, row)).collect();
        Self { condition_number: condition_number(&solution.triangle), inflation }
    }

    /// Whether one of the two limits is exceeded.
    #[must_use]
    pub fn is_serious(&self) -> bool {
        self.condition_number > Self::CONDITION_LIMIT || self.suspects().next().is_some()
    }

    /// Numbers of the events whose variance is inflated beyond the limit.
    pub fn suspects(&self) -> impl Iterator<Item = usize> + '_ {
        self.inflation.iter().enumerate().filter(|(_, f)| **f > Self::INFLATION_LIMIT).map(|(j, _)| j)
    }
}

/// Ratio of the extreme singular values of an upper triangle, by one-sided Jacobi rotations: columns are made
/// orthogonal, two at a time, until they all are; their lengths are the singular values.
fn condition_number(triangle: &[Vec<f64>]) -> f64 {
    let p = triangle.len();
    let mut columns: Vec<Vec<f64>> = (0..p).map(|j| triangle.iter().map(|row| row[j]).collect()).collect();
    // Convergence is quadratic: six sweeps do for any matrix of this size.
    for _ in 0..30 {
        let mut rotated = false;
        for i in 0..p {
            for j in i + 1..p {
                let (a, b) = columns.split_at_mut(j);
                rotated |= orthogonalise(&mut a[i], &mut b[0]);
            }
        }
        if !rotated {
            break;
        }
    }
    let lengths: Vec<f64> = columns.iter().map(|c| dot(c, c).sqrt()).collect();
    let largest = lengths.iter().copied().fold(0.0, f64::max);
    let smallest = lengths.iter().copied().fold(f64::INFINITY, f64::min);
    if p == 0 { 1.0 } else { largest / smallest }
}

/// Rotates two columns in their plane so that they are orthogonal. Returns whether they were not.
fn orthogonalise(x: &mut [f64], y: &mut [f64]) -> bool {
    let (xx, yy, xy) = (dot(x, x), dot(y, y), dot(x, y));
    if xy.abs() <= 1e-14 * (xx * yy).sqrt() {
        return false;
    }
    let zeta = (yy - xx) / (2.0 * xy);
    let tangent = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
    let cosine = tangent.hypot(1.0).recip();
    let sine = cosine * tangent;
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
    true
}
