//! From the drawn image to a small square one: area averages.
//!
//! Each small pixel is the mean of the part of the large image it covers, pixels on its border counting by the share
//! of them it covers. That is exact for any pair of sizes, keeps the mean of the image, and needs no choice of kernel.

/// One axis: which source pixels each target pixel covers, and how much of each.
#[derive(Clone, Debug)]
struct Axis {
    // per target pixel: first source pixel and the shares of it and its successors, summing to 1
    spans: Vec<(usize, Vec<f64>)>,
}

impl Axis {
    fn new(from: usize, to: usize) -> Self {
        // in units of 1/to source pixels, where every border is a whole number
        let spans = (0..to)
            .map(|target| {
                let (start, end) = (target * from, (target + 1) * from);
                let first = start / to;
                let last = (end - 1) / to;
                let shares = (first..=last)
                    .map(|source| {
                        let covered = end.min((source + 1) * to) - start.max(source * to);
                        covered as f64 / from as f64
                    })
                    .collect();
                (first, shares)
            })
            .collect();
        Self { spans }
    }
}

/// Area averages from an image of `columns` by `rows` to `size` by `size`.
#[derive(Clone, Debug)]
pub(super) struct Resize {
    rows: usize,
    size: usize,
    across: Axis,
    down: Axis,
    // `size` values for each source column
    narrowed: Vec<f64>,
}

impl Resize {
    pub(super) fn new(columns: usize, rows: usize, size: usize) -> Self {
        Self {
            rows,
            size,
            across: Axis::new(columns, size),
            down: Axis::new(rows, size),
            narrowed: vec![0.0; columns * size],
        }
    }

    /// Reduces `image`, given column by column, into `small`, row by row.
    pub(super) fn reduce(&mut self, image: &[u32], small: &mut [f64]) {
        for (column, out) in image.chunks_exact(self.rows).zip(self.narrowed.chunks_exact_mut(self.size)) {
            for ((first, shares), out) in self.down.spans.iter().zip(out) {
                *out = column[*first..].iter().zip(shares).map(|(&p, s)| f64::from(p) * s).sum();
            }
        }
        for (j, (first, shares)) in self.across.spans.iter().enumerate() {
            for i in 0..self.size {
                let pieces = self.narrowed[first * self.size..].chunks_exact(self.size).zip(shares);
                small[i * self.size + j] = pieces.map(|(column, s)| column[i] * s).sum();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against enlarging the image to a common multiple of both sizes and averaging whole pixels.
    #[test]
    fn equals_averages_over_a_common_multiple() {
        fn law(columns: u8, rows: u8, power: u8, pixels: Vec<u16>) -> bool {
            let (columns, rows) = (1 + usize::from(columns % 24), 1 + usize::from(rows % 24));
            let size = 1 << (power % 5);
            let pixel = |c: usize, r: usize| {
                u32::from(pixels.get((c * rows + r) % pixels.len().max(1)).copied().unwrap_or(1))
            };
            let image: Vec<u32> = (0..columns * rows).map(|at| pixel(at / rows, at % rows)).collect();
            let mut small = vec![0.0; size * size];
            Resize::new(columns, rows, size).reduce(&image, &mut small);
            (0..size * size).all(|at| {
                let (i, j) = (at / size, at % size);
                // target pixel (i, j) covers rows i*rows.. and columns j*columns.. of an image `size` times as large
                let mut sum = 0.0;
                for y in i * rows..(i + 1) * rows {
                    for x in j * columns..(j + 1) * columns {
                        sum += f64::from(pixel(x / size, y / size));
                    }
                }
                let want = sum / (rows * columns) as f64;
                (small[at] - want).abs() <= 1e-9 * (1.0 + want)
            })
        }
        quickcheck::quickcheck(law as fn(u8, u8, u8, Vec<u16>) -> bool);
    }
}
