//! Wavelet signatures: pictures of where in memory a window went, and when.
//!
//! Vectors of code say what ran; they are blind to the same code meeting other data. Here the accesses of a window
//! are drawn as an image (time across, address down), the image is made small and square, and its Haar coefficients,
//! weighted by their position, are the signature. Two windows that look alike have similar coefficients.

mod haar;
mod image;

pub use haar::Haar2d;

use crate::{Error, Signature};
use image::Resize;

/// Weights of the coefficients by level, coarsest first, for painted images (Jacobs et al., as the paper takes them).
pub const LEVEL_WEIGHTS: [f64; 6] = [4.04, 0.78, 0.46, 0.42, 0.41, 0.32];

/// Parameters of [`Wavelet`]; checked by [`Wavelet::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaveletConfig {
    /// Columns of the image: steps of time in a window. From 1 to 4096.
    pub columns: usize,
    /// Rows of the image: steps of address. From 1 to 4096.
    pub rows: usize,
    /// Addresses are taken modulo this many bytes: a power of two, at least 2.
    pub modulus: u64,
    /// Side of the small square image: a power of two up to 1024. The signature has its square of entries.
    pub size: usize,
}

impl Default for WaveletConfig {
    /// 20 by 400, modulo 64 KiB, reduced to 16 by 16.
    ///
    /// The paper uses a modulus of 16 KiB in one place and 32 KiB in another and finds 64 KiB best.
    fn default() -> Self {
        Self { columns: 20, rows: 400, modulus: 64 << 10, size: 16 }
    }
}

impl WaveletConfig {
    fn check(&self) -> Result<(), Error> {
        let parameter = |name, value: f64, limit| Err(Error::Parameter { name, value, limit });
        if !(1..=4096).contains(&self.columns) {
            return parameter("columns", self.columns as f64, "an image has 1 to 4096 columns");
        }
        if !(1..=4096).contains(&self.rows) {
            return parameter("rows", self.rows as f64, "an image has 1 to 4096 rows");
        }
        if !self.modulus.is_power_of_two() || self.modulus < 2 || self.modulus > 1 << 48 {
            return parameter(
                "modulus",
                self.modulus as f64,
                "it must be a power of two from 2 to 2^48 bytes",
            );
        }
        if !self.size.is_power_of_two() || self.size > 1024 {
            return parameter("size", self.size as f64, "it must be a power of two up to 1024");
        }
        Ok(())
    }
}

/// Builds the wavelet signature of one window after another.
///
/// The caller supplies the address of each access and when it was made, in any clock that runs forward within the
/// window: instructions as in the paper, or accesses. Fed with the misses of a cache instead of all accesses, the same
/// builder gives the paper's soft bound.
///
/// ```
/// use phase_detect::{Wavelet, WaveletConfig};
///
/// let mut wavelet = Wavelet::new(WaveletConfig::default(), 1_000_000)?; // windows of a million instructions
/// for i in 0..1_000 {
///     wavelet.add(0x7f00_0000 + i * 64, i * 1_000);
/// }
/// assert_eq!(wavelet.finish()?.len(), 256);
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # Formula
/// Pixel: accesses with `column = floor(time * columns / window)` and
/// `row = floor((address mod M) * rows / M)`; area average to `size` by `size`; Haar transform of every row, then of
/// every column; coefficient `(i, j)` times `w[min(max(level(i), level(j)), 5)]` with
/// `level(i) = floor(log2(i + 1))` and `w` = [`LEVEL_WEIGHTS`].
///
/// # Limits
/// Pixels count accesses, so windows must be of equal length to compare. Signatures are raw and meant for Euclidean
/// distance ([`KMeans`](crate::KMeans)).
///
/// # Cost
/// One addition to the image per access; one reduction and transform per window. [`finish_into`](Self::finish_into)
/// allocates nothing.
///
/// # References
/// Huffmire, Sherwood, *Wavelet-Based Phase Classification*, PACT 2006, section 3, equation 1; Jacobs, Finkelstein,
/// Salesin, *Fast multiresolution image querying*, SIGGRAPH 1995.
#[derive(Clone, Debug)]
pub struct Wavelet {
    config: WaveletConfig,
    window: u64, // at least 1
    // column by column, so that the column being filled is contiguous
    image: Vec<u32>,
    // start of the current column in `image`, and the time at which the next one begins
    column: usize,
    column_ends: u64,
    accesses: u64,
    resize: Resize,
    haar: Haar2d,
    small: Vec<f64>,
    weights: Vec<f64>,
}

impl Wavelet {
    /// A builder for windows that last `window` ticks of the clock passed to [`add`](Self::add).
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range or the window is empty.
    pub fn new(config: WaveletConfig, window: u64) -> Result<Self, Error> {
        config.check()?;
        if window == 0 {
            return Err(Error::Parameter {
                name: "window",
                value: 0.0,
                limit: "a window lasts at least 1 tick",
            });
        }
        let size = config.size;
        let mut wavelet = Self {
            config,
            window,
            image: vec![0; config.columns * config.rows],
            column: 0,
            column_ends: 0,
            accesses: 0,
            resize: Resize::new(config.columns, config.rows, size),
            haar: Haar2d::new(size)?,
            small: vec![0.0; size * size],
            weights: (0..size * size).map(|at| weight(at / size, at % size)).collect(),
        };
        wavelet.clear();
        Ok(wavelet)
    }

    /// The parameters.
    pub fn config(&self) -> &WaveletConfig {
        &self.config
    }

