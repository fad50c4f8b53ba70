//! Ridge regression without a constant, by the normal equations of standardised columns.

/// Weights `w` that minimise `|y - X w|^2 + penalty * sum_k (w_k |x_k|)^2`; rows hold a value per column. A column of
/// zeros gets the weight 0.
pub(crate) fn ridge(rows: &[Vec<f64>], y: &[f64], penalty: f64) -> Vec<f64> {
    let columns = rows.first().map_or(0, Vec::len);
    let product = |a: usize, b: usize| rows.iter().map(|row| row[a] * row[b]).sum::<f64>();
    let lengths: Vec<f64> = (0..columns).map(|column| product(column, column).sqrt()).collect();
    let used: Vec<usize> = (0..columns).filter(|&column| lengths[column] > 0.0).collect();
    let matrix = used.iter().map(|&a| {
        let entry =
            |&b: &usize| product(a, b) / (lengths[a] * lengths[b]) + if a == b { penalty } else { 0.0 };
        used.iter().map(entry).collect()
    });
    let along = |&a: &usize| rows.iter().zip(y).map(|(row, y)| row[a] * y).sum::<f64>() / lengths[a];
    let solved = solve(matrix.collect(), used.iter().map(along).collect());
    let mut weights = vec![0.0; columns];
    for (&column, weight) in used.iter().zip(solved) {
        weights[column] = weight / lengths[column];
    }
    weights
}

/// Sums for the weights of two columns that add up to 1 in every row, by least squares.
pub(crate) struct Pair {
    squares: [f64; 2],
    product: f64,
    sums: [f64; 2],
}

impl Pair {
    /// Of rows with a value of each column.
    pub(crate) fn of(rows: impl Iterator<Item = [f64; 2]>) -> Self {
        let mut pair = Self { squares: [0.0; 2], product: 0.0, sums: [0.0; 2] };
        for [x, y] in rows {
            pair.squares[0] += x * x;
            pair.squares[1] += y * y;
            pair.product += x * y;
            pair.sums[0] += x;
            pair.sums[1] += y;
        }
        pair
    }

    /// Both weights; `None` if one column is a multiple of the other.
    pub(crate) fn weights(&self) -> Option<[f64; 2]> {
        let ([xx, yy], xy, [x, y]) = (self.squares, self.product, self.sums);
        let determinant = xx * yy - xy * xy;
        (determinant > 1e-9 * xx * yy)
            .then(|| [(x * yy - y * xy) / determinant, (xx * y - xy * x) / determinant])
    }

    /// The weight of the first column for a given one of the second.
    pub(crate) fn first(&self, second: f64) -> f64 {
        (self.sums[0] - second * self.product) / self.squares[0]
    }
}

/// Solves a symmetric positive system by Cholesky's method. Columns that follow from others get the share 0.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for j in 0..n {
        let pivot = matrix[j][j] - (0..j).map(|k| matrix[j][k].powi(2)).sum::<f64>();
        let dependent = pivot <= 1e-12;
        matrix[j][j] = if dependent { f64::INFINITY } else { pivot.sqrt() };
        for i in j + 1..n {
            let sum: f64 = (0..j).map(|k| matrix[i][k] * matrix[j][k]).sum();
            matrix[i][j] = (matrix[i][j] - sum) / matrix[j][j];
        }
    }
    for i in 0..n {
        let known: f64 = (0..i).map(|k| matrix[i][k] * right[k]).sum();
        right[i] = (right[i] - known) / matrix[i][i];
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| matrix[k][i] * right[k]).sum();
        right[i] = (right[i] - known) / matrix[i][i];
    }
    right
}
