//! StatCC as in the paper: one profile for a whole program, which is taken to run at one speed. The range of CPIs
//! in all solutions and in slightly smaller and larger caches says where that is not to be relied on.

use reuse_sampler::{CacheLines, CacheModel, ReuseProfile};
use serde::Serialize;
use statcache::StatCache;
use statcc::CoRun;
use statcc::walk::Replacement;
use statstack::StatStack;

use super::subject::Known;
use crate::cli::Failure;

/// What becomes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Steady {
    /// Shared-cache misses per memory access.
    pub miss_ratio: f64,
    /// Cycles per instruction.
    pub cpi: f64,
    /// Lines of the shared cache held.
    pub share_lines: f64,
    /// Lowest CPI in any solution, for caches a little smaller to a little larger.
    pub lowest_cpi: f64,
    /// And the highest.
    pub highest_cpi: f64,
    /// Whether those are so far apart that the range is to be believed, not the number.
    pub cliff: bool,
    /// Solutions there are for all programs together.
    pub solutions: usize,
}

/// Solves for `programs` in a shared cache of `size`.
///
/// # Errors
/// [`Failure::Run`] if a profile cannot be modelled.
pub fn solve(
    programs: &[&Known],
    size: CacheLines,
    replacement: Replacement,
) -> Result<Vec<Steady>, Failure> {
    let corun = CoRun::new(programs.iter().map(|known| known.whole.clone()).collect())?;
    match replacement {
        Replacement::Lru => with(&corun, size, StatStack::fit),
        Replacement::Random => with(&corun, size, StatCache::fit),
    }
}

fn with<M: CacheModel, E: std::fmt::Display>(
    corun: &CoRun,
    size: CacheLines,
    factory: impl Fn(&ReuseProfile) -> Result<M, E>,
) -> Result<Vec<Steady>, Failure> {
    let prediction = corun.solve(size, factory).map_err(|error| Failure::Run(error.to_string()))?;
    let programs = prediction.programs().iter().zip(&prediction.outlook);
    Ok(programs
        .map(|(share, outlook)| Steady {
            miss_ratio: share.miss_ratio,
            cpi: share.cpi,
            share_lines: share.lines,
            lowest_cpi: outlook.lowest_cpi,
            highest_cpi: outlook.highest_cpi,
            cliff: outlook.cliff,
            solutions: prediction.solutions.len(),
        })
        .collect())
}
