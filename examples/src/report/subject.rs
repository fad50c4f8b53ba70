//! A run with its curves, its phases in the order people want to see them, and their names.

use std::collections::BTreeMap;
use std::fmt;

use phase_detect::PhaseId;
use phase_detect::metrics::{DistinctCode, Transition, TransitionConfig, distinct_code, transitions};
use reuse_sampler::LineSize;

use super::table::{Row, rows_of};
use super::{ProcessRow, percent};
use crate::guided::{CurvePoint, GuidedRun, PhaseCurve, PhaseRecord, RunCurves, beside};
use crate::machines::host::DataCaches;
use crate::target::Scope;

/// Everything a report is made of.
#[derive(Debug)]
pub struct Subject<'a> {
    /// What was run, as a person would write it.
    pub program: String,
    /// Name of the cache model.
    pub model: String,
    /// The run.
    pub run: &'a GuidedRun,
    /// Its curves.
    pub curves: &'a RunCurves,
    /// Caches to compare with.
    pub caches: &'a DataCaches,
    /// The phases, the one with most accesses first; after them the transitions between phases.
    pub phases: Vec<PhaseView<'a>>,
    /// The rows that the phases which are no transitions are shown in.
    pub rows: Vec<Row>,
    /// How many of the curves' sizes, from the smallest on, pictures show.
    pub shown: usize,
    /// The processor that it ran on, where there was one.
    pub machine: Option<String>,
    /// Whose caches these are, where there are several threads.
    pub scope: Scope,
    /// Operands of instructions in the run, estimated like its accesses, where they are known.
    pub operands: Option<u64>,
    /// The processes of the program, where they are distinguished.
    pub processes: Vec<ProcessRow>,
    /// What the reader should know about this run: children that were not profiled, and the like.
    pub notes: Vec<String>,
}

/// A phase as reports show it.
#[derive(Debug)]
pub struct PhaseView<'a> {
    /// `A` for the phase with most accesses, `B`, ... `Z`, `AA`, ...
    pub name: String,
    /// What was gathered in it.
    pub record: &'a PhaseRecord,
    /// Its share of the instructions, from 0 to 1.
    pub share: f64,
    /// Its accesses, estimated, or what is known in their place.
    pub weight: f64,
    /// Its hottest code, named as well as can be, with the code's share of the phase's instructions.
    pub location: Option<(String, f64)>,
    /// Its code by name, with the share of the phase's instructions, the largest first: that of the 16 blocks in which most
    /// are executed. Empty until [named](Subject::name_code): it serves files only.
    pub code: Vec<(String, f64)>,
    /// The code whose share of the phase exceeds its share of the other phases by most.
    pub distinct: Option<DistinctView>,
    /// Whether it is a transition between phases.
    pub transition: bool,
    /// The phases whose code it mixes, if it is a transition where these two meet.
    pub mixture: Option<(String, String)>,
    /// Its miss ratio over size, its own or another's.
    pub curve: Option<&'a PhaseCurve>,
    /// Name of the phase that lent its profile.
    pub borrowed_from: Option<String>,
}

/// Code that sets a phase apart.
#[derive(Clone, Debug, PartialEq)]
pub struct DistinctView {
    /// Function, source line or address.
    pub name: String,
    /// Its share of the phase's instructions.
    pub share: f64,
    /// Its share of all other phases' instructions.
    pub elsewhere: f64,
}

impl DistinctView {
    /// Names the code.
    pub fn new(code: &DistinctCode<u64>, mut locate: impl FnMut(u64) -> Option<String>) -> Self {
        let name = locate(code.block).unwrap_or_else(|| format!("{:#x}", code.block));
        Self { name, share: code.share, elsewhere: code.elsewhere }
    }
}

impl fmt::Display for DistinctView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, elsewhere {})", self.name, percent(self.share), percent(self.elsewhere))
    }
}

