//! From profiles to curves: miss ratio over cache size, per phase and on average.

use std::collections::BTreeMap;

use phase_detect::PhaseId;
use reuse_sampler::{
    AccessCount, Bootstrap, CacheLines, CacheModel, Interval, Redraw, ReuseProfile, Stratum,
};
use statcache::StatCache;
use statstack::PooledCorrection;

use super::{GuidedRun, PhaseRecord, WindowRecord};
use crate::cli::Failure;

/// Replacement policy that is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Replacement {
    /// LRU replacement
    #[value(name = "statstack")]
    Lru,
    /// Random replacement
    #[value(name = "statcache")]
    Random,
}

impl Replacement {
    /// The model of it, for a title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Lru => "LRU (StatStack)",
            Self::Random => "random-replacement (StatCache)",
        }
    }
}

/// The positions beside `size` among `sizes` in rising order, and how far it is from the first to the second over the
/// logarithm. The same position twice where it is among them, nothing outside them.
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
    /// The interval without what phases that borrow another's profile leave open.
    pub unborrowed: Option<(f64, f64)>,
}

impl CurvePoint {
    /// Lower end of all that is left open.
    pub fn lowest(&self) -> f64 {
        self.interval.map_or(self.low, |(low, _)| low.min(self.low))
    }

    /// Upper end of all that is left open.
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
    /// Share of the accesses in phases that have a profile of their own and no interval: the average's leaves them out.
    pub left_out: f64,
    /// Share of the accesses in windows that were not profiled and make more than twice or less than half as many accesses
    /// per instruction as those that were, of their phase or of the one that lends its profile: code is alike, data is not.
    pub unlike: f64,
    /// Share of the accesses that touch a line for the first time: every cache misses them. A phase's curve has those of the
    /// lines that it touched last, since a sample follows a line from one touch to the next.
    pub first_touches: f64,
}

impl RunCurves {
    /// Models every phase of `run` at `sizes`.
    pub fn fit(run: &GuidedRun, replacement: Replacement, sizes: &[CacheLines]) -> Self {
        let mut phases = BTreeMap::new();
        let pooled = pooled(run);
        for record in &run.phases {
            let described = run.described_by(record.phase);
            let curve = described.and_then(|by| curve(&by.profile, replacement, &pooled, sizes));
            if let Some(curve) = curve {
                phases.insert(record.phase, curve);
            }
        }
        let weights = run.weights();
        let average = average(&weights, &phases, sizes.len());
        Self {
            sizes: sizes.to_vec(),
            phases,
            average,
            interval_covers: 0.0,
            left_out: 0.0,
            unlike: unlike(run, &weights),
            first_touches: first_touches(run, &weights),
        }
    }

