//! Where windows began, and which of them an access fell into.

/// The windows of one thread in which every access is a sample.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    began: Vec<u64>,   // accesses made before each window; ascending
    windows: Vec<u64>, // their numbers; ascending
    density: u64,      // windows per 2^64 accesses, on average, at most u64::MAX
}

impl Starts {
    /// Another window, number `window`, begins after `began` accesses, which are at least as many as before.
    pub fn push(&mut self, began: u64, window: u64) {
        self.began.push(began);
        self.windows.push(window);
        let spanned = began.saturating_sub(self.began[0]).max(1);
        let density = ((self.began.len() as u128 - 1) << 64) / u128::from(spanned);
        self.density = density.min(u128::from(u64::MAX)) as u64;
    }

    /// Forgets all windows.
    pub fn clear(&mut self) {
        self.began.clear();
        self.windows.clear();
    }

    /// Accesses made before the window at `index`.
    #[must_use]
    pub fn began(&self, index: usize) -> Option<u64> {
        self.began.get(index).copied()
    }

    /// Number of the window at `index`, 0 if there is none.
    #[must_use]
    pub fn window(&self, index: usize) -> u64 {
        self.windows.get(index).copied().unwrap_or(0)
    }

    /// Number of the window in which access number `at` was made.
    #[must_use]
    pub fn window_of(&self, at: u64) -> u64 {
        self.window(self.index_of(at))
    }

    /// Index of the window in which access number `at` was made: the last that began before it, or the first.
    #[inline]
    #[must_use]
    pub fn index_of(&self, at: u64) -> usize {
        // Most windows are of one length, so that a straight line meets them; else they are searched.
        let Some((&first, last)) = self.began.first().zip(self.began.len().checked_sub(1)) else { return 0 };
        let line = u128::from(at.saturating_sub(first)) * u128::from(self.density);
        let mut index = ((line >> 64) as usize).min(last);
        for _ in 0..4 {
            if index > 0 && self.began[index] >= at {
                index -= 1;
            } else if index < last && self.began[index + 1] < at {
                index += 1;
            } else {
                return index;
            }
        }
        self.began.partition_point(|&began| began < at).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        fn finds_what_a_search_finds(lengths: Vec<u16>, even: bool, at: u16) -> bool {
            let mut starts = Starts::default();
            let mut began = u64::from(at % 100);
            let mut list = Vec::new();
            for (window, &length) in lengths.iter().enumerate() {
                starts.push(began, window as u64 + 7);
                list.push(began);
                began += if even { 1000 } else { u64::from(length) };
            }
            (0..began + 3).step_by(1 + began as usize / 2000).all(|at| {
                let expected = list.iter().rposition(|&began| began < at).unwrap_or(0);
                starts.index_of(at) == expected
                    && starts.window_of(at) == if list.is_empty() { 0 } else { expected as u64 + 7 }
            })
        }
    }
}
