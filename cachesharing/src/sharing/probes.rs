//! One answer with what is known about its certainty: solved from several starts, in the cache as it is and in one a
//! little smaller and a little larger.

use super::{Allocation, SharingModel, Solution, Start};
use crate::error::Error;
#[cfg(feature = "serde")]
use crate::error::{above_zero, finite};
use crate::program::of_one_line_size;
use crate::{CacheCurve, SharedCache};

/// How thoroughly other stable states are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Probes {
    /// One solution, from the slow start: no other is looked for and no cliff is seen.
    One,
    /// From every start: slow, fast, and, in groups of at most 8, each program in turn fast among slow ones.
    Starts,
    /// From every start, and from the slow and the fast one in 0.93 and 1.07 times the cache; where it has sets, which
    /// hold a line more or less of others, in so much less and more besides: 0.91 and 1.09 times where a set has 16. There,
    /// and in the cache as it is besides, curves alone are asked, whether or not reuse times are known.
    #[default]
    Cliffs,
}

/// Larger groups are not solved with each program favoured in turn: the cost would grow with the square of the programs.
const MOST_FAVOURED: usize = 8;
/// A program whose CPI varies by more than this between the probes is on a cliff. Chosen on single windows of ten kernels in
/// 256 KiB, 64 KiB and 16 KiB: with 0.15 three per cent more of fours are flagged, and the others are no nearer.
const CLIFF: f64 = 0.165;
/// CPIs that differ by more than this belong to different solutions; the models' own tolerance is 1e-4.
const DISTINCT: f64 = 5e-3;
/// By how much smaller and larger caches are probed than the one asked about.
const MARGIN: f64 = 0.07;

/// The same of this cache: in some of its sets there is a line more of others than in most, in some a line less.
pub(crate) fn margin(cache: &SharedCache) -> f64 {
    cache.ways().map_or(MARGIN, |ways| MARGIN.hypot(1.0 / ways).min(0.5))
}

/// What one program gets of a shared cache, and what that makes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Share {
    /// Bytes of the cache. The shares of all programs add up to it.
    pub bytes: f64,
    /// Those of them that the program uses again in time, so that they stay.
    pub sticky_bytes: f64,
    /// Time per unit of work, waiting for memory included.
    pub cpi: f64,
    /// Smallest and largest time per unit of work among all probes.
    pub cpi_range: (f64, f64),
    /// Whether the range is wide: where in it the program ends depends on which program warmed up first and on details
    /// that curves do not show.
    pub on_cliff: bool,
    /// Whether the share lies outside the sizes the curve was measured at, so that the values are extrapolated.
    pub extrapolated: bool,
    /// Misses per memory access.
    pub miss_ratio: f64,
    /// Lines fetched per memory access.
    pub fetch_ratio: f64,
    /// Bytes fetched from memory per unit of time.
    pub bandwidth: f64,
    /// Part of its time in which it waits because memory serves others; 0 without a [limit](crate::MemoryLimit).
    #[cfg_attr(feature = "serde", serde(default))]
    pub waiting: f64,
}

impl Share {
    /// Bytes on their way out of the cache: brought in, and not used again in time.
    #[must_use]
    pub fn volatile_bytes(&self) -> f64 {
        (self.bytes - self.sticky_bytes).max(0.0)
    }
}

/// How programs divide a cache. Kept between calls of [`share`], it makes them free of allocation where
/// memory has no limit.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved"))]
pub struct Sharing {
    shares: Vec<Share>, // the answer proper
    others: Vec<Share>, // of other solutions, as many each
    residual: f64,
    age: Option<f64>,
    rounds: u32,
    #[cfg_attr(feature = "serde", serde(skip))]
    scratch: Solution,
}

impl PartialEq for Sharing {
    fn eq(&self, other: &Self) -> bool {
        let answer = |sharing: &Self| (sharing.residual, sharing.age, sharing.rounds);
        self.shares == other.shares && self.others == other.others && answer(self) == answer(other)
    }
}