    /// Puts intervals at the points of the phases and of the average, by redrawing the windows that were profiled, or
    /// the samples where all windows were.
    ///
    /// Phases with a single profiled window out of several, and with less than half a percent of the accesses have none;
    /// [`interval_covers`](Self::interval_covers) says how much these and those that borrow another's profile leave. What
    /// phases that borrow may be off by is judged by the phases that were profiled, had each borrowed from its nearest.
    ///
    /// # Errors
    /// Those of the models.
    pub fn add_intervals(
        &mut self,
        run: &GuidedRun,
        replacement: Replacement,
        bootstrap: &Bootstrap,
    ) -> Result<(), Failure> {
        let weights = run.weights();
        let total: f64 = weights.values().sum();
        let (mut phases, mut strata) = (Vec::new(), Vec::new());
        let mut counted = 0.0;
        let records = run.phases.iter().filter(|record| self.phases.contains_key(&record.phase));
        let records = records
            .map(|record| Ok((record, record.beginning.batches.weighted()?, record.batches.weighted()?)));
        let records: Vec<_> = records.collect::<Result<_, reuse_sampler::Error>>()?;
        for (record, beginning, later) in &records {
            let weight = weights.get(&record.phase).copied().unwrap_or(0.0);
            counted += weight;
            if record.profile.is_empty() || weight < SMALL * total {
                continue;
            }
            let mut add = |weight: f64, windows, redraw| {
                phases.push(record.phase);
                strata.push(Stratum { weight, windows, redraw });
            };
            if record.windows == record.profiled {
                add(weight, std::slice::from_ref(&record.profile), Redraw::Samples);
            } else if record.covered() == 0.0 {
                let covered = record.profiled as f64 / record.windows as f64;
                add(weight, beginning.as_slice(), Redraw::Windows { covered });
            } else {
                let early = record.beginning.weight;
                if !beginning.is_empty() {
                    add(early, beginning, Redraw::Samples);
                }
                let covered = record.covered();
                add(weight - early, later, Redraw::Windows { covered });
            }
        }
        if strata.is_empty() {
            return Ok(());
        }
        let drawn = match replacement {
            Replacement::Lru => {
                let pooled = pooled(run);
                bootstrap.stratified(&strata, |profile| pooled.fit(profile), &self.sizes)?
            }
            Replacement::Random => bootstrap.stratified(&strata, StatCache::fit, &self.sizes)?,
        };
        let parts: Vec<_> = phases.iter().zip(&strata).zip(&drawn.parts).collect();
        for parts in parts.chunk_by(|a, b| a.0.0 == b.0.0) {
            let weight: f64 = parts.iter().map(|part| part.0.1.weight).sum();
            let drawn: Option<Vec<_>> = parts
                .iter()
                .map(|((_, stratum), drawn)| Some((drawn.as_deref()?, stratum.weight / weight)))
                .collect();
            if let (Some(curve), Some(drawn)) = (self.phases.get_mut(parts[0].0.0), drawn) {
                curve.add(&drawn);
            }
        }
        let weighted: f64 = strata.iter().map(|stratum| stratum.weight).sum();
        self.average.add(&[(&drawn.average, weighted / counted.max(f64::MIN_POSITIVE))]);
        self.add_lending(run, &weights);
        if self.unlike > 0.0 {
            self.average.leave_open(self.unlike);
        }
        self.interval_covers = drawn.covers * weighted / counted.max(f64::MIN_POSITIVE);
        let own = run.phases.iter().filter(|record| !record.profile.is_empty());
        let own: f64 = own.filter_map(|record| weights.get(&record.phase)).sum();
        self.left_out = (own / total - self.interval_covers).max(0.0);
        Ok(())
    }

    /// Widens the average's interval, and gives phases that borrow one, by what lending is off by between phases that were
    /// profiled.
    fn add_lending(&mut self, run: &GuidedRun, weights: &BTreeMap<PhaseId, f64>) {
        let total: f64 = weights.values().sum();
        let (borrow, profiled): (Vec<&PhaseRecord>, Vec<&PhaseRecord>) =
            run.phases.iter().partition(|record| record.profile.is_empty());
        let share = |record: &PhaseRecord| weights.get(&record.phase).map_or(0.0, |weight| weight / total);
        // Their errors differ.
        let all = borrow.iter().map(|record| share(record).powi(2)).sum::<f64>().sqrt();
        if all == 0.0 {
            return;
        }
        let curve_of = |phase: &PhaseId| self.phases.get(phase);
        let tried: Vec<(&PhaseCurve, &PhaseCurve)> = profiled
            .iter()
            .filter_map(|record| curve_of(&record.phase).zip(curve_of(record.nearest.as_ref()?)))
            .collect();
        let margin = |at: usize| {
            let error = |(own, lent): &(&PhaseCurve, &PhaseCurve)| {
                own.points[at].miss_ratio - lent.points[at].miss_ratio
            };
            lending_margin(tried.iter().map(error))
        };
        let margins: Vec<f64> = (0..self.sizes.len()).map(margin).collect();
        for record in borrow {
            if let Some(curve) = self.phases.get_mut(&record.phase) {
                curve.lend(&margins, 1.0);
            }
        }
        self.average.lend(&margins, all);
    }

    /// How many sizes, from the smallest on, differ: beyond them every curve is level, within a hundredth of
    /// a percentage point.
    pub fn informative(&self) -> usize {
        let level = |curve: &PhaseCurve| {
            let last = curve.points.last().map_or(0.0, |p| p.miss_ratio);
            let bends = curve.points.iter().rposition(|p| (p.miss_ratio - last).abs() > 1e-4);
            bends.map_or(1, |k| k + 2)
        };
        self.phases.values().map(level).max().unwrap_or(1).min(self.sizes.len())
    }

    /// The curve that describes a window: that of its phase.
    pub fn of(&self, window: &WindowRecord) -> Option<&PhaseCurve> {
        self.phases.get(&window.phase)
    }
}

/// Half a 95 % interval, in root-mean-square errors of lending between phases that were profiled. Below 1.96: these differ
/// more from each other than a phase that was never profiled differs from the one that stands in. `docs/compare-profiles.md`
/// names the programs it was chosen with.
const LENDING: f64 = 1.5;

