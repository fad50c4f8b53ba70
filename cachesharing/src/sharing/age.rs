//! One age for all: in an LRU cache a line leaves when it has not been used for as long as it takes the programs
//! together to bring in as many bytes as the cache holds, and that time is the same for everybody.
//!
//! A program that has w time per access fills in the time T the size c(T) that it would fill alone in T / w
//! accesses; the sizes of all add up to the cache. How fast a program is depends on the size it gets, so T is
//! solved for given speeds and the speeds follow from the sizes, in turn, until they agree. Solving for T with
//! the speeds folded in can jump over the solution.
//!
//! The sticky and the volatile parts of the paper's partition model fall out of the answer: of a program's lines,
//! T times its inflow are such that came in and were not used again.

use super::solution::Step;
use super::{Allocation, Leaving, SharingModel, Solution, Start, memory};
use crate::curve::Lookup;
use crate::{CacheCurve, SharedCache};

/// LRU: one eviction age, common to all programs.
///
/// # Formula
/// ```text
/// n_i(c) = integral from 0 to c of dc' / m_i(c')      m_i: bytes brought in per access
/// sum_i n_i^-1(T / w_i) = C                           w_i = CPI_i(c_i) / mix_i
/// volatile part of c_i: T m_i(c_i) / w_i              sticky part: the rest
/// ```
///
/// In a cache of sets, T varies from set to set: the sizes are then means over T, with a relative variance of one over
/// the volatile lines of a set.
///
/// Where a program's [`ReuseTimes`](crate::ReuseTimes) are known and were counted in sets like the cache's, each reuse past d
/// lines of its own set after a time t is asked for itself:
/// ```text
/// it misses with P(Y(t) >= A - d)        A: ways; Y(t): lines of others that came into the set meanwhile,
///                                        normally distributed, mean sum_j c_j(t / w_j), variance sum_j V_j(c_j)
/// w_i = CPI_i(0) / mix_i, less what the hits of each d save, by the curve
/// ```
/// The ages T and the sizes follow from these speeds.
///
/// # Accuracy
/// On simulated chips with in-order cores and a shared 16-way LRU cache, from curves of 16 sizes: see the
/// crate's front page. It assumes that a program's accesses are spread over time as evenly with co-runners as alone,
/// that it reuses its lines alike wherever in its window it is, and, unless [`followed`](Self::followed), that the
/// shared state settles as soon as a window begins.
///
/// # Cost
/// Some 20 lookups a start and program; with reuse times some 100 a round more, of which there are five. The bench
/// `invocation` measures it.
///
/// # References
/// The sizes filled in an eviction time: Hu and others, *Kinetic Modeling of Data Eviction in Cache*, USENIX ATC
/// 2016. Sticky and volatile data: Sandberg, Sembrant, Hagersten and Black-Schaffer, HPCA 2013, section 2.1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionAge {
    tolerance: f64,   // in (0, NEAR)
    most_rounds: u32, // >= 1
    settles: bool,    // as soon as a window begins
}

impl Default for EvictionAge {
    /// Speeds agree to 1 in 10,000, within at most 300 rounds; some 6 are usual.
    fn default() -> Self {
        Self { tolerance: 1e-4, most_rounds: 300, settles: true }
    }
}

impl EvictionAge {
    /// The same model, with what programs hold simulated over time: in a [`CoRun`](crate::CoRun) the ages of lines carry
    /// over from window to window, instead of settling as soon as a window begins.
    ///
    /// Needed where windows are shorter than the time in which the cache's lines are exchanged, or programs come back
    /// to data of earlier windows. All sets of a cache then evict alike, unless reuse times are known.
    #[must_use]
    pub fn followed() -> Self {
        Self { settles: false, ..Self::default() }
    }
}

/// Residual below which it is certain enough which solution is being approached to step right to it.
const NEAR: f64 = 0.03;
/// Rounds in which two are mixed, where reuse times are known; who swings even then is relaxed.
const MOST_MIXED: u32 = 12;
/// How exactly the cache is filled at the beginning and at the end.
const ROUGHLY: f64 = 1e-2;
const EXACTLY: f64 = 1e-7;

impl SharingModel for EvictionAge {
    fn follows(&self) -> Option<Leaving> {
        (!self.settles).then_some(Leaving::ByAge)
    }

