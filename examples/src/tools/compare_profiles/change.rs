//! What changed from one side to the other, and whether that is more than the runs leave open.

use reuse_sampler::file::ProfiledPhase;
use serde::Serialize;

use super::Run;
use super::align::align;
use crate::guided::beside;
use crate::machines::host::CacheLevel;
use crate::report::{StoredCurves, StoredPoint};

/// Of a normal distribution: 95 % lie within so many standard deviations.
const NORMAL: f64 = 1.96;
/// The same of Student's distribution with 1, 2, ... degrees of freedom.
const STUDENT: [f64; 9] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];

/// The runs of one version.
pub(super) struct Side<'a> {
    runs: &'a [Run],
}

/// A figure with half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    pub value: f64,
    pub margin: f64,
}

/// What is to be said of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// Fewer misses.
    Better,
    /// More misses.
    Worse,
    /// Not more of a change than is left open, or than counts.
    None,
}

/// A miss ratio on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LevelChange {
    pub level: String,
    pub bytes: u64,
    pub before: Figure,
    pub after: Figure,
    /// After less before.
    pub change: Figure,
    /// Misses after to those before, relative, where accesses are known and the runs complete.
    pub misses: Option<f64>,
    pub verdict: Verdict,
}

/// A phase on both sides; the name on one side only where it has no counterpart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PhaseChange {
    pub before: Option<String>,
    pub after: Option<String>,
    pub code: Option<String>,
    /// Share of the run's instructions, or windows where none are counted.
    pub share: (f64, f64),
    pub levels: Vec<LevelChange>,
}

/// All that changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    pub runs: (usize, usize),
    pub incomplete: bool,
    /// Share of the instructions in phases that were never profiled, before and after: the miss ratio of another phase
    /// stands in there, and no margin says by how much it may be wrong.
    pub borrowed: (f64, f64),
    /// Changes of less do not count.
    pub tolerance: f64,
    /// Relative, after to before.
    pub instructions: Option<f64>,
    /// Relative, after to before.
    pub accesses: Option<f64>,
    pub levels: Vec<LevelChange>,
    pub phases: Vec<PhaseChange>,
}

impl<'a> Side<'a> {
    pub fn new(runs: &'a [Run]) -> Self {
        Self { runs }
    }

    /// The mean of `of` over the runs.
    fn mean(&self, of: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(of).sum::<f64>() / self.runs.len() as f64
    }

    /// The miss ratio at a size: the mean, and what the samples and the differences of the runs leave open.
    fn at(&self, bytes: u64) -> Option<Figure> {
        let points: Option<Vec<StoredPoint>> =
            self.runs.iter().map(|run| point(&run.curves.bytes, &run.curves.average, bytes)).collect();
        figure(&points?)
    }
}

/// The mean of several runs' estimates of one miss ratio.
fn figure(points: &[StoredPoint]) -> Option<Figure> {
    let n = points.len() as f64;
    let value = points.iter().map(|p| p.miss_ratio).sum::<f64>() / n;
    // What the samples of each run leave open, to the farther side. What the model gets wrong it does in both versions.
    let reach = |p: &StoredPoint| (p.high - p.miss_ratio).max(p.miss_ratio - p.low);
    let own = points.iter().map(|p| (reach(p).powi(2) - p.model_error.powi(2)).max(0.0)).sum::<f64>();
    let own = own.sqrt() / n;
    let between = match points.len() {
        0 => return None,
        1 => 0.0,
        many => {
            let variance = points.iter().map(|p| (p.miss_ratio - value).powi(2)).sum::<f64>() / (n - 1.0);
            STUDENT.get(many - 2).copied().unwrap_or(NORMAL) * (variance / n).sqrt()
        }
    };
    Some(Figure { value, margin: own.max(between) })
}