/// Half the 95 % interval of a miss ratio that one phase lends another, by the errors of lending between phases that were
/// profiled. Without any, it may be anything.
pub fn lending_margin(errors: impl Iterator<Item = f64>) -> f64 {
    let (count, squares) = errors.fold((0.0, 0.0), |(n, sum), error| (n + 1.0, sum + error.powi(2)));
    if count == 0.0 { 1.0 } else { (LENDING * (squares / count).sqrt()).min(1.0) }
}

/// Share of the accesses below which a phase has no interval of its own.
const SMALL: f64 = 0.005;

impl PhaseCurve {
    /// Gives each point an interval by those of independent parts with their shares.
    fn add(&mut self, parts: &[(&[Interval], f64)]) {
        for (at, point) in self.points.iter_mut().enumerate() {
            let (mut down, mut up) = (0.0_f64, 0.0_f64);
            point.model_error = 0.0;
            for (drawn, share) in parts.iter().filter_map(|(drawn, share)| Some((drawn.get(at)?, share))) {
                down = down.hypot(share * (drawn.miss_ratio - drawn.low));
                up = up.hypot(share * (drawn.high - drawn.miss_ratio));
                point.model_error += share * drawn.model_error;
            }
            point.interval = Some(((point.miss_ratio - down).max(0.0), (point.miss_ratio + up).min(1.0)));
            point.unborrowed = point.interval;
        }
    }

    /// Widens the intervals by margins times `share`.
    fn lend(&mut self, margins: &[f64], share: f64) {
        for (point, margin) in self.points.iter_mut().zip(margins) {
            let (low, high) = point.interval.unwrap_or((point.miss_ratio, point.miss_ratio));
            let low = point.miss_ratio - (point.miss_ratio - low).hypot(share * margin);
            let high = point.miss_ratio + (high - point.miss_ratio).hypot(share * margin);
            point.interval = Some((low.max(0.0), high.min(1.0)));
        }
    }

    /// Widens the intervals by accesses of this share, all or none of which may miss.
    fn leave_open(&mut self, share: f64) {
        for point in &mut self.points {
            for interval in [&mut point.interval, &mut point.unborrowed] {
                let (low, high) = interval.unwrap_or((point.miss_ratio, point.miss_ratio));
                let (low, high) = (low - share * point.miss_ratio, high + share * (1.0 - point.miss_ratio));
                *interval = Some((low.max(0.0), high.min(1.0)));
            }
        }
    }
}

/// See [`RunCurves::unlike`].
fn unlike(run: &GuidedRun, weights: &BTreeMap<PhaseId, f64>) -> f64 {
    let counted = |window: &WindowRecord| match window.accesses {
        AccessCount::Measured(accesses) | AccessCount::Estimated(accesses) if window.instructions > 0 => {
            Some(accesses as f64)
        }
        _ => None,
    };
    let mut profiled: BTreeMap<PhaseId, (f64, f64)> = BTreeMap::new();
    for window in run.windows.iter().filter(|window| window.profiled) {
        let (accesses, instructions) = profiled.entry(window.phase).or_default();
        *accesses += counted(window).unwrap_or_default();
        *instructions += window.instructions as f64;
    }
    let mut other = 0.0;
    for window in run.windows.iter().filter(|window| !window.profiled) {
        let by = run.described_by(window.phase).and_then(|record| profiled.get(&record.phase));
        let (Some(accesses), Some(by)) = (counted(window), by) else { continue };
        let here = accesses / window.instructions as f64;
        let there = by.0 / by.1.max(1.0);
        other += if here > 2.0 * there || 2.0 * here < there { accesses } else { 0.0 };
    }
    let total: f64 = weights.values().sum();
    if total > 0.0 { other / total } else { 0.0 }
}

/// What the phases of `run` have in common; nothing if their profiles cannot be modelled, which fitting them says.
pub fn pooled(run: &GuidedRun) -> PooledCorrection {
    PooledCorrection::of(run.phases.iter().map(|record| &record.profile)).unwrap_or_default()
}

/// The curve of one profile; `None` for a profile without a sample.
fn curve(
    profile: &ReuseProfile,
    replacement: Replacement,
    pooled: &PooledCorrection,
    sizes: &[CacheLines],
) -> Option<PhaseCurve> {
    match replacement {
        Replacement::Lru => {
            let model = pooled.fit(profile).ok()?;
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
            unborrowed: None,
        }
    };
    PhaseCurve { points: model.curve(sizes).points.iter().map(point).collect() }
}

