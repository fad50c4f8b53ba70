//! Random replacement: a line that comes in pushes out any other with equal chance, so that a program holds as
//! much of the cache as its share of what all bring in.

use std::borrow::Cow;

use super::solution::Step;
use super::{Allocation, Leaving, SharingModel, Solution, Start, memory};
use crate::curve::{Chances, Exchanged, Filling, Lookup};
use crate::{CacheCurve, SharedCache};

/// Random replacement: shares in proportion to what the programs bring in per unit of time.
///
/// # Formula
/// `c_i = C f_i(c_i) / sum_j f_j(c_j)` with `f_i` bytes brought in per unit of time. The rate at which a byte of
/// the cache is replaced, `r = f_i / c_i`, is the same for all; `f_i(c) / c` falls with c, so that `c_i(r)` is one
/// root, and r, at which the sizes add up to C, is found by bisection.
///
/// Where the [footprints](crate::ReuseTimes::with_footprint) of all programs are known, each reuse is asked for itself: a line
/// is there after a time t with probability `exp(-F(t) / C)`, where F(t) bytes came in meanwhile. Of the hits that the curve has
/// with all of the cache, as many are left as there are of reuses beside others, of those alone; the curve shows what so many
/// misses cost. In a [`CoRun`](crate::CoRun) F is followed over time, from one window to the next.
///
/// # Accuracy
/// For caches with random replacement, from curves measured with random replacement: see the crate's front page. Of an LRU
/// cache it is a crude model.
///
/// # Cost
/// Some ten rounds, in each of them an exponential or two for each reuse time of each program.
///
/// # References
/// Shares: Sandberg, Sembrant, Hagersten and Black-Schaffer, HPCA 2013, section 2.1 (the volatile part alone). The chance to
/// stay: Berg and Hagersten, *StatCache*, ISPASS 2004.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Random;

impl SharingModel for Random {
    fn follows(&self) -> Option<Leaving> {
        Some(Leaving::AtRandom)
    }

    fn solve(&self, cache: &SharedCache, curves: &[&CacheCurve], start: Start, solution: &mut Solution) {
        if curves.iter().all(|curve| curve.has_footprint()) {
            solution.begin(cache, curves, start);
            return meet(cache, curves, solution);
        }
        solution.begin(cache, curves, start);
        let fillings: Vec<Cow<'_, Filling>> = curves.iter().map(|curve| curve.filling_by_curve()).collect();
        // What is assumed here is by how much waiting for memory stretches a program's time.
        for a in &mut solution.allocations {
            (a.assumed, a.at) = (1.0, Lookup::default());
        }
        let mut step = Step::default();
        for round in 1..=MOST_ROUNDS {
            divide(cache.bytes(), &fillings, &mut solution.allocations);
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

/// Finds speeds that agree with what becomes of each reuse while lines come in at those speeds.
fn meet(cache: &SharedCache, curves: &[&CacheCurve], solution: &mut Solution) {
    let bytes = cache.bytes();
    let chances: Vec<Chances> = curves.iter().map(|curve| Chances::new(curve, bytes)).collect();
    if let ([chances], [only]) = (chances.as_slice(), solution.allocations.as_mut_slice()) {
        // Nobody else makes its lines leave sooner.
        only.take(chances.met(|_| Exchanged::default()));
        only.assumed = only.time;
    }
    let mut step = Step::default();
    let rate = |a: &Allocation| a.inflow() / a.assumed;
    for round in 0..MOST_MET {
        for (i, chances) in chances.iter().enumerate() {
            let all: f64 = solution.allocations.iter().map(rate).sum();
            let time = solution.allocations[i].assumed;
            let met = chances.met(|accesses| Exchanged {
                together: accesses * time * all / bytes,
                alone: accesses * chances.inflow_alone() / bytes,
            });
            solution.allocations[i].take(met);
        }
        memory::stretch(cache, curves.iter().copied(), &mut solution.allocations);
        solution.rounds = round + 1;
        if round < MOST_MIXED {
            solution.mix(round > 0);
        } else {
            solution.relax(&mut step);
        }
        if solution.residual < TOLERANCE {
            break;
        }
    }
    let all: f64 = solution.allocations.iter().map(rate).sum();
    for a in &mut solution.allocations {
        (a.bytes, a.sticky_bytes) = (bytes * rate(a) / all, 0.0);
    }
    solution.age = Some(bytes / all);
}

/// Rounds in which two are mixed; who swings even then is relaxed. And at most.
const MOST_MIXED: u32 = 12;
const MOST_MET: u32 = 300;
const MOST_ROUNDS: u32 = 100; // one without a memory limit, some 15 with one
const TOLERANCE: f64 = 1e-4;

/// Finds the replacement rate at which the sizes add up to `bytes`.
fn divide(bytes: f64, fillings: &[Cow<'_, Filling>], allocations: &mut [Allocation]) {
    let mut sum_at = |rate: f64| -> f64 {
        allocations
            .iter_mut()
            .zip(fillings)
            .map(|(a, filling)| {
                filling.replaced_at(rate * a.assumed, &mut a.at);
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
    for (a, filling) in allocations.iter_mut().zip(fillings) {
        let size = a.at.bytes * bytes / sum;
        filling.at(size, &mut a.at);
    }
}

/// Largest relative difference between a share and what its program brings in of all that is brought in.
fn imbalance(bytes: f64, allocations: &[Allocation]) -> f64 {
    let rate = |a: &Allocation| a.at.inflow / (a.at.time * a.assumed);
    let all: f64 = allocations.iter().map(rate).sum();
    allocations.iter().map(|a| (bytes * rate(a) / all / a.at.bytes - 1.0).abs()).fold(0.0, f64::max)
}
