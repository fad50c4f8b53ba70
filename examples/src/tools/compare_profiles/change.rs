//! What changed from one side to the other, and whether that is more than the runs leave open.

use reuse_sampler::file::ProfiledPhase;
use serde::Serialize;

use super::Run;
use super::align::{align, weight, weights};
use super::estimate::{Estimate, Figure, point};
use super::time::{Latencies, TimeChange};
use crate::machines::host::CacheLevel;

/// A miss ratio is unclear if the interval of its change reaches farther without being a change that counts.
const HIDES: f64 = 0.01;
/// Where less of either run is in code that both execute, these are two programs.
const STRANGERS: f64 = 0.1;

/// What to compare at.
pub(super) struct Terms {
    pub levels: Vec<CacheLevel>,
    pub latencies: Latencies,
    /// Changes of less do not count.
    pub tolerance: f64,
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
    /// Not more of a change than is left open, in which a change that counts may hide.
    Unclear,
}

impl Verdict {
    fn new(change: Figure, tolerance: f64) -> Self {
        match change.value {
            value if value.abs() > change.margin.max(tolerance) => {
                if value > 0.0 {
                    Self::Worse
                } else {
                    Self::Better
                }
            }
            value if value.abs() + change.margin > tolerance.max(HIDES) => Self::Unclear,
            _ => Self::None,
        }
    }
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
    /// The next recorded size, in bytes, that shows a change of a point where this one shows none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<u64>,
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
    /// Relative, after to before, where both are counted and the runs complete.
    pub instructions: Option<f64>,
    /// The same condition.
    pub time: Option<TimeChange>,
}

/// All that changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    pub runs: (usize, usize),
    pub incomplete: bool,
    /// Share of the instructions in phases that were never profiled, before and after: the miss ratio of another phase
    /// stands in there.
    pub borrowed: (f64, f64),
    /// Changes of less do not count.
    pub tolerance: f64,
    /// Relative, after to before.
    pub instructions: Option<f64>,
    /// Half its 95 % interval, where there are several runs of a side.
    pub instructions_margin: Option<f64>,
    /// Relative, after to before.
    pub accesses: Option<f64>,
    pub levels: Vec<LevelChange>,
    /// Cycles of a hit in each cache, the smallest first, and of memory, from which times follow.
    pub latencies: Vec<f64>,
    /// Where instructions and accesses are counted and the runs complete.
    pub time: Option<TimeChange>,
    pub phases: Vec<PhaseChange>,
}

impl Run {
    fn instructions(&self) -> f64 {
        self.profile.windows.iter().map(|w| w.instructions as f64).sum()
    }

    /// 0 where those of a window are not known: the sum of the others would say that there are fewer.
    fn accesses(&self) -> f64 {
        let windows = self.profile.windows.iter().filter(|w| w.instructions > 0 || w.accesses.is_some());
        windows.map(|w| w.accesses.map(|accesses| accesses as f64)).sum::<Option<f64>>().unwrap_or(0.0)
    }

    fn at(&self, bytes: u64) -> Option<Estimate> {
        let point = point(&self.curves.bytes, &self.curves.average, bytes)?;
        Some(Estimate::new(point, self.lending.of_run(&self.curves, bytes)))
    }

    /// The recorded sizes next to one, below and above, from half to twice of it.
    fn next_to(&self, bytes: u64) -> impl Iterator<Item = u64> + '_ {
        let sizes = &self.curves.bytes;
        let (below, above) = (sizes.partition_point(|&b| b < bytes), sizes.partition_point(|&b| b <= bytes));
        let next = below.checked_sub(1).into_iter().chain([above]).filter_map(|index| sizes.get(index));
        next.copied().filter(move |next| (bytes / 2..=bytes.saturating_mul(2)).contains(next))
    }

    fn phase_at(&self, phase: &ProfiledPhase, level: &CacheLevel) -> Option<Estimate> {
        let points = self.curves.phases.get(&phase.phase).filter(|p| p.len() == self.curves.bytes.len())?;
        let lends = phase.borrows_from.as_ref();
        let lent = lends.map_or(0.0, |_| self.lending.of_phase(&self.curves, level.bytes));
        Some(Estimate::new(point(&self.curves.bytes, points, level.bytes)?, lent))
    }

    /// Predicted cycles of a phase, or of the run.
    fn time(&self, phase: Option<&ProfiledPhase>, terms: &Terms) -> Option<Estimate> {
        let at = |level: &CacheLevel| {
            phase.map_or_else(|| self.at(level.bytes), |phase| self.phase_at(phase, level))
        };
        let levels: Option<Vec<Estimate>> = terms.levels.iter().map(at).collect();
        let windows = self.profile.windows.iter().filter(|w| phase.is_none_or(|p| p.phase == w.phase));
        let sums = windows.fold((0.0, 0.0), |(instructions, accesses), w| {
            (instructions + w.instructions as f64, accesses + w.accesses.unwrap_or(0) as f64)
        });
        let counted = !self.profile.incomplete && sums.0 > 0.0 && sums.1 > 0.0;
        counted.then_some(terms.latencies.time(sums.0, sums.1, &levels?))
    }
}