    fn solve(&self, cache: &SharedCache, curves: &[&CacheCurve], start: Start, solution: &mut Solution) {
        solution.begin(cache, curves, start);
        let mut age = 0.0;
        let (mut near, mut step) = (NEAR, Step::default());
        let mut ages = SetAges::alike();
        let ways = cache.ways().filter(|_| self.settles);
        for round in 1..=self.most_rounds {
            // No better than the speeds deserve, until they agree.
            let done = solution.residual < self.tolerance;
            let exactness = if done { EXACTLY } else { (0.05 * solution.residual).min(ROUGHLY) };
            age = fill(cache.bytes(), curves, &ages, age, exactness, &mut solution.allocations);
            for a in &mut solution.allocations {
                a.time = a.at.time;
            }
            memory::stretch(cache, curves.iter().copied(), &mut solution.allocations);
            solution.rounds = round;
            if done {
                if !ages.tell_apart(ways, cache.bytes(), age, &solution.allocations) {
                    break;
                }
                (near, step) = (NEAR, Step::default());
                // These speeds are those of sets that are alike.
                solution.residual = f64::INFINITY;
                continue;
            }
            solution.relax(&mut step);
            age += age_change(age, &solution.allocations);
            if solution.residual < near && cache.memory().is_none() {
                let exact = step_to_solution(cache.bytes(), curves, &ages, age, &mut solution.allocations);
                if let Some(exact) = exact {
                    age = exact;
                    solution.residual = EXACTLY;
                    if !ages.tell_apart(ways, cache.bytes(), age, &solution.allocations) {
                        break;
                    }
                    (near, step) = (NEAR, Step::default());
                    solution.residual = f64::INFINITY;
                } else {
                    near *= 0.1;
                }
            }
        }
        if super::any_reuse_times(cache, curves.iter().copied()) {
            age = self.meet(cache, curves, age, solution);
        }
        let scale = cache.bytes() / solution.allocations.iter().map(|a| a.at.bytes).sum::<f64>();
        for a in &mut solution.allocations {
            a.bytes = a.at.bytes * scale;
            a.sticky_bytes = (a.bytes - age * a.inflow() / a.assumed).max(0.0);
        }
        solution.age = Some(age);
    }
}

impl EvictionAge {
    /// Goes on from a solution of the curves alone until speeds agree with what becomes of each reuse; answers the age.
    fn meet(&self, cache: &SharedCache, curves: &[&CacheCurve], age: f64, solution: &mut Solution) -> f64 {
        for a in &mut solution.allocations {
            a.by_curve = Some(a.time);
        }
        let mut step = Step::default();
        for round in 0..self.most_rounds {
            for i in 0..curves.len() {
                let allocations = &solution.allocations;
                let others = curves.iter().copied().enumerate().filter(|&(j, _)| j != i);
                let met = super::meet(cache, curves[i], allocations[i].assumed, &others, |other, time| {
                    let mut at = Lookup::default();
                    curves[other].filling().after(time / allocations[other].assumed, &mut at);
                    at.bytes
                });
                if let Some(met) = met {
                    solution.allocations[i].take(met);
                }
            }
            memory::stretch(cache, curves.iter().copied(), &mut solution.allocations);
            solution.rounds += 1;
            if round < MOST_MIXED {
                solution.mix(round > 0);
            } else {
                solution.relax(&mut step);
            }
            if solution.residual < self.tolerance {
                break;
            }
        }
        fill(cache.bytes(), curves, &SetAges::alike(), age, EXACTLY, &mut solution.allocations)
    }
}

/// Finds the age at which the programs, as fast as is assumed of them, fill the cache; begins at `age`.
///
/// The sum of what they fill is concave in the age, so that Newton's steps from below never pass the solution
/// and a step from above leads below.
fn fill(
    bytes: f64,
    curves: &[&CacheCurve],
    ages: &SetAges,
    mut age: f64,
    exactness: f64,
    allocations: &mut [Allocation],
) -> f64 {
    // Usually 2 to 4 rounds; the bound is for inputs at the edge of what f64 holds.
    for _ in 0..200 {
        let (mut filled, mut speed) = (0.0, 0.0);
        for (a, curve) in allocations.iter_mut().zip(curves) {
            let per_time = 1.0 / a.assumed;
            a.accesses = age * per_time;
            ages.fill(curve, a);
            filled += a.at.bytes;
            speed += a.at.inflow * per_time;
        }
        let missing = bytes - filled;
        if missing.abs() <= exactness * bytes {
            break;
        }
        age = (age + missing / speed).max(0.0);
    }
    age
}

/// Ages at which the sets of a cache evict, in units of the mean, with their weights.
///
/// If lines came into sets at random, the time in which a set takes in n of them would vary by 1 / n of its square;
/// neighbouring lines go to different sets, so that it varies less. Gauss and Hermite's three points of a lognormal
/// distribution represent the sets.
struct SetAges {
    points: [(f64, f64); 3],
    apart: bool,
}

/// Variance of what comes into a set, of that of random arrivals: between streams, which go round the sets (0), and
/// single lines drawn at random (1). Chosen by co-runs of embedded kernels.
const IRREGULARITY: f64 = 0.25;

impl SetAges {
    /// All sets alike.
    const fn alike() -> Self {
        Self { points: [(1.0, 1.0); 3], apart: false }
    }

    /// Tells sets of `ways` lines apart, if there are any and that was not done before: by how much is on its way out of
    /// them when all evict at `age`.
    fn tell_apart(&mut self, ways: Option<f64>, bytes: f64, age: f64, allocations: &[Allocation]) -> bool {
        let Some(ways) = ways.filter(|_| !self.apart) else { return false };
        let volatile: f64 = allocations.iter().map(|a| age * a.at.inflow / a.assumed).sum();
        let lines = (ways * volatile / bytes).clamp(1.0, ways);
        let variance = (IRREGULARITY / lines).ln_1p();
        let (middle, spread) = ((-0.5 * variance).exp(), (3.0 * variance).sqrt().exp());
        self.points = [(middle, 2.0 / 3.0), (middle / spread, 1.0 / 6.0), (middle * spread, 1.0 / 6.0)];
        self.apart = true;
        true
    }