impl<'a> Subject<'a> {
    /// Puts a report's matter in order. `locate` names the code at an address.
    pub fn new(
        program: String,
        model: String,
        run: &'a GuidedRun,
        curves: &'a RunCurves,
        caches: &'a DataCaches,
        mut locate: impl FnMut(u64) -> Option<String>,
    ) -> Self {
        let weights = run.weights();
        let phases = run.windows.iter().map(|window| (window.thread, window.phase));
        let transitions = transitions_of(phases, &run.centres);
        let mut order: Vec<&PhaseRecord> = run.phases.iter().filter(|p| p.windows > 0).collect();
        order.sort_by(|a, b| {
            let weight = |p: &PhaseRecord| weights[&p.phase];
            (transitions.contains_key(&a.phase).cmp(&transitions.contains_key(&b.phase)))
                .then(weight(b).total_cmp(&weight(a)))
                .then(a.phase.cmp(&b.phase))
        });
        let name_of = |phase: PhaseId| order.iter().position(|p| p.phase == phase).map(letters);
        let blocks = |record: &&PhaseRecord| (record.phase, record.code.blocks());
        // Transitions hold other phases' code: nothing is set apart from them.
        let settled: Vec<_> = order.iter().filter(|p| !transitions.contains_key(&p.phase)).collect();
        let distinct = distinct_code(&settled.iter().copied().map(blocks).collect::<Vec<_>>(), 1);
        let sizes: Vec<_> = settled.iter().map(|record| (record.phase, record.instructions)).collect();
        let code = |at: usize| settled[at].code.blocks();
        let rows = rows_of(&sizes, &run.centres, code, &mut locate);
        let phases = order
            .iter()
            .enumerate()
            .map(|(rank, &record)| PhaseView {
                name: letters(rank),
                record,
                share: record.instructions as f64 / run.instructions().max(1) as f64,
                weight: weights[&record.phase],
                location: record
                    .hottest_block()
                    .map(|(address, share)| (locate(address).unwrap_or(format!("{address:#x}")), share)),
                code: Vec::new(),
                distinct: distinct
                    .get(&record.phase)
                    .and_then(|codes| codes.first())
                    .map(|code| DistinctView::new(code, &mut locate)),
                transition: transitions.contains_key(&record.phase),
                mixture: match transitions.get(&record.phase) {
                    Some(&Transition::Mixture(a, b)) => name_of(a).zip(name_of(b)),
                    _ => None,
                },
                curve: curves.phases.get(&record.phase),
                borrowed_from: record.stand_in().and_then(name_of),
            })
            .collect();
        let shown = shown(curves, run.line_size, caches);
        let (processes, notes) = (Vec::new(), Vec::new());
        Self {
            program,
            model,
            run,
            curves,
            caches,
            phases,
            rows,
            shown,
            machine: None,
            scope: Scope::Private,
            operands: None,
            processes,
            notes,
        }
    }

    /// Names the code of each phase.
    pub fn name_code(&mut self, mut locate: impl FnMut(u64) -> Option<String>) {
        for view in &mut self.phases {
            view.code = named_code(view.record.code.blocks(), &mut locate);
        }
    }

    /// The phases that are not transitions.
    pub fn settled(&self) -> &[PhaseView<'a>] {
        &self.phases[..self.phases.len() - self.transitions()]
    }

    /// How many of the phases, at the end of the list, are transitions.
    pub fn transitions(&self) -> usize {
        self.phases.iter().filter(|view| view.transition).count()
    }

    /// The name of the phase that begins the row of the one at `rank`, if it is no transition.
    pub fn family(&self, rank: usize) -> Option<&str> {
        let row = self.rows.iter().find(|row| row.phases.contains(&rank))?;
        Some(&self.phases[*row.phases.first()?].name)
    }

    /// Position in [`phases`](Self::phases) of a phase of the run.
    pub fn rank(&self, phase: PhaseId) -> Option<usize> {
        self.phases.iter().position(|view| view.record.phase == phase)
    }

