//! What was measured as a function of the cache left to the target.

#[cfg(feature = "serde")]
mod file;
mod point;
mod steepness;

#[cfg(feature = "serde")]
pub use self::file::{CurveFile, FilePhase, FilePoint, FileWindow, TimeUnit};
pub use self::point::CurvePoint;

use crate::error::PirateError;
use crate::measure::Interval;
use crate::testbed::{Bounds, LinePlacement, SharedCache};
use crate::trust::{Distrust, Trust};

/// A curve: one point per measured size, the smallest first.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheCurve {
    cache: SharedCache,
    points: Vec<CurvePoint>, // sizes strictly rising, never empty
}

impl CacheCurve {
    /// Puts intervals together: per size the trusted ones, or where there are none all of them, summed up before
    /// any ratio is taken, so that each counts by its work, its time or its accesses, whichever the ratio is
    /// over, times its weight.
    ///
    /// `placement` bounds what was left to the target: where the curve changes much between these bounds, a point is
    /// not trusted. `interval` is the work asked for per interval, to be named in the error.
    ///
    /// # Errors
    /// [`PirateError::NothingMeasured`] if there are no intervals in which time passed and work was done.
    pub fn assemble(
        cache: SharedCache,
        placement: LinePlacement,
        interval: f64,
        intervals: &[Interval],
    ) -> Result<Self, PirateError> {
        let mut sizes: Vec<u64> = intervals.iter().map(|interval| interval.stolen).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        let (mut points, bounds): (Vec<CurvePoint>, Vec<Bounds>) = sizes
            .into_iter()
            .filter_map(|stolen| {
                CurvePoint::assemble(
                    cache,
                    placement,
                    stolen,
                    intervals.iter().filter(|i| i.stolen == stolen),
                )
            })
            .unzip();
        if points.is_empty() {
            let work = intervals.iter().map(|i| i.counts.target.work).sum();
            Err(PirateError::NothingMeasured { interval, work })
        } else {
            steepness::judge(&mut points, &bounds);
            Ok(Self { cache, points })
        }
    }

    /// A curve from points that were had in another way: a simulation, a model.
    ///
    /// # Errors
    /// [`PirateError::NoSizes`] without points, [`PirateError::Size`] at the first whose size is 0, larger than
    /// the cache or not above the one before, [`PirateError::Parameter`] for a CPI that is not above 0 or a
    /// ratio or rate that is negative, infinite or not a number.
    pub fn from_points(cache: SharedCache, points: Vec<CurvePoint>) -> Result<Self, PirateError> {
        if points.is_empty() {
            return Err(PirateError::NoSizes);
        }
        let mut before = 0;
        for point in &points {
            if point.bytes <= before || point.bytes > cache.bytes {
                return Err(PirateError::Size { bytes: point.bytes, cache_bytes: cache.bytes });
            }
            before = point.bytes;
            point.check()?;
        }
        Ok(Self { cache, points })
    }

    /// The shared cache it was measured in.
    #[must_use]
    pub const fn cache(&self) -> SharedCache {
        self.cache
    }

    /// All points, the smallest size first.
    #[must_use]
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// The points that count.
    pub fn trusted(&self) -> impl Iterator<Item = &CurvePoint> {
        self.points.iter().filter(|point| point.is_trusted())
    }

    /// The point of exactly this size.
    #[must_use]
    pub fn at(&self, bytes: u64) -> Option<&CurvePoint> {
        self.points.binary_search_by_key(&bytes, |point| point.bytes).ok().map(|i| &self.points[i])
    }

    /// Most that the pirate could steal, in bytes, without losing its lines at this or any smaller amount; 0 if
    /// it could not steal at all. It holds its lines also where a point is not trusted because the curve is steep.
    #[must_use]
    pub fn stealable(&self) -> u64 {
        let holds = |point: &CurvePoint| {
            matches!(point.trust, Trust::Trusted | Trust::Untrusted(Distrust::Steep { .. }))
        };
        let held = self.points.iter().rev().take_while(|point| holds(point)).last();
        held.map_or(0, |point| self.cache.bytes.saturating_sub(point.bytes))
    }
}
