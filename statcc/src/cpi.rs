//! From a miss ratio to cycles per instruction.

use crate::Error;

/// Cycles per instruction of one program as a function of its miss ratio in the shared cache.
///
/// Any `Fn(f64) -> f64` is one. It is given shared-cache misses per memory access, from 0 to 1, and must return
/// a positive, finite number that does not fall as the miss ratio rises;
/// [`Program::new`](crate::Program::new) checks that on a grid.
pub trait CpiModel {
    /// Cycles per instruction at `miss_ratio` misses per memory access.
    fn cpi(&self, miss_ratio: f64) -> f64;
}

impl<F: Fn(f64) -> f64> CpiModel for F {
    fn cpi(&self, miss_ratio: f64) -> f64 {
        self(miss_ratio)
    }
}

/// Hit ratio and latency of one private cache level.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PrivateLevel {
    /// Hits of this level per memory access of the program, from 0 to 1.
    pub hit_ratio: f64,
    /// Cycles of a hit.
    pub latency: f64,
}

/// In-order core: each instruction takes the base CPI, each access the latency of the level that serves it.
///
/// # Formula
/// CPI = `base_cpi` + mix * (sum over private levels of hit ratio * latency
/// + (1 - private hits - m) * `shared` + m * `memory`), with m the miss ratio, at most 1 - private hits.
///
/// # References
/// Eklöv, thesis, Paper II (StatCC), section II.5.1.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct LinearLatency {
    without_memory: f64, // cycles per instruction, private hits included; finite, >= 0
    mix: f64,            // > 0
    private_hits: f64,   // in [0, 1]
    shared: f64,         // >= 0
    memory: f64,         // >= shared
}

/// A model as it is read: not yet known to give cycles.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    without_memory: f64,
    mix: f64,
    private_hits: f64,
    shared: f64,
    memory: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for LinearLatency {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let Saved { without_memory, mix, private_hits, shared, memory } = saved;
        check_ratio(private_hits)?;
        let model = Self { without_memory, mix, private_hits, shared, memory };
        model.checked()
    }
}

impl LinearLatency {
    /// A program with `mix` memory accesses per instruction on a core with `base_cpi` cycles per instruction,
    /// `private` caches in any order, and a shared cache and memory that answer in `shared` and `memory`
    /// cycles.
    ///
    /// # Errors
    /// [`Error::Mix`], [`Error::Cycles`], [`Error::PrivateHits`], [`Error::PrivateHitSum`],
    /// [`Error::LatencyOrder`] for values that are none of the above; [`Error::CpiValue`] if nothing takes any
    /// time.
    pub fn new(
        base_cpi: f64,
        mix: f64,
        private: &[PrivateLevel],
        shared: f64,
        memory: f64,
    ) -> Result<Self, Error> {
        check_cycles("base CPI", base_cpi)?;
        let mut private_hits = 0.0;
        let mut cycles = 0.0;
        for level in private {
            check_ratio(level.hit_ratio)?;
            check_cycles("private-cache latency", level.latency)?;
            private_hits += level.hit_ratio;
            cycles += level.hit_ratio * level.latency;
        }
        if private_hits > 1.0 + 1e-9 {
            return Err(Error::PrivateHitSum { sum: private_hits });
        }
        let private_hits = private_hits.min(1.0);
        Self { without_memory: base_cpi + mix * cycles, mix, private_hits, shared, memory }.checked()
    }

    fn checked(self) -> Result<Self, Error> {
        let Self { without_memory, mix, shared, memory, .. } = self;
        check_mix(mix)?;
        for (what, cycles) in [
            ("CPI without memory", without_memory),
            ("shared-cache latency", shared),
            ("memory latency", memory),
        ] {
            check_cycles(what, cycles)?;
        }
        if memory < shared {
            return Err(Error::LatencyOrder { memory, shared });
        }
        check(&self)?;
        Ok(self)
    }

    /// Hits of all private levels per memory access.
    #[must_use]
    pub const fn private_hits(&self) -> f64 {
        self.private_hits
    }
}

impl CpiModel for LinearLatency {
    fn cpi(&self, miss_ratio: f64) -> f64 {
        let beyond = 1.0 - self.private_hits;
        let misses = miss_ratio.clamp(0.0, beyond);
        self.without_memory + self.mix * ((beyond - misses) * self.shared + misses * self.memory)
    }
}