/// The point of a curve at `bytes`: in straight lines over the logarithm of the size. Beyond the largest size, nothing
/// changes any more.
fn point(sizes: &[u64], points: &[StoredPoint], bytes: u64) -> Option<StoredPoint> {
    if sizes.last().is_some_and(|&largest| largest < bytes) {
        return points.last().copied();
    }
    let (left, right, t) = beside(sizes.iter().copied(), bytes as f64)?;
    let (left, right) = (points.get(left)?, points.get(right)?);
    let mix = |a: f64, b: f64| a + t * (b - a);
    Some(StoredPoint {
        miss_ratio: mix(left.miss_ratio, right.miss_ratio),
        low: mix(left.low, right.low),
        high: mix(left.high, right.high),
        model_error: mix(left.model_error, right.model_error),
    })
}

impl LevelChange {
    /// Judged by the misses for each access before: `accesses` are those after, relative to those before. A version that
    /// makes fewer accesses may have a higher miss ratio and miss less.
    fn new(level: &CacheLevel, before: Figure, after: Figure, accesses: Option<f64>, tolerance: f64) -> Self {
        let scale = accesses.unwrap_or(1.0);
        let difference = |scale: f64| Figure {
            value: scale * after.value - before.value,
            margin: before.margin.hypot(scale * after.margin),
        };
        let Figure { value, margin } = difference(scale);
        let verdict = match value {
            _ if value.abs() <= margin.max(tolerance) => Verdict::None,
            _ if value > 0.0 => Verdict::Worse,
            _ => Verdict::Better,
        };
        let misses =
            accesses.filter(|_| before.value > 0.0).map(|_| scale * after.value / before.value - 1.0);
        let change = difference(1.0);
        Self { level: level.name.clone(), bytes: level.bytes, before, after, change, misses, verdict }
    }
}

impl Change {
    pub fn between(before: &Side<'_>, after: &Side<'_>, levels: &[CacheLevel], tolerance: f64) -> Self {
        let relative = |of: &dyn Fn(&Run) -> f64| {
            let (before, after) = (before.mean(of), after.mean(of));
            (before > 0.0 && after > 0.0).then(|| after / before - 1.0)
        };
        let incomplete = before.runs.iter().chain(after.runs).any(|run| run.profile.incomplete);
        let accesses =
            relative(&|run| run.profile.windows.iter().map(|w| w.accesses.unwrap_or(0) as f64).sum());
        let scale = accesses.filter(|_| !incomplete).map(|relative| 1.0 + relative);
        let compared = levels.iter().filter_map(|level| {
            let (before, after) = (before.at(level.bytes)?, after.at(level.bytes)?);
            Some(LevelChange::new(level, before, after, scale, tolerance))
        });
        Self {
            runs: (before.runs.len(), after.runs.len()),
            incomplete,
            borrowed: (before.mean(borrowed), after.mean(borrowed)),
            tolerance,
            instructions: relative(&|run| run.profile.windows.iter().map(|w| w.instructions as f64).sum()),
            accesses,
            levels: compared.collect(),
            phases: match (before.runs, after.runs) {
                ([before, ..], [after, ..]) => phases(before, after, levels, tolerance),
                _ => Vec::new(),
            },
        }
    }

    /// Of all levels: worse where any is.
    pub fn verdict(&self) -> Verdict {
        let any = |verdict| self.levels.iter().any(|level| level.verdict == verdict);
        match () {
            () if any(Verdict::Worse) => Verdict::Worse,
            () if any(Verdict::Better) => Verdict::Better,
            () => Verdict::None,
        }
    }
}

/// How much of a run a phase is: instructions, or windows where none are counted.
fn weight(phase: &ProfiledPhase) -> f64 {
    match phase.instructions {
        0 => phase.windows as f64,
        counted => counted as f64,
    }
}

fn weights(run: &Run) -> f64 {
    run.profile.phases.iter().map(weight).sum()
}

