//! A bounded part of what is known of windows, evenly spread over a run of unknown length.

/// Every k-th window, k doubling whenever there would be too much.
pub struct Thinned<T> {
    kept: Vec<(u64, T)>, // number of the window, and what is known of it
    every: u64,          // a power of two
    held: usize,         // sum of all sizes; at most `most`, unless one alone is more
    most: usize,
    size: fn(&T) -> usize,
}

impl<T> Thinned<T> {
    /// Nothing yet; what is kept will have at most this size together.
    pub fn new(most: usize, size: fn(&T) -> usize) -> Self {
        Self { kept: Vec::new(), every: 1, held: 0, most, size }
    }

    /// Takes what is known of a window, if it is one of those kept. Windows come in order.
    pub fn add(&mut self, window: u64, known: T) {
        let size = (self.size)(&known);
        while window % self.every == 0 && self.held + size > self.most && !self.kept.is_empty() {
            self.every *= 2;
            let every = self.every;
            self.kept.retain(|kept| kept.0 % every == 0);
            self.held = self.kept.iter().map(|kept| (self.size)(&kept.1)).sum();
        }
        if window % self.every == 0 {
            self.held += size;
            self.kept.push((window, known));
        }
    }

    /// Of every so many windows the first is kept.
    pub fn every(&self) -> u64 {
        self.every
    }

    pub fn windows(&self) -> &[(u64, T)] {
        &self.kept
    }

    pub fn into_windows(self) -> Vec<(u64, T)> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_evenly_spread() {
        for windows in [1, 2047, 2048, 2049, 10_000_u64] {
            let mut thinned = Thinned::new(2048, |_| 1);
            for window in 0..windows {
                thinned.add(window, window);
            }
            let kept: Vec<u64> = thinned.windows().iter().map(|kept| kept.0).collect();
            let every = windows.div_ceil(2048).next_power_of_two();
            assert!(kept.iter().copied().eq((0..windows).step_by(every as usize)), "{windows}");
            assert!(thinned.windows().iter().all(|kept| kept.0 == kept.1) && thinned.every() == every);
        }
    }

    #[test]
    fn what_is_kept_stays_below_its_size() {
        let mut thinned = Thinned::new(1000, |size| *size);
        for window in 0..5000 {
            thinned.add(window, (window as usize * 7919) % 90);
            let held: usize = thinned.windows().iter().map(|kept| kept.1).sum();
            assert!(held <= 1000, "{held} after window {window}");
        }
        assert!(thinned.windows().len() >= 5, "{}", thinned.windows().len());
        // One that is larger than all may be is kept alone.
        let mut thinned = Thinned::new(10, |size| *size);
        thinned.add(0, 50);
        thinned.add(1, 50);
        assert_eq!(thinned.into_windows(), [(0, 50)]);
    }
}
