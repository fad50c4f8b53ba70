//! A run with its curves, its phases in the order people want to see them, and their names.

use phase_detect::PhaseId;
use reuse_sampler::LineSize;

use super::ProcessRow;
use crate::guided::{CurvePoint, GuidedRun, PhaseCurve, PhaseRecord, RunCurves};
use crate::machines::host::DataCaches;

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
    /// The phases, the one with most accesses first.
    pub phases: Vec<PhaseView<'a>>,
    /// How many of the curves' sizes, from the smallest on, pictures show.
    pub shown: usize,
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
    /// Its share of the windows, from 0 to 1.
    pub share: f64,
    /// Its hottest code, named as well as can be, with the code's share of the phase's instructions.
    pub location: Option<(String, f64)>,
    /// Its miss ratio over size, its own or another's.
    pub curve: Option<&'a PhaseCurve>,
    /// Name of the phase that lent its profile.
    pub borrowed_from: Option<String>,
}

impl<'a> Subject<'a> {
    /// Puts a report's matter in order. `locate` names the code at an address.
    #[must_use]
    pub fn new(
        program: String,
        model: String,
        run: &'a GuidedRun,
        curves: &'a RunCurves,
        caches: &'a DataCaches,
        mut locate: impl FnMut(u64) -> Option<String>,
    ) -> Self {
        let mut weights = vec![0.0; run.phases.len()];
        for window in &run.windows {
            weights[window.phase.index()] += run.weight(window);
        }
        let mut order: Vec<&PhaseRecord> = run.phases.iter().filter(|p| p.windows > 0).collect();
        order.sort_by(|a, b| {
            weights[b.phase.index()].total_cmp(&weights[a.phase.index()]).then(a.phase.cmp(&b.phase))
        });
        let name_of = |phase: PhaseId| order.iter().position(|p| p.phase == phase).map(letters);
        let phases = order
            .iter()
            .enumerate()
            .map(|(rank, &record)| PhaseView {
                name: letters(rank),
                record,
                share: record.windows as f64 / run.windows.len().max(1) as f64,
                location: record
                    .hottest_block()
                    .map(|(address, share)| (locate(address).unwrap_or(format!("{address:#x}")), share)),
                curve: curves.phases.get(&record.phase),
                borrowed_from: record.stand_in.and_then(name_of),
            })
            .collect();
        let shown = shown(curves, run.line_size, caches);
        let (processes, notes) = (Vec::new(), Vec::new());
        Self { program, model, run, curves, caches, phases, shown, operands: None, processes, notes }
    }

    /// Position in [`phases`](Self::phases) of a phase of the run.
    #[must_use]
    pub fn rank(&self, phase: PhaseId) -> Option<usize> {
        self.phases.iter().position(|view| view.record.phase == phase)
    }

    /// The point of a curve at `bytes`, where the curve has that size or one beside it; interpolated over the
    /// logarithm of the size.
    #[must_use]
    pub fn at(&self, curve: &PhaseCurve, bytes: u64) -> Option<CurvePoint> {
        let lines = bytes as f64 / f64::from(self.run.line_size.bytes());
        let sizes = &self.curves.sizes;
        let after = sizes.partition_point(|size| (size.0 as f64) < lines);
        let right = curve.points.get(after)?;
        if sizes[after].0 as f64 == lines {
            return Some(*right);
        }
        let left = curve.points.get(after.checked_sub(1)?)?;
        let (from, to) = ((sizes[after - 1].0 as f64).log2(), (sizes[after].0 as f64).log2());
        let t = (lines.log2() - from) / (to - from);
        let mix = |a: f64, b: f64| a + t * (b - a);
        Some(CurvePoint {
            miss_ratio: mix(left.miss_ratio, right.miss_ratio),
            low: mix(left.low, right.low),
            high: mix(left.high, right.high),
            interval: left
                .interval
                .zip(right.interval)
                .map(|(left, right)| (mix(left.0, right.0), mix(left.1, right.1))),
        })
    }
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

#[cfg(test)]
mod tests {
    use super::letters;

    #[test]
    fn phases_are_lettered_as_columns_of_a_spreadsheet() {
        assert_eq!(
            [0, 1, 25, 26, 51, 52, 701, 702].map(letters),
            ["A", "B", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]
        );
    }
}
