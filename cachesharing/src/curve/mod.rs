//! What a program does as a function of the shared cache it has: the only thing this crate knows of a program.
//!
//! Between two measured sizes values follow straight pieces: one, or two that meet where a bend between the sizes
//! would be (see the module `knots`). Below the smallest size the curve runs on to
//! the shared cache of size 0, where every access that gets past the private caches is a miss; how many those
//! are follows from the hit rate, and without a hit rate the values of the smallest size are held. Above the
//! largest size the values are held. [`CacheCurve::covers`] says whether a size was measured.

mod average;
mod chances;
mod estimated;
mod filling;
mod hull;
mod knots;
mod monotone;
mod returns;
mod reuse;

pub(crate) use average::average;
pub(crate) use chances::{Chances, Exchanged};
pub(crate) use filling::{Filling, Lookup};
pub(crate) use hull::HullStep;
use knots::Knot;
pub(crate) use returns::{Foreign, Met, Returns};
pub use reuse::ReuseTimes;

use std::borrow::Cow;

use crate::error::{Error, above_zero};

/// One measured size of a [`CacheCurve`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CurvePoint {
    /// Bytes of the shared cache that the program had.
    pub bytes: u64,
    /// Time per unit of work: cycles per instruction where both are counted. Above 0.
    pub cpi: f64,
    /// Misses of the shared cache per memory access.
    pub miss_ratio: f64,
    /// Lines brought into the shared cache per memory access, prefetches included. May exceed 1.
    pub fetch_ratio: f64,
    /// Hits in the shared cache per unit of time, if known.
    pub hit_rate: Option<f64>,
    /// Part of the time in which the program stands still because it waits for memory, in [0, 1], if known.
    pub stall_rate: Option<f64>,
}

impl CurvePoint {
    /// A size at which only time and misses were counted: as many lines are fetched as are missed.
    #[must_use]
    pub const fn new(bytes: u64, cpi: f64, miss_ratio: f64) -> Self {
        Self { bytes, cpi, miss_ratio, fetch_ratio: miss_ratio, hit_rate: None, stall_rate: None }
    }

    /// The same with so many lines brought in per memory access.
    #[must_use]
    pub const fn with_fetch_ratio(self, fetch_ratio: f64) -> Self {
        Self { fetch_ratio, ..self }
    }

    /// The same with so many hits per unit of time: how often a program gets past its private caches follows.
    #[must_use]
    pub const fn with_hit_rate(self, rate: f64) -> Self {
        Self { hit_rate: Some(rate), ..self }
    }

    /// The same where the program waits for memory in this part of the time: how far its misses overlap follows.
    #[must_use]
    pub const fn with_stall_rate(self, rate: f64) -> Self {
        Self { stall_rate: Some(rate), ..self }
    }

    /// A point given as rates per unit of time, as counters give them.
    ///
    /// # Formula
    /// ratio = rate * cpi / mix, with `mix` memory accesses per unit of work.
    #[must_use]
    pub fn from_rates(bytes: u64, cpi: f64, mix: f64, rates: Rates) -> Self {
        let per_access = cpi / mix;
        Self::new(bytes, cpi, rates.miss_rate * per_access)
            .with_fetch_ratio(rates.fetch_rate * per_access)
            .with_hit_rate(rates.hit_rate)
    }

    /// Time per memory access that the program waits for memory; nothing where no rate is known.
    fn stalled(&self, mix: f64) -> f64 {
        self.stall_rate.unwrap_or(0.0) * self.cpi / mix
    }
}

/// Events in the shared cache per unit of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Rates {
    /// Misses per unit of time.
    pub miss_rate: f64,
    /// Hits per unit of time.
    pub hit_rate: f64,
    /// Lines brought in per unit of time.
    pub fetch_rate: f64,
}

/// CPI, misses, fetches and hits of a program, or of one phase or window of it, over the size of the cache.
///
/// Built once, checked and prepared for solving: reading it never fails and never allocates.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheCurve {
    line_size: u32,           // bytes, a power of two
    mix: f64,                 // accesses per unit of work, > 0
    points: Vec<CurvePoint>,  // strictly rising sizes, at least one
    reaching: Option<f64>,    // accesses per access that get past the private caches
    knots: Vec<Knot>,         // from size 0, rising
    filling: Filling,         // by the footprint where it is known, else by the same knots
    hull: Vec<HullStep>,      // of the hits
    stalls: bool,             // whether every point has a stall rate
    returns: Option<Returns>, // where reuse times are known
}

