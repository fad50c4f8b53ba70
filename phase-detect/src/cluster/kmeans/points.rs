//! Many vectors of one length in one block of memory.

use crate::Error;
use crate::cluster::distance::squared_euclidean;

/// Rows are padded with zeros to a multiple of this, so that distances need no remainder loop.
const PAD: usize = 4;

/// Largest entry: squares of differences, summed over all entries and rows, must not overflow.
const LARGEST: f64 = 1e140;

/// Points to be clustered.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    width: usize, // a multiple of PAD, at least PAD
    rows: Vec<f64>,
}

impl Points {
    /// No points yet, for rows of `len` entries.
    pub(crate) fn empty(len: usize) -> Self {
        Self { width: len.max(1).next_multiple_of(PAD), rows: Vec::new() }
    }

    pub(crate) fn new<'a>(len: usize, rows: impl Iterator<Item = &'a [f64]>) -> Result<Self, Error> {
        let mut points = Self::empty(len);
        rows.into_iter().try_for_each(|row| points.push(row))?;
        Ok(points)
    }

    pub(crate) fn push(&mut self, row: &[f64]) -> Result<(), Error> {
        if let Some(&value) = row.iter().find(|v| v.abs() > LARGEST) {
            return Err(Error::TooLarge { value, limit: LARGEST });
        }
        self.push_small(row);
        Ok(())
    }

    /// The same for a row that is known to have no entry above the limit.
    pub(crate) fn push_small(&mut self, row: &[f64]) {
        self.rows.extend_from_slice(row);
        self.rows.resize(self.rows.len().next_multiple_of(self.width), 0.0);
    }

    /// Copies of the rows at `indices`.
    pub(crate) fn select(&self, indices: &[usize]) -> Self {
        Self { width: self.width, rows: indices.iter().flat_map(|&i| self.row(i)).copied().collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len() / self.width
    }

    /// Entries of a row, padding included.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn row(&self, index: usize) -> &[f64] {
        &self.rows[index * self.width..][..self.width]
    }

    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.rows.chunks_exact(self.width)
    }

    /// Euclidean distance of a row from `other`, which is padded alike.
    #[inline]
    pub(crate) fn distance(&self, index: usize, other: &[f64]) -> f64 {
        squared_euclidean(self.row(index), other).sqrt()
    }
}
