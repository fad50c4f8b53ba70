//! Random replacement: a line that comes in pushes out any other with equal chance, so that a program holds as
//! much of the cache as its share of what all bring in.

use super::solution::Step;
use super::{Allocation, SharingModel, Solution, Start, memory};
use crate::{CacheCurve, SharedCache};

/// Random replacement: shares in proportion to what the programs bring in per unit of time.
///
/// # Formula
/// `c_i = C f_i(c_i) / sum_j f_j(c_j)` with `f_i` bytes brought in per unit of time. The rate at which a byte of
/// the cache is replaced, `r = f_i / c_i`, is the same for all; `f_i(c) / c` falls with c, so that `c_i(r)` is one
/// root, and r, at which the sizes add up to C, is found by bisection.
///
/// # Accuracy
/// For caches with random replacement, from curves measured with random replacement. Of an LRU cache it is a
/// crude model: 7 % of CPI on average where [`EvictionAge`](super::EvictionAge) is off by 0.7 %.
///
/// # References
/// Sandberg, Sembrant, Hagersten and Black-Schaffer, HPCA 2013, section 2.1 (the volatile part alone).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Random;

impl SharingModel for Random {
    fn solve(&self, cache: &SharedCache, curves: &[&CacheCurve], start: Start, solution: &mut Solution) {
        solution.begin(cache, curves, start);
        // What is assumed here is by how much waiting for memory stretches a program's time.
        for a in &mut solution.allocations {
            a.assumed = 1.0;
        }
        let mut step = Step::default();
        for round in 1..=MOST_ROUNDS {
            divide(cache.bytes(), curves, &mut solution.allocations);
            let imbalance = imbalance(cache.bytes(), &solution.allocations);
            for a in &mut solution.allocations {
                (a.bytes, a.sticky_bytes, a.time) = (a.at.bytes, 0.0, a.at.time);
            }
            memory::stretch(cache, curves.iter().copied(), &mut solution.allocations);
            solution.rounds = round;
            for a in &mut solution.allocations {
                a.time /= a.at.time;
            }
            solution.relax(&mut step);
            for a in &mut solution.allocations {
                a.time *= a.at.time;
            }
            solution.residual = solution.residual.max(imbalance);
            if solution.residual < TOLERANCE {
                break;
            }
        }
    }
}

const MOST_ROUNDS: u32 = 100; // one without a memory limit, some 15 with one
const TOLERANCE: f64 = 1e-4;

/// Finds the replacement rate at which the sizes add up to `bytes`.
fn divide(bytes: f64, curves: &[&CacheCurve], allocations: &mut [Allocation]) {
    let mut sum_at = |rate: f64| -> f64 {
        allocations
            .iter_mut()
            .zip(curves)
            .map(|(a, curve)| {
                curve.filling().replaced_at(rate * a.assumed, &mut a.at);
                a.at.bytes
            })
            .sum()
    };
    let (mut low, mut high) = (1e-300_f64, 1e300_f64); // the sizes fall with the rate
    // 64 halvings of the exponent's range of 600 decades leave less than the resolution of f64.
    for _ in 0..64 {
        let middle = low.sqrt() * high.sqrt();
        if sum_at(middle) > bytes { low = middle } else { high = middle }
    }
    // Where a curve is uneven, a size jumps with the rate: the remainder is then given in proportion.
    let sum = sum_at(high);
    for (a, curve) in allocations.iter_mut().zip(curves) {
        let size = a.at.bytes * bytes / sum;
        curve.filling().at(size, &mut a.at);
    }
}

/// Largest relative difference between a share and what its program brings in of all that is brought in.
fn imbalance(bytes: f64, allocations: &[Allocation]) -> f64 {
    let rate = |a: &Allocation| a.at.inflow / (a.at.time * a.assumed);
    let all: f64 = allocations.iter().map(rate).sum();
    allocations.iter().map(|a| (bytes * rate(a) / all / a.at.bytes - 1.0).abs()).fold(0.0, f64::max)
}
