//! Chance that is the same in every run.
#![allow(dead_code)] // no test uses all of it

/// A small generator, so that a test is the same in every run.
pub struct Random(pub u64);

impl Random {
    /// Uniform in 0..1.
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1_u64 << 31) as f64
    }

    /// Uniform in 0..n.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() * n as f64) as usize
    }
}
