//! Programs and caches that the tests of the sharing models have in common.
#![allow(dead_code)]

use cachesharing::{CacheCurve, CurvePoint};

pub const LINE: u64 = 64;

/// Time of a memory access: 1 cycle that hits its private cache, 10 that hits the shared one, 130 that misses.
pub fn access_time(reach: f64, misses: f64) -> f64 {
    (1.0 - reach) + 10.0 * (reach - misses) + 130.0 * misses
}

/// The curve of an in-order program at the given sizes, from its miss ratio over bytes.
pub fn curve(
    reach: f64,
    mix: f64,
    sizes: impl IntoIterator<Item = u64>,
    misses: impl Fn(f64) -> f64,
) -> CacheCurve {
    let points = sizes.into_iter().map(|bytes| {
        let misses = misses(bytes as f64).clamp(0.0, reach);
        let cpi = 1.0 + mix * access_time(reach, misses);
        let hit_rate = (reach - misses) * mix / cpi;
        CurvePoint::new(bytes, cpi, misses).with_hit_rate(hit_rate)
    });
    CacheCurve::new(points.collect(), mix, LINE as u32).unwrap()
}

/// Uniformly random accesses to `footprint` bytes: misses fall in a straight line, in LRU and random caches alike.
pub fn uniform(reach: f64, mix: f64, footprint: f64, cache: u64) -> CacheCurve {
    curve(reach, mix, (1..=16).map(|k| cache * k / 16), |c| reach * (1.0 - c / footprint).max(0.0))
}

/// A walk that never comes back.
pub fn stream(reach: f64, mix: f64, cache: u64) -> CacheCurve {
    curve(reach, mix, (1..=16).map(|k| cache * k / 16), |_| reach)
}

/// A walk round and round through `footprint` bytes: all misses in a smaller LRU cache, none in a larger one.
pub fn scan(reach: f64, mix: f64, footprint: f64, cache: u64) -> CacheCurve {
    curve(reach, mix, (1..=16).map(|k| cache * k / 16), |c| if c < footprint { reach } else { 0.0 })
}

/// A small seeded generator (xorshift64*), so that a failing case can be repeated.
pub struct Draws(pub u64);

impl Draws {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    pub fn unit(&mut self) -> f64 {
        self.below(1 << 30) as f64 / (1_u64 << 30) as f64
    }
}
