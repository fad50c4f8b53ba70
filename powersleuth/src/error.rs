//! Everything that can be wrong with what a caller hands in.
//!
//! One enum for the crate. Each message names the value, the limit it broke and what to do about it.

/// What was wrong with the input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number outside its range.
    #[error("{what} is {value}; it must be {limit}")]
    OutOfRange {
        /// The quantity.
        what: &'static str,
        /// The value it was given.
        value: f64,
        /// The allowed range.
        limit: &'static str,
    },
    /// More of some counted thing than the whole it is part of.
    #[error("{part} stall cycles were counted in {whole} cycles; give both for the same interval")]
    StallsExceedCycles {
        /// Stall cycles.
        part: f64,
        /// Cycles.
        whole: f64,
    },
    /// A list that must have entries has none.
    #[error("there are no {what}; give at least one")]
    Empty {
        /// What is missing.
        what: &'static str,
    },
    /// Two lists that must be equally long are not.
    #[error("{got} {what} were given where {expected} are expected; give one for each")]
    Length {
        /// What is listed.
        what: &'static str,
        /// The length asked for.
        expected: usize,
        /// The length given.
        got: usize,
    },
    /// Two entries that must differ do not.
    #[error("{what} {which} is listed twice; list it once")]
    Duplicate {
        /// What is listed.
        what: &'static str,
        /// The entry.
        which: String,
    },
    /// A count of an event that the power model does not have.
    #[error("no event of the power model is {which:?}; its events are {known}")]
    UnknownEvent {
        /// The name given.
        which: String,
        /// Names of the model's events.
        known: String,
    },
    /// No count of an event of the power model.
    #[error("no count of event {which:?} is given; the power model weighs it: give 0 if it does not occur")]
    MissingEvent {
        /// Its name.
        which: String,
    },
    /// A frequency beyond the operating points.
    #[error("no voltage is known at {hertz} Hz: the operating points reach from {lowest} to {highest} Hz")]
    BeyondPoints {
        /// The frequency asked for.
        hertz: f64,
        /// Lowest known.
        lowest: f64,
        /// Highest known.
        highest: f64,
    },
    /// A frequency that the analysis was not made for.
    #[error("the analysis holds no costs at {hertz} Hz; predict them for it too")]
    UnknownFrequency {
        /// The frequency asked for.
        hertz: f64,
    },
    /// Something was given for a phase, level, instance, event or group that does not exist.
    #[error("{what} {index} does not exist: there are {count}")]
    NoSuch {
        /// The kind of thing.
        what: &'static str,
        /// Its number.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The events of a profile are not those that the power model was fitted with.
    #[error(
        "the profile's event {index} is {got}, the power model's {expected}; count the model's events in its order"
    )]
    OtherEvents {
        /// Position, from 0.
        index: usize,
        /// The model's event.
        expected: String,
        /// The profile's event.
        got: String,
    },
    /// The performance model needs a count that an interval does not have.
    #[error(
        "interval {interval} has no count of {what}, which the performance model reads; count them, or use the \
         stall-based model"
    )]
    NotCounted {
        /// Number of the interval, from 0.
        interval: usize,
        /// What was not counted.
        what: &'static str,
    },
    /// No schedule keeps to a limit.
    #[error("no schedule keeps {what} of {limit} {unit} and the bound of each phase{}", least_kept(*least, unit))]
    Infeasible {
        /// The limit.
        what: &'static str,
        /// Its value.
        limit: f64,
        /// Of both numbers.
        unit: &'static str,
        /// The least possible value with the other limits as they are; infinite if there is none.
        least: f64,
    },
    /// Fewer observations than parameters.
    #[error(
        "{observations} observations do not determine {parameters} parameters; measure more programs, or fit fewer events"
    )]
    TooFewObservations {
        /// Number of observations to fit to.
        observations: usize,
        /// Events and the constant.
        parameters: usize,
    },
    /// An event that has the same rate in every observation, or follows exactly from the events before it.
    #[error(
        "event {event} follows from the constant and the events before it; leave it out, or measure programs in which it varies apart from them"
    )]
    Dependent {
        /// Its name.
        event: String,
    },
    /// An event that no interval of the run measured.
    #[error("event {event} was never counted in this run; run longer, or count fewer events")]
    NeverCounted {
        /// Number of the event.
        event: usize,
    },
    /// A model that was fitted on another machine.
    #[error("the power model was fitted on {fitted:?}, this machine is {here:?}; fit one here")]
    OtherMachine {
        /// The machine of the model.
        fitted: String,
        /// The machine it is to be used on.
        here: String,
    },
    /// A file of the system cannot be read or written.
    #[cfg(feature = "linux")]
    #[error("cannot {operation} /{path}: {source}; {remedy}")]
    File {
        /// What was tried.
        operation: &'static str,
        /// Below the root.
        path: String,
        /// What the system said.
        source: std::io::Error,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A file of the system holds something else than it should.
    #[cfg(feature = "linux")]
    #[error("/{path} holds {content:?} instead of {expected}; this kernel is not understood")]
    Malformed {
        /// Below the root.
        path: String,
        /// What it holds.
        content: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// The system has no such thing.
    #[cfg(feature = "linux")]
    #[error("this machine reports no {what} (/{path} is missing); {remedy}")]
    Missing {
        /// What was looked for.
        what: &'static str,
        /// Where, below the root.
        path: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A frequency that a processor cannot be set to.
    #[cfg(feature = "linux")]
    #[error("cpufreq policy {policy} cannot run at {hertz} Hz: it offers {offered}")]
    NotOffered {
        /// Number of the policy.
        policy: u32,
        /// The frequency asked for.
        hertz: f64,
        /// What it can do.
        offered: String,
    },
    /// A saved model of an unknown version.
    #[error("the saved model has format {found}, this crate reads {known}; save it again with this version")]
    FormatVersion {
        /// Version found.
        found: u32,
        /// Version known.
        known: u32,
    },
}

/// Refuses `value` unless it is finite and, if `zero` is not allowed, above zero, else not below.
pub(crate) fn check(what: &'static str, value: f64, zero: bool) -> Result<f64, Error> {
    if value.is_finite() && (value > 0.0 || (zero && value == 0.0)) {
        Ok(value)
    } else {
        let limit = if zero { "finite and not negative" } else { "finite and above 0" };
        Err(Error::OutOfRange { what, value, limit })
    }
}

pub(crate) fn positive(what: &'static str, value: f64) -> Result<f64, Error> {
    check(what, value, false)
}

pub(crate) fn not_negative(what: &'static str, value: f64) -> Result<f64, Error> {
    check(what, value, true)
}

/// Refuses weights unless they are finite.
pub(crate) fn finite(what: &'static str, values: impl IntoIterator<Item = f64>) -> Result<(), Error> {
    match values.into_iter().find(|value| !value.is_finite()) {
        Some(value) => Err(Error::OutOfRange { what, value, limit: "finite" }),
        None => Ok(()),
    }
}

pub(crate) fn check_ascending(frequencies: &[crate::Hertz]) -> Result<(), Error> {
    if frequencies.is_empty() {
        return Err(Error::Empty { what: "frequencies" });
    }
    for &frequency in frequencies {
        positive("a frequency in hertz", frequency.0)?;
    }
    match frequencies.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(Error::OutOfRange {
            what: "a frequency in hertz",
            value: pair[1].0,
            limit: "above the one listed before it",
        }),
        None => Ok(()),
    }
}

/// What can be kept instead, not rounded to what cannot.
fn least_kept(least: f64, unit: &str) -> String {
    const DIGITS: f64 = 1e6;
    if least.is_finite() {
        let least = (least * DIGITS).ceil() / DIGITS;
        format!(": the least that one keeps is {least} {unit}; raise it to that, or the bound")
    } else {
        "; raise the bound, or leave out this limit".into()
    }
}