/// CPI measured at several miss ratios of the same program: with fewer ways of the shared cache, or beside a pirate. It
/// holds for any core, whatever latencies that hides, and for prefetching.
///
/// Between two measured miss ratios it follows a straight line; beyond the last one, the line through the first and the
/// last, which is what a miss costs on average. Below the first it stays as it is. Where noise lets it fall, it is
/// the mean of what falls.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "SavedPoints"))]
pub struct MeasuredCpi {
    points: Vec<(f64, f64)>, // misses per access, strictly rising, and CPI, not falling; at least one
    #[cfg_attr(feature = "serde", serde(skip))]
    slope: f64, // beyond the last; at least 0, finite
    private_hits: f64,       // in [0, 1]
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    traffic: Vec<Traffic>, // miss ratios strictly rising
}

/// What a program asks memory for, and how long it waits for that, where it misses so often.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Traffic {
    /// Misses per access.
    pub miss_ratio: f64,
    /// Lines per access that come from memory, those that a prefetcher fetched ahead included.
    pub fetched: f64,
    /// Cycles per access in which the core waits for memory: few for each miss where misses overlap.
    pub stalled: f64,
}

/// Measured points as they are read: not yet known to make a model.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct SavedPoints {
    points: Vec<(f64, f64)>,
    private_hits: f64,
    #[serde(default)]
    traffic: Vec<Traffic>,
}

#[cfg(feature = "serde")]
impl TryFrom<SavedPoints> for MeasuredCpi {
    type Error = Error;

    fn try_from(SavedPoints { points, private_hits, traffic }: SavedPoints) -> Result<Self, Error> {
        Self::new(points, private_hits)?.with_traffic(traffic)
    }
}

impl MeasuredCpi {
    /// From pairs of misses per access and cycles per instruction in any order; `private_hits` of the accesses never reach
    /// the shared cache.
    ///
    /// # Errors
    /// [`Error::MissRatio`] and [`Error::CpiValue`] for a point that is none, or points so close together that the line
    /// through them reaches no number; [`Error::Points`] for no points, [`Error::PrivateHits`].
    pub fn new(points: impl IntoIterator<Item = (f64, f64)>, private_hits: f64) -> Result<Self, Error> {
        check_ratio(private_hits)?;
        let mut points: Vec<(f64, f64)> = points.into_iter().collect();
        for &(ratio, cpi) in &points {
            if !(0.0..=1.0).contains(&ratio) {
                return Err(Error::MissRatio { ratio });
            }
            if !(cpi.is_finite() && cpi > 0.0) {
                return Err(Error::CpiValue { miss_ratio: ratio, cpi });
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Neighbours that are at one ratio, or fall, become one: sums of ratios and CPIs, and how many they are.
        let mut pools: Vec<(f64, f64, f64)> = Vec::new();
        for (ratio, cpi) in points {
            let mut last = (ratio, cpi, 1.0);
            while let Some(&(ratios, cpis, count)) = pools.last() {
                if ratios / count < last.0 / last.2 && cpis / count <= last.1 / last.2 {
                    break;
                }
                pools.pop();
                last = (ratios + last.0, cpis + last.1, count + last.2);
            }
            pools.push(last);
        }
        let points: Vec<(f64, f64)> =
            pools.into_iter().map(|(ratios, cpis, count)| (ratios / count, cpis / count)).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return Err(Error::Points) };
        let slope = if points.len() > 1 { (last.1 - first.1) / (last.0 - first.0) } else { 0.0 };
        let model = Self { points, slope, private_hits, traffic: Vec::new() };
        // It does not fall: where it is a number at the end, it is one everywhere.
        let most = model.cpi(1.0);
        if most.is_finite() { Ok(model) } else { Err(Error::CpiValue { miss_ratio: 1.0, cpi: most }) }
    }

    /// The same of a program that does not wait the whole latency for each miss, or for which a prefetcher fetches lines that
    /// it does not miss: what was counted at each of the points, in any order; of those that repeat a miss ratio one counts.
    /// Without this, no more lines come than miss, and each is waited for.
    ///
    /// Only [memory of limited bandwidth](crate::walk::SetAssociativeCache::with_memory) makes use of it.
    ///
    /// # Errors
    /// [`Error::MissRatio`] for misses outside of 0 to 1, or lines that are no finite number or fewer than the misses;
    /// [`Error::Cycles`] for cycles that are not finite, or below 0.
    pub fn with_traffic(mut self, traffic: impl IntoIterator<Item = Traffic>) -> Result<Self, Error> {
        self.traffic = traffic.into_iter().collect();
        for &Traffic { miss_ratio, fetched, stalled } in &self.traffic {
            if !(0.0..=1.0).contains(&miss_ratio) {
                return Err(Error::MissRatio { ratio: miss_ratio });
            }
            if !(fetched.is_finite() && fetched >= miss_ratio) {
                return Err(Error::MissRatio { ratio: fetched });
            }
            check_cycles("time waited for memory", stalled)?;
        }
        self.traffic.sort_by(|a, b| a.miss_ratio.total_cmp(&b.miss_ratio));
        self.traffic.dedup_by(|next, kept| next.miss_ratio <= kept.miss_ratio);
        Ok(self)
    }

    /// The traffic where it misses so often; beyond what was measured, more misses are as those at its end.
    fn traffic(&self, miss_ratio: f64) -> Option<Traffic> {
        let above = self.traffic.partition_point(|at| at.miss_ratio <= miss_ratio);
        match (above.checked_sub(1).and_then(|below| self.traffic.get(below)), self.traffic.get(above)) {
            (Some(left), Some(right)) => {
                let part = (miss_ratio - left.miss_ratio) / (right.miss_ratio - left.miss_ratio);
                let between = |of: fn(&Traffic) -> f64| of(left) + part * (of(right) - of(left));
                let (fetched, stalled) = (between(|at| at.fetched), between(|at| at.stalled));
                Some(Traffic { miss_ratio, fetched, stalled })
            }
            (Some(end), None) | (None, Some(end)) => {
                let fetched = (end.fetched + miss_ratio - end.miss_ratio).max(miss_ratio);
                let more = if end.miss_ratio > 0.0 { miss_ratio / end.miss_ratio } else { 1.0 };
                Some(Traffic { miss_ratio, fetched, stalled: more * end.stalled })
            }
            (None, None) => None,
        }
    }
}

impl CpiModel for MeasuredCpi {
    fn cpi(&self, miss_ratio: f64) -> f64 {
        let above = self.points.partition_point(|point| point.0 <= miss_ratio);
        match (above.checked_sub(1).and_then(|below| self.points.get(below)), self.points.get(above)) {
            (Some(left), Some(right)) => {
                left.1 + (miss_ratio - left.0) / (right.0 - left.0) * (right.1 - left.1)
            }
            (Some(last), None) => last.1 + (miss_ratio - last.0) * self.slope,
            (None, Some(first)) => first.1,
            (None, None) => f64::NAN, // there is a point: new refuses none
        }
    }
}

/// What a window's misses cost, and how many of its accesses never reach the shared cache.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum WindowCpi {
    /// By latencies.
    Linear(LinearLatency),
    /// As measured.
    Measured(MeasuredCpi),
}