    /// Draws an access to `address` made at `time` since the start of the window.
    ///
    /// Times must not decrease; one that does counts as the latest so far, and one beyond the end of the window as
    /// its last.
    #[inline]
    pub fn add(&mut self, address: u64, time: u64) {
        if time >= self.column_ends {
            self.advance(time);
        }
        let modulus = self.config.modulus;
        let row = ((address & (modulus - 1)) * self.config.rows as u64) >> modulus.trailing_zeros();
        let pixel = &mut self.image[self.column + row as usize];
        *pixel = pixel.saturating_add(1);
        self.accesses += 1;
    }

    /// Moves on to the column of `time`.
    #[cold]
    fn advance(&mut self, time: u64) {
        let columns = self.config.columns as u64;
        let wide = u128::from(time) * u128::from(columns) / u128::from(self.window);
        let number = wide.min(u128::from(columns) - 1) as u64;
        self.column = number as usize * self.config.rows;
        self.column_ends = if number + 1 == columns {
            u64::MAX
        } else {
            // the first tick of the next column
            (u128::from(number + 1) * u128::from(self.window)).div_ceil(u128::from(columns)) as u64
        };
    }

    /// Ends the window: its signature, and an empty builder for the next one.
    ///
    /// # Errors
    /// [`Error::NothingObserved`] if no access was drawn.
    pub fn finish(&mut self) -> Result<Signature, Error> {
        self.transform()?;
        Signature::raw(self.small.clone())
    }

    /// As [`finish`](Self::finish), into a signature the caller keeps. On an error `signature` stays what it was.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_into(&mut self, signature: &mut Signature) -> Result<(), Error> {
        self.transform()?;
        signature.refill_raw(&self.small)
    }

    fn transform(&mut self) -> Result<(), Error> {
        if self.accesses == 0 {
            return Err(Error::NothingObserved { entries: self.image.len() });
        }
        self.resize.reduce(&self.image, &mut self.small);
        self.haar.forward(&mut self.small)?;
        for (coefficient, weight) in self.small.iter_mut().zip(&self.weights) {
            *coefficient *= weight;
        }
        self.clear();
        Ok(())
    }

    /// Forgets the window that was begun.
    pub fn clear(&mut self) {
        self.image.fill(0);
        self.accesses = 0;
        self.advance(0);
    }

    /// The image drawn so far, for looking at: accesses at a column (time) and row (address), 0 outside it.
    pub fn pixel(&self, column: usize, row: usize) -> u32 {
        if column < self.config.columns && row < self.config.rows {
            self.image[column * self.config.rows + row]
        } else {
            0
        }
    }
}

/// The weight of the coefficient at `(i, j)`.
fn weight(i: usize, j: usize) -> f64 {
    let level = |i: usize| (i + 1).ilog2() as usize;
    LEVEL_WEIGHTS[level(i).max(level(j)).min(5)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_follow_the_larger_level() {
        for ((i, j), want) in [
            ((0, 0), 4.04),
            ((0, 1), 0.78),
            ((2, 1), 0.78),
            ((3, 0), 0.46),
            ((0, 6), 0.46),
            ((7, 7), 0.42),
            ((15, 0), 0.41),
            ((31, 2), 0.32),
            ((500, 2), 0.32),
        ] {
            assert_eq!(weight(i, j), want, "({i}, {j})");
        }
    }

    /// Pixels against the two formulas in plain arithmetic.
    #[test]
    fn accesses_land_where_the_formulas_say() {
        fn law(mut accesses: Vec<(u64, u16)>, window: u16, modulus: u8) -> bool {
            let window = u64::from(window) + 1;
            let config = WaveletConfig {
                modulus: 2 << (modulus % 40),
                columns: 7,
                rows: 13,
                ..WaveletConfig::default()
            };
            let mut wavelet = Wavelet::new(config, window).unwrap();
            accesses.sort_by_key(|a| a.1);
            let mut image = [[0_u32; 13]; 7];
            for &(address, time) in &accesses {
                wavelet.add(address, u64::from(time));
                let column = (u64::from(time) * 7 / window).min(6) as usize;
                let row = (u128::from(address % config.modulus) * 13 / u128::from(config.modulus)) as usize;
                image[column][row] += 1;
            }
            (0..7).all(|c| (0..13).all(|r| wavelet.pixel(c, r) == image[c][r])) && wavelet.pixel(7, 0) == 0
        }
        quickcheck::quickcheck(law as fn(Vec<(u64, u16)>, u16, u8) -> bool);
    }

    /// An image that is the same everywhere has one coefficient, its mean, whatever the sizes.
    #[test]
    fn an_even_image_is_its_mean() {
        for size in [1, 2, 16, 32] {
            let config = WaveletConfig { modulus: 1024, columns: 5, rows: 8, size };
            let mut wavelet = Wavelet::new(config, 5).unwrap();
            for time in 0..5 {
                for row in 0..8 {
                    for _ in 0..3 {
                        wavelet.add(row * 128 + 4096 * time, time);
                    }
                }
            }
            let signature = wavelet.finish().unwrap();
            assert!((signature.values()[0] - 3.0 * 4.04).abs() < 1e-12);
            assert!(signature.values()[1..].iter().all(|c| c.abs() < 1e-12));
            assert!(matches!(wavelet.finish(), Err(Error::NothingObserved { entries: 40 })));
        }
    }

    #[test]
    fn parameters_are_checked() {
        let good = WaveletConfig::default();
        for bad in [
            WaveletConfig { columns: 0, ..good },
            WaveletConfig { rows: 5000, ..good },
            WaveletConfig { modulus: 3000, ..good },
            WaveletConfig { modulus: 1, ..good },
            WaveletConfig { size: 0, ..good },
            WaveletConfig { size: 12, ..good },
        ] {
            assert!(matches!(Wavelet::new(bad, 10), Err(Error::Parameter { .. })), "{bad:?}");
        }
        assert!(matches!(Wavelet::new(good, 0), Err(Error::Parameter { name: "window", .. })));
    }
}
