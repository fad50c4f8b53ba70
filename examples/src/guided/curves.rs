//! From profiles to curves: miss ratio over cache size, per phase and on average.

use std::collections::BTreeMap;

use phase_detect::PhaseId;
use reuse_sampler::{Bootstrap, CacheLines, CacheModel, Interval, Redraw, ReuseProfile, Stratum};
use statcache::StatCache;
use statstack::StatStack;

use super::{GuidedRun, WindowRecord};

/// Replacement policy that is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Least recently used: [`StatStack`].
    Lru,
    /// Random: [`StatCache`].
    Random,
}

/// The positions beside `size` among `sizes` in rising order, and how far it is from the first to the second over the
/// logarithm. The same position twice where it is among them, nothing outside them.
#[must_use]
pub fn beside(sizes: impl IntoIterator<Item = u64>, size: f64) -> Option<(usize, usize, f64)> {
    let mut left = None;
    for (position, next) in sizes.into_iter().map(|next| next as f64).enumerate() {
        if next == size {
            return Some((position, position, 0.0));
        }
        if next > size {
            let (left, from): (usize, f64) = left?;
            return Some((left, position, (size.log2() - from) / (next.log2() - from)));
        }
        left = Some((position, next.log2()));
    }
    None
}

/// Miss ratio at one size, with the bounds that unresolved samples leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Best estimate.
    pub miss_ratio: f64,
    /// Smallest miss ratio the samples allow.
    pub low: f64,
    /// Largest miss ratio the samples allow.
    pub high: f64,
    /// What the choice of windows and samples leaves open and the model gets wrong, where that was
    /// [asked for](RunCurves::add_intervals) and is known.
    pub interval: Option<(f64, f64)>,
    /// How far the interval would reach to either side by the model's error alone.
    pub model_error: f64,
}

impl CurvePoint {
    /// Lower end of all that is left open.
    #[must_use]
    pub fn lowest(&self) -> f64 {
        self.interval.map_or(self.low, |(low, _)| low.min(self.low))
    }

    /// Upper end of all that is left open.
    #[must_use]
    pub fn highest(&self) -> f64 {
        self.interval.map_or(self.high, |(_, high)| high.max(self.high))
    }
}

/// The curve of a phase; one point per size of its [`RunCurves`].
#[derive(Clone, Debug)]
pub struct PhaseCurve {
    /// The points, by ascending size.
    pub points: Vec<CurvePoint>,
}

/// The curves of a run at common sizes.
#[derive(Clone, Debug)]
pub struct RunCurves {
    /// Cache sizes in lines, ascending.
    pub sizes: Vec<CacheLines>,
    /// Curve of each phase whose own or borrowed profile could be modelled.
    pub phases: BTreeMap<PhaseId, PhaseCurve>,
    /// The average over the run: the curves of the windows' phases weighted by the windows' accesses.
    pub average: PhaseCurve,
    /// Share of the accesses that lie in phases with intervals: the average's speaks for these. 0 without intervals.
    pub interval_covers: f64,
}

impl RunCurves {
    /// Models every phase of `run` at `sizes`.
    #[must_use]
    pub fn fit(run: &GuidedRun, replacement: Replacement, sizes: &[CacheLines]) -> Self {
        let mut phases = BTreeMap::new();
        for record in &run.phases {
            let described = run.described_by(record.phase);
            let curve = described.and_then(|by| curve(&by.profile, replacement, sizes));
            if let Some(curve) = curve {
                phases.insert(record.phase, curve);
            }
        }
        let average = average(run, &phases, sizes.len());
        Self { sizes: sizes.to_vec(), phases, average, interval_covers: 0.0 }
    }

    /// Puts intervals at the points of the phases and of the average, by redrawing the windows that were profiled, or
    /// the samples where all windows were.
    ///
    /// Phases with a single profiled window out of several, with less than half a percent of the accesses, and those
    /// that borrow another's profile have none; [`interval_covers`](Self::interval_covers) says how much that leaves.
    ///
    /// # Errors
    /// Those of the models.
    pub fn add_intervals(
        &mut self,
        run: &GuidedRun,
        replacement: Replacement,
        bootstrap: &Bootstrap,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let weights = weights(run);
        let total: f64 = weights.values().sum();
        let (mut phases, mut strata) = (Vec::new(), Vec::new());
        let mut counted = 0.0;
        for record in run.phases.iter().filter(|record| self.phases.contains_key(&record.phase)) {
            let weight = weights.get(&record.phase).copied().unwrap_or(0.0);
            counted += weight;
            if record.profile.is_empty() || weight < SMALL * total {
                continue;
            }
            let covered = record.covered();
            let all_seen = covered >= 1.0;
            phases.push(record.phase);
            strata.push(Stratum {
                weight,
                windows: if all_seen {
                    std::slice::from_ref(&record.profile)
                } else {
                    record.batches.profiles()
                },
                redraw: if all_seen { Redraw::Samples } else { Redraw::Windows { covered } },
            });
        }
        if strata.is_empty() {
            return Ok(());
        }
        let drawn = match replacement {
            Replacement::Lru => bootstrap.stratified(&strata, StatStack::fit, &self.sizes)?,
            Replacement::Random => bootstrap.stratified(&strata, StatCache::fit, &self.sizes)?,
        };
        for (phase, intervals) in phases.iter().zip(&drawn.parts) {
            if let (Some(curve), Some(intervals)) = (self.phases.get_mut(phase), intervals) {
                curve.add(intervals, 1.0);
            }
        }
        let weighed: f64 = strata.iter().map(|stratum| stratum.weight).sum();
        self.average.add(&drawn.average, weighed / counted.max(f64::MIN_POSITIVE));
        self.interval_covers = drawn.covers * weighed / counted.max(f64::MIN_POSITIVE);
        Ok(())
    }

