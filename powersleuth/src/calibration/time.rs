//! Which performance model a machine gets: the one that predicts programs best that it was not fitted to.

use super::measured::Stretch;
use crate::performance::{Counts, OverlappingStalls, PerformanceModel, QuadraticStalls, StallBased};
use crate::{Cycles, Error, Hertz, Seconds};

/// A performance model as it is saved with a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "model", rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum TimeModel {
    /// Stall cycles, as far as misses explain them: [`StallBased`].
    StallBased {
        /// Latency of memory.
        memory_latency: Seconds,
    },
    /// Stall cycles as they are counted, on processors that count those of memory alone.
    ExactStalls,
    /// Two kinds of stall with fitted weights: [`QuadraticStalls`].
    Calibrated(QuadraticStalls),
    /// The same with how far misses overlap: [`OverlappingStalls`].
    Overlapping(OverlappingStalls),
}

impl TimeModel {
    /// Its name in reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::StallBased { .. } => "stall-based",
            Self::ExactStalls => "exact stalls",
            Self::Calibrated(_) => "calibrated",
            Self::Overlapping(_) => "overlapping stalls",
        }
    }

    /// The models that can be fitted to `stretches`, run at frequency number `from` and others.
    pub(super) fn candidates(
        latency: Seconds,
        frequencies: &[Hertz],
        from: usize,
        stretches: &[&Stretch],
    ) -> Vec<Self> {
        let mut models = vec![Self::StallBased { memory_latency: latency }, Self::ExactStalls];
        let to = furthest(frequencies, from);
        let runs = || stretches.iter().map(|stretch| (stretch.at[from].counts, stretch.cycles_at(to, from)));
        let (from, to) = (frequencies[from], frequencies[to]);
        // Without resource stalls there are no such models.
        models.extend(QuadraticStalls::fit(latency, from, to, runs()).ok().map(Self::Calibrated));
        models.extend(OverlappingStalls::fit(latency, from, to, runs()).ok().map(Self::Overlapping));
        models
    }
}

impl PerformanceModel for TimeModel {
    fn memory_cycles(&self, counts: &Counts, at: Hertz) -> Cycles {
        match self {
            Self::StallBased { memory_latency } => {
                StallBased::new(*memory_latency).map_or(Cycles(0.0), |model| model.memory_cycles(counts, at))
            }
            Self::ExactStalls => StallBased::exact_stalls().memory_cycles(counts, at),
            Self::Calibrated(model) => model.memory_cycles(counts, at),
            Self::Overlapping(model) => model.memory_cycles(counts, at),
        }
    }

    fn doubt(&self, counts: &Counts, at: Hertz) -> f64 {
        match self {
            Self::Overlapping(model) => model.doubt(counts, at),
            _ => 1.0,
        }
    }

    fn missing(&self, counts: &Counts) -> Option<&'static str> {
        match self {
            Self::Calibrated(model) => model.missing(counts),
            Self::Overlapping(model) => model.missing(counts),
            _ => None,
        }
    }
}

/// The model for profiles taken at one frequency.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TimeFit {
    /// The frequency of the profile.
    pub at: Hertz,
    /// The model with the smallest squared error there, on programs left out.
    pub model: TimeModel,
    /// The error of the share of time that scales with the clock, in units of the model's
    /// [doubt](PerformanceModel::doubt), that 90 % of what a program outside the calibration does stays below, 95 % where
    /// the model doubts everything alike: a margin for [`Goal::with_margin`](crate::analysis::Goal::with_margin).
    pub margin: f64,
}

/// Number of the frequency that is furthest from number `from`.
pub(super) fn furthest(frequencies: &[Hertz], from: usize) -> usize {
    let last = frequencies.len() - 1;
    let distance = |at: usize| (frequencies[at] / frequencies[from]).ln().abs();
    if distance(0) >= distance(last) { 0 } else { last }
}

/// Time of a trip to memory: the slope of cycles over frequency is time that the clock does not pace, and per miss
/// it is largest where misses wait for each other. The largest of the stretches that wait for memory most of the time.
///
/// # Errors
/// [`Error::Empty`] if none waits for memory for half of the time at the highest frequency.
pub(super) fn memory_latency(frequencies: &[Hertz], stretches: &[Stretch]) -> Result<Seconds, Error> {
    let last = frequencies.len() - 1;
    let span = frequencies[last] - frequencies[0];
    let per_miss = stretches.iter().filter_map(|stretch| {
        let fast = &stretch.at[last].counts;
        let memory = (fast.cycles() - stretch.cycles_at(0, last)) / span;
        let waits = memory.0 * frequencies[last].0 / fast.cycles().0 >= 0.5;
        (waits && fast.llc_misses() > 0.0).then(|| memory / fast.llc_misses())
    });
    let latency = per_miss.fold(Seconds(0.0), |most, each| if each > most { each } else { most });
    if latency.0 > 0.0 {
        Ok(latency)
    } else {
        Err(Error::Empty { what: "kernels that wait for memory most of the time" })
    }
}
