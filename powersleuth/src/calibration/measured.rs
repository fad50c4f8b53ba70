//! What is measured, and in which order.

use super::time::furthest;
use crate::error::{Error, check_ascending, not_negative, positive};
use crate::performance::{Counts, Event};
use crate::{Cycles, Hertz, Joules, Kelvin, Seconds};

/// A machine that runs known work at a chosen frequency.
pub trait Bench {
    /// What can go wrong with it.
    type Error;

    /// Sets the clock.
    ///
    /// # Errors
    /// Whatever keeps the machine from running at `frequency`.
    fn set(&mut self, frequency: Hertz) -> Result<(), Self::Error>;

    /// Runs stretch number `stretch` of kernel number `kernel` and measures it. The same numbers are the same work.
    ///
    /// # Errors
    /// Whatever keeps it from being run or measured.
    fn run(&mut self, kernel: usize, stretch: usize) -> Result<Measurement, Self::Error>;
}

/// A stretch of work at one frequency.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What the performance models read.
    pub counts: Counts,
    /// Counts of the power model's events, in its order.
    pub events: Vec<f64>,
    /// How long energy was measured.
    pub time: Seconds,
    /// Energy meanwhile.
    pub energy: Joules,
    /// Temperature of the processor, where there is a sensor.
    pub temperature: Option<Kelvin>,
}

/// The same work at every frequency.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub program: usize,
    pub at: Vec<Measurement>, // one per frequency
}

impl Stretch {
    /// Cycles at frequency number `to` of as many instructions as were measured at number `from`.
    pub fn cycles_at(&self, to: usize, from: usize) -> Cycles {
        let (to, from) = (&self.at[to].counts, &self.at[from].counts);
        Cycles(to.cycles().0 * from.instructions() / to.instructions())
    }
}

/// Kernels measured at every frequency, to fit a [`MachineModel`](super::MachineModel) to.
#[derive(Clone, Debug)]
pub struct Calibration {
    pub(super) events: Vec<Event>,
    pub(super) frequencies: Vec<Hertz>, // ascending, at least two
    pub(super) stretches: Vec<Stretch>,
}

impl Calibration {
    /// An empty one of `events` at `frequencies`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless there are at least two frequencies that ascend and are above 0;
    /// [`Error::Empty`] without events.
    pub fn new(
        events: impl IntoIterator<Item = Event>,
        frequencies: impl IntoIterator<Item = Hertz>,
    ) -> Result<Self, Error> {
        let (events, frequencies): (Vec<_>, Vec<_>) =
            (events.into_iter().collect(), frequencies.into_iter().collect());
        check_ascending(&frequencies)?;
        if frequencies.len() < 2 {
            let limit = "at least 2";
            return Err(Error::OutOfRange { what: "the number of frequencies", value: 1.0, limit });
        }
        if events.is_empty() {
            return Err(Error::Empty { what: "events of a power model" });
        }
        Ok(Self { events, frequencies, stretches: Vec::new() })
    }

    /// Adds a stretch of program number `program`, with its measurement at each frequency.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is a measurement for each frequency, with a count for each event;
    /// [`Error::OutOfRange`] for a count that is negative, or time or energy not above 0, as when an energy counter
    /// stands still.
    pub fn push(&mut self, program: usize, at: Vec<Measurement>) -> Result<(), Error> {
        if at.len() != self.frequencies.len() {
            let (expected, got) = (self.frequencies.len(), at.len());
            return Err(Error::Length { what: "measurements of a stretch", expected, got });
        }
        for measurement in &at {
            let (expected, got) = (self.events.len(), measurement.events.len());
            if expected != got {
                return Err(Error::Length { what: "counts", expected, got });
            }
            positive("the time of a stretch in seconds", measurement.time.0)?;
            positive("the energy of a stretch in joules", measurement.energy.0)?;
            for &count in &measurement.events {
                not_negative("an event count", count)?;
            }
        }
        self.stretches.push(Stretch { program, at });
        Ok(())
    }

    /// The frequencies, ascending.
    #[must_use]
    pub fn frequencies(&self) -> &[Hertz] {
        &self.frequencies
    }

    /// The frequency that is furthest from number `from`.
    #[must_use]
    pub fn furthest(&self, from: usize) -> Hertz {
        self.frequencies[furthest(&self.frequencies, from.min(self.frequencies.len() - 1))]
    }
}

/// Runs `stretches` stretches of each of `kernels` kernels at every frequency, in an order drawn with `seed`.
/// `progress` gets the number of runs done and of all runs, and ends the measurement by returning `false`.
///
/// # Errors
/// Whatever `bench` reports, or a measurement that cannot be, see [`Calibration::push`]; `None` if it was ended.
pub fn measure<B: Bench>(
    bench: &mut B,
    mut empty: Calibration,
    [kernels, stretches]: [usize; 2],
    seed: u64,
    mut progress: impl FnMut(usize, usize) -> bool,
) -> Result<Option<Calibration>, B::Error>
where
    B::Error: From<Error>,
{
    let width = empty.frequencies.len();
    let all = kernels * stretches * width;
    let mut order: Vec<usize> = (0..all).collect();
    crate::random::shuffle(&mut order, seed);
    let mut measured: Vec<Option<Measurement>> = vec![None; all];
    for (done, &place) in order.iter().enumerate() {
        if !progress(done, all) {
            return Ok(None);
        }
        bench.set(empty.frequencies[place % width])?;
        let stretch = place / width;
        measured[place] = Some(bench.run(stretch / stretches, stretch % stretches)?);
    }
    let mut measured = measured.into_iter().flatten();
    for stretch in 0..kernels * stretches {
        empty.push(stretch / stretches, measured.by_ref().take(width).collect())?;
    }
    Ok(Some(empty))
}
