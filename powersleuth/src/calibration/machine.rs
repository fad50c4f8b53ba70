//! What a calibration leaves: a machine's models with their measured errors.

use super::joint::{Joint, Row};
use super::measured::Calibration;
use super::routes::{LeftOut, Route, Rows};
use super::thermal::Thermal;
use super::time::{TimeFit, memory_latency};
use crate::power::{EffectiveCapacitance, OperatingPoint, OperatingPoints, PowerModel};
use crate::ridge::Pair;
use crate::{Error, Farads, Hertz, Kelvin, Seconds, Volts, Watts};

/// Models of a machine's time and power, fitted to it, with errors measured on kernels left out of the fit.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MachineModel {
    /// Power. A file with nothing else is a machine model too.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub power: PowerModel,
    /// Time, for profiles taken at each of the calibrated frequencies.
    #[cfg_attr(feature = "serde", serde(default))]
    pub time: Vec<TimeFit>,
    /// How power depends on the temperature of the surroundings, where there was a sensor.
    #[cfg_attr(feature = "serde", serde(default))]
    pub thermal: Option<Thermal>,
    /// Measured errors, from and to each of the calibrated frequencies.
    #[cfg_attr(feature = "serde", serde(default))]
    pub routes: Vec<Route>,
}

impl From<PowerModel> for MachineModel {
    fn from(power: PowerModel) -> Self {
        Self { power, time: Vec::new(), thermal: None, routes: Vec::new() }
    }
}

impl MachineModel {
    /// The performance model for a profile taken at `frequency`: that of the nearest calibrated one.
    #[must_use]
    pub fn time_at(&self, frequency: Hertz) -> Option<&TimeFit> {
        nearest(&self.time, |fit| (fit.at / frequency).ln().abs())
    }

    /// Measured errors of predictions from `from` for `to`: those of the nearest calibrated frequencies.
    #[must_use]
    pub fn route(&self, from: Hertz, to: Hertz) -> Option<&Route> {
        nearest(&self.routes, |route| (route.from / from).ln().abs() * 1e3 + (route.to / to).ln().abs())
    }

    /// The power model in surroundings that are `excess` warmer than in the calibration, see [`Thermal::excess`].
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if so much colder that nothing would be drawn.
    pub fn warmer(&self, excess: Kelvin) -> Result<PowerModel, Error> {
        let Some(thermal) = self.thermal else { return Ok(self.power.clone()) };
        let constant = self.power.capacitance().constant();
        let points = self.power.points().as_slice().iter().map(|point| {
            let intercept = point.power(constant);
            let static_power = point.static_power + intercept * (thermal.per_kelvin * excess.0);
            OperatingPoint { static_power, ..*point }
        });
        let points = OperatingPoints::new(points)?;
        Ok(PowerModel::new(self.power.machine(), points, self.power.capacitance().clone()))
    }
}

