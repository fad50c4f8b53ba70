//! A few accesses put by, to be looked at together: memory is waited for once, not once for each.

/// Accesses in a full batch.
pub const SIZE: usize = 256;

/// What is done to a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Load = 0,
    Store = 1,
    /// Two accesses, a load and a store after it.
    Update = 2,
}

impl Kind {
    /// What an operand does that is loaded, stored, or both.
    #[cfg_attr(not(feature = "dbi"), allow(dead_code))]
    pub const fn of(loads: bool, stores: bool) -> Self {
        match (loads, stores) {
            (true, true) => Self::Update,
            (_, false) => Self::Load,
            (false, true) => Self::Store,
        }
    }
}

/// Lines and kinds of accesses, in their order.
#[derive(Clone, Debug)]
pub struct Batch {
    lines: [u64; SIZE],
    kinds: [Kind; SIZE],
    len: usize, // at most SIZE
}

/// Where the next accesses go.
#[cfg_attr(not(feature = "dbi"), allow(dead_code))]
pub struct Room<'a> {
    pub lines: &'a mut [u64],
    pub kinds: &'a mut [Kind],
}

impl Default for Batch {
    fn default() -> Self {
        Self { lines: [0; SIZE], kinds: [Kind::Load; SIZE], len: 0 }
    }
}

impl Batch {
    /// Stores an access and returns whether the batch is full. One that is full takes no more.
    #[inline]
    pub fn push(&mut self, line: u64, store: bool) -> bool {
        let len = self.len;
        if len < SIZE {
            (self.lines[len], self.kinds[len]) = (line, Kind::of(!store, store));
            self.len = len + 1;
        }
        len + 1 >= SIZE
    }

    /// Where the next accesses go, until [`took`](Self::took) says how many they were.
    #[cfg_attr(not(feature = "dbi"), allow(dead_code))]
    #[inline]
    pub fn room(&mut self) -> Room<'_> {
        Room { lines: &mut self.lines[self.len..], kinds: &mut self.kinds[self.len..] }
    }

    /// That many accesses were put where [`room`](Self::room) was.
    #[cfg_attr(not(feature = "dbi"), allow(dead_code))]
    #[inline]
    pub fn took(&mut self, more: usize) {
        self.len = SIZE.min(self.len + more);
    }

    /// Their lines.
    #[must_use]
    pub fn lines(&self) -> &[u64] {
        &self.lines[..self.len]
    }

    /// What is done to them.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds[..self.len]
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}
