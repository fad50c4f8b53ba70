//! One answer with what is known about its certainty: solved from both starts, in the cache as it is and in one a
//! little smaller and a little larger.

use super::{SharingModel, Solution, Start};
use crate::{CacheCurve, SharedCache};

/// How far the search for other stable states goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Probes {
    /// One solution, from the slow start: no other is looked for and no cliff is seen. A sixth of the cost.
    One,
    /// From the slow and from the fast start.
    Starts,
    /// From both starts in 0.93, 1 and 1.07 times the cache.
    #[default]
    Cliffs,
}

/// A program whose CPI varies by more than this between the probes stands on a cliff.
const CLIFF: f64 = 0.15;
/// CPIs that differ by more than this belong to different solutions; the models' own tolerance is 1e-4.
const DISTINCT: f64 = 5e-3;
const SMALLER: f64 = 0.93;
const LARGER: f64 = 1.07;

/// What one program gets of a shared cache, and what that makes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Bytes of the cache. The shares of all programs add up to it.
    pub bytes: f64,
    /// Those of them that the program uses again in time, so that they stay.
    pub sticky_bytes: f64,
    /// Time per unit of work, waiting for memory included.
    pub cpi: f64,
    /// Time per unit of work in the solution found from the fast start; `cpi` where there is only one.
    pub cpi_from_fast_start: f64,
    /// Smallest and largest time per unit of work among all probes.
    pub cpi_range: (f64, f64),
    /// Whether the range is wide: the program ends up somewhere in it, depending on who warmed up first and on
    /// details that the curves do not hold.
    pub on_cliff: bool,
    /// Whether the share lies outside the sizes the curve was measured at, so that the values are extrapolated.
    pub extrapolated: bool,
    /// Misses per memory access.
    pub miss_ratio: f64,
    /// Lines fetched per memory access.
    pub fetch_ratio: f64,
    /// Bytes fetched from memory per unit of time.
    pub bandwidth: f64,
}

impl Share {
    /// Bytes on their way out of the cache: brought in, and not used again in time.
    #[must_use]
    pub fn volatile_bytes(&self) -> f64 {
        (self.bytes - self.sticky_bytes).max(0.0)
    }
}

/// How programs divide a cache. Kept between calls of [`share`], it makes them free of allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sharing {
    shares: Vec<Share>,
    solutions: u8,
    residual: f64,
    age: Option<f64>,
    rounds: u32,
    scratch: Solution,
}

impl Sharing {
    /// Shares in the order of the programs.
    #[must_use]
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Stable states found in the cache as it is, 1 or 2; those in smaller and larger caches only widen the
    /// ranges.
    #[must_use]
    pub const fn solutions(&self) -> u8 {
        self.solutions
    }

    /// How far the answer is from agreeing with itself, relative; the worse of the starts.
    #[must_use]
    pub const fn residual(&self) -> f64 {
        self.residual
    }

    /// Whether the residual is below 0.2 %.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.residual < 2e-3
    }

    /// Time after which a line that is not used again is evicted, where the model has one.
    #[must_use]
    pub const fn eviction_age(&self) -> Option<f64> {
        self.age
    }

    /// Rounds of all probes together.
    #[must_use]
    pub const fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Whether any program stands on a cliff.
    #[must_use]
    pub fn on_cliff(&self) -> bool {
        self.shares.iter().any(|s| s.on_cliff)
    }
}

/// Divides `cache` among the programs that do what `curves` say, and leaves the answer in `sharing`.
///
/// The answer proper is the one found from the slow start: programs that start at about the same time warm up
/// together. An empty list of curves leaves an empty answer.
///
/// # Cost
/// With [`EvictionAge`](super::EvictionAge), two programs and 16 sizes: 1 us for [`Probes::One`], 5 us for
/// [`Probes::Cliffs`].
pub fn share<M: SharingModel + ?Sized>(
    model: &M,
    cache: &SharedCache,
    curves: &[&CacheCurve],
    probes: Probes,
    sharing: &mut Sharing,
) {
    let Sharing { shares, solutions, residual, age, rounds, scratch } = sharing;
    shares.clear();
    *solutions = 1;
    model.solve(cache, curves, Start::Slow, scratch);
    (*residual, *age, *rounds) = (scratch.residual, scratch.age, scratch.rounds);
    shares.extend(scratch.allocations.iter().zip(curves).map(|(a, curve)| {
        let cpi = a.time * curve.mix();
        let fetch_ratio = curve.fetch_ratio(a.bytes);
        Share {
            bytes: a.bytes,
            sticky_bytes: a.sticky_bytes,
            cpi,
            cpi_from_fast_start: cpi,
            cpi_range: (cpi, cpi),
            on_cliff: false,
            extrapolated: !curve.covers(a.bytes),
            miss_ratio: curve.miss_ratio(a.bytes),
            fetch_ratio,
            bandwidth: fetch_ratio * f64::from(curve.line_size()) / a.time,
        }
    }));
    if probes == Probes::One {
        return;
    }
    model.solve(cache, curves, Start::Fast, scratch);
    *residual = residual.max(scratch.residual);
    *rounds += scratch.rounds;
    for ((share, a), curve) in shares.iter_mut().zip(&scratch.allocations).zip(curves) {
        let cpi = a.time * curve.mix();
        if (cpi / share.cpi - 1.0).abs() > DISTINCT {
            *solutions = 2;
            share.cpi_from_fast_start = cpi;
        }
        widen(share, cpi);
    }
    if probes == Probes::Cliffs {
        for factor in [SMALLER, LARGER] {
            for start in [Start::Slow, Start::Fast] {
                model.solve(&cache.scaled(factor), curves, start, scratch);
                *rounds += scratch.rounds;
                for ((share, a), curve) in shares.iter_mut().zip(&scratch.allocations).zip(curves) {
                    widen(share, a.time * curve.mix());
                }
            }
        }
    }
    for share in shares {
        share.on_cliff = share.cpi_range.1 > share.cpi_range.0 * (1.0 + CLIFF);
    }
}

fn widen(share: &mut Share, cpi: f64) {
    share.cpi_range = (share.cpi_range.0.min(cpi), share.cpi_range.1.max(cpi));
}
