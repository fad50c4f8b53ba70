//! One point of a curve: sums over the intervals of one size, and the ratios that follow from them.

use crate::counts::{PirateCounts, TargetCounts};
use crate::error::PirateError;
use crate::measure::Interval;
use crate::testbed::{Bounds, LinePlacement, SharedCache};
use crate::trust::{Trust, effective_size, spared};

/// The target with a certain amount of cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Bytes of the shared cache left to the target.
    pub bytes: u64,
    /// Bounds of what was really left to it, from the pirate's fetch ratio and from where its lines lie.
    pub effective_bytes: (u64, u64),
    /// Time per unit of work.
    pub cpi: f64,
    /// Standard error of the CPI from the differences between intervals; `None` with fewer than two.
    pub cpi_error: Option<f64>,
    /// Standard error of the miss ratio, likewise.
    pub miss_ratio_error: Option<f64>,
    /// Standard error of the fetch ratio, likewise.
    pub fetch_ratio_error: Option<f64>,
    /// Standard error of the bandwidth, likewise.
    pub bandwidth_error: Option<f64>,
    /// Accesses per unit of work.
    pub mix: Option<f64>,
    /// Accesses that waited for memory, per access.
    pub miss_ratio: Option<f64>,
    /// Lines brought from memory per access, prefetches included; `None` where only misses were counted.
    pub fetch_ratio: Option<f64>,
    /// Accesses that reached the shared cache and hit it, per unit of time.
    pub hit_rate: Option<f64>,
    /// Bytes read from memory per unit of time; where fetches are not counted, the monitored traffic, which on some
    /// processors includes writes; `None` where there is neither.
    pub bandwidth: Option<f64>,
    /// Most by which the fetch ratio can be too low: the pirate's fetches per access, each of which may have spared
    /// the target one. Proved for LRU; nothing like it holds for how accessed bits are cleared.
    pub spared: Option<f64>,
    /// Fetches of the pirate per line it touched.
    pub pirate_fetch_ratio: f64,
    /// Intervals it stands on.
    pub intervals: u64,
    /// Whether it counts: one trusted interval is enough, and then only those are in it. The reason is that of
    /// the first interval if none is trusted.
    pub trust: Trust,
}

impl CurvePoint {
    /// Whether it counts.
    #[must_use]
    pub const fn is_trusted(&self) -> bool {
        self.trust.is_trusted()
    }

    /// The point, and bounds of what was left to the target beside a pirate that held all its lines.
    pub(super) fn assemble<'a>(
        cache: SharedCache,
        placement: LinePlacement,
        stolen: u64,
        intervals: impl Iterator<Item = &'a Interval> + Clone,
    ) -> Option<(Self, Bounds)> {
        let useful = intervals.filter(|i| i.counts.target.work > 0.0 && i.counts.target.time > 0.0);
        let trust = if useful.clone().any(|i| i.trust.is_trusted()) {
            Trust::Trusted
        } else {
            useful.clone().next()?.trust
        };
        let used = useful.filter(|i| i.trust.is_trusted() == trust.is_trusted());
        let pirate = used.clone().fold(PirateCounts::default(), |sum, i| sum + i.counts.pirate);
        let mut targets = used.clone().map(|i| i.counts.target * i.weight);
        let first = targets.next()?;
        let target = targets.fold(first, |sum, counts| sum + counts);
        // The pirate's counts are not weighted.
        let mut targets = used.clone().map(|i| i.counts.target);
        let plain = targets.next().map_or(target, |first| targets.fold(first, |sum, counts| sum + counts));
        let whole = cache.bytes / u64::from(cache.line_size) * u64::from(cache.line_size);
        let threads = used.clone().map(|i| i.threads).max().unwrap_or(1);
        let (least, most) = effective_size(cache, stolen, pirate.fetch_ratio());
        let bounds = placement.bounds(whole, stolen, threads);
        let effective_bytes = (least.min(bounds.from), most.max(bounds.to));
        let memory = target.memory.filter(|memory| memory.accesses > 0.0);
        let line = f64::from(cache.line_size);
        let bytes =
            |target: &TargetCounts| target.memory.and_then(|m| Some(m.fetches? * line)).or(target.traffic);
        let error = |numerator: &dyn Fn(&TargetCounts) -> Option<f64>,
                     denominator: &dyn Fn(&TargetCounts) -> f64| {
            let pair = |counts: TargetCounts| Some((numerator(&counts)?, denominator(&counts)));
            standard_error(used.clone().map(|i| pair(i.counts.target * i.weight)))
        };
        let accesses = |target: &TargetCounts| target.memory.map_or(0.0, |m| m.accesses);
        let point = Self {
            bytes: whole - stolen,
            effective_bytes,
            cpi: target.cpi(),
            cpi_error: error(&|target| Some(target.time), &|target| target.work),
            miss_ratio_error: error(&|target| Some(target.memory?.misses), &accesses),
            fetch_ratio_error: error(&|target| target.memory?.fetches, &accesses),
            bandwidth_error: error(&bytes, &|target| target.time),
            mix: memory.map(|m| m.accesses / target.work),
            miss_ratio: memory.map(|m| m.misses / m.accesses),
            fetch_ratio: memory.and_then(|m| Some(m.fetches? / m.accesses)),
            hit_rate: memory.map(|m| (m.shared_accesses - m.misses).max(0.0) / target.time),
            bandwidth: bytes(&target).map(|bytes| bytes / target.time),
            spared: spared(pirate, plain),
            pirate_fetch_ratio: pirate.fetch_ratio(),
            intervals: used.count() as u64,
            trust,
        };
        Some((point, bounds))
    }

    pub(super) fn check(&self) -> Result<(), PirateError> {
        if !(self.cpi.is_finite() && self.cpi > 0.0) {
            return Err(PirateError::Parameter {
                what: "CPI",
                value: self.cpi,
                remedy: "a finite number above 0",
            });
        }
        let optional = [
            ("mix", self.mix),
            ("miss ratio", self.miss_ratio),
            ("fetch ratio", self.fetch_ratio),
            ("hit rate", self.hit_rate),
            ("bandwidth", self.bandwidth),
            ("standard error of the CPI", self.cpi_error),
            ("standard error of the miss ratio", self.miss_ratio_error),
            ("standard error of the fetch ratio", self.fetch_ratio_error),
            ("standard error of the bandwidth", self.bandwidth_error),
            ("spared fetch ratio", self.spared),
            ("pirate's fetch ratio", Some(self.pirate_fetch_ratio)),
        ];
        for (what, value) in optional {
            if let Some(value) = value.filter(|v| !(v.is_finite() && *v >= 0.0)) {
                let remedy = "a finite number, 0 or more";
                return Err(PirateError::Parameter { what, value, remedy });
            }
        }
        Ok(())
    }
}

/// Standard error of a ratio of sums over `n` intervals; `None` with fewer than two, or where one lacks a part.
///
/// # Formula
/// With residuals `d_i = t_i - r w_i` from the ratio `r = sum t / sum w`: `sqrt(n / (n - 1) * sum d_i^2) / sum w`.
///
/// # References
/// Cochran, *Sampling Techniques*, third edition, section 6.4 (ratio estimates).
fn standard_error(intervals: impl Iterator<Item = Option<(f64, f64)>>) -> Option<f64> {
    let pairs = intervals.collect::<Option<Vec<_>>>()?;
    let (above, below) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let n = pairs.len() as f64;
    let squares: f64 = pairs.iter().map(|(t, w)| (t - above / below * w).powi(2)).sum();
    (n > 1.0 && below > 0.0).then(|| (n / (n - 1.0) * squares).sqrt() / below)
}
