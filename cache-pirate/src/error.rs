//! What is refused, and what can go wrong outside.

use thiserror::Error as ThisError;

/// A measurement that cannot be made as asked for, or a curve that cannot be had from one.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum PirateError {
    /// A parameter outside its range.
    #[error("{what} of {value}: give {remedy}")]
    Parameter {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        remedy: &'static str,
    },
    /// No cache size to measure at.
    #[error("no cache sizes: give at least one, in bytes left to the target")]
    NoSizes,
    /// A size that the cache cannot leave to the target.
    #[error("a size of {bytes} bytes in a cache of {cache_bytes}: give 1 line to the whole cache")]
    Size {
        /// The size.
        bytes: u64,
        /// Size of the shared cache.
        cache_bytes: u64,
    },
    /// A size that is not a number of ways to which the hardware can confine a program.
    #[error(
        "a size of {bytes} bytes is not a number of ways: give a multiple of {way} from {least} on that leaves as much \
         to the others, or the whole of {whole}"
    )]
    Ways {
        /// The size.
        bytes: u64,
        /// Bytes of a way.
        way: u64,
        /// Fewest bytes that the processor allows.
        least: u64,
        /// Bytes of all ways.
        whole: u64,
    },
    /// A shared cache of no bytes, or lines that do not fit.
    #[error(
        "a shared cache of {bytes} bytes with lines of {line_size}: give a line size that is a power of two, \
         and at least one line"
    )]
    Cache {
        /// Size of the cache.
        bytes: u64,
        /// Size of a line.
        line_size: u32,
    },
    /// A cache said to be larger than the kernel reports.
    #[error("a cache of {claimed} bytes, but the kernel reports {real}: give at most that")]
    CacheTooLarge {
        /// The size given.
        claimed: u64,
        /// The size of the last-level cache.
        real: u64,
    },
    /// Nothing was measured before the target ended.
    #[error(
        "no interval of {interval} units of work was completed: the target did {work} in all; give shorter intervals"
    )]
    NothingMeasured {
        /// Interval asked for.
        interval: f64,
        /// Work that the target did.
        work: f64,
    },
    /// A value of a curve file that the format does not allow.
    #[error("cache-curve file: {what} is {value}; give {remedy}")]
    File {
        /// The field.
        what: &'static str,
        /// What it holds.
        value: String,
        /// What it must hold.
        remedy: &'static str,
    },
    /// A curve measured without memory counters has no miss ratio, which the file requires.
    #[error(
        "the point at {bytes} bytes has no miss ratio, which a cache-curve file requires: \
         measure with memory counters"
    )]
    NoMissRatio {
        /// Size of the point.
        bytes: u64,
    },
    /// Something the operating system refused.
    #[error("cannot {operation} {object}: {source}{}{remedy}", if remedy.is_empty() { "" } else { "; " })]
    System {
        /// What was to be done.
        operation: &'static str,
        /// To what: a path, a process, a processor.
        object: String,
        /// The system's answer.
        source: std::io::Error,
        /// What to do about it; empty if nothing is known to help.
        remedy: &'static str,
    },
    /// A machine on which nothing can be stolen from the target's processor.
    #[error("processor {cpu} {reason}")]
    Machine {
        /// The target's processor.
        cpu: usize,
        /// What is missing, and what to do.
        reason: &'static str,
    },
    /// The native testbed on a system it does not know.
    #[error("the native testbed needs Linux: use a simulated one here")]
    Unsupported,
}

impl PirateError {
    /// What the system refused to do with what, and what to change.
    pub(crate) fn system(
        operation: &'static str,
        object: impl Into<String>,
        source: impl Into<std::io::Error>,
        remedy: &'static str,
    ) -> Self {
        Self::System { operation, object: object.into(), source: source.into(), remedy }
    }
}
