//! How programs that run at the same time divide a cache, and how fast that lets each of them be.
//!
//! A [`SharingModel`] solves for one start: programs that begin slow, as in an empty cache, or fast, as if each
//! had the whole, or one fast and the others slow. [`share`] asks a model from all of them, and in a cache a little
//! smaller and a little larger, because some pairs have several stable states and some are on a cliff: which of
//! them a real run ends in depends on which program warmed up first.

mod age;
mod co_runners;
mod held;
mod memory;
mod partition;
mod probes;
mod random;
mod solution;

pub use age::EvictionAge;
pub(crate) use co_runners::{any_reuse_times, meet};
pub(crate) use held::{flow, shares_of};
pub use partition::LruPartition;
pub use probes::{Probes, Share, Sharing, share, share_from};
pub(crate) use probes::{margin, share_alike};
pub use random::Random;
pub use solution::{Allocation, Solution};

use crate::{CacheCurve, SharedCache};

/// Where the search for a stable state begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Start {
    /// Every program as slow as with no cache at all.
    #[default]
    Slow,
    /// Every program as fast as with the whole cache.
    Fast,
    /// This program as fast as with the whole cache, the others slow: it was there first.
    Favouring(usize),
    /// Every program as fast as with the bytes that the solution given holds for it; none where it holds none.
    Held,
}

/// Divides a cache among programs that run at the same time.
///
/// Implementations must not fail: they leave in `solution` the best division they found and its residual.
pub trait SharingModel: Send + Sync {
    /// Finds how `curves` divide `cache`, beginning at `start`, and leaves it in `solution`, whose previous
    /// contents say nothing but where to begin from [`Start::Held`]. Curve i gets allocation i. All are of one line size:
    /// [`share`] checks that.
    fn solve(&self, cache: &SharedCache, curves: &[&CacheCurve], start: Start, solution: &mut Solution);

    /// How lines leave the cache, if what programs hold is to be followed over time by [`CoRun`](crate::CoRun), from one
    /// window to the next. Other models settle as soon as a window begins.
    fn follows(&self) -> Option<Leaving> {
        None
    }
}

/// How lines leave a cache that is followed over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Leaving {
    /// Once they were not used for a time common to all programs.
    ByAge,
    /// At random: each with the same chance whenever another comes in. Of programs whose
    /// [footprints](crate::ReuseTimes::with_footprint) are known; others settle as soon as a window begins.
    AtRandom,
}

impl<M: SharingModel + ?Sized> SharingModel for &M {
    fn solve(&self, cache: &SharedCache, curves: &[&CacheCurve], start: Start, solution: &mut Solution) {
        (**self).solve(cache, curves, start, solution);
    }

    fn follows(&self) -> Option<Leaving> {
        (**self).follows()
    }
}

impl<M: SharingModel + ?Sized> SharingModel for Box<M> {
    fn solve(&self, cache: &SharedCache, curves: &[&CacheCurve], start: Start, solution: &mut Solution) {
        (**self).solve(cache, curves, start, solution);
    }

    fn follows(&self) -> Option<Leaving> {
        (**self).follows()
    }
}
