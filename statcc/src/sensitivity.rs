//! What an error of the CPI models does to the answer.

use reuse_sampler::{CacheLines, CacheModel, ReuseProfile};

use crate::{CoRun, Share, SolveError};

/// Range of one program's answers when CPI models are wrong by up to a given error.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Sensitivity {
    /// The answer with the models as they are.
    pub expected: Share,
    /// Lowest and highest miss ratio.
    pub miss_ratio: (f64, f64),
    /// Lowest and highest CPI, by the program's own model at those miss ratios.
    pub cpi: (f64, f64),
}

impl CoRun {
    /// How far the answers move when the CPI models are wrong by the relative `error`: for each program in
    /// turn, its CPI too high by it with all others too low, and the other way round. Errors that all
    /// programs have in common do nothing, because only ratios of speeds matter to the cache.
    ///
    /// An `error` that leaves nothing of a CPI (1 or more, or not a number) is taken as 0.99.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Cost
    /// Two [solutions](Self::solve) per program, and one.
    ///
    /// # References
    /// Eklöv, thesis, Paper II (StatCC), section II.5.4, experiment 3 and table 3.
    pub fn sensitivity<M, E, F>(
        &self,
        size: CacheLines,
        error: f64,
        factory: F,
    ) -> Result<Vec<Sensitivity>, SolveError<E>>
    where
        M: CacheModel,
        F: Fn(&ReuseProfile) -> Result<M, E>,
    {
        let error = if error.abs() < 0.99 { error.abs() } else { 0.99 };
        let expected = self.solve(size, &factory)?;
        let mut ranges: Vec<Sensitivity> = expected
            .programs()
            .iter()
            .map(|&expected| Sensitivity {
                expected,
                miss_ratio: (expected.miss_ratio, expected.miss_ratio),
                cpi: (expected.cpi, expected.cpi),
            })
            .collect();
        for odd in 0..ranges.len() {
            for sign in [1.0, -1.0] {
                let factor = |program| 1.0 + if program == odd { sign * error } else { -sign * error };
                let factors: Vec<f64> = (0..ranges.len()).map(factor).collect();
                let Ok(wrong) = self.clone().with_cpi_errors(&factors) else { continue };
                let wrong = wrong.solve(size, &factory)?;
                for (range, share) in ranges.iter_mut().zip(wrong.programs()) {
                    let (low, high) = range.miss_ratio;
                    range.miss_ratio = (low.min(share.miss_ratio), high.max(share.miss_ratio));
                    range.cpi = (range.cpi.0.min(share.cpi), range.cpi.1.max(share.cpi));
                }
            }
        }
        Ok(ranges)
    }
}
