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
    /// Stores an access and returns whether the batch is full. One that is full takes no more.
    #[inline]
    pub fn push(&mut self, line: u64, store: bool) -> bool {
        let len = self.len;
        if len < SIZE {
            self.lines[len] = line;
            self.stores[len] = store;
            self.len = len + 1;
        }
        len + 1 >= SIZE
    }

    /// Their lines.
    #[must_use]
    pub fn lines(&self) -> &[u64] {
        &self.lines[..self.len]
    }

    /// Which of them are stores; what follows them is of no interest.
    #[must_use]
    pub const fn stores(&self) -> &[bool; SIZE] {
        &self.stores
    }

    /// How many they are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}