/// There are as many first touches of lines as last ones.
fn first_touches(run: &GuidedRun, weights: &BTreeMap<PhaseId, f64>) -> f64 {
    let last = |(phase, weight): (&PhaseId, &f64)| {
        Some(weight * run.described_by(*phase)?.profile.distribution().dangling())
    };
    weights.iter().filter_map(last).sum::<f64>() / weights.values().sum::<f64>().max(f64::MIN_POSITIVE)
}

fn average(
    weights: &BTreeMap<PhaseId, f64>,
    phases: &BTreeMap<PhaseId, PhaseCurve>,
    sizes: usize,
) -> PhaseCurve {
    let total: f64 = phases.keys().filter_map(|phase| weights.get(phase)).sum();
    let nothing = CurvePoint {
        miss_ratio: 0.0,
        low: 0.0,
        high: 0.0,
        interval: None,
        model_error: 0.0,
        unborrowed: None,
    };
    let mut points = vec![nothing; sizes];
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

#[cfg(test)]
mod tests {
    use reuse_sampler::{LineSize, Outcome, ReuseDistance, ThreadId, WindowIndex};

    use super::*;

    /// A phase whose lines come back after `distance` accesses.
    fn phase(number: u32, distance: Option<u64>, nearest: u32) -> PhaseRecord {
        let mut record = PhaseRecord::new(PhaseId::new(number), &ReuseProfile::new(LineSize::B64));
        if let Some(distance) = distance {
            record.profile.record(Outcome::Reused(ReuseDistance(distance)), 1000);
        }
        record.nearest = Some(PhaseId::new(nearest));
        record
    }

    /// Windows of 100 instructions: phase, accesses, and whether it was profiled.
    fn run(phases: Vec<PhaseRecord>, windows: &[(u32, u64, bool)]) -> GuidedRun {
        let window = |(index, &(phase, accesses, profiled)): (u64, &(u32, u64, bool))| WindowRecord {
            index: WindowIndex(index),
            thread: ThreadId(0),
            instructions: 100,
            accesses: AccessCount::Measured(accesses),
            repeated: 0,
            phase: PhaseId::new(phase),
            predicted: None,
            profiled,
        };
        GuidedRun {
            windows: (0..).zip(windows).map(window).collect(),
            phases,
            centres: BTreeMap::new(),
            line_size: LineSize::B64,
            incomplete: false,
            predictions: (0, 0),
        }
    }

    #[test]
    fn what_is_borrowed_is_as_sure_as_lending_between_phases_that_were_profiled() {
        let sizes = [CacheLines(16)];
        let phases = vec![phase(0, Some(1), 1), phase(1, Some(1000), 0), phase(2, None, 1)];
        let run = run(phases, &[(0, 40, true), (1, 40, true), (2, 20, false)]);
        let mut curves = RunCurves::fit(&run, Replacement::Lru, &sizes);
        curves.add_lending(&run, &run.weights());
        // The two that were profiled hit always and never: either would be off by 1.
        let point = curves.average.points[0];
        assert!((point.miss_ratio - 0.6).abs() < 1e-9, "{point:?}");
        assert_eq!((point.unborrowed, curves.unlike), (None, 0.0));
        let (low, high) = point.interval.unwrap();
        assert!((low - 0.4).abs() < 1e-9 && (high - 0.8).abs() < 1e-9, "{point:?}");
        let borrowed = curves.phases[&PhaseId::new(2)].points[0];
        assert_eq!(borrowed.interval, Some((0.0, 1.0)));
        assert_eq!(curves.phases[&PhaseId::new(0)].points[0].interval, None);
    }

    #[test]
    fn windows_with_many_more_accesses_than_those_profiled_are_unlike() {
        let windows = [(0, 40, true), (0, 60, true), (0, 90, false), (0, 26, false), (0, 984, false)];
        let unlike = |n: usize| {
            RunCurves::fit(&run(vec![phase(0, Some(1), 0)], &windows[..n]), Replacement::Lru, &[]).unlike
        };
        assert_eq!((unlike(4), unlike(5)), (0.0, 0.82));
    }

    #[test]
    fn there_are_as_many_first_touches_as_lines_that_are_not_touched_again() {
        let mut last = phase(1, Some(3), 0);
        last.profile.record(Outcome::Dangling, 1000); // half of them
        let run = run(
            vec![phase(0, Some(1), 1), last, phase(2, None, 1)],
            &[(0, 60, true), (1, 30, true), (2, 10, false)],
        );
        let first = RunCurves::fit(&run, Replacement::Lru, &[]).first_touches;
        assert!((first - 0.2).abs() < 1e-12, "{first}");
    }
}