/// An answer as it is read: not yet known to have a share for each program in each state.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    shares: Vec<Share>,
    others: Vec<Share>,
    residual: f64,
    age: Option<f64>,
    rounds: u32,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for Sharing {
    type Error = Error;

    fn try_from(Saved { shares, others, residual, age, rounds }: Saved) -> Result<Self, Error> {
        if others.len() % shares.len().max(1) != 0 {
            let (what, count) = ("shares in other solutions", others.len());
            return Err(Error::Count { what, count, remedy: "one for each program in each" });
        }
        for share in shares.iter().chain(&others) {
            above_zero("a time per unit of work", share.cpi)?;
            finite("a share of the cache in bytes", share.bytes)?;
        }
        finite("a residual", residual)?;
        Ok(Self { shares, others, residual, age, rounds, scratch: Solution::default() })
    }
}

impl Sharing {
    /// Shares in the order of the programs, in the stable state found from the slow start, or from what they held.
    #[must_use]
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Shares in the other stable states that were found in the cache as it is; those in smaller and larger
    /// caches only widen the ranges.
    pub fn other_solutions(&self) -> impl ExactSizeIterator<Item = &[Share]> {
        self.others.chunks(self.shares.len().max(1))
    }

    /// Stable states found, at least 1.
    #[must_use]
    pub fn solutions(&self) -> usize {
        1 + self.other_solutions().len()
    }

    /// How far the answer is from agreeing with itself, relative; the worst of the starts.
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

    /// Whether any program is on a cliff.
    #[must_use]
    pub fn on_cliff(&self) -> bool {
        self.shares.iter().any(|s| s.on_cliff)
    }

    /// The stable state that is reached by programs that hold `bytes`: the one that changes least.
    pub(crate) fn nearest(&self, bytes: &[f64]) -> &[Share] {
        let change = |shares: &[Share]| -> f64 {
            shares.iter().zip(bytes).map(|(share, held)| (share.bytes - held).abs()).sum()
        };
        let states = self.other_solutions().map(|shares| (change(shares), shares));
        let first = (change(&self.shares), &*self.shares);
        states.fold(first, |best, next| if next.0 < best.0 { next } else { best }).1
    }

    /// Takes up what was found from another start in the cache as it is.
    fn take_up(&mut self, curves: &[&CacheCurve]) {
        self.residual = self.residual.max(self.scratch.residual);
        let times = || self.scratch.allocations.iter().zip(curves).map(|(a, curve)| a.time * curve.mix());
        let known =
            |shares: &[Share]| times().zip(shares).all(|(cpi, s)| (cpi / s.cpi - 1.0).abs() <= DISTINCT);
        if !known(&self.shares) && !self.other_solutions().any(known) {
            self.others.extend(self.scratch.allocations.iter().zip(curves).map(described));
        }
        self.widen(curves);
    }

    /// Lets the ranges include what was found.
    fn widen(&mut self, curves: &[&CacheCurve]) {
        self.rounds += self.scratch.rounds;
        for ((share, a), curve) in self.shares.iter_mut().zip(&self.scratch.allocations).zip(curves) {
            for time in [Some(a.time), a.by_curve].into_iter().flatten() {
                let cpi = time * curve.mix();
                share.cpi_range = (share.cpi_range.0.min(cpi), share.cpi_range.1.max(cpi));
            }
        }
    }
}

/// Divides `cache` among the programs that do what `curves` say, and leaves the answer in `sharing`.
///
/// The answer proper is the one found from the slow start: programs that start at about the same time warm up
/// together. An empty list of curves leaves an empty answer.
///
/// # Errors
/// [`Error::MixedLineSizes`] for curves of different line sizes.
///
/// # Cost
/// One solution of the model for [`Probes::One`]; of n programs, n + 2 for [`Probes::Starts`] and n + 6 for
/// [`Probes::Cliffs`]; of more than 8 programs, 2 and 6.
pub fn share<M: SharingModel + ?Sized>(
    model: &M,
    cache: &SharedCache,
    curves: &[&CacheCurve],
    probes: Probes,
    sharing: &mut Sharing,
) -> Result<(), Error> {
    of_one_line_size(curves.iter().copied())?;
    share_alike(model, cache, curves, None, probes, sharing);
    Ok(())
}

