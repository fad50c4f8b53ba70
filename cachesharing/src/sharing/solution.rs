//! One stable state, as a model found it.

use super::Start;
use crate::curve::Lookup;
use crate::{CacheCurve, SharedCache};

/// What one program has of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Allocation {
    /// Bytes of the cache.
    pub bytes: f64,
    /// Those of them that the program uses again before they are old enough to be evicted; the rest is on its
    /// way out.
    pub sticky_bytes: f64,
    /// Time per memory access, waiting for memory included.
    pub time: f64,
    pub(super) at: Lookup,
    pub(super) assumed: f64,  // time per access that led to these bytes
    pub(super) accesses: f64, // in which the program, alone, fills these bytes
}

/// How programs divide a cache when nothing changes any more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solution {
    /// Per program what it has, in the order of the curves.
    pub allocations: Vec<Allocation>,
    /// Time after which a line not used again is evicted, where the model has one.
    pub age: Option<f64>,
    /// Largest relative difference between the time per access that was assumed of a program and the one that
    /// followed: 0 where the answer agrees with itself.
    pub residual: f64,
    /// Rounds it took.
    pub rounds: u32,
}

impl Solution {
    /// One allocation for each curve, as fast as `start` says.
    pub(super) fn begin(&mut self, cache: &SharedCache, curves: &[&CacheCurve], start: Start) {
        let bytes = match start {
            Start::Slow => 0.0,
            Start::Fast => cache.bytes(),
        };
        self.allocations.clear();
        self.allocations.extend(curves.iter().map(|curve| {
            let mut at = Lookup::default();
            curve.filling().at(bytes, &mut at);
            Allocation { time: at.time, assumed: at.time, at, ..Allocation::default() }
        }));
        self.age = None;
        self.residual = f64::INFINITY;
        self.rounds = 0;
    }

    /// Sets the residual from what was assumed and what followed, and assumes a value between the two.
    ///
    /// # Formula
    /// w <- w sqrt(w' / w).
    pub(super) fn relax(&mut self) {
        self.residual = 0.0;
        for a in &mut self.allocations {
            let ratio = a.time / a.assumed;
            self.residual = self.residual.max((ratio - 1.0).abs());
            a.assumed *= ratio.sqrt();
        }
    }
}
