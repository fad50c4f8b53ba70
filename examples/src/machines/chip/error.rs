//! What the reference chip refuses.

use thiserror::Error as ThisError;

/// A chip that cannot be built.
#[derive(Clone, Debug, PartialEq, ThisError)]
#[non_exhaustive]
pub enum ChipError {
    /// A cache that is not a whole number of sets.
    #[error(
        "cache of {bytes} bytes in {ways} ways: give 1 to 64 ways and a positive multiple of \
         ways x {line_bytes} bytes"
    )]
    Geometry {
        /// Size asked for.
        bytes: u64,
        /// Ways asked for.
        ways: u64,
        /// Bytes in a line.
        line_bytes: u32,
    },
    /// Caches of one chip with different line sizes.
    #[error("caches with lines of {left} and {right} bytes in one chip: give all the same line size")]
    MixedLineSizes {
        /// Bytes in a line of one cache.
        left: u32,
        /// Bytes in a line of another.
        right: u32,
    },
    /// More cores than the chip can number.
    #[error("{cores} cores: give 1 to {limit} (with lines of {line_bytes} bytes)")]
    Cores {
        /// Number asked for.
        cores: usize,
        /// Largest number possible.
        limit: usize,
        /// Bytes in a line.
        line_bytes: u32,
    },
    /// A timing parameter that is negative, infinite or not a number.
    #[error("{what} of {value}: give {remedy}")]
    Timing {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        remedy: &'static str,
    },
    /// An allocation of no way of the shared cache.
    #[error("an allocation of ways {mask:#x} in a cache of {ways}: give at least one of them")]
    Allocation {
        /// The ways asked for, a bit each.
        mask: u64,
        /// Ways of the cache.
        ways: u64,
    },
    /// A recording without any access cannot be played.
    #[error("a program without memory accesses cannot be played: give at least one access")]
    NoAccesses,
    /// A stream prefetcher without streams or with nothing to fetch.
    #[error(
        "stream prefetcher with {streams} streams that fetches {ahead} lines ahead: give 1 to 64 of both"
    )]
    Prefetcher {
        /// Number of streams followed.
        streams: usize,
        /// Lines fetched ahead.
        ahead: u64,
    },
}