/// The mean over runs, if each has the figure.
fn mean(runs: &[Run], of: impl Fn(&Run) -> Option<Estimate>) -> Option<Figure> {
    Figure::mean(&runs.iter().map(of).collect::<Option<Vec<Estimate>>>()?)
}

fn counted(runs: &[Run], of: impl Fn(&Run) -> f64) -> Option<Figure> {
    mean(runs, |run| Some(Estimate::exact(of(run))))
}

impl LevelChange {
    /// Judged by the misses for each access before: `accesses` are those after, relative to those before. A version
    /// that makes fewer accesses may have a higher miss ratio and miss less.
    fn new(level: &CacheLevel, before: Figure, after: Figure, accesses: Option<f64>, tolerance: f64) -> Self {
        let scale = accesses.unwrap_or(1.0);
        let verdict = Verdict::new(after.less(before, scale), tolerance);
        let misses =
            accesses.filter(|_| before.value > 0.0).map(|_| scale * after.value / before.value - 1.0);
        let change = after.less(before, 1.0);
        let (level, bytes) = (level.name.clone(), level.bytes);
        Self { level, bytes, before, after, change, misses, seen_at: None, verdict }
    }
}

impl Change {
    pub fn between(before: &[Run], after: &[Run], terms: &Terms) -> Self {
        let relative = |of: &dyn Fn(&Run) -> f64| counted(after, of)?.relative_to(counted(before, of)?);
        let incomplete = before.iter().chain(after).any(|run| run.profile.incomplete);
        let accesses = relative(&Run::accesses).map(|figure| figure.value);
        let scale = accesses.filter(|_| !incomplete).map(|relative| 1.0 + relative);
        let at = |bytes| Some((mean(before, |run| run.at(bytes))?, mean(after, |run| run.at(bytes))?));
        let changes = |&bytes: &u64| {
            let change = at(bytes).map(|(before, after)| after.less(before, scale.unwrap_or(1.0)));
            let verdict = change.map(|change| Verdict::new(change, terms.tolerance.max(HIDES)));
            verdict.is_some_and(|verdict| matches!(verdict, Verdict::Better | Verdict::Worse))
        };
        let compared = terms.levels.iter().filter_map(|level| {
            let (one, other) = at(level.bytes)?;
            let mut change = LevelChange::new(level, one, other, scale, terms.tolerance);
            // Between recorded sizes a curve is not known to be straight, and a model may misplace its cliffs as far.
            if change.verdict == Verdict::None {
                change.seen_at = before.first()?.next_to(level.bytes).find(changes);
                change.verdict = change.seen_at.map_or(Verdict::None, |_| Verdict::Unclear);
            }
            Some(change)
        });
        let share = |runs: &[Run]| counted(runs, borrowed).map_or(0.0, |figure| figure.value);
        let instructions = relative(&Run::instructions);
        let time = |runs| mean(runs, |run: &Run| run.time(None, terms));
        Self {
            runs: (before.len(), after.len()),
            incomplete,
            borrowed: (share(before), share(after)),
            tolerance: terms.tolerance,
            instructions: instructions.map(|figure| figure.value),
            instructions_margin: instructions
                .filter(|_| before.len().min(after.len()) > 1)
                .map(|figure| figure.margin),
            accesses,
            levels: compared.collect(),
            latencies: terms.latencies.cycles.clone(),
            time: time(before)
                .zip(time(after))
                .and_then(|(before, after)| TimeChange::between(before, after)),
            phases: match (before, after) {
                ([before, ..], [after, ..]) => phases(before, after, terms),
                _ => Vec::new(),
            },
        }
    }

