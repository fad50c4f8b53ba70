//! Voltage and static power of each frequency.

use crate::error::{Error, not_negative, positive};
use crate::{Farads, Hertz, Volts, Watts};

/// One setting of the clock, and what it costs to be there doing nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OperatingPoint {
    /// Clock frequency, above 0.
    pub frequency: Hertz,
    /// Supply voltage at that frequency, above 0.
    pub voltage: Volts,
    /// Power that is drawn without any activity: measured on an idle machine with power gating off.
    pub static_power: Watts,
}

impl OperatingPoint {
    /// Power at this point of a program with effective capacitance `capacitance`.
    ///
    /// # Formula
    /// `P = P_static + f C V^2`.
    ///
    /// # References
    /// Thesis, Paper V, equation V.4.
    #[must_use]
    pub fn power(&self, capacitance: Farads) -> Watts {
        self.static_power + Watts(self.switching() * capacitance.0)
    }

    /// Effective capacitance of a program that draws `power` at this point: the inverse of
    /// [`power`](Self::power). Negative if the power is below the static power.
    #[must_use]
    pub fn capacitance(&self, power: Watts) -> Farads {
        Farads((power - self.static_power).0 / self.switching())
    }

    fn switching(&self) -> f64 {
        self.frequency.0 * self.voltage.0 * self.voltage.0
    }
}

/// The frequencies a processor can run at, in ascending order, with their voltages.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Vec<OperatingPoint>", into = "Vec<OperatingPoint>"))]
pub struct OperatingPoints {
    points: Vec<OperatingPoint>, // ascending by frequency, never empty
}

impl OperatingPoints {
    /// Checks and sorts the points.
    ///
    /// # Errors
    /// [`Error::Empty`]; [`Error::OutOfRange`] unless frequencies and voltages are finite and above 0 and static
    /// powers finite and not negative; [`Error::Duplicate`] if a frequency occurs twice.
    pub fn new(points: impl IntoIterator<Item = OperatingPoint>) -> Result<Self, Error> {
        let mut points: Vec<OperatingPoint> = points.into_iter().collect();
        if points.is_empty() {
            return Err(Error::Empty { what: "operating points" });
        }
        for point in &points {
            positive("the frequency in hertz", point.frequency.0)?;
            positive("the voltage", point.voltage.0)?;
            not_negative("the static power in watts", point.static_power.0)?;
        }
        points.sort_by(|a, b| a.frequency.0.total_cmp(&b.frequency.0));
        for pair in points.windows(2) {
            if pair[0].frequency == pair[1].frequency {
                return Err(Error::Duplicate { what: "frequency", which: pair[0].frequency.to_string() });
            }
        }
        Ok(Self { points })
    }

    /// The points, ascending by frequency.
    #[must_use]
    pub fn as_slice(&self) -> &[OperatingPoint] {
        &self.points
    }

    /// The frequencies, ascending.
    pub fn frequencies(&self) -> impl ExactSizeIterator<Item = Hertz> + '_ {
        self.points.iter().map(|point| point.frequency)
    }

    /// The point at `frequency`; between two known ones, voltage and static power are interpolated linearly.
    ///
    /// # Errors
    /// [`Error::BeyondPoints`] below the lowest and above the highest: no voltage is made up there.
    pub fn at(&self, frequency: Hertz) -> Result<OperatingPoint, Error> {
        let above = self.points.partition_point(|point| point.frequency < frequency);
        match (above.checked_sub(1).map(|below| self.points[below]), self.points.get(above)) {
            (_, Some(&point)) if point.frequency == frequency => Ok(point),
            (Some(low), Some(&high)) => {
                let share = (frequency - low.frequency) / (high.frequency - low.frequency);
                Ok(OperatingPoint {
                    frequency,
                    voltage: low.voltage + (high.voltage - low.voltage) * share,
                    static_power: low.static_power + (high.static_power - low.static_power) * share,
                })
            }
            _ => Err(Error::BeyondPoints {
                hertz: frequency.0,
                lowest: self.points[0].frequency.0,
                highest: self.points[self.points.len() - 1].frequency.0,
            }),
        }
    }
}

impl TryFrom<Vec<OperatingPoint>> for OperatingPoints {
    type Error = Error;

    fn try_from(points: Vec<OperatingPoint>) -> Result<Self, Error> {
        Self::new(points)
    }
}

impl From<OperatingPoints> for Vec<OperatingPoint> {
    fn from(points: OperatingPoints) -> Self {
        points.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(ghz: f64, volts: f64, watts: f64) -> OperatingPoint {
        OperatingPoint { frequency: Hertz::from_ghz(ghz), voltage: Volts(volts), static_power: Watts(watts) }
    }

    #[test]
    fn known_points_are_exact_and_others_lie_between() {
        let points = OperatingPoints::new([point(2.0, 1.2, 9.0), point(1.0, 0.8, 5.0)]).unwrap();
        assert_eq!(points.at(Hertz::from_ghz(1.0)).unwrap(), point(1.0, 0.8, 5.0));
        assert_eq!(points.at(Hertz::from_ghz(2.0)).unwrap(), point(2.0, 1.2, 9.0));
        let middle = points.at(Hertz::from_ghz(1.25)).unwrap();
        assert!((middle.voltage.0 - 0.9).abs() < 1e-12 && (middle.static_power.0 - 6.0).abs() < 1e-12);
        for outside in [0.999, 2.001, f64::NAN] {
            let error = points.at(Hertz::from_ghz(outside));
            assert!(matches!(error, Err(Error::BeyondPoints { .. })), "{outside}");
        }
    }

    #[test]
    fn power_and_capacitance_are_inverse() {
        // 2 GHz * 3 nF * (1.5 V)^2 = 13.5 W
        let point = point(2.0, 1.5, 4.0);
        assert!((point.power(Farads::from_nf(3.0)).0 - 17.5).abs() < 1e-12);
        assert!((point.capacitance(Watts(17.5)).nf() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn each_bad_point_is_refused() {
        let refused = |points: &[OperatingPoint]| OperatingPoints::new(points.iter().copied()).unwrap_err();
        assert!(matches!(refused(&[]), Error::Empty { .. }));
        for bad in [point(0.0, 1.0, 1.0), point(1.0, -1.0, 1.0), point(1.0, 1.0, f64::NAN)] {
            assert!(matches!(refused(&[bad]), Error::OutOfRange { .. }), "{bad:?}");
        }
        let twice = refused(&[point(1.0, 1.0, 1.0), point(2.0, 1.0, 1.0), point(1.0, 1.1, 1.0)]);
        assert!(matches!(twice, Error::Duplicate { .. }));
    }
}
