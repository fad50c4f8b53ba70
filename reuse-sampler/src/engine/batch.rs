//! A few accesses put by, to be looked at together: memory is waited for once, not once for each.

/// Accesses in a full batch.
pub const SIZE: usize = 128;

/// Lines and kinds of accesses, in their order.
#[derive(Clone, Debug)]
pub struct Batch {
    lines: [u64; SIZE],
    stores: [bool; SIZE],
    len: usize, // at most SIZE
}

impl Default for Batch {
    fn default() -> Self {
        Self { lines: [0; SIZE], stores: [false; SIZE], len: 0 }
    }
}

impl Batch {
    /// Puts an access by, and tells whether the batch is full. One that is full takes no more.
    #[inline]
    pub fn push(&mut self, line: u64, store: bool) -> bool {
        if self.len < SIZE {
            self.lines[self.len] = line;
            self.stores[self.len] = store;
            self.len += 1;
        }
        self.len >= SIZE
    }

    /// Their lines.
    #[must_use]
    pub fn lines(&self) -> &[u64] {
        &self.lines[..self.len]
    }

    /// Which of them are stores.
    #[must_use]
    pub fn stores(&self) -> &[bool] {
        &self.stores[..self.len]
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}
