//! Random analyses, the same on every run.
#![allow(dead_code)]

use powersleuth::analysis::{Analysis, Cost};
use powersleuth::{Hertz, Joules, Seconds};

/// A small generator: Knuth's linear congruential one, upper bits.
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub fn uniform(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 31) as f64
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

pub fn costs(seconds: f64, joules: f64) -> Cost {
    Cost { time: Seconds(seconds), energy: Joules(joules) }
}

/// Intervals of these phases at `levels` frequencies, each phase with its own share of time that memory sets and
/// its own power, each interval a little different.
pub fn analysis(phases: &[u8], levels: usize, seed: u64) -> Analysis<u8> {
    let frequencies: Vec<Hertz> =
        (0..levels).map(|l| Hertz::from_ghz(1.0 + l as f64 / levels as f64)).collect();
    let mut draw = Draw(seed.wrapping_mul(2).wrapping_add(1));
    for _ in 0..4 {
        draw.next();
    }
    let kinds: Vec<(f64, f64)> = (0..256).map(|_| (draw.uniform(), 0.5 + 2.0 * draw.uniform())).collect();
    let intervals: Vec<(u8, f64, Vec<Cost>)> = phases
        .iter()
        .map(|&phase| {
            let (memory, watts) = kinds[usize::from(phase)];
            let noise = 0.8 + 0.4 * draw.uniform();
            let row = frequencies.iter().map(|f| {
                let time = noise * (memory + (1.0 - memory) * 2.0 / f.ghz());
                costs(time, time * (0.5 + watts * f.ghz().powi(3) / 8.0))
            });
            (phase, 1e6, row.collect())
        })
        .collect();
    Analysis::from_costs(&frequencies, intervals).unwrap()
}
