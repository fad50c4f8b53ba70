//! What this crate refuses.

use reuse_sampler::{Clock, Scope};
use thiserror::Error as ThisError;

/// A program, or a set of programs, that cannot be modelled.
#[derive(Debug, Clone, PartialEq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A number of accesses per instruction that is no rate.
    #[error("mix of {mix} accesses per instruction: give a finite number above 0 (above 1 is legal)")]
    Mix {
        /// The mix given.
        mix: f64,
    },
    /// A private-cache hit ratio outside of 0 to 1.
    #[error("private-cache hit ratio of {ratio}: give hits per access, from 0 to 1")]
    PrivateHits {
        /// The ratio given.
        ratio: f64,
    },
    /// A miss ratio outside of 0 to 1.
    #[error("miss ratio of {ratio} alone: give misses per access, from 0 to 1")]
    MissRatio {
        /// The ratio given.
        ratio: f64,
    },
    /// Private-cache hit ratios that together exceed all accesses.
    #[error("private caches hit {sum} of all accesses together: give hits per access that sum to at most 1")]
    PrivateHitSum {
        /// Their sum.
        sum: f64,
    },
    /// A number of cycles that is none.
    #[error("{what} of {cycles} cycles: give a finite number, 0 or more")]
    Cycles {
        /// Which parameter.
        what: &'static str,
        /// Its value.
        cycles: f64,
    },
    /// Latencies that would make a CPI fall with the miss ratio.
    #[error(
        "memory latency of {memory} cycles below the shared cache's {shared}: a miss cannot be faster than a hit"
    )]
    LatencyOrder {
        /// Memory latency.
        memory: f64,
        /// Shared-cache latency.
        shared: f64,
    },
    /// A CPI model that does not return a positive, finite number.
    #[error("CPI model returns {cpi} at miss ratio {miss_ratio}: it must be finite and above 0 from 0 to 1")]
    CpiValue {
        /// Miss ratio.
        miss_ratio: f64,
        /// What the model returned.
        cpi: f64,
    },
    /// A measured CPI without points.
    #[error(
        "a measured CPI of no points: give at least one pair of misses per access and cycles per instruction"
    )]
    Points,
    /// A CPI model that returns less for more misses.
    #[error(
        "CPI model falls from {from} to {to} as the miss ratio rises to {miss_ratio}: \
         it must not fall anywhere from 0 to 1"
    )]
    FallingCpi {
        /// CPI at the lower miss ratio.
        from: f64,
        /// CPI at `miss_ratio`.
        to: f64,
        /// The higher miss ratio.
        miss_ratio: f64,
    },
    /// A profile without samples.
    #[error("a profile without samples: sample more accesses, or leave the program out")]
    EmptyProfile,
    /// A profile whose distances do not count accesses.
    #[error("a profile with distances in {found}: interleaving is defined on accesses; scale them first")]
    Clock {
        /// Its clock.
        found: Clock,
    },
    /// Nothing to share a cache.
    #[error("no programs: give at least one")]
    NoPrograms,
    /// Programs profiled at different line sizes.
    #[error("profiles of {left} and {right} byte lines: record all programs at the shared cache's line size")]
    MixedLineSizes {
        /// Bytes in a line of the first profile.
        left: u32,
        /// Bytes in a line of another.
        right: u32,
    },
    /// Accesses asked for that were observed otherwise than the stream they are part of.
    #[error("a stream of {left} and accesses of {right}: profile both alike")]
    MixedScopes {
        /// Scope of the program's profile.
        left: Scope,
        /// Scope of the accesses asked for.
        right: Scope,
    },
    /// A number of windows that does not make a pass.
    #[error("{windows} windows of {window} accesses for a pass of {accesses}: give a profile of each window")]
    Windows {
        /// Windows given.
        windows: usize,
        /// Accesses in a window.
        window: u64,
        /// Accesses in a pass.
        accesses: u64,
    },
    /// A cache without sets or ways.
    #[error("a cache of {sets} sets of {ways} ways: give at least 1 of each")]
    Sets {
        /// Sets given.
        sets: u64,
        /// Ways given.
        ways: u64,
    },
    /// A number of CPI error factors that is not the number of programs.
    #[error("{given} CPI factors for {programs} programs: give one each")]
    FactorCount {
        /// Factors given.
        given: usize,
        /// Programs there are.
        programs: usize,
    },
    /// A CPI error factor that is no factor.
    #[error("CPI factor of {factor}: give a finite number above 0")]
    Factor {
        /// The factor given.
        factor: f64,
    },
}

/// Why a co-run cannot be solved.
#[derive(Debug, Clone, PartialEq, ThisError)]
#[non_exhaustive]
pub enum SolveError<E> {
    /// The cache model could not be fitted to the interleaved stream.
    #[error("{0}")]
    Fit(E),
    /// A CPI model that returns no positive, finite number between the miss ratios at which
    /// [`Program::new`](crate::Program::new) checked it.
    #[error(
        "CPI model of program {program} returns {cpi} at miss ratio {miss_ratio}: \
         it must be finite and above 0 from 0 to 1"
    )]
    Cpi {
        /// Number of the program, from 0.
        program: usize,
        /// Miss ratio.
        miss_ratio: f64,
        /// What the model returned.
        cpi: f64,
    },
}

/// A CPI that is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BadCpi {
    pub program: usize,
    pub miss_ratio: f64,
    pub cpi: f64,
}

impl<E> From<BadCpi> for SolveError<E> {
    fn from(BadCpi { program, miss_ratio, cpi }: BadCpi) -> Self {
        Self::Cpi { program, miss_ratio, cpi }
    }
}
