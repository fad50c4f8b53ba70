//! Programs that are known through and through.

mod random;

use phase_detect::{CodeVector, Signature};
pub use random::Random;

/// A window: a loop, or a mixture of the loop that ends and the one that begins.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub before: usize,
    pub now: usize,
    /// Share of the window still in `before`.
    pub part: f64,
}

/// A loop: the addresses of its branches and their cumulative weights.
struct Loop {
    branches: Vec<u64>,
    weights: Vec<f64>,
}

/// A program of several loops over 60 branches each, a third of which all loops share, as libraries are, that runs
/// them in random order for 4 to 23 windows at a time. The first window of every run is a mixture.
pub struct Program {
    seed: u64,
    random: Random,
    loops: Vec<Loop>,
    pub windows: Vec<Window>,
    /// Of each window: 0.5 plus the number of its loop, mixed as the window is, with 2 % noise.
    pub cpi: Vec<f64>,
}

impl Program {
    pub fn new(loops: usize, windows: usize, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(77) + 5);
        let shared: Vec<u64> = (0..20).map(|_| 0x7000_0000 + 4 * random.below(1 << 16) as u64).collect();
        let code = (0..loops as u64)
            .map(|number| {
                let own: Vec<u64> =
                    (0..40).map(|_| 0x40_0000 + (number << 14) + 4 * random.below(1 << 12) as u64).collect();
                let branches = [own, shared.clone()].concat();
                let mut sum = 0.0;
                let weights = branches
                    .iter()
                    .map(|_| {
                        sum += random.next().powi(4); // a few are hot
                        sum
                    })
                    .collect();
                Loop { branches, weights }
            })
            .collect();
        let mut program = Self { seed, random, loops: code, windows: Vec::new(), cpi: Vec::new() };
        let mut before = 0;
        while program.windows.len() < windows {
            let now = program.random.below(loops);
            for window in 0..4 + program.random.below(20) {
                let mixed = window == 0 && before != now;
                let part = if mixed { program.random.next() } else { 0.0 };
                let of = |number: usize| 0.5 + number as f64;
                let cpi = part * of(before) + (1.0 - part) * of(now);
                program.windows.push(Window { before, now, part });
                program.cpi.push(cpi * (0.98 + 0.04 * program.random.next()));
            }
            before = now;
        }
        program
    }

    /// The signature of a window from so many sampled branches.
    pub fn signature(&mut self, code: &mut CodeVector, window: usize, samples: usize) -> Signature {
        let Window { before, now, part } = self.windows[window];
        for _ in 0..samples {
            let Loop { branches, weights } =
                &self.loops[if self.random.next() < part { before } else { now }];
            let at = self.random.next() * weights[weights.len() - 1];
            code.add(branches[weights.partition_point(|w| *w < at)], 1.0);
        }
        code.finish().unwrap()
    }

    /// The signatures of all windows, of 32 entries.
    pub fn signatures(&mut self, samples: usize) -> Vec<Signature> {
        let mut code = CodeVector::new(32, self.seed).unwrap();
        (0..self.windows.len()).map(|w| self.signature(&mut code, w, samples)).collect()
    }
}
