//! How far predictions are off for programs outside the calibration.

use std::ops::Range;

use super::joint::{Joint, Row};
use super::measured::{Calibration, Stretch};
use super::time::{TimeFit, TimeModel, furthest};
use crate::performance::{PerformanceModel, SlowdownErrors, rescale};
use crate::{Cycles, Error, Hertz, Seconds};

/// Errors of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Accuracy {
    /// Mean size of the errors, relative.
    pub mean: f64,
    /// The truth is between `1 - interval` and `1 + interval` times the prediction for 95 % of what a program
    /// outside the calibration does.
    pub interval: f64,
}

/// Errors of predictions from profiles taken at one frequency for another.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Route {
    /// Frequency of the profile.
    pub from: Hertz,
    /// Frequency predicted for.
    pub to: Hertz,
    /// Errors of time.
    pub time: Accuracy,
    /// Errors of power, those of time and of event rates included.
    pub power: Accuracy,
}

/// Share of what a new program does that an interval holds.
const COVERAGE: f64 = 0.95;
/// Share of what a new program does that keeps a bound with the margin of a model that distinguishes what to doubt. What
/// is left breaks it by less than a step of frequency: with 0.90 no phase of the suite broke its bound on cores 2, 4 and 6
/// wide, nor with memory 1.6 times as slow; with 0.88 one did there, by 1 point.
const KEPT: f64 = 0.90;

impl Accuracy {
    /// From the ratios of measured to predicted of each stretch, less 1; each of `programs` programs has as many.
    ///
    /// # Formula
    /// The smallest `h` that the share `0.95 (1 + 1 / programs)` of the ratios do not exceed in size, or the largest
    /// size times that share where it is above 1. The factor is that of conformal prediction, for exchangeable
    /// *programs*: stretches of one program are alike.
    ///
    /// # References
    /// Barber, Candes, Ramdas and Tibshirani, *Predictive inference with the jackknife+*, Annals of Statistics 2021;
    /// for groups, Dunn, Wasserman and Ramdas, *Distribution-free prediction sets for two-layer hierarchical models*,
    /// JASA 2023.
    fn of(mut ratios: Vec<f64>, programs: usize) -> Self {
        for ratio in &mut ratios {
            *ratio = ratio.abs();
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        Self { mean, interval: beyond_few(ratios, programs, COVERAGE) }
    }
}

/// What the share `coverage` of the errors of a new program stays below, by `errors` of `programs` programs; at least 0.
fn beyond_few(mut errors: Vec<f64>, programs: usize, coverage: f64) -> f64 {
    errors.sort_by(f64::total_cmp);
    let share = coverage * (1.0 + 1.0 / programs as f64);
    let place = (share * errors.len() as f64).ceil() as usize;
    let last = errors.len().saturating_sub(1);
    errors.get(place.saturating_sub(1).min(last)).map_or(0.0, |error| error.max(0.0) * share.max(1.0))
}

/// A calibration with its power rows: one per stretch and frequency, in this order.
pub(super) struct Rows<'a> {
    pub calibration: &'a Calibration,
    pub all: Vec<Row>,
    pub scales: Vec<f64>,
    pub voltages_known: bool,
}

/// A program left out, with the power model of the others.
pub(super) struct LeftOut {
    stretches: Vec<usize>,
    joint: Joint,
}

