//! Programs together over time: which windows run at the same time, for how long, and how fast each program is.
//!
//! Windows that run at the same time advance at the speeds the sharing model gives them; the one that ends first
//! is followed by its program's next, the others are split there (Sandberg and others, HPCA 2013, section 3).
//! The methods differ in what a window is and in whether solutions are remembered.

mod advance;
mod bandwidth;
mod burst;
mod follow;
mod memory;
mod place;
mod range;
mod recency;
mod timeline;
mod trajectory;

pub use advance::{Outcome, Step, Until};
pub use bandwidth::BandwidthDistribution;
pub use memory::CoPhase;
pub(crate) use range::Ends;
pub use range::Slowdown;
pub use trajectory::{Trajectory, TrajectoryBin};

use std::hash::Hash;
use std::sync::OnceLock;

use crate::curve::Chances;
use crate::error::Error;
use crate::{Leaving, Probes, Program, SharedCache, Sharing, SharingModel};
use memory::Memory;
use range::Variant;
use timeline::Timeline;

/// How time is cut into windows, and whether solutions are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Every window as it is; the model is solved for each set of windows that meet.
    Window,
    /// Adjacent windows of one phase are averaged and taken as one window.
    DynamicWindow,
    /// Every window does what its phase does; the model is solved once for each set of phases that meet.
    #[default]
    Phase,
    /// Every program does at all times what it does on average: what prediction was before phases.
    Oblivious,
}

/// How a co-run is predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    /// How time is cut.
    pub method: Method,
    /// How far each invocation looks for other solutions. What is predicted over time uses the solution of the
    /// slow start in any case.
    pub probes: Probes,
    /// Whether curves that were not measured up to the whole cache are held at their largest size instead of
    /// refused.
    pub extrapolate: bool,
}

/// Programs that share a cache, ready to be run from any offsets: the first is the target, the others interfere.
///
/// Running it never fails. The answer does not depend on how many threads run it at the same time.
pub struct CoRun<'a, P, M> {
    programs: Vec<&'a Program<P>>,
    cache: SharedCache,
    model: M,
    settings: Settings,
    timelines: Vec<Timeline>,
    // By cache, program and curve, where lines leave at random: of programs whose footprints are all known.
    chances: Option<[Vec<Vec<OnceLock<Chances>>>; 3]>,
    memories: Option<[Memory; 3]>, // where phases are remembered: of this cache, a larger and a smaller one
}

impl<'a, P: Clone + Eq + Hash, M: SharingModel> CoRun<'a, P, M> {
    /// Prepares `programs` for sharing `cache`.
    ///
    /// # Errors
    /// [`Error::Count`] without programs; [`Error::MixedUnits`] and [`Error::MixedLineSizes`] for programs that count work,
    /// time or lines differently; [`Error::NotMeasured`] for a curve that ends below the whole cache, unless settings
    /// allow it; [`Error::OtherSets`] for reuse times that were counted in sets of another cache, if this one has sets.
    pub fn new(
        cache: SharedCache,
        programs: &[&'a Program<P>],
        model: M,
        settings: Settings,
    ) -> Result<Self, Error> {
        if programs.is_empty() {
            return Err(Error::Count { what: "programs", count: 0, remedy: "at least one" });
        }
        crate::program::of_one_unit(programs)?;
        for other in programs {
            if !settings.extrapolate {
                timeline::check_measured(other, cache.bytes())?;
            }
            if let Some(way) = cache.way() {
                timeline::check_sets(other, way)?;
            }
        }
        let timelines = programs
            .iter()
            .map(|program| Timeline::new(program, settings.method, cache.bytes()))
            .collect::<Result<Vec<_>, _>>()?;
        let memories = match settings.method {
            Method::Window | Method::DynamicWindow => None,
            Method::Phase | Method::Oblivious => Some(Default::default()),
        };
        let at_random =
            model.follows() == Some(Leaving::AtRandom) && timelines.iter().all(Timeline::has_footprints);
        let chances = at_random.then(|| {
            let unknown = || timelines.iter().map(|t| vec![OnceLock::new(); t.numbers()]).collect();
            [unknown(), unknown(), unknown()]
        });
        Ok(Self { programs: programs.to_vec(), cache, model, settings, timelines, chances, memories })
    }

    /// The programs, the target first.
    #[must_use]
    pub fn programs(&self) -> &[&'a Program<P>] {
        &self.programs
    }

    /// The cache they share.
    #[must_use]
    pub const fn cache(&self) -> &SharedCache {
        &self.cache
    }

    /// How it is predicted.
    #[must_use]
    pub const fn settings(&self) -> Settings {
        self.settings
    }

    /// Time of one pass of program number `program` alone with the whole cache, as this method sees it.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such program.
    pub fn time_alone(&self, program: usize) -> Result<f64, Error> {
        let timeline = self.timelines.get(program);
        timeline.map(Timeline::time_alone).ok_or(Error::Index {
            what: "program",
            index: program,
            count: self.programs.len(),
        })
    }

    /// How lines leave the cache, if what programs hold is followed: where they leave at random, of programs with footprints.
    fn leaving(&self) -> Option<Leaving> {
        self.model.follows().filter(|&leaving| leaving == Leaving::ByAge || self.chances.is_some())
    }

    /// What was made of the curves for the cache of `variant`, where lines leave at random.
    fn chances(&self, variant: Variant) -> Option<&[Vec<OnceLock<Chances>>]> {
        self.chances.as_ref().map(|chances| chances[variant.cache_number()].as_slice())
    }

    /// Solves for curve number `curves[i]` of each program i, which held `held[i]` bytes of `cache`.
    fn solve(
        &self,
        cache: &SharedCache,
        curves: &[usize],
        held: &[f64],
        probes: Probes,
        sharing: &mut Sharing,
    ) {
        // Two programs are the rule; a Vec per invocation would cost more than the lookup.
        const INLINE: usize = 8;
        let curve = |i: usize| self.timelines[i].curve(curves[i]);
        let count = curves.len();
        if count <= INLINE {
            let mut array = [curve(0); INLINE];
            for (i, slot) in array.iter_mut().enumerate().take(count) {
                *slot = curve(i);
            }
            crate::sharing::share_alike(&self.model, cache, &array[..count], Some(held), probes, sharing);
        } else {
            let list: Vec<_> = (0..count).map(curve).collect();
            crate::sharing::share_alike(&self.model, cache, &list, Some(held), probes, sharing);
        }
    }
}