impl WindowCpi {
    /// Accesses per access that private caches serve.
    pub(crate) const fn private_hits(&self) -> f64 {
        match self {
            Self::Linear(model) => model.private_hits,
            Self::Measured(model) => model.private_hits,
        }
    }

    /// The traffic where it misses so often, if it is more than its misses, each of which is waited for.
    pub(crate) fn traffic(&self, miss_ratio: f64) -> Option<Traffic> {
        match self {
            Self::Measured(model) => model.traffic(miss_ratio),
            Self::Linear(_) => None,
        }
    }
}

impl CpiModel for WindowCpi {
    fn cpi(&self, miss_ratio: f64) -> f64 {
        match self {
            Self::Linear(model) => model.cpi(miss_ratio),
            Self::Measured(model) => model.cpi(miss_ratio.clamp(0.0, 1.0 - model.private_hits)),
        }
    }
}

impl From<LinearLatency> for WindowCpi {
    fn from(model: LinearLatency) -> Self {
        Self::Linear(model)
    }
}

impl From<MeasuredCpi> for WindowCpi {
    fn from(model: MeasuredCpi) -> Self {
        Self::Measured(model)
    }
}

/// Points between 0 and 1 at which a model is tried.
const GRID: u32 = 128;

/// Tries a model out over the whole range.
pub(crate) fn check(model: &dyn CpiModel) -> Result<(), Error> {
    let mut from = 0.0;
    for step in 0..=GRID {
        let miss_ratio = f64::from(step) / f64::from(GRID);
        let cpi = model.cpi(miss_ratio);
        if !(cpi.is_finite() && cpi > 0.0) {
            return Err(Error::CpiValue { miss_ratio, cpi });
        }
        // Rounding may lower a constant by a few units in the last place.
        if cpi < from * (1.0 - 1e-12) {
            return Err(Error::FallingCpi { from, to: cpi, miss_ratio });
        }
        from = cpi;
    }
    Ok(())
}

