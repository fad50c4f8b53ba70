//! From profiles to curves: miss ratio over cache size, per phase and on average.

use std::collections::BTreeMap;

use phase_detect::PhaseId;
use reuse_sampler::{CacheLines, CacheModel, ReuseProfile};
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

/// Miss ratio at one size, with the bounds that unresolved samples leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Best estimate.
    pub miss_ratio: f64,
    /// Smallest miss ratio the samples allow.
    pub low: f64,
    /// Largest miss ratio the samples allow.
    pub high: f64,
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
        Self { sizes: sizes.to_vec(), phases, average }
    }

    /// How many sizes, from the smallest on, tell something: beyond them every curve is level, within a hundredth of
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
        CurvePoint { miss_ratio, low: low.min(miss_ratio), high: high.max(miss_ratio) }
    };
    PhaseCurve { points: model.curve(sizes).points.iter().map(point).collect() }
}

fn average(run: &GuidedRun, phases: &BTreeMap<PhaseId, PhaseCurve>, sizes: usize) -> PhaseCurve {
    let mut weights: BTreeMap<PhaseId, f64> = BTreeMap::new();
    for window in &run.windows {
        *weights.entry(window.phase).or_default() += run.weight(window);
    }
    let total: f64 = phases.keys().filter_map(|phase| weights.get(phase)).sum();
    let mut points = vec![CurvePoint { miss_ratio: 0.0, low: 0.0, high: 0.0 }; sizes];
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