    /// How many sizes, from the smallest on, differ: beyond them every curve is level, within a hundredth of
    /// a percentage point.
    #[must_use]
    pub fn informative(&self) -> usize {
        let level = |curve: &PhaseCurve| {
            let last = curve.points.last().map_or(0.0, |p| p.miss_ratio);
            let bends = curve.points.iter().rposition(|p| (p.miss_ratio - last).abs() > 1e-4);
            bends.map_or(1, |k| k + 2)
        };
        self.phases.values().map(level).max().unwrap_or(1).min(self.sizes.len())
    }

    /// The curve that describes a window: that of its phase.
    #[must_use]
    pub fn of(&self, window: &WindowRecord) -> Option<&PhaseCurve> {
        self.phases.get(&window.phase)
    }
}

/// Share of the accesses below which a phase has no interval of its own.
const SMALL: f64 = 0.005;

impl PhaseCurve {
    /// Gives each point an interval, as wide as that of another curve times `share`.
    fn add(&mut self, intervals: &[Interval], share: f64) {
        for (point, drawn) in self.points.iter_mut().zip(intervals) {
            let low = point.miss_ratio - share * (drawn.miss_ratio - drawn.low);
            let high = point.miss_ratio + share * (drawn.high - drawn.miss_ratio);
            point.interval = Some((low.max(0.0), high.min(1.0)));
            point.model_error = share * drawn.model_error;
        }
    }
}

/// Accesses, or instructions where they are not known, of the windows of each phase.
fn weights(run: &GuidedRun) -> BTreeMap<PhaseId, f64> {
    let mut weights = BTreeMap::new();
    for window in &run.windows {
        *weights.entry(window.phase).or_default() += run.weight(window);
    }
    weights
}

/// The curve of one profile; `None` for a profile without a sample.
fn curve(profile: &ReuseProfile, replacement: Replacement, sizes: &[CacheLines]) -> Option<PhaseCurve> {
    match replacement {
        Replacement::Lru => {
            let model = StatStack::fit(profile).ok()?;
            Some(points(&model, sizes, |size| model.miss_ratio_bounds(size)))
        }
        Replacement::Random => {
            let model = StatCache::fit(profile).ok()?;
            Some(points(&model, sizes, |size| model.miss_ratio_bounds(size)))
        }
    }
}

fn points(
    model: &impl CacheModel,
    sizes: &[CacheLines],
    bounds: impl Fn(CacheLines) -> (f64, f64),
) -> PhaseCurve {
    let point = |&(size, miss_ratio): &(CacheLines, f64)| {
        let (low, high) = bounds(size);
        CurvePoint {
            miss_ratio,
            low: low.min(miss_ratio),
            high: high.max(miss_ratio),
            interval: None,
            model_error: 0.0,
        }
    };
    PhaseCurve { points: model.curve(sizes).points.iter().map(point).collect() }
}

fn average(run: &GuidedRun, phases: &BTreeMap<PhaseId, PhaseCurve>, sizes: usize) -> PhaseCurve {
    let weights = weights(run);
    let total: f64 = phases.keys().filter_map(|phase| weights.get(phase)).sum();
    let mut points =
        vec![CurvePoint { miss_ratio: 0.0, low: 0.0, high: 0.0, interval: None, model_error: 0.0 }; sizes];
    for (phase, curve) in phases {
        let share = weights.get(phase).copied().unwrap_or(0.0) / total.max(f64::MIN_POSITIVE);
        for (sum, point) in points.iter_mut().zip(&curve.points) {
            sum.miss_ratio += share * point.miss_ratio;
            sum.low += share * point.low;
            sum.high += share * point.high;
        }
    }
    PhaseCurve { points }
}