/// The share of a run in phases for which another one stands in.
fn borrowed(run: &Run) -> f64 {
    let lent = run.profile.phases.iter().filter(|phase| phase.borrows_from.is_some());
    lent.map(weight).sum::<f64>() / weights(run).max(1.0)
}

/// The phases of the first run of each side, matched by code; those with most instructions first.
fn phases(before: &Run, after: &Run, levels: &[CacheLevel], tolerance: f64) -> Vec<PhaseChange> {
    let (ours, theirs) = (&before.profile.phases, &after.profile.phases);
    let pairs = align(ours, theirs);
    let alone =
        |index: usize, known: &dyn Fn(&(usize, usize)) -> usize| pairs.iter().all(|p| known(p) != index);
    let gone = (0..ours.len()).filter(|&i| alone(i, &|p| p.0)).map(|i| (Some(i), None));
    let new = (0..theirs.len()).filter(|&j| alone(j, &|p| p.1)).map(|j| (None, Some(j)));
    let matched = pairs.iter().map(|&(i, j)| (Some(i), Some(j)));
    let share = |run: &Run, index: Option<usize>| {
        index.map_or(0.0, |i| weight(&run.profile.phases[i]) / weights(run).max(1.0))
    };
    let mut changes: Vec<PhaseChange> = matched
        .chain(gone)
        .chain(new)
        .map(|(i, j)| {
            let (one, other) = (i.map(|i| &ours[i]), j.map(|j| &theirs[j]));
            let at = |curves: &StoredCurves, name: &str, bytes| {
                let points = curves.phases.get(name).filter(|points| points.len() == curves.bytes.len())?;
                figure(&[point(&curves.bytes, points, bytes)?])
            };
            let compared = levels.iter().filter_map(|level| {
                let (one, other) = (one?, other?);
                let before = at(&before.curves, &one.phase, level.bytes)?;
                let after = at(&after.curves, &other.phase, level.bytes)?;
                Some(LevelChange::new(level, before, after, None, tolerance))
            });
            PhaseChange {
                before: one.map(|phase| phase.phase.clone()),
                after: other.map(|phase| phase.phase.clone()),
                code: one.or(other).and_then(|phase| phase.hottest_code.clone()),
                share: (share(before, i), share(after, j)),
                levels: compared.collect(),
            }
        })
        .collect();
    changes.sort_by(|a, b| b.share.0.max(b.share.1).total_cmp(&a.share.0.max(a.share.1)));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(miss_ratio: f64, margin: f64) -> StoredPoint {
        StoredPoint { miss_ratio, low: miss_ratio - margin, high: miss_ratio + margin, model_error: 0.0 }
    }

    #[test]
    fn several_runs_leave_open_what_they_differ_by() {
        let alone = figure(&[at(0.1, 0.01)]).unwrap();
        assert!((alone.value - 0.1).abs() < 1e-12 && (alone.margin - 0.01).abs() < 1e-12);
        // Two that agree: half the variance. Two that do not: Student's factor for one degree of freedom.
        let two = figure(&[at(0.1, 0.01), at(0.1, 0.01)]).unwrap();
        assert!((two.margin - 0.01 / 2.0_f64.sqrt()).abs() < 1e-12);
        let far = figure(&[at(0.1, 0.0), at(0.2, 0.0)]).unwrap();
        assert!((far.value - 0.15).abs() < 1e-12 && (far.margin - 12.71 * 0.05).abs() < 1e-9);
        assert_eq!(figure(&[]), None);
    }

    #[test]
    fn points_lie_on_lines_over_the_logarithm_of_the_size() {
        let points = [at(0.4, 0.0), at(0.2, 0.0)];
        let ratio = |bytes| point(&[1024, 4096], &points, bytes).map(|p| p.miss_ratio);
        assert_eq!((ratio(512), ratio(1024), ratio(1 << 20)), (None, Some(0.4), Some(0.2)));
        assert!((ratio(2048).unwrap() - 0.3).abs() < 1e-12);
    }
}
