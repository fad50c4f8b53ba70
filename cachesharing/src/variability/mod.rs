//! How much the slowdown of a program varies from run to run, because what meets depends on when each program
//! was started.

mod binomial;
mod distribution;
mod normal;
mod offsets;

pub use distribution::SlowdownDistribution;
pub use offsets::Offsets;
#[cfg(feature = "laws")]
pub(crate) use offsets::uniform;

use std::hash::Hash;
use std::num::NonZeroUsize;
use std::thread;

use crate::SharingModel;
use crate::corun::{CoRun, Ends, Outcome, Slowdown, Until};
use crate::error::Error;

/// The slowdowns of a target in many runs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved"))]
#[non_exhaustive]
pub struct Variability {
    /// Slowdown of each run, in the order of the offsets.
    pub slowdowns: Vec<f64>,
    /// The same as a distribution.
    pub distribution: SlowdownDistribution,
    /// Range and flag of each run, in the same order: see [`Slowdown`].
    pub ranges: Vec<Slowdown>,
    /// Times the model was solved: by the window methods for each set of windows that met, by the phase method
    /// once for each set of phases (those of earlier runs of the same [`CoRun`] included).
    pub invocations: u64,
    /// Steps of all runs.
    pub steps: u64,
    /// Share of the time in which the target stood on a cliff.
    pub time_on_cliff: f64,
    /// Share of the time in which the target waited because memory served others.
    pub time_waiting: f64,
}

/// Slowdowns as they are read: not yet known to be those of the distribution.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    slowdowns: Vec<f64>,
    distribution: SlowdownDistribution,
    ranges: Vec<Slowdown>,
    invocations: u64,
    steps: u64,
    time_on_cliff: f64,
    #[serde(default)]
    time_waiting: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for Variability {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let Saved { slowdowns, distribution, ranges, invocations, steps, time_on_cliff, time_waiting } =
            saved;
        let count = ranges.len();
        if count != slowdowns.len() || SlowdownDistribution::new(slowdowns.clone())? != distribution {
            let remedy = "one for each slowdown, and the distribution of these";
            return Err(Error::Count { what: "ranges of runs", count, remedy });
        }
        Ok(Self { slowdowns, distribution, ranges, invocations, steps, time_on_cliff, time_waiting })
    }
}

impl Variability {
    /// The mean slowdown with its range: means of the lowest and the highest slowdowns of the runs; flagged if any of
    /// them is.
    #[must_use]
    pub fn range(&self) -> Slowdown {
        let mean = |of: fn(&Slowdown) -> f64| {
            self.ranges.iter().map(of).sum::<f64>() / self.ranges.len().max(1) as f64
        };
        let flagged = self.ranges.iter().any(|range| range.flagged);
        Slowdown {
            slowdown: mean(|r| r.slowdown),
            low: mean(|r| r.low),
            high: mean(|r| r.high),
            flagged,
            first_pass: mean(|r| r.first_pass),
        }
    }
}

/// Of more runs than twice this, each such run has a range of its own; the others take those of the runs as slow.
const RANGE_EVERY: usize = 8;
/// So far beyond the slowdowns of those runs, a run has a range of its own: it may be in another stable state.
const APART: f64 = 0.05;

/// Runs the target of `run` to its end once for each of `offsets`, on `threads` threads.
///
/// The result is the same for any number of threads, to the last bit. Up to 16 runs each have a range of their own. Of
/// more, every eighth has, and those 5 % outside of the slowdowns of these; the others take, relative to their slowdown, the
/// wider of the ranges of the next slower and the next faster of these.
///
/// # Errors
/// [`Error::Count`] for no offsets.
///
/// # Cost
/// That of the runs and ranges, divided by the threads.
pub fn variability<P, M>(
    run: &CoRun<'_, P, M>,
    offsets: &Offsets,
    threads: NonZeroUsize,
) -> Result<Variability, Error>
where
    P: Clone + Eq + Hash + Sync,
    M: SharingModel,
{
    let (count, programs) = (offsets.count(), run.programs().len());
    let offsets = |number: usize| offsets.of_run(number, programs);
    let outcomes = in_parallel(count, threads, |number| run.outcome(&offsets(number), Until::TargetEnds));
    let ends = |number: usize| run.ends(&offsets(number), &outcomes[number]);
    let every = if count > 2 * RANGE_EVERY { RANGE_EVERY } else { 1 };
    let sampled = in_parallel(count.div_ceil(every), threads, |number| ends(number * every));
    let mut by_slowdown: Vec<(f64, Ends)> =
        outcomes.iter().step_by(every).map(Outcome::slowdown).zip(sampled.iter().copied()).collect();
    by_slowdown.sort_by(|a, b| a.0.total_cmp(&b.0));
    let [least, most] = [by_slowdown.first(), by_slowdown.last()].map(|end| end.map_or(1.0, |end| end.0));
    let next_to = |slowdown: f64| {
        let slower = by_slowdown.partition_point(|end| end.0 < slowdown);
        let next = &by_slowdown[slower.saturating_sub(1)..by_slowdown.len().min(slower + 1)];
        next.iter().fold(Ends::NONE, |all, end| all.and(end.1))
    };
    let ranges: Vec<Slowdown> = in_parallel(count, threads, |number| {
        let (outcome, slowdown) = (&outcomes[number], outcomes[number].slowdown());
        let is_apart = slowdown < least * (1.0 - APART) || slowdown > most * (1.0 + APART);
        let ends = match sampled.get(number / every) {
            Some(&ends) if number % every == 0 => ends,
            _ if is_apart => ends(number),
            _ => next_to(slowdown),
        };
        Slowdown::of(outcome, ends, run.uncertainty())
    });
    let slowdowns: Vec<f64> = outcomes.iter().map(Outcome::slowdown).collect();
    let distribution = SlowdownDistribution::new(slowdowns.clone())?;
    let solved = run.co_phases_solved() as u64;
    let time: f64 = outcomes.iter().map(|o| o.time).sum();
    Ok(Variability {
        slowdowns,
        distribution,
        ranges,
        invocations: solved + outcomes.iter().map(|o| o.invocations).sum::<u64>(),
        steps: outcomes.iter().map(|o| o.steps).sum(),
        time_on_cliff: outcomes.iter().map(|o| o.time_on_cliff).sum::<f64>() / time,
        time_waiting: outcomes.iter().map(|o| o.time_waiting).sum::<f64>() / time,
    })
}

/// What `one` makes of each number below `count`, on `threads` threads.
fn in_parallel<T: Send>(count: usize, threads: NonZeroUsize, one: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = threads.get().min(count).max(1);
    if threads == 1 {
        return (0..count).map(one).collect();
    }
    // Strides rather than blocks: neighbouring offsets may be alike in cost.
    let stride = |first: usize| (first..count).step_by(threads).map(&one).collect::<Vec<_>>();
    let parts: Vec<Vec<T>> = thread::scope(|scope| {
        let stride = &stride;
        let others: Vec<_> = (1..threads).map(|first| scope.spawn(move || stride(first))).collect();
        let mut parts = vec![stride(0)];
        for (first, other) in (1..).zip(others) {
            // A thread cannot panic (running is total); if one were killed its runs are made again here.
            parts.push(other.join().unwrap_or_else(|_| stride(first)));
        }
        parts
    });
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    (0..count).filter_map(|number| parts[number % threads].next()).collect()
}
