//! The best meter there is: energy counters of the packages, else sensors of the processor's supply, else the battery.

use std::time::Duration;

use super::files::Files;
use super::powercap::{EnergyMeter, package_zones};
use super::rails::{Rail, batteries, drawn, rails};
use crate::{Error, Joules, Seconds, Watts};

/// Adds up what the processor draws.
#[derive(Debug)]
pub struct PowerMeter<F> {
    name: String,
    source: Source<F>,
    last: (Duration, Joules), // of the latest reading
}

/// More than any machine's processors draw.
const MOST: Watts = Watts(20_000.0);

#[derive(Debug)]
enum Source<F> {
    Counters(EnergyMeter<F>),
    Sensors { files: F, rails: Vec<Rail>, last: Watts },
}

impl<F: Files + Clone> PowerMeter<F> {
    /// Looks for one, and begins at 0 at the time `now`.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none; the error of a better one if that exists and cannot be read, rather than
    /// a worse one without a word.
    pub fn find(files: F, now: Duration) -> Result<Self, Error> {
        let none = match package_zones(&files) {
            Ok(zones) => {
                let name = format!("RAPL, {} zone(s) of powercap", zones.len());
                let source = Source::Counters(EnergyMeter::new(files, &zones)?);
                return Ok(Self { name, source, last: (now, Joules(0.0)) });
            }
            Err(error @ Error::Missing { .. }) => error,
            Err(error) => return Err(error),
        };
        let mut found = rails(&files)?;
        if found.is_empty() {
            found = batteries(&files)?;
        }
        if found.is_empty() {
            return Err(none);
        }
        let names: Vec<&str> = found.iter().map(|rail| rail.name.as_str()).collect();
        let name = names.join(", ");
        let last = drawn(&found, &files)?;
        let source = Source::Sensors { files, rails: found, last };
        Ok(Self { name, source, last: (now, Joules(0.0)) })
    }

    /// What it is, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it counts energy, so that two readings show what was drawn between them however long that was.
    #[must_use]
    pub const fn counts(&self) -> bool {
        matches!(self.source, Source::Counters(_))
    }

    /// Energy since the beginning. Sensors show the power of a moment: read them about a thousand times a second. `now`
    /// is on the clock of [`find`](Self::find).
    ///
    /// # Formula
    /// Of sensors, the sum of `(P_i + P_i+1) / 2` times the time between two readings.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::Malformed`] for files that cannot be read or understood; [`Error::OutOfRange`] for a
    /// reading that would take 20 kW: a counter that was set back looks like one that wrapped.
    pub fn read(&mut self, now: Duration) -> Result<Joules, Error> {
        let time = Seconds(now.saturating_sub(self.last.0).as_secs_f64());
        let total = match &mut self.source {
            Source::Counters(meter) => meter.read()?,
            Source::Sensors { files, rails, last } => {
                let power = drawn(rails, files)?;
                let mean = (std::mem::replace(last, power) + power) * 0.5;
                self.last.1 + mean * time
            }
        };
        let more = total - self.last.1;
        self.last = (now, total);
        // A counter that moves a thousand times a second may move right after a reading.
        if more > MOST * (time + Seconds(1e-2)) {
            let limit = "no more than 20 kW took; the counter was set back, or is not one of energy";
            return Err(Error::OutOfRange {
                what: "the energy between two readings in joules",
                value: more.0,
                limit,
            });
        }
        Ok(total)
    }
}
