//! Units as types, so that cycles are not added to seconds nor watts to joules.
//!
//! Each is a plain `f64` in the SI unit of its name. Only products and quotients that mean something exist:
//! cycles per hertz are seconds, watts times seconds are joules.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// What all quantities have in common: they add up, scale, and their ratio is a number.
macro_rules! linear {
    ($($(#[$doc:meta])* $unit:ident $symbol:literal),*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
        pub struct $unit(pub f64);

        impl Add for $unit {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $unit {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $unit {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl Mul<f64> for $unit {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }
        impl Div<f64> for $unit {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }
        impl Div for $unit {
            type Output = f64;
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }
        impl Sum for $unit {
            fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
                Self(quantities.map(|q| q.0).sum())
            }
        }
        impl fmt::Display for $unit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)?;
                f.write_str($symbol)
            }
        }
    )*};
}

linear!(
    /// Clock frequency in cycles per second.
    Hertz " Hz",
    /// Time in seconds.
    Seconds " s",
    /// Clock cycles of the core. Not necessarily whole: predictions and interpolations are not.
    Cycles " cycles",
    /// Supply voltage in volts.
    Volts " V",
    /// Power in watts.
    Watts " W",
    /// Energy in joules.
    Joules " J",
    /// Capacitance in farads: what is charged per cycle, activity included, if it is an effective one.
    Farads " F",
    /// Temperature in kelvin, or a difference of two.
    Kelvin " K"
);

impl Hertz {
    /// From gigahertz.
    #[must_use]
    pub const fn from_ghz(ghz: f64) -> Self {
        Self(ghz * 1e9)
    }

    /// In gigahertz.
    #[must_use]
    pub const fn ghz(self) -> f64 {
        self.0 / 1e9
    }
}

impl Seconds {
    /// From nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: f64) -> Self {
        Self(ns * 1e-9)
    }
}

impl Kelvin {
    /// From degrees Celsius.
    #[must_use]
    pub const fn from_celsius(degrees: f64) -> Self {
        Self(degrees + 273.15)
    }
}

impl Farads {
    /// From nanofarads: the capacitance that draws one watt at one gigahertz and one volt.
    #[must_use]
    pub const fn from_nf(nf: f64) -> Self {
        Self(nf * 1e-9)
    }

    /// In nanofarads.
    #[must_use]
    pub const fn nf(self) -> f64 {
        self.0 * 1e9
    }
}

impl Div<Hertz> for Cycles {
    type Output = Seconds;
    fn div(self, frequency: Hertz) -> Seconds {
        Seconds(self.0 / frequency.0)
    }
}

impl Mul<Hertz> for Seconds {
    type Output = Cycles;
    fn mul(self, frequency: Hertz) -> Cycles {
        Cycles(self.0 * frequency.0)
    }
}

impl Mul<Seconds> for Watts {
    type Output = Joules;
    fn mul(self, time: Seconds) -> Joules {
        Joules(self.0 * time.0)
    }
}

impl Div<Seconds> for Joules {
    type Output = Watts;
    fn div(self, time: Seconds) -> Watts {
        Watts(self.0 / time.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_quotients_agree() {
        let time = Cycles(5.32e9) / Hertz::from_ghz(2.66);
        assert_eq!(time, Seconds(2.0));
        assert_eq!(time * Hertz::from_ghz(2.66), Cycles(5.32e9));
        let energy = Watts(12.5) * time;
        assert_eq!(energy, Joules(25.0));
        assert_eq!(energy / time, Watts(12.5));
        assert_eq!(format!("{energy:.1}"), "25.0 J");
    }
}
