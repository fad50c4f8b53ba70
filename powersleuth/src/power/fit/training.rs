//! Measured programs, and the model fitted to them.

use super::collinearity::Collinearity;
use super::qr::{Solution, dot, least_squares};
use crate::error::{Error, not_negative, positive};
use crate::performance::Event;
use crate::power::capacitance::check_names;
use crate::power::{EffectiveCapacitance, OperatingPoint};
use crate::{Cycles, Farads, Watts};

/// Observations to fit an [`EffectiveCapacitance`] to: event counts and the power measured with them.
///
/// Take them at one frequency (the highest gives the largest signal over static power) from programs as
/// different as those to be predicted: computing and waiting, integer and floating point, well and badly
/// predicted branches.
///
/// ```
/// use powersleuth::performance::Event;
/// use powersleuth::power::{OperatingPoint, TrainingSet};
/// use powersleuth::{Cycles, Hertz, Volts, Watts};
///
/// let point = OperatingPoint {
///     frequency: Hertz::from_ghz(2.0),
///     voltage: Volts(1.0),
///     static_power: Watts(10.0),
/// };
/// let mut set = TrainingSet::new([Event::fixed("uops")])?;
/// for (uops, power) in [(0.5e6, 15.0), (1.0e6, 16.0), (2.0e6, 18.0), (3.0e6, 20.0)] {
///     set.push(&[uops], Cycles(1e6), &point, Watts(power))?;
/// }
/// let fit = set.fit()?;
/// // 2 nF (4 W at 2 GHz and 1 V) and 1 nF for each micro-operation per cycle
/// assert!((fit.capacitance().constant().nf() - 2.0).abs() < 1e-9);
/// assert!((fit.capacitance().weights()[0].nf() - 1.0).abs() < 1e-9);
/// # Ok::<(), powersleuth::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TrainingSet {
    events: Vec<Event>,
    rates: Vec<f64>,       // per cycle; one row of events.len() per observation
    capacitance: Vec<f64>, // in farads
}

/// A fitted model with what is known about its accuracy.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct Fit {
    capacitance: EffectiveCapacitance,
    standard_errors: Vec<Farads>,
    constant_error: Farads,
    residual_deviation: Farads,
    r_squared: f64,
    observations: usize,
    collinearity: Collinearity,
}

/// A fit as it is read: not yet known to have an error for each weight.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    capacitance: EffectiveCapacitance,
    standard_errors: Vec<Farads>,
    constant_error: Farads,
    residual_deviation: Farads,
    r_squared: f64,
    observations: usize,
    collinearity: Collinearity,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for Fit {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let expected = saved.capacitance.events().len();
        for got in [saved.standard_errors.len(), saved.collinearity.inflation.len()] {
            if got != expected {
                return Err(Error::Length { what: "errors of weights", expected, got });
            }
        }
        Ok(Self {
            capacitance: saved.capacitance,
            standard_errors: saved.standard_errors,
            constant_error: saved.constant_error,
            residual_deviation: saved.residual_deviation,
            r_squared: saved.r_squared,
            observations: saved.observations,
            collinearity: saved.collinearity,
        })
    }
}

impl TrainingSet {
    /// An empty set of observations of `events`.
    ///
    /// # Errors
    /// [`Error::Duplicate`] if two events have one name.
    pub fn new(events: impl IntoIterator<Item = Event>) -> Result<Self, Error> {
        let events: Vec<Event> = events.into_iter().collect();
        check_names(&events)?;
        Ok(Self { events, rates: Vec::new(), capacitance: Vec::new() })
    }

    /// Adds an observation: `counts` of the events in order, over `cycles`, while `power` was drawn at `point`.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is a count for each event; [`Error::OutOfRange`] for a count or power that
    /// is negative or not finite, or no cycles.
    pub fn push(
        &mut self,
        counts: &[f64],
        cycles: Cycles,
        point: &OperatingPoint,
        power: Watts,
    ) -> Result<(), Error> {
        if counts.len() != self.events.len() {
            return Err(Error::Length { what: "counts", expected: self.events.len(), got: counts.len() });
        }
        positive("the number of cycles", cycles.0)?;
        not_negative("the power in watts", power.0)?;
        for &count in counts {
            not_negative("an event count", count)?;
        }
        self.rates.extend(counts.iter().map(|count| count / cycles.0));
        self.capacitance.push(point.capacitance(power).0);
        Ok(())
    }