impl Rows<'_> {
    fn width(&self) -> usize {
        self.calibration.frequencies.len()
    }

    pub fn fit(&self, without: Option<usize>, ridge: f64) -> Result<Joint, Error> {
        let rows: Vec<&Row> = self.all.iter().filter(|row| Some(row.program) != without).collect();
        Joint::fit(&rows, &self.scales, self.voltages_known, ridge)
    }

    /// Each program left out once.
    pub fn leave_out(&self, ridge: f64) -> Result<Vec<LeftOut>, Error> {
        let stretches = &self.calibration.stretches;
        let mut programs: Vec<usize> = stretches.iter().map(|stretch| stretch.program).collect();
        programs.sort_unstable();
        programs.dedup();
        let left_out = programs.into_iter().map(|program| {
            let stretches = (0..stretches.len()).filter(|&i| stretches[i].program == program).collect();
            Ok(LeftOut { stretches, joint: self.fit(Some(program), ridge)? })
        });
        left_out.collect()
    }

    fn rows_of(&self, stretch: usize) -> Range<usize> {
        stretch * self.width()..(stretch + 1) * self.width()
    }

    /// Mean squared relative error of power on the programs left out, from their own event rates.
    pub fn squared_error(&self, left_out: &[LeftOut]) -> f64 {
        let errors = left_out.iter().flat_map(|left| {
            let rows = left.stretches.iter().flat_map(|&stretch| &self.all[self.rows_of(stretch)]);
            rows.map(|row| left.joint.relative(row).powi(2))
        });
        errors.sum::<f64>() / self.all.len() as f64
    }

    /// The performance model for profiles at frequency number `from` that is best on the programs left out, with
    /// its errors, and those of power, for each frequency.
    pub fn routes(
        &self,
        left_out: &[LeftOut],
        from: usize,
        latency: Seconds,
    ) -> Result<(TimeFit, Vec<Route>), Error> {
        let (stretches, frequencies) = (&self.calibration.stretches, &self.calibration.frequencies);
        let candidates = |without: Option<&LeftOut>| {
            let kept = |i: &usize| without.is_none_or(|left| !left.stretches.contains(i));
            let kept: Vec<&Stretch> = (0..stretches.len()).filter(kept).map(|i| &stretches[i]).collect();
            TimeModel::candidates(latency, frequencies, from, &kept)
        };
        let fitted = candidates(None);
        let folds: Vec<Vec<TimeModel>> = left_out.iter().map(|left| candidates(Some(left))).collect();
        let far = furthest(frequencies, from);
        let mut best: Option<(f64, TimeFit, Vec<Route>)> = None;
        for (number, model) in fitted.into_iter().enumerate() {
            // A model that cannot be fitted without some program is not known to be any good.
            let each: Option<Vec<&TimeModel>> = folds.iter().map(|models| models.get(number)).collect();
            let Some(each) = each else { continue };
            let routes: Vec<Route> =
                (0..self.width()).map(|to| self.route(left_out, &each, from, to)).collect();
            // Squared, so that rare large errors count for what they do to bounds.
            let error: f64 = self.times(left_out, &each, from, far).iter().map(|error| error * error).sum();
            if best.as_ref().is_none_or(|(least, ..)| error < *least) {
                let margin = self.margin(left_out, &each, from)?;
                best = Some((error, TimeFit { at: frequencies[from], model, margin }, routes));
            }
        }
        best.map(|(_, fit, routes)| (fit, routes)).ok_or(Error::Empty { what: "performance models" })
    }

    /// Measured over predicted time of each stretch left out, less 1.
    fn times(&self, left_out: &[LeftOut], models: &[&TimeModel], from: usize, to: usize) -> Vec<f64> {
        let (stretches, frequencies) = (&self.calibration.stretches, &self.calibration.frequencies);
        let each = left_out.iter().zip(models).flat_map(|(left, model)| {
            left.stretches.iter().map(move |&number| {
                let counts = &stretches[number].at[from].counts;
                let predicted = model.cycles_at(counts, frequencies[from], frequencies[to]);
                stretches[number].cycles_at(to, from) / predicted - 1.0
            })
        });
        each.collect()
    }

    fn route(&self, left_out: &[LeftOut], models: &[&TimeModel], from: usize, to: usize) -> Route {
        let (stretches, frequencies) = (&self.calibration.stretches, &self.calibration.frequencies);
        let k = frequencies[from] / frequencies[to];
        let times = self.times(left_out, models, from, to);
        let mut powers = Vec::new();
        for (left, model) in left_out.iter().zip(models) {
            for &number in &left.stretches {
                let stretch = &stretches[number];
                let counted = &stretch.at[from];
                let memory = model.memory_cycles(&counted.counts, frequencies[from]);
                let cycles = rescale(counted.counts.cycles(), memory, k);
                let events = self.calibration.events.iter().zip(&counted.events);
                let rate = |(event, &count): (&crate::performance::Event, &f64)| {
                    event.scaling.rescale(count, memory, k) / cycles.0
                };
                let rates: Vec<f64> = events.map(rate).collect();
                let row = &self.all[number * self.width() + to];
                powers.push(row.power / left.joint.power(to, &rates, row.warmth) - 1.0);
            }
        }
        let (from, to) = (frequencies[from], frequencies[to]);
        let programs = left_out.len();
        Route { from, to, time: Accuracy::of(times, programs), power: Accuracy::of(powers, programs) }
    }

    /// The error of the scaling share of time that 90 % of what a new program does stays below, in units of the model's
    /// doubt: see [`SlowdownErrors`].
    fn margin(&self, left_out: &[LeftOut], models: &[&TimeModel], from: usize) -> Result<f64, Error> {
        let (stretches, frequencies) = (&self.calibration.stretches, &self.calibration.frequencies);
        let to = furthest(frequencies, from);
        let mut runs: Vec<([Cycles; 3], f64)> = Vec::new();
        for (left, model) in left_out.iter().zip(models) {
            runs.extend(left.stretches.iter().map(|&number| {
                let counts = &stretches[number].at[from].counts;
                let predicted = model.cycles_at(counts, frequencies[from], frequencies[to]);
                let cycles = [counts.cycles(), stretches[number].cycles_at(to, from), predicted];
                (cycles, model.doubt(counts, frequencies[from]))
            }));
        }
        let errors = SlowdownErrors::of(frequencies[from], frequencies[to], runs)?;
        let doubts = models.iter().all(|model| matches!(model, TimeModel::Overlapping(_)));
        Ok(beyond_few(errors.into_errors(), left_out.len(), if doubts { KEPT } else { COVERAGE }))
    }
}
