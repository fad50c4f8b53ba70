//! A bounded number of windows, evenly spread over a run of unknown length, for pictures.

use phase_detect::Signature;

/// Windows kept at most.
const MOST: usize = 2048;

/// Every k-th window, k doubling whenever there would be too many.
pub struct Thinned {
    kept: Vec<Kept>, // at most MOST
    every: u64,      // a power of two
}

/// One of them.
pub struct Kept {
    pub window: u64,
    pub thread: u32,
    pub signature: Signature,
}

impl Thinned {
    pub fn new() -> Self {
        Self { kept: Vec::new(), every: 1 }
    }

    /// Takes the signature of a window if it is one of those kept. Windows come in order.
    pub fn add(&mut self, window: u64, thread: u32, signature: Signature) {
        if window % self.every != 0 {
            return;
        }
        if self.kept.len() == MOST {
            self.every *= 2;
            let every = self.every;
            self.kept.retain(|kept| kept.window % every == 0);
            if window % self.every != 0 {
                return;
            }
        }
        self.kept.push(Kept { window, thread, signature });
    }

    pub fn windows(&self) -> &[Kept] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_evenly_spread() {
        for windows in [1, 2047, 2048, 2049, 10_000_u64] {
            let mut thinned = Thinned::new();
            for window in 0..windows {
                thinned.add(window, 0, Signature::raw([window as f64]).unwrap());
            }
            let kept: Vec<u64> = thinned.windows().iter().map(|k| k.window).collect();
            let every = windows.div_ceil(2048).next_power_of_two();
            assert!(kept.iter().copied().eq((0..windows).step_by(every as usize)), "{windows}");
            assert!(thinned.windows().iter().all(|k| k.signature.values() == [k.window as f64]));
        }
    }
}
