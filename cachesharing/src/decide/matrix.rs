//! Everyone beside everyone: the co-schedule matrix.

use std::hash::Hash;
use std::num::NonZeroUsize;

use crate::corun::{CoRun, Settings};
use crate::error::Error;
use crate::{Offsets, Program, SharedCache, SharingModel, Slowdown, SlowdownDistribution, variability};

/// The slowdown of each program of a set beside each other one and beside a copy of itself.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved"))]
pub struct CoSchedule {
    names: Vec<String>,
    slowdowns: Vec<SlowdownDistribution>, // rows of targets
    ranges: Vec<Slowdown>,                // likewise
}

/// A matrix as it is read: not yet known to be square.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    names: Vec<String>,
    slowdowns: Vec<SlowdownDistribution>,
    ranges: Vec<Slowdown>,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for CoSchedule {
    type Error = Error;

    fn try_from(Saved { names, slowdowns, ranges }: Saved) -> Result<Self, Error> {
        let count = slowdowns.len();
        if count == 0 || names.len().checked_pow(2) != Some(count) {
            let remedy = "one for each of at least one program beside each";
            return Err(Error::Count { what: "slowdowns of a co-schedule", count, remedy });
        }
        if ranges.len() != count {
            let (count, remedy) = (ranges.len(), "one for each slowdown");
            return Err(Error::Count { what: "ranges of a co-schedule", count, remedy });
        }
        Ok(Self { names, slowdowns, ranges })
    }
}

/// Predicts the slowdown of every program beside every program, itself included, over the given offsets.
///
/// # Errors
/// As [`CoRun::new`] and [`variability`]; [`Error::Count`] without programs.
///
/// # Cost
/// n^2 times that of [`variability`].
pub fn co_schedule<P, M>(
    cache: SharedCache,
    programs: &[&Program<P>],
    model: &M,
    settings: Settings,
    offsets: &Offsets,
    threads: NonZeroUsize,
) -> Result<CoSchedule, Error>
where
    P: Clone + Eq + Hash + Sync,
    M: SharingModel + ?Sized,
{
    if programs.is_empty() {
        return Err(Error::Count { what: "programs", count: 0, remedy: "at least one" });
    }
    let (mut slowdowns, mut ranges) = (Vec::new(), Vec::new());
    for target in programs {
        for interferer in programs {
            let run = CoRun::new(cache, &[target, interferer], model, settings)?;
            let found = variability(&run, offsets, threads)?;
            ranges.push(found.range());
            slowdowns.push(found.distribution);
        }
    }
    Ok(CoSchedule { names: programs.iter().map(|p| p.name().to_owned()).collect(), slowdowns, ranges })
}

impl CoSchedule {
    /// Names of the programs.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Slowdowns of program `target` beside program `interferer`; `None` if there are no such programs.
    #[must_use]
    pub fn slowdown(&self, target: usize, interferer: usize) -> Option<&SlowdownDistribution> {
        self.slowdowns.get(self.place(target, interferer)?)
    }

    /// Mean slowdown of program `target` beside program `interferer`, with its range: see [`Slowdown`]; `None` if there are no
    /// such programs.
    #[must_use]
    pub fn range(&self, target: usize, interferer: usize) -> Option<&Slowdown> {
        self.ranges.get(self.place(target, interferer)?)
    }

    fn place(&self, target: usize, interferer: usize) -> Option<usize> {
        let count = self.names.len();
        (target < count && interferer < count).then_some(target * count + interferer)
    }

    /// Mean slowdowns, a row for each target.
    #[must_use]
    pub fn means(&self) -> Vec<Vec<f64>> {
        let rows = self.slowdowns.chunks(self.names.len());
        rows.map(|row| row.iter().map(SlowdownDistribution::mean).collect()).collect()
    }
}
