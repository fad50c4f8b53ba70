//! Sticky and volatile data: a line that is used again sooner than the volatile part of the cache is replaced
//! stays; what is left of the cache is shared by the rest in proportion to what each program brings in.

use super::solution::Step;
use super::{Allocation, SharingModel, Solution, Start, memory};
use crate::curve::HullStep;
use crate::{CacheCurve, SharedCache};

/// LRU as the paper divides it: sticky and volatile data, iterated to a fixed point.
///
/// Two changes make it fit to use: the gain per line is read from the concave hull of the hits, and hits per
/// *access* are divided by the time per access with co-runners, because rates per unit of time measured alone carry
/// the program's own speed-up.
///
/// # Formula
/// With the rate r at which the volatile part V is replaced:
///
/// ```text
/// S_i = bytes on the hull whose slope exceeds r w_i        w_i = CPI_i(c_i) / mix_i
/// V = C - sum_i S_i                                        f_i = m_i(c_i) / w_i
/// r = sum_i f_i / V                                        c_i = S_i + V f_i / sum_j f_j
/// ```
///
/// # Accuracy
/// 1.7 % of CPI on average on pairs where [`EvictionAge`](super::EvictionAge) is off by 0.7 %, and up to 17 %;
/// one prediction in eight does not settle (its residual shows it). It is here to compare with the literature.
///
/// # References
/// Sandberg, Sembrant, Hagersten and Black-Schaffer, *Modeling Performance Variation Due to Cache Sharing*,
/// HPCA 2013, section 2.1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LruPartition {
    tolerance: f64,   // in (0, 1)
    most_rounds: u32, // >= 1
}

impl Default for LruPartition {
    /// Speeds agree to 1 in 1,000, within at most 200 rounds.
    fn default() -> Self {
        Self { tolerance: 1e-3, most_rounds: 200 }
    }
}

impl SharingModel for LruPartition {
    fn solve(&self, cache: &SharedCache, curves: &[&CacheCurve], start: Start, solution: &mut Solution) {
        solution.begin(cache, curves, start);
        for a in &mut solution.allocations {
            a.bytes = cache.bytes() / curves.len() as f64;
        }
        let mut step = Step::default();
        for round in 1..=self.most_rounds {
            let rate = replacement_rate(cache.bytes(), curves, &mut solution.allocations);
            let inflow: f64 = solution.allocations.iter().map(|a| a.at.inflow / a.assumed).sum();
            let sticky: f64 = solution.allocations.iter().map(|a| a.sticky_bytes).sum();
            let volatile = (cache.bytes() - sticky).max(0.0);
            let mut change = 0.0_f64;
            for (a, curve) in solution.allocations.iter_mut().zip(curves) {
                let bytes = a.sticky_bytes + volatile * (a.at.inflow / a.assumed) / inflow;
                change = change.max((bytes - a.bytes).abs() / cache.bytes());
                a.bytes = bytes;
                // Half way: the inflow at the new size would otherwise chase the size that it leads to.
                let eased = if round == 1 { bytes } else { f64::midpoint(bytes, a.at.bytes) };
                curve.filling().at(eased, &mut a.at);
                a.time = a.at.time;
            }
            memory::stretch(cache, curves.iter().copied(), &mut solution.allocations);
            solution.age = Some(1.0 / rate);
            solution.rounds = round;
            solution.relax(&mut step);
            solution.residual = solution.residual.max(change);
            if solution.residual < self.tolerance {
                break;
            }
        }
    }
}

/// Finds the rate at which the volatile part is replaced and leaves each program's sticky bytes at it.
///
/// `r (C - sum S_i(r))` rises with r, so the rate at which it equals the inflow is unique. Sticky sizes are steps in r;
/// where the equation is met on a step, part of the step is sticky.
fn replacement_rate(bytes: f64, curves: &[&CacheCurve], allocations: &mut [Allocation]) -> f64 {
    let inflow: f64 = allocations.iter().map(|a| a.at.inflow / a.assumed).sum();
    let sticky_at = |rate: f64, allocations: &[Allocation]| -> f64 {
        allocations.iter().zip(curves).map(|(a, curve)| sticky(curve.hull(), rate * a.assumed)).sum()
    };
    // From all of it volatile (the slowest it can be replaced) up to where nothing is sticky.
    let mut low = inflow / bytes;
    let mut high = low;
    while high < 1e300 && high * (bytes - sticky_at(high, allocations)) < inflow {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = low.sqrt() * high.sqrt();
        if middle * (bytes - sticky_at(middle, allocations)) < inflow { low = middle } else { high = middle }
    }
    // What is sticky just above the rate stays so; of what is sticky only just below it, as much as fits.
    let wanted = bytes - inflow / high;
    let (above, below) = (sticky_at(high, allocations), sticky_at(low, allocations));
    let part = if below > above { ((wanted - above) / (below - above)).clamp(0.0, 1.0) } else { 0.0 };
    for (a, curve) in allocations.iter_mut().zip(curves) {
        let above = sticky(curve.hull(), high * a.assumed);
        let below = sticky(curve.hull(), low * a.assumed);
        a.sticky_bytes = above + part * (below - above);
    }
    high
}

/// Bytes whose gain exceeds `slope` hits per access and byte.
fn sticky(hull: &[HullStep], slope: f64) -> f64 {
    hull.iter().take_while(|step| step.slope > slope).map(|step| step.bytes).sum()
}
