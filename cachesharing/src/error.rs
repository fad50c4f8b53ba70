//! What can be wrong with what is given to this crate. Not converging is not an error: see
//! [`Sharing::residual`](crate::Sharing).

use thiserror::Error as ThisError;

/// A curve, program or parameter that this crate refuses.
#[derive(Clone, Debug, PartialEq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A curve without points.
    #[error("a cache curve of no points: give at least one, or trust at least one")]
    NoPoints,
    /// Sizes that do not rise along a curve.
    #[error("{bytes} bytes after {before} bytes: give the sizes of a curve strictly rising, from above 0")]
    Sizes {
        /// The size that is out of order.
        bytes: u64,
        /// The one before it.
        before: u64,
    },
    /// A profile that says nothing of reuse times.
    #[error(
        "a profile of {samples} samples with distances in {clock}: give one with samples, and distances in accesses"
    )]
    Samples {
        /// Samples in it.
        samples: u64,
        /// What its distances are counted in.
        clock: String,
    },
    /// A quantity outside the values it can have.
    #[error("{what} of {value}: give {remedy}")]
    Value {
        /// Which quantity.
        what: &'static str,
        /// The value found.
        value: f64,
        /// What is possible.
        remedy: &'static str,
    },
    /// A quantity of a curve outside the values it can have.
    #[error("{what} of {value} at {bytes} bytes: give {remedy}")]
    Point {
        /// Which quantity.
        what: &'static str,
        /// The value found.
        value: f64,
        /// Size of the point.
        bytes: u64,
        /// What is possible.
        remedy: &'static str,
    },
    /// A line size that is not a power of two.
    #[error("a line size of {bytes} bytes: give a power of two from 1 to 1048576")]
    LineSize {
        /// The size given.
        bytes: u32,
    },
    /// A curve that has to hold for a cache it was not measured in.
    #[error(
        "program {program}, {part}: measured up to {measured} bytes, to share {cache}: measure it up to the \
         whole cache, or allow extrapolation"
    )]
    NotMeasured {
        /// Name of the program.
        program: String,
        /// Which of its curves.
        part: String,
        /// Largest size measured.
        measured: u64,
        /// Size of the shared cache.
        cache: u64,
    },
    /// Reuse times that were counted in the sets of another cache.
    #[error(
        "program {program}, {part}: reuse times counted in a cache of {counted} bytes a way, to share one of {cache} \
         bytes a way: count them in the sets of the cache to share, or leave them out"
    )]
    OtherSets {
        /// Name of the program.
        program: String,
        /// Which of its curves.
        part: String,
        /// Bytes of a way of the cache they were counted in.
        counted: u64,
        /// Bytes of a way of the shared cache.
        cache: u64,
    },
    /// A program without windows.
    #[error("program {program} has no windows: give at least one")]
    NoWindows {
        /// Name of the program.
        program: String,
    },
    /// A window for whose phase there is no curve.
    #[error("window {window} of program {program} has neither a curve nor a phase with one")]
    NoCurve {
        /// Name of the program.
        program: String,
        /// Number of the window, from 0.
        window: usize,
    },
    /// Two curves for one phase.
    #[error("program {program} has two curves for one phase (curve {index}): give each phase one")]
    PhaseTwice {
        /// Name of the program.
        program: String,
        /// Number of the second curve, from 0.
        index: usize,
    },
    /// Programs whose times or work are counted in different units.
    #[error("programs counted in {left} and in {right} do not belong in one prediction: profile both alike")]
    MixedUnits {
        /// Unit of one program.
        left: String,
        /// Unit of another.
        right: String,
    },
    /// Curves that cannot be averaged.
    #[error("curves of {left} and {right} byte lines cannot be averaged: measure both alike")]
    MixedLineSizes {
        /// Line size of one.
        left: u32,
        /// Line size of another.
        right: u32,
    },
    /// Too few or too many things of a kind.
    #[error("{count} {what}: give {remedy}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many were given.
        count: usize,
        /// How many are possible.
        remedy: &'static str,
    },
    /// A number that names no member of what it points into.
    #[error("{what} number {index} of {count}: give one from 0 to below {count}")]
    Index {
        /// Of what.
        what: &'static str,
        /// The number given.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A stored file that is not a cache curve, or of another version.
    #[error("format {format:?} version {version}: this crate reads \"cache-curve\" version {known}")]
    Format {
        /// Format found.
        format: String,
        /// Version found.
        version: u32,
        /// Version known.
        known: u32,
    },
    /// A stored time unit that is not known.
    #[error("time in {unit:?}: give \"cycle\" or \"nanosecond\"")]
    TimeUnit {
        /// Unit found.
        unit: String,
    },
}

/// Accepts finite values above 0, of a size whose products with others are finite too.
pub(crate) fn above_zero(what: &'static str, value: f64) -> Result<f64, Error> {
    if (1e-24..=1e24).contains(&value) {
        Ok(value)
    } else if value.is_finite() && value > 0.0 {
        Err(Error::Value { what, value, remedy: "a number from 1e-24 to 1e24" })
    } else {
        Err(Error::Value { what, value, remedy: "a finite number above 0" })
    }
}

/// Accepts finite values.
#[cfg(feature = "serde")]
pub(crate) fn finite(what: &'static str, value: f64) -> Result<f64, Error> {
    if value.is_finite() { Ok(value) } else { Err(Error::Value { what, value, remedy: "a finite number" }) }
}

/// Accepts 0 and what is above it.
#[cfg(feature = "serde")]
pub(crate) fn not_negative(what: &'static str, value: f64) -> Result<f64, Error> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(Error::Value { what, value, remedy: "a finite number of at least 0" })
    }
}

/// Accepts values strictly between 0 and 1.
pub(crate) fn open_unit(what: &'static str, value: f64) -> Result<f64, Error> {
    if value > 0.0 && value < 1.0 {
        Ok(value)
    } else {
        Err(Error::Value { what, value, remedy: "a number above 0 and below 1" })
    }
}