pub(crate) fn check_mix(mix: f64) -> Result<(), Error> {
    if mix.is_finite() && mix > 0.0 && mix.recip().is_finite() { Ok(()) } else { Err(Error::Mix { mix }) }
}

pub(crate) fn check_ratio(ratio: f64) -> Result<(), Error> {
    if (0.0..=1.0).contains(&ratio) { Ok(()) } else { Err(Error::PrivateHits { ratio }) }
}

fn check_cycles(what: &'static str, cycles: f64) -> Result<(), Error> {
    if cycles.is_finite() && cycles >= 0.0 { Ok(()) } else { Err(Error::Cycles { what, cycles }) }
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    #[test]
    fn traffic_is_that_between_what_was_counted() {
        let cpi = MeasuredCpi::new([(0.1, 2.0), (0.3, 4.0)], 0.5).unwrap();
        assert_eq!(WindowCpi::from(cpi.clone()).traffic(0.2), None);
        let at = |miss_ratio, fetched, stalled| Traffic { miss_ratio, fetched, stalled };
        let known = cpi.clone().with_traffic([at(0.3, 0.4, 9.0), at(0.1, 0.3, 5.0)]).unwrap();
        for (misses, fetched, stalled) in
            [(0.1, 0.3, 5.0), (0.2, 0.35, 7.0), (0.3, 0.4, 9.0), (0.4, 0.5, 12.0), (0.05, 0.25, 2.5)]
        {
            let found = known.traffic(misses).unwrap();
            assert!((found.fetched - fetched).abs() < 1e-12, "{found:?}");
            assert!((found.stalled - stalled).abs() < 1e-12, "{found:?}");
        }
        let refused = |of| cpi.clone().with_traffic([of]).unwrap_err();
        assert_eq!(refused(at(1.5, 2.0, 0.0)), Error::MissRatio { ratio: 1.5 });
        assert_eq!(refused(at(0.2, 0.1, 0.0)), Error::MissRatio { ratio: 0.1 });
        assert!(matches!(refused(at(0.2, 0.2, -1.0)), Error::Cycles { .. }));
    }

    #[test]
    fn a_measured_cpi_goes_through_its_points_and_on() {
        let model = MeasuredCpi::new([(0.3, 4.0), (0.1, 2.0), (0.2, 2.5)], 0.5).unwrap();
        for (misses, cpi) in [(0.1, 2.0), (0.15, 2.25), (0.3, 4.0), (0.4, 5.0), (0.0, 2.0)] {
            assert!((model.cpi(misses) - cpi).abs() < 1e-12, "{misses}: {}", model.cpi(misses));
        }
        // A window's misses are at most what private caches leave.
        assert_eq!(WindowCpi::from(model.clone()).cpi(0.9), model.cpi(0.5));
        // Noise: the second is below the first.
        let noisy = MeasuredCpi::new([(0.1, 2.0), (0.3, 1.0), (0.4, 3.0)], 0.0).unwrap();
        assert_eq!((noisy.cpi(0.2), noisy.cpi(0.1), noisy.cpi(0.4)), (1.5, 1.5, 3.0));
        let one = MeasuredCpi::new([(0.2, 2.0), (0.2, 4.0)], 0.0).unwrap();
        assert_eq!((one.cpi(0.0), one.cpi(1.0)), (3.0, 3.0));
        assert_eq!(MeasuredCpi::new([], 0.0), Err(Error::Points));
        assert_eq!(MeasuredCpi::new([(1.5, 1.0)], 0.0), Err(Error::MissRatio { ratio: 1.5 }));
        assert!(matches!(MeasuredCpi::new([(0.5, 0.0)], 0.0), Err(Error::CpiValue { .. })));
        assert!(matches!(MeasuredCpi::new([(0.5, 1.0)], 2.0), Err(Error::PrivateHits { .. })));
        // Between the two no number is left for a miss ratio to rise by.
        let close = MeasuredCpi::new([(0.0, 1.0), (5e-324, 2.0)], 0.0);
        assert_eq!(close, Err(Error::CpiValue { miss_ratio: 1.0, cpi: f64::INFINITY }));
    }

    quickcheck! {
        /// Whatever was measured makes a model that a program can have.
        fn a_measured_cpi_never_falls(points: Vec<(u8, u8)>) -> bool {
            let points = points.iter().map(|&(m, c)| (f64::from(m) / 255.0, f64::from(c) + 1.0));
            match MeasuredCpi::new(points.collect::<Vec<_>>(), 0.0) {
                Ok(model) => check(&model).is_ok(),
                Err(error) => error == Error::Points,
            }
        }
    }
}