    /// What a program fills, on average over the sets, in the accesses of its allocation, and how that grows.
    #[inline]
    fn fill(&self, curve: &CacheCurve, a: &mut Allocation) {
        let filling = curve.filling();
        if !self.apart {
            filling.after(a.accesses, &mut a.at);
            return;
        }
        let (mut bytes, mut inflow) = (0.0, 0.0);
        for (age, weight) in self.points {
            filling.after(a.accesses * age, &mut a.at);
            bytes += weight * a.at.bytes;
            inflow += weight * age * a.at.inflow;
        }
        filling.at(bytes, &mut a.at);
        a.at.inflow = inflow;
    }
}

/// By how much the age has to change, to first order, after the assumed speeds did.
///
/// The sum of `c_i` changes by the sum of `m_i d(T / w_i)`, which has to be 0.
fn age_change(age: f64, allocations: &[Allocation]) -> f64 {
    let (mut lost, mut speed) = (0.0, 0.0);
    for a in allocations {
        let per_time = 1.0 / a.assumed;
        lost += a.at.inflow * (a.accesses - age * per_time);
        speed += a.at.inflow * per_time;
    }
    lost / speed
}

/// Newton's method on sizes, speeds and age together, from a state near the solution; answers the age.
///
/// The unknowns are the accesses `x_i` in which program i fills its share, and T: `x_i w_i(x_i) = T`,
/// `sum c_i(x_i) = C`.
/// Gives up where it does not settle at once near where it began: there is a kink or another solution between.
fn step_to_solution(
    bytes: f64,
    curves: &[&CacheCurve],
    ages: &SetAges,
    mut age: f64,
    allocations: &mut [Allocation],
) -> Option<f64> {
    // How fast x_i w_i rises with x_i.
    let steepness = |a: &Allocation| a.at.time + a.accesses * a.at.time_slope * a.at.inflow;
    for _ in 0..5 {
        let (mut filled, mut missing, mut speed, mut error) = (0.0, bytes, 0.0, 0.0_f64);
        for (a, curve) in allocations.iter_mut().zip(curves) {
            ages.fill(curve, a);
            let gap = age - a.accesses * a.at.time;
            let per_age = a.at.inflow / steepness(a);
            error = error.max(gap.abs());
            filled += a.at.bytes;
            missing -= a.at.bytes + per_age * gap;
            speed += per_age;
        }
        if error <= EXACTLY * age && (bytes - filled).abs() <= EXACTLY * bytes {
            if allocations.iter().any(|a| (a.at.time / a.assumed - 1.0).abs() > 2.0 * NEAR) {
                return None;
            }
            for a in allocations {
                a.assumed = a.at.time;
                a.time = a.at.time;
            }
            return Some(age);
        }
        age += missing / speed;
        for a in allocations.iter_mut() {
            a.accesses += (age - a.accesses * a.at.time) / steepness(a);
            if !(a.accesses >= 0.0 && a.accesses.is_finite()) {
                return None;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CurvePoint;

    const WAY: u64 = 1 << 14;

    /// A program whose misses fall to nothing at `knee` ways, the more steeply the higher the power.
    fn curve(reach: f64, knee: f64, power: i32) -> CacheCurve {
        let point = |way: u64| {
            let misses = reach * (1.0 - (way as f64 / knee).powi(power)).max(0.0);
            let cpi = 1.0 + 10.0 * reach + 120.0 * misses;
            CurvePoint::new(way * WAY, cpi, misses).with_hit_rate((reach - misses) / cpi)
        };
        CacheCurve::new((1..=16).map(point).collect(), 1.0, 64).unwrap()
    }

    #[test]
    fn speeds_agree_with_shares_in_a_cache_of_sets() {
        let curves = [
            curve(0.2, 9.0, 1),
            curve(0.3, 40.0, 1),
            curve(0.1, 12.0, 4),
            curve(0.4, 14.5, 9),
            curve(0.05, 6.0, 2),
        ];
        let cache = SharedCache::new(16 * WAY).unwrap().with_ways(16).unwrap();
        for (i, a) in curves.iter().enumerate() {
            for b in &curves[i..] {
                for start in [Start::Slow, Start::Fast] {
                    let mut solution = Solution::default();
                    EvictionAge::default().solve(&cache, &[a, b], start, &mut solution);
                    let mut apart = 0.0_f64;
                    for a in &solution.allocations {
                        apart = apart.max((a.time / a.assumed - 1.0).abs());
                    }
                    // What was assumed of a program led to its share, and the share to the same speed.
                    assert!(apart < 1e-3 && solution.residual < 1e-3, "{i} {start:?}: {apart} {solution:?}");
                }
            }
        }
    }
}