impl CacheCurve {
    /// Checks and prepares a curve.
    ///
    /// `mix` is memory accesses per unit of work (1 if the ratios are per unit of work), `line_size` in bytes.
    ///
    /// # Errors
    /// [`Error::NoPoints`]; [`Error::LineSize`]; [`Error::Sizes`] unless the sizes rise strictly from above 0;
    /// [`Error::Point`] for a CPI that is not above 0, or a ratio or rate that is negative, a stall rate above 1, or any
    /// of them not finite, or more than 1e9 misses or hits an access, or CPIs more than 1e9 times apart;
    /// [`Error::Value`] for the mix.
    ///
    /// # Cost
    /// Linear in the points.
    pub fn new(points: Vec<CurvePoint>, mix: f64, line_size: u32) -> Result<Self, Error> {
        check_points(&points)?;
        above_zero("a mix", mix)?;
        if !line_size.is_power_of_two() || line_size > 1 << 20 {
            return Err(Error::LineSize { bytes: line_size });
        }
        let reaching = knots::reaching(&points, mix);
        let knots = knots::of(&points, mix, reaching);
        check_range(&knots)?;
        let filling = Filling::new(&knots, mix, line_size);
        let hull = hull::of_hits(&knots);
        let stalls = points.iter().all(|point| point.stall_rate.is_some());
        Ok(Self { line_size, mix, points, reaching, knots, filling, hull, stalls, returns: None })
    }

    /// The same with the program's reuse times.
    ///
    /// # Errors
    /// [`Error::Value`] if a way of the cache the reuses were counted in is less than a 4096th of the largest size;
    /// [`Error::MixedLineSizes`] if they were estimated from a profile of another line size.
    ///
    /// # Cost
    /// Linear in the reuses, times the ways that the curve was measured in.
    pub fn with_reuse_times(mut self, reuse: ReuseTimes) -> Result<Self, Error> {
        if reuse.way_bytes() < self.largest() / MOST_WAYS {
            let remedy = "at least a 4096th of the largest size of the curve";
            return Err(Error::Value { what: "a way in bytes", value: reuse.way_bytes() as f64, remedy });
        }
        if let Some(right) = reuse.line_size().filter(|&bytes| bytes != self.line_size) {
            return Err(Error::MixedLineSizes { left: self.line_size, right });
        }
        if !reuse.footprint().is_empty() {
            self.filling = Filling::counted(&self.knots, self.mix, self.line_size, reuse.footprint());
        }
        self.returns = Some(Returns::new(&self, reuse));
        Ok(self)
    }

    /// The program's reuse times, if they were given.
    #[must_use]
    pub fn reuse_times(&self) -> Option<&ReuseTimes> {
        self.returns.as_ref().map(Returns::times)
    }

    /// Whether the program's footprint is known.
    pub(crate) fn has_footprint(&self) -> bool {
        self.reuse_times().is_some_and(|times| !times.footprint().is_empty())
    }

    /// How it fills a cache by the curve, whether or not its footprint is known.
    pub(crate) fn filling_by_curve(&self) -> Cow<'_, Filling> {
        if self.has_footprint() {
            Cow::Owned(Filling::new(&self.knots, self.mix, self.line_size))
        } else {
            Cow::Borrowed(&self.filling)
        }
    }

    /// The measured points.
    #[must_use]
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// Memory accesses per unit of work.
    #[must_use]
    pub const fn mix(&self) -> f64 {
        self.mix
    }

    /// Bytes in a cache line.
    #[must_use]
    pub const fn line_size(&self) -> u32 {
        self.line_size
    }

    /// Share of the memory accesses that get past the private caches, where hit rates were given.
    #[must_use]
    pub const fn reaching(&self) -> Option<f64> {
        self.reaching
    }

    /// Smallest measured size in bytes.
    #[must_use]
    pub fn smallest(&self) -> u64 {
        self.points.first().map_or(0, |p| p.bytes)
    }

    /// Largest measured size in bytes.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.points.last().map_or(0, |p| p.bytes)
    }

    /// Whether `bytes` lies between the smallest and the largest measured size.
    #[must_use]
    pub fn covers(&self, bytes: f64) -> bool {
        // A share that adds up to the measured size may miss it by rounding.
        bytes >= self.smallest() as f64 * (1.0 - 1e-9) && bytes <= self.largest() as f64 * (1.0 + 1e-9)
    }

    /// Time per unit of work with `bytes` of the cache.
    #[must_use]
    pub fn cpi(&self, bytes: f64) -> f64 {
        self.interpolate(bytes, |k| k.cpi)
    }

    /// Misses per memory access with `bytes` of the cache.
    #[must_use]
    pub fn miss_ratio(&self, bytes: f64) -> f64 {
        self.interpolate(bytes, |k| k.misses)
    }

    /// Lines fetched per memory access with `bytes` of the cache.
    #[must_use]
    pub fn fetch_ratio(&self, bytes: f64) -> f64 {
        self.interpolate(bytes, |k| k.fetches)
    }

    /// Hits in the shared cache per memory access with `bytes` of it; relative to the smallest measured size
    /// where no hit rate was given.
    #[must_use]
    pub fn hit_ratio(&self, bytes: f64) -> f64 {
        self.interpolate(bytes, |k| k.hits)
    }

    /// Time per memory access that the program waits for memory with `bytes` of the cache, where every point has a stall rate.
    #[must_use]
    pub fn stalled(&self, bytes: f64) -> Option<f64> {
        self.stalls.then(|| self.interpolate(bytes, |k| k.stalled))
    }

    /// Misses, hits and fetches per unit of time with `bytes` of the cache.
    ///
    /// # Formula
    /// rate = ratio * mix / CPI.
    #[must_use]
    pub fn rates(&self, bytes: f64) -> Rates {
        let per_time = self.mix / self.cpi(bytes);
        Rates {
            miss_rate: self.miss_ratio(bytes) * per_time,
            hit_rate: self.hit_ratio(bytes) * per_time,
            fetch_rate: self.fetch_ratio(bytes) * per_time,
        }
    }

    /// Bytes fetched from memory per unit of time with `bytes` of the cache.
    #[must_use]
    pub fn bandwidth(&self, bytes: f64) -> f64 {
        self.rates(bytes).fetch_rate * f64::from(self.line_size)
    }

    /// Time that a miss costs with `bytes` of the cache: as counted, else as far as the curve shows.
    pub(crate) fn time_per_miss(&self, bytes: f64) -> Option<f64> {
        if let Some(stalled) = self.stalled(bytes) {
            let misses = self.miss_ratio(bytes);
            return (misses > 0.0).then(|| stalled / misses);
        }
        let least = SHOWS * self.points.first()?.miss_ratio;
        knots::cpi_per_miss(&self.points, least).map(|cpi| cpi / self.mix)
    }

    pub(crate) const fn filling(&self) -> &Filling {
        &self.filling
    }

    /// Reuse times in a cache of which a way has so many bytes, if they are known.
    #[inline]
    pub(crate) fn returns(&self, way: Option<f64>) -> Option<&Returns> {
        // A way of a resized cache differs by rounding.
        let same = |returns: &&Returns| way.is_some_and(|way| (way - returns.way()).abs() < 1e-9 * way);
        self.returns.as_ref().filter(same)
    }

    /// Variance of how many lines the program brings into a set where it brings in `lines` on average, of a cache of
    /// which a way has so many bytes.
    #[inline]
    pub(crate) fn variance(&self, way: f64, lines: f64) -> f64 {
        self.returns(Some(way)).map_or(UNEVENNESS * lines, |returns| returns.variance(lines))
    }

    pub(crate) fn hull(&self) -> &[HullStep] {
        &self.hull
    }

    fn interpolate(&self, bytes: f64, value: impl Fn(&Knot) -> f64) -> f64 {
        let above = self.knots.partition_point(|k| k.bytes <= bytes);
        match (above.checked_sub(1).and_then(|i| self.knots.get(i)), self.knots.get(above)) {
            (Some(left), Some(right)) => {
                let part = (bytes - left.bytes) / (right.bytes - left.bytes);
                value(left) + part * (value(right) - value(left))
            }
            (Some(only), None) | (None, Some(only)) => value(only),
            (None, None) => f64::NAN, // a curve has points: new refuses others
        }
    }
}

