//! Least squares by Householder QR on centred, scaled columns.
//!
//! Centring takes the constant out of the system, scaling makes the rates comparable: without either the
//! condition number says more about units than about the data. Left out: pivoting (the first column that
//! follows from those before it is named instead) and blocking (there are ten columns, not thousands).

/// Smallest sine of the angle between a column and those before it at which it still counts as independent.
/// Squared it is far above the rounding error of the triangle, whatever the number of rows.
const INDEPENDENT: f64 = 1e-6;

/// The triangle of the centred and scaled system, and its solution.
pub(super) struct Solution {
    pub weights: Vec<f64>, // per unit of the column as given
    pub constant: f64,
    pub residual_squares: f64,
    pub total_squares: f64, // of the right-hand side about its mean
    pub scales: Vec<f64>,   // lengths of the centred columns, > 0
    pub means: Vec<f64>,
    pub triangle: Vec<Vec<f64>>, // upper, [row][column]
}

/// Fits `y` to `rows` plus a constant. `rows` are of equal length, not longer than their number.
///
/// # Errors
/// The number of the first column that is constant or depends on the ones before it.
pub(super) fn least_squares(rows: &[&[f64]], y: &[f64]) -> Result<Solution, usize> {
    let (n, p) = (rows.len(), rows.first().map_or(0, |row| row.len()));
    let mean_y = mean(y.iter().copied());
    let mut b: Vec<f64> = y.iter().map(|y| y - mean_y).collect();
    let total_squares = dot(&b, &b);

    let means: Vec<f64> = (0..p).map(|j| mean(rows.iter().map(|row| row[j]))).collect();
    let mut columns: Vec<Vec<f64>> =
        (0..p).map(|j| rows.iter().map(|row| row[j] - means[j]).collect()).collect();
    let mut scales = Vec::with_capacity(p);
    for (j, column) in columns.iter_mut().enumerate() {
        let scale = dot(column, column).sqrt();
        // What is left of a constant column after centring is rounding error of its mean.
        if scale <= INDEPENDENT * means[j].abs() * (n as f64).sqrt() || scale == 0.0 {
            return Err(j);
        }
        for x in column.iter_mut() {
            *x /= scale;
        }
        scales.push(scale);
    }

    let mut triangle = vec![vec![0.0; p]; p];
    for j in 0..p {
        let Some((pivot, later)) = columns[j..].split_first_mut() else { break };
        for (i, row) in triangle.iter_mut().enumerate().take(j) {
            row[j] = pivot[i];
        }
        let length = dot(&pivot[j..], &pivot[j..]).sqrt();
        if length < INDEPENDENT {
            return Err(j);
        }
        // Reflect the rest of the column onto the axis, away from itself so that nothing cancels.
        let target = if pivot[j] > 0.0 { -length } else { length };
        triangle[j][j] = target;
        pivot[j] -= target;
        let half = dot(&pivot[j..], &pivot[j..]) / 2.0;
        for other in later.iter_mut().chain([&mut b]) {
            let along = dot(&pivot[j..], &other[j..]) / half;
            other[j..].iter_mut().zip(&pivot[j..]).for_each(|(x, v)| *x -= along * v);
        }
    }

    let scaled = back_substitute(&triangle, &b[..p]);
    let weights: Vec<f64> = scaled.iter().zip(&scales).map(|(w, s)| w / s).collect();
    let constant = mean_y - dot(&weights, &means);
    Ok(Solution {
        constant,
        residual_squares: dot(&b[p..], &b[p..]),
        weights,
        total_squares,
        scales,
        means,
        triangle,
    })
}

impl Solution {
    /// The inverse of the triangle: row `j` of it has squared length `[(Z'Z)^-1]_jj`.
    pub(super) fn inverse_triangle(&self) -> Vec<Vec<f64>> {
        let p = self.triangle.len();
        let columns: Vec<Vec<f64>> = (0..p)
            .map(|j| {
                let unit: Vec<f64> = (0..p).map(|i| f64::from(u8::from(i == j))).collect();
                back_substitute(&self.triangle, &unit)
            })
            .collect();
        (0..p).map(|i| columns.iter().map(|column| column[i]).collect()).collect()
    }
}

/// Solves `triangle * x = b`, diagonal not 0.
fn back_substitute(triangle: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let mut x = b.to_vec();
    for i in (0..x.len()).rev() {
        let known = dot(&triangle[i][i + 1..], &x[i + 1..]);
        x[i] = (x[i] - known) / triangle[i][i];
    }
    x
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}