    /// Shares of the instructions before and after, in the first runs, that are in phases found on both sides.
    pub fn matched(&self) -> (f64, f64) {
        let both = self.phases.iter().filter(|phase| phase.before.is_some() && phase.after.is_some());
        both.fold((0.0, 0.0), |sum, phase| (sum.0 + phase.share.0, sum.1 + phase.share.1))
    }

    /// Whether these are two programs rather than a program with its change.
    pub fn strangers(&self) -> bool {
        let (before, after) = self.matched();
        self.phases.iter().any(|phase| phase.code.is_some()) && before.min(after) < STRANGERS
    }

    /// Of all levels: worse where any is, better only where all others are clear. Of two programs, that one misses no more
    /// says nothing about a change.
    pub fn verdict(&self) -> Verdict {
        let order = [Verdict::Worse, Verdict::Unclear, Verdict::Better];
        let any = |verdict: &Verdict| self.levels.iter().any(|level| level.verdict == *verdict);
        match order.into_iter().find(any).unwrap_or(Verdict::None) {
            Verdict::Better | Verdict::None if self.strangers() => Verdict::Unclear,
            verdict => verdict,
        }
    }
}

/// The share of a run in phases for which another one stands in.
fn borrowed(run: &Run) -> f64 {
    let lent = run.profile.phases.iter().filter(|phase| phase.borrows_from.is_some());
    // From 0: the sum of nothing is -0.
    lent.map(weight).fold(0.0, |sum, weight| sum + weight) / weights(&run.profile.phases)
}

/// The phases of the first run of each side, matched by code; those with most instructions first.
fn phases(before: &Run, after: &Run, terms: &Terms) -> Vec<PhaseChange> {
    let (ours, theirs) = (&before.profile.phases, &after.profile.phases);
    let pairs = align(ours, theirs);
    let alone =
        |index: usize, known: &dyn Fn(&(usize, usize)) -> usize| pairs.iter().all(|p| known(p) != index);
    let gone = (0..ours.len()).filter(|&i| alone(i, &|p| p.0)).map(|i| (Some(i), None));
    let new = (0..theirs.len()).filter(|&j| alone(j, &|p| p.1)).map(|j| (None, Some(j)));
    let matched = pairs.iter().map(|&(i, j)| (Some(i), Some(j)));
    let share = |run: &Run, index: Option<usize>| {
        index.map_or(0.0, |i| weight(&run.profile.phases[i]) / weights(&run.profile.phases))
    };
    let complete = !before.profile.incomplete && !after.profile.incomplete;
    let mut changes: Vec<PhaseChange> = matched
        .chain(gone)
        .chain(new)
        .map(|(i, j)| {
            let (one, other) = (i.map(|i| &ours[i]), j.map(|j| &theirs[j]));
            let both = one.zip(other);
            let compared = terms.levels.iter().filter_map(|level| {
                let (one, other) = both?;
                let figure = |run: &Run, phase| Figure::mean(&[run.phase_at(phase, level)?]);
                Some(LevelChange::new(
                    level,
                    figure(before, one)?,
                    figure(after, other)?,
                    None,
                    terms.tolerance,
                ))
            });
            let time = |run: &Run, phase| Figure::mean(&[run.time(Some(phase), terms)?]);
            let counted =
                both.filter(|(one, other)| complete && one.instructions > 0 && other.instructions > 0);
            PhaseChange {
                before: one.map(|phase| phase.phase.clone()),
                after: other.map(|phase| phase.phase.clone()),
                code: one.or(other).and_then(|phase| phase.hottest_code.clone()),
                share: (share(before, i), share(after, j)),
                levels: compared.collect(),
                instructions: counted
                    .map(|(one, other)| other.instructions as f64 / one.instructions as f64 - 1.0),
                time: counted
                    .and_then(|(one, other)| TimeChange::between(time(before, one)?, time(after, other)?)),
            }
        })
        .collect();
    changes.sort_by(|a, b| b.share.0.max(b.share.1).total_cmp(&a.share.0.max(a.share.1)));
    changes
}