/// The same for programs that held `bytes` of the cache until now: of several stable states, the answer proper is the
/// one that this leads to. Programs beyond the end of `bytes` held nothing.
///
/// # Errors
/// As [`share`].
pub fn share_from<M: SharingModel + ?Sized>(
    model: &M,
    cache: &SharedCache,
    curves: &[&CacheCurve],
    bytes: &[f64],
    probes: Probes,
    sharing: &mut Sharing,
) -> Result<(), Error> {
    of_one_line_size(curves.iter().copied())?;
    share_alike(model, cache, curves, Some(bytes), probes, sharing);
    Ok(())
}

/// [`share`], or [`share_from`] what they `held`, of curves that are known to be of one line size.
pub(crate) fn share_alike<M: SharingModel + ?Sized>(
    model: &M,
    cache: &SharedCache,
    curves: &[&CacheCurve],
    held: Option<&[f64]>,
    probes: Probes,
    sharing: &mut Sharing,
) {
    let first = if let Some(bytes) = held {
        let held = |i: usize| bytes.get(i).copied().filter(|b| b.is_finite()).unwrap_or(0.0);
        sharing.scratch.allocations.clear();
        let held = (0..curves.len()).map(|i| Allocation { bytes: held(i), ..Allocation::default() });
        sharing.scratch.allocations.extend(held);
        Start::Held
    } else {
        Start::Slow
    };
    model.solve(cache, curves, first, &mut sharing.scratch);
    let Solution { residual, age, rounds, ref allocations } = sharing.scratch;
    sharing.shares.clear();
    sharing.shares.extend(allocations.iter().zip(curves).map(described));
    sharing.others.clear();
    (sharing.residual, sharing.age, sharing.rounds) = (residual, age, rounds);
    // One program has no other state to be in than the whole cache's; fewer have none at all.
    if probes != Probes::One && curves.len() > 1 {
        let favoured = if curves.len() <= MOST_FAVOURED { curves.len() } else { 0 };
        let favouring = (0..favoured).map(Start::Favouring);
        let starts = [Start::Slow, Start::Fast].into_iter().chain(favouring);
        for start in starts.filter(|&start| start != first) {
            model.solve(cache, curves, start, &mut sharing.scratch);
            sharing.take_up(curves);
        }
    }
    if probes == Probes::Cliffs {
        let margin = margin(cache);
        for factor in [1.0 - margin, 1.0 + margin] {
            for start in [Start::Slow, Start::Fast] {
                model.solve(&cache.scaled(factor), curves, start, &mut sharing.scratch);
                sharing.widen(curves);
            }
        }
    }
    for share in &mut sharing.shares {
        share.on_cliff = share.cpi_range.1 > share.cpi_range.0 * (1.0 + CLIFF);
    }
    for (other, share) in sharing.others.iter_mut().zip(sharing.shares.iter().cycle()) {
        (other.cpi_range, other.on_cliff) = (share.cpi_range, share.on_cliff);
    }
}

/// A share as the model left it.
pub(super) fn described((a, curve): (&Allocation, &&CacheCurve)) -> Share {
    let cpi = a.time * curve.mix();
    let (miss_ratio, fetch_ratio) = match a.met {
        Some(met) => (met.misses, met.inflow / f64::from(curve.line_size())),
        None => (curve.miss_ratio(a.bytes), curve.fetch_ratio(a.bytes)),
    };
    Share {
        bytes: a.bytes,
        sticky_bytes: a.sticky_bytes,
        cpi,
        cpi_range: (cpi, cpi),
        on_cliff: false,
        extrapolated: !curve.covers(a.bytes),
        miss_ratio,
        fetch_ratio,
        bandwidth: fetch_ratio * f64::from(curve.line_size()) / a.time,
        waiting: a.waiting,
    }
}