    /// The point of a curve at `bytes`, where the curve has that size or one beside it; interpolated over the
    /// logarithm of the size.
    pub fn at(&self, curve: &PhaseCurve, bytes: u64) -> Option<CurvePoint> {
        let lines = bytes as f64 / f64::from(self.run.line_size.bytes());
        let (left, right, t) = beside(self.curves.sizes.iter().map(|size| size.0), lines)?;
        let (left, right) = (curve.points.get(left)?, curve.points.get(right)?);
        let mix = |a: f64, b: f64| a + t * (b - a);
        let between = |left: Option<(f64, f64)>, right: Option<(f64, f64)>| {
            left.zip(right).map(|(left, right)| (mix(left.0, right.0), mix(left.1, right.1)))
        };
        Some(CurvePoint {
            miss_ratio: mix(left.miss_ratio, right.miss_ratio),
            low: mix(left.low, right.low),
            high: mix(left.high, right.high),
            interval: between(left.interval, right.interval),
            model_error: mix(left.model_error, right.model_error),
            unborrowed: between(left.unborrowed, right.unborrowed),
        })
    }
}

/// The code of a phase by name, with its share of the instructions in all `blocks`: that of the 16 in which most are.
pub(crate) fn named_code(
    mut blocks: Vec<(u64, f64)>,
    mut locate: impl FnMut(u64) -> Option<String>,
) -> Vec<(String, f64)> {
    let total = blocks.iter().map(|&(_, n)| n).sum::<f64>().max(1.0);
    blocks.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut code: Vec<(String, f64)> = Vec::new();
    for (block, n) in blocks.into_iter().take(16) {
        let (name, share) = (locate(block).unwrap_or_else(|| format!("{block:#x}")), n / total);
        match code.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known += share,
            None => code.push((name, share)),
        }
    }
    code.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    code
}

/// Clusters of a run that are transitions between its phases: `windows` are the thread and the phase of each.
pub(crate) fn transitions_of<T: Ord>(
    windows: impl Iterator<Item = (T, PhaseId)>,
    centres: &BTreeMap<PhaseId, Vec<f64>>,
) -> BTreeMap<PhaseId, Transition<PhaseId>> {
    let mut threads: BTreeMap<T, Vec<PhaseId>> = BTreeMap::new();
    for (thread, phase) in windows {
        threads.entry(thread).or_default().push(phase);
    }
    let threads: Vec<&[PhaseId]> = threads.values().map(Vec::as_slice).collect();
    transitions(&threads, centres, TransitionConfig::default()).unwrap_or_default()
}

/// Pictures end where nothing happens any more, an octave later, but show the first two levels of cache.
fn shown(curves: &RunCurves, line_size: LineSize, caches: &DataCaches) -> usize {
    let sizes = &curves.sizes;
    let Some(last) = curves.informative().checked_sub(1).and_then(|k| sizes.get(k)) else {
        return sizes.len();
    };
    let second = caches.levels.iter().take(2).map(|level| 2 * level.bytes).max().unwrap_or(0);
    let until = (2 * last.bytes(line_size)).max(second);
    sizes.partition_point(|size| size.bytes(line_size) <= until).max(1)
}

/// 0 is `A`, 25 is `Z`, 26 is `AA`.
pub(crate) fn letters(mut rank: usize) -> String {
    let mut name = Vec::new();
    loop {
        name.push(char::from(b'A' + (rank % 26) as u8));
        if rank < 26 {
            break;
        }
        rank = rank / 26 - 1;
    }
    name.iter().rev().collect()
}

/// The rank of a name of letters; `None` if it has anything else.
pub(crate) fn rank(name: &str) -> Option<u64> {
    let add = |sum: u64, letter: u8| {
        letter.is_ascii_uppercase().then(|| sum.checked_mul(26)?.checked_add(u64::from(letter - b'A') + 1))?
    };
    name.bytes().try_fold(0, add)?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::{letters, rank};

    #[test]
    fn phases_are_lettered_as_columns_of_a_spreadsheet() {
        assert_eq!(
            [0, 1, 25, 26, 51, 52, 701, 702].map(letters),
            ["A", "B", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]
        );
        assert!((0..1000).all(|number| rank(&letters(number)) == Some(number as u64)));
        assert_eq!(["", "a", "A1", "ZZZZZZZZZZZZZZZ"].map(rank), [None; 4]);
    }
}
