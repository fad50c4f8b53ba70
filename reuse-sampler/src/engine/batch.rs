//! A few accesses put by, to be looked at together: memory is waited for once, not once for each.

/// Accesses in a full batch.
pub const SIZE: usize = 256;

/// Lines and kinds of accesses, in their order.
#[derive(Clone, Debug)]
pub struct Batch {
    entries: [(u64, bool); SIZE],
    len: usize, // at most SIZE
}

impl Default for Batch {
    fn default() -> Self {
        Self { entries: [(0, false); SIZE], len: 0 }
    }
}

impl Batch {
    /// Stores an access and returns whether the batch is full. One that is full takes no more.
    #[inline]
    pub fn push(&mut self, line: u64, store: bool) -> bool {
        let len = self.len;
        if len < SIZE {
            self.entries[len] = (line, store);
            self.len = len + 1;
        }
        len + 1 >= SIZE
    }

    /// Where the next accesses go, until [`took`](Self::took) says how many they were.
    #[cfg_attr(not(feature = "dbi"), allow(dead_code))]
    #[inline]
    pub fn room(&mut self) -> &mut [(u64, bool)] {
        &mut self.entries[self.len..]
    }

    /// That many accesses were put where [`room`](Self::room) was.
    #[cfg_attr(not(feature = "dbi"), allow(dead_code))]
    #[inline]
    pub fn took(&mut self, more: usize) {
        self.len = SIZE.min(self.len + more);
    }

    /// Their lines, and which of them are stores.
    #[must_use]
    pub fn entries(&self) -> &[(u64, bool)] {
        &self.entries[..self.len]
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}