    /// Number of observations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.capacitance.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.capacitance.is_empty()
    }

    /// Fits the weights to all observations.
    ///
    /// # Formula
    /// The weights minimise `sum_i (C_i - w_0 - sum_k w_k x_ik)^2`, with `x` the event rates per cycle. With
    /// `s^2` the residual sum of squares over the degrees of freedom, the standard error of `w_k` is
    /// `s sqrt([(X'X)^-1]_kk)`.
    ///
    /// # Errors
    /// [`Error::TooFewObservations`] unless there are more than events plus one; [`Error::Dependent`] naming the
    /// first event whose weight is not determined.
    ///
    /// # Accuracy and limits
    /// Standard errors take the residuals to be independent and of equal size. Where the truth is not linear
    /// they are systematic, and [cross-validation](Self::cross_validate) says more.
    ///
    /// # Cost
    /// Observations times events squared: microseconds.
    ///
    /// # References
    /// Thesis, Paper V, equation V.6.
    pub fn fit(&self) -> Result<Fit, Error> {
        let rows: Vec<usize> = (0..self.len()).collect();
        self.fit_to(&rows)
    }

    pub(super) fn fit_to(&self, rows: &[usize]) -> Result<Fit, Error> {
        let parameters = self.events.len() + 1;
        let Some(freedom) = rows.len().checked_sub(parameters).filter(|&freedom| freedom > 0) else {
            return Err(Error::TooFewObservations { observations: rows.len(), parameters });
        };
        let x: Vec<&[f64]> = rows.iter().map(|&row| self.rates_of(row)).collect();
        let y: Vec<f64> = rows.iter().map(|&row| self.capacitance[row]).collect();
        let solution = least_squares(&x, &y)
            .map_err(|event| Error::Dependent { event: self.events[event].name.clone() })?;
        let variance = solution.residual_squares / freedom as f64;
        let (standard_errors, constant_error) = standard_errors(&solution, variance, rows.len());
        let weights = solution.weights.iter().copied().map(Farads);
        Ok(Fit {
            capacitance: EffectiveCapacitance::new(
                self.events.iter().cloned().zip(weights),
                Farads(solution.constant),
            )?,
            standard_errors,
            constant_error,
            residual_deviation: Farads(variance.sqrt()),
            r_squared: if solution.total_squares > 0.0 {
                1.0 - solution.residual_squares / solution.total_squares
            } else {
                1.0
            },
            observations: rows.len(),
            collinearity: Collinearity::of(&solution),
        })
    }

    pub(super) fn rates_of(&self, row: usize) -> &[f64] {
        &self.rates[row * self.events.len()..(row + 1) * self.events.len()]
    }

    pub(super) fn capacitance_of(&self, row: usize) -> Farads {
        Farads(self.capacitance[row])
    }
}

/// Of the weights, and of the constant.
fn standard_errors(solution: &Solution, variance: f64, observations: usize) -> (Vec<Farads>, Farads) {
    let inverse = solution.inverse_triangle();
    let weights = inverse.iter().zip(&solution.scales);
    let weights = weights.map(|(row, scale)| Farads((variance * dot(row, row)).sqrt() / scale)).collect();
    // The constant is the mean less weights times mean rates: its variance is that of both.
    let shift: Vec<f64> =
        solution.means.iter().zip(&solution.scales).map(|(mean, scale)| mean / scale).collect();
    let spread: f64 = (0..shift.len())
        .map(|column| inverse.iter().zip(&shift).map(|(row, s)| row[column] * s).sum::<f64>().powi(2))
        .sum();
    (weights, Farads((variance * (1.0 / observations as f64 + spread)).sqrt()))
}

impl Fit {
    /// The fitted model.
    #[must_use]
    pub const fn capacitance(&self) -> &EffectiveCapacitance {
        &self.capacitance
    }

    /// The fitted model, alone.
    #[must_use]
    pub fn into_capacitance(self) -> EffectiveCapacitance {
        self.capacitance
    }

    /// Standard error of each weight, in the order of the events.
    #[must_use]
    pub fn standard_errors(&self) -> &[Farads] {
        &self.standard_errors
    }

    /// Standard error of the constant.
    #[must_use]
    pub const fn constant_error(&self) -> Farads {
        self.constant_error
    }

    /// Standard deviation of the residuals.
    #[must_use]
    pub const fn residual_deviation(&self) -> Farads {
        self.residual_deviation
    }

    /// Share of the variance that the events explain, in 0..=1.
    #[must_use]
    pub const fn r_squared(&self) -> f64 {
        self.r_squared
    }

    /// Number of observations fitted to.
    #[must_use]
    pub const fn observations(&self) -> usize {
        self.observations
    }

    /// How far the events move together.
    #[must_use]
    pub const fn collinearity(&self) -> &Collinearity {
        &self.collinearity
    }

    /// A warning for the user if the events are collinear.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        if !self.collinearity.is_serious() {
            return None;
        }
        let name = |event: usize| {
            let factor = self.collinearity.inflation[event];
            format!("{} (variance inflated {factor:.0}-fold)", self.capacitance.events()[event].name)
        };
        let suspects: Vec<String> = self.collinearity.suspects().map(name).collect();
        let whom = if suspects.is_empty() { "the events together".to_owned() } else { suspects.join(", ") };
        Some(format!(
            "collinear events, condition number {:.0}: {whom}; their weights cannot be separated, leave one out \
             or measure programs in which they differ",
            self.collinearity.condition_number
        ))
    }
}
