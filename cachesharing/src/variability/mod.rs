//! How much the slowdown of a program varies from run to run, because what meets depends on when each program
//! was started.

mod binomial;
mod distribution;
mod normal;
mod offsets;

pub use distribution::SlowdownDistribution;
pub use offsets::Offsets;

use std::hash::Hash;
use std::num::NonZeroUsize;
use std::thread;

use crate::SharingModel;
use crate::corun::{CoRun, Outcome, Slowdown};
use crate::error::Error;

/// The slowdowns of a target in many runs.
#[derive(Clone, Debug, PartialEq)]
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
        Slowdown { slowdown: mean(|r| r.slowdown), low: mean(|r| r.low), high: mean(|r| r.high), flagged }
    }
}

/// Runs the target of `run` to its end once for each of `offsets`, on `threads` threads.
///
/// The result is the same for any number of threads, to the last bit.
///
/// # Errors
/// [`Error::Count`] for no offsets.
///
/// # Cost
/// That of the runs, divided by the threads.
pub fn variability<P, M>(
    run: &CoRun<'_, P, M>,
    offsets: &Offsets,
    threads: NonZeroUsize,
) -> Result<Variability, Error>
where
    P: Copy + Eq + Hash + Sync,
    M: SharingModel,
{
    let count = offsets.count();
    let programs = run.programs().len();
    let one = |number: usize| run.ranged(&offsets.of_run(number, programs));
    let threads = threads.get().min(count).max(1);
    let runs: Vec<(Slowdown, Outcome)> = if threads == 1 {
        (0..count).map(one).collect()
    } else {
        // Strides rather than blocks: neighbouring offsets may be alike in cost.
        let stride = |first: usize| (first..count).step_by(threads).map(one).collect::<Vec<_>>();
        let parts: Vec<Vec<(Slowdown, Outcome)>> = thread::scope(|scope| {
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
    };
    let (ranges, outcomes): (Vec<Slowdown>, Vec<Outcome>) = runs.into_iter().unzip();
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
    })
}
