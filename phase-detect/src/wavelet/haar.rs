//! The Haar transform: averages and differences.
//!
//! Pairs of numbers become their average and half their difference; the averages are treated the same way until one
//! is left. Averages come first, so that [8 6 2 4] becomes [7 3 1 -1] and then [5 2 1 -1]. A square image is
//! transformed row by row and then column by column (the standard decomposition).

use crate::Error;

/// The two-dimensional Haar transform of square images of one size, and its inverse.
///
/// ```
/// use phase_detect::wavelet::Haar2d;
///
/// let mut haar = Haar2d::new(2)?;
/// let mut image = [9.0, 7.0, 5.0, 3.0]; // row by row
/// haar.forward(&mut image)?;
/// assert_eq!(image, [6.0, 1.0, 2.0, 0.0]); // mean; right, bottom and diagonal detail
/// haar.inverse(&mut image)?;
/// assert_eq!(image, [9.0, 7.0, 5.0, 3.0]);
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # Formula
/// One step on `a` of length `n`: `b_i = (a_2i + a_2i+1) / 2`, `b_(n/2+i) = (a_2i - a_2i+1) / 2`; repeated on the
/// first half.
///
/// # References
/// Huffmire, Sherwood, PACT 2006, 3.2; Stollnitz et al., *Wavelets for computer graphics: a primer*, IEEE
/// Computer Graphics and Applications, 1995.
#[derive(Clone, Debug)]
pub struct Haar2d {
    size: usize, // a power of two
    // one line on its way, and a copy of it
    line: Vec<f64>,
    scratch: Vec<f64>,
}

impl Haar2d {
    /// For images of `size` by `size`.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless `size` is a power of two.
    pub fn new(size: usize) -> Result<Self, Error> {
        if !size.is_power_of_two() {
            return Err(Error::Parameter {
                name: "size",
                value: size as f64,
                limit: "it must be a power of two",
            });
        }
        Ok(Self { size, line: vec![0.0; size], scratch: vec![0.0; size] })
    }

    /// Transforms an image in place.
    ///
    /// # Errors
    /// [`Error::Length`] unless it has `size * size` pixels.
    pub fn forward(&mut self, image: &mut [f64]) -> Result<(), Error> {
        self.check(image)?;
        self.each_row(image, forward);
        self.each_column(image, forward);
        Ok(())
    }

    /// Undoes [`forward`](Self::forward).
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn inverse(&mut self, image: &mut [f64]) -> Result<(), Error> {
        self.check(image)?;
        self.each_column(image, inverse);
        self.each_row(image, inverse);
        Ok(())
    }

    fn check(&self, image: &[f64]) -> Result<(), Error> {
        let expected = self.size * self.size;
        if image.len() == expected { Ok(()) } else { Err(Error::Length { expected, got: image.len() }) }
    }

    fn each_row(&mut self, image: &mut [f64], transform: fn(&mut [f64], &mut [f64])) {
        for row in image.chunks_exact_mut(self.size) {
            transform(row, &mut self.scratch);
        }
    }

    fn each_column(&mut self, image: &mut [f64], transform: fn(&mut [f64], &mut [f64])) {
        for column in 0..self.size {
            for (value, row) in self.line.iter_mut().zip(image.chunks_exact(self.size)) {
                *value = row[column];
            }
            transform(&mut self.line, &mut self.scratch);
            for (value, row) in self.line.iter().zip(image.chunks_exact_mut(self.size)) {
                row[column] = *value;
            }
        }
    }
}

/// All steps on one line whose length is a power of two.
fn forward(line: &mut [f64], scratch: &mut [f64]) {
    let mut length = line.len();
    while length > 1 {
        let half = length / 2;
        for (i, pair) in line[..length].chunks_exact(2).enumerate() {
            scratch[i] = f64::midpoint(pair[0], pair[1]);
            scratch[half + i] = (pair[0] - pair[1]) / 2.0;
        }
        line[..length].copy_from_slice(&scratch[..length]);
        length = half;
    }
}

fn inverse(line: &mut [f64], scratch: &mut [f64]) {
    let mut length = 2;
    while length <= line.len() {
        let half = length / 2;
        for (i, pair) in scratch[..length].chunks_exact_mut(2).enumerate() {
            pair[0] = line[i] + line[half + i];
            pair[1] = line[i] - line[half + i];
        }
        line[..length].copy_from_slice(&scratch[..length]);
        length *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    /// The paper's worked example.
    #[test]
    fn the_papers_example() {
        let mut line = [8.0, 6.0, 2.0, 4.0];
        forward(&mut line, &mut [0.0; 4]);
        assert_eq!(line, [5.0, 2.0, 1.0, -1.0]);
        inverse(&mut line, &mut [0.0; 4]);
        assert_eq!(line, [8.0, 6.0, 2.0, 4.0]);
    }

    /// The transform by its definition as an inner product: coefficient 0 is the mean; coefficient `2^l + p` is half
    /// the difference between the means of the two halves of the p-th of `2^l` equal pieces.
    fn coefficient(line: &[f64], index: usize) -> f64 {
        let mean = |piece: &[f64]| piece.iter().sum::<f64>() / piece.len() as f64;
        if index == 0 {
            return mean(line);
        }
        let pieces = 1 << index.ilog2();
        let length = line.len() / pieces;
        let piece = &line[(index - pieces) * length..][..length];
        (mean(&piece[..length / 2]) - mean(&piece[length / 2..])) / 2.0
    }

    #[test]
    fn coefficients_are_differences_of_means() {
        let mut rng = SplitMix64::new(1);
        for size in [1, 2, 8, 32] {
            let image: Vec<f64> = (0..size * size).map(|_| rng.unit()).collect();
            let rows: Vec<Vec<f64>> =
                image.chunks_exact(size).map(|r| (0..size).map(|j| coefficient(r, j)).collect()).collect();
            let mut haar = Haar2d::new(size).unwrap();
            let mut transformed = image.clone();
            haar.forward(&mut transformed).unwrap();
            for j in 0..size {
                let column: Vec<f64> = rows.iter().map(|r| r[j]).collect();
                for i in 0..size {
                    let want = coefficient(&column, i);
                    assert!((transformed[i * size + j] - want).abs() < 1e-14, "size {size} ({i}, {j})");
                }
            }
            haar.inverse(&mut transformed).unwrap();
            // each of at most ten steps rounds once
            assert!(image.iter().zip(&transformed).all(|(a, b)| (a - b).abs() < 1e-14));
        }
    }

    #[test]
    fn sizes_are_checked() {
        assert!(Haar2d::new(0).is_err() && Haar2d::new(6).is_err());
        assert!(matches!(
            Haar2d::new(4).unwrap().forward(&mut [0.0; 15]),
            Err(Error::Length { expected: 16, got: 15 })
        ));
    }
}