/// A curve whose misses fall by this part shows what a miss costs.
const SHOWS: f64 = 0.02;
/// Most ways of a cache that reuses are counted in.
const MOST_WAYS: u64 = 4096;
/// Variance of the lines a program brings into a set where nothing is known of it, over their mean: half as if they came
/// at random, from an endless number.
const UNEVENNESS: f64 = 0.5;

fn check_points(points: &[CurvePoint]) -> Result<(), Error> {
    if points.is_empty() {
        return Err(Error::NoPoints);
    }
    let mut before = 0;
    for point in points {
        let bytes = point.bytes;
        if bytes <= before {
            return Err(Error::Sizes { bytes, before });
        }
        before = bytes;
        if !(1e-24..=1e24).contains(&point.cpi) {
            let remedy = "a finite number above 0, from 1e-24 to 1e24";
            return Err(Error::Point { what: "a CPI", value: point.cpi, bytes, remedy });
        }
        let others = [
            ("a miss ratio", point.miss_ratio),
            ("a fetch ratio", point.fetch_ratio),
            ("a hit rate", point.hit_rate.unwrap_or(0.0)),
        ];
        for (what, value) in others {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::Point { what, value, bytes, remedy: "a finite number, 0 or more" });
            }
        }
        if let Some(value) = point.stall_rate.filter(|rate| !(0.0..=1.0).contains(rate)) {
            return Err(Error::Point {
                what: "a stall rate",
                value,
                bytes,
                remedy: "a part of the time, from 0 to 1",
            });
        }
    }
    Ok(())
}

/// Refuses what no cache does, and what solving would lose in rounding: the time without any cache follows from the hits.
fn check_range(knots: &[Knot]) -> Result<(), Error> {
    const MOST: f64 = 1e9;
    let least = knots.iter().map(|knot| knot.cpi).fold(f64::INFINITY, f64::min);
    for knot in knots {
        for (what, value, most, remedy) in [
            ("a miss ratio", knot.misses, MOST, "at most 1e9 an access"),
            ("a fetch ratio", knot.fetches, MOST, "at most 1e9 an access"),
            ("a hit ratio", knot.hits, MOST, "at most 1e9 an access: hit_rate * cpi / mix"),
            ("a CPI", knot.cpi, MOST * least, "at most 1e9 times the lowest of the curve"),
        ] {
            if !value.is_finite() || value > most {
                return Err(Error::Point { what, value, bytes: knot.bytes as u64, remedy });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