fn nearest<T>(all: &[T], distance: impl Fn(&T) -> f64) -> Option<&T> {
    all.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// Ridge penalties that are tried, relative to the standardised rates' own squares.
const RIDGES: [f64; 6] = [1e-8, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];

impl Calibration {
    /// Fits everything, for the machine called `machine`. `voltages`, one per frequency, are kept where they are
    /// known; otherwise voltages come out relative to that of the highest frequency.
    ///
    /// # Formula
    /// Power at the calibrated frequency `f`:
    /// `P = b_f (1 + k d) + s_f sum_k w_k event_k / cycles`, where `s_f` is `f V^2` and `d` the excess of ambient
    /// temperature ([`Thermal`]); least squares of relative errors, by alternating between the weights `w`, shared by all
    /// frequencies, and the rest. The ridge penalty on the weights is the one of six with the smallest error on
    /// programs left out. `b_f` is static power plus `s_f w_0`; its split decides nothing at the calibrated frequencies
    /// and is the one nearest to leakage in proportion to voltage. Frequencies between are interpolated.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is a voltage for each frequency; [`Error::TooFewObservations`] for fewer
    /// measurements than parameters, also without one program; [`Error::Empty`] if no kernel waits for memory.
    ///
    /// # Cost
    /// 22 kernels of 3 stretches at nine frequencies with seven events: about a second.
    ///
    /// # References
    /// Thesis, Paper V, equations V.4 to V.6, which take static power and voltages from elsewhere.
    pub fn fit(&self, machine: &str, voltages: Option<&[Volts]>) -> Result<MachineModel, Error> {
        let width = self.frequencies.len();
        if let Some(got) = voltages.map(<[Volts]>::len).filter(|&got| got != width) {
            return Err(Error::Length { what: "voltages", expected: width, got });
        }
        let volts = |number: usize| voltages.map_or(Volts(1.0), |voltages| voltages[number]);
        let scales: Vec<f64> = (0..width).map(|f| self.frequencies[f].0 * volts(f).0 * volts(f).0).collect();
        let (mut rows, temperatures) = self.rows();
        let thermal = warm(&mut rows, &temperatures, &scales, voltages.is_some())?;
        let rows = Rows { calibration: self, all: rows, scales, voltages_known: voltages.is_some() };

        let mut best: Option<(f64, f64, Vec<LeftOut>)> = None;
        for ridge in RIDGES {
            let left_out = rows.leave_out(ridge)?;
            let error = rows.squared_error(&left_out);
            if best.as_ref().is_none_or(|(least, ..)| error < *least) {
                best = Some((error, ridge, left_out));
            }
        }
        let (_, ridge, left_out) = best.ok_or(Error::Empty { what: "ridge penalties" })?;
        let joint = rows.fit(None, ridge)?;
        let thermal = thermal.map(|thermal| Thermal { per_kelvin: joint.per_kelvin, ..thermal });

        let volts_of = |number: usize| (joint.scales[number] / self.frequencies[number].0).sqrt();
        let constant = shared_constant(&joint.intercepts, &joint.scales, volts_of);
        let points = (0..width).map(|number| OperatingPoint {
            frequency: self.frequencies[number],
            voltage: Volts(volts_of(number)),
            static_power: Watts((joint.intercepts[number] - joint.scales[number] * constant).max(0.0)),
        });
        let weights = self.events.iter().cloned().zip(joint.weights.iter().copied().map(Farads));
        let capacitance = EffectiveCapacitance::new(weights, Farads(constant))?;
        let power = PowerModel::new(machine, OperatingPoints::new(points)?, capacitance);

        let latency = self.memory_latency()?;
        let (mut time, mut routes) = (Vec::new(), Vec::new());
        for from in 0..width {
            let (fit, of_this) = rows.routes(&left_out, from, latency)?;
            time.push(fit);
            routes.extend(of_this);
        }
        Ok(MachineModel { power, time, thermal, routes })
    }

    /// Time of a miss that the clock does not pace, from the kernels that wait for memory.
    ///
    /// # Errors
    /// [`Error::Empty`] if none waits for memory for half of its time.
    pub fn memory_latency(&self) -> Result<Seconds, Error> {
        memory_latency(&self.frequencies, &self.stretches)
    }

    fn rows(&self) -> (Vec<Row>, Vec<Option<Kelvin>>) {
        let measured = self.stretches.iter().flat_map(|stretch| {
            stretch.at.iter().enumerate().map(|(frequency, measurement)| {
                let cycles = measurement.counts.cycles().0;
                let row = Row {
                    frequency,
                    program: stretch.program,
                    power: (measurement.energy / measurement.time).0,
                    rates: measurement.events.iter().map(|count| count / cycles).collect(),
                    warmth: 0.0,
                };
                (row, measurement.temperature)
            })
        });
        measured.unzip()
    }
}

/// Fills in the warmth of `rows` if it explains any power.
fn warm(
    rows: &mut [Row],
    temperatures: &[Option<Kelvin>],
    scales: &[f64],
    voltages_known: bool,
) -> Result<Option<Thermal>, Error> {
    let fit = |rows: &[Row]| {
        Joint::fit(&rows.iter().collect::<Vec<_>>(), scales, voltages_known, RIDGES[RIDGES.len() / 2])
    };
    let cold = fit(rows)?;
    let Some(thermal) = Thermal::fit(rows, temperatures, &cold) else { return Ok(None) };
    if fit(rows)?.warmth_matters(rows) {
        return Ok(Some(thermal));
    }
    for row in rows {
        row.warmth = 0.0;
    }
    Ok(None)
}

/// The part of the intercepts that goes with the scales: least squares of `b = w s + l V`, neither below 0, and no
/// more than leaves each static power at 0.
fn shared_constant(intercepts: &[f64], scales: &[f64], volts: impl Fn(usize) -> f64) -> f64 {
    let rows = intercepts.iter().zip(scales).enumerate();
    let sums = Pair::of(rows.map(|(number, (b, scale))| [scale / b, volts(number) / b]));
    let most = intercepts.iter().zip(scales).map(|(b, scale)| b / scale).fold(f64::INFINITY, f64::min);
    // At one voltage for all, nothing separates the two.
    sums.weights().map_or(most / 2.0, |[shared, _]| shared.max(0.0).min(most))
}
