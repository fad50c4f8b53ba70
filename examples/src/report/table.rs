//! The table of phases.

use std::collections::BTreeMap;

use phase_detect::PhaseId;
use phase_detect::metrics::{CodeTotals, distinct_code, families};

use super::{Cell, DistinctView, PhaseView, Subject, TITLE, Table, bytes, count, percent, plural, shortened};
use crate::guided::PhaseCurve;
use crate::target::Scope;

/// One paragraph about the run.
pub fn summary(subject: &Subject<'_>) -> String {
    let run = subject.run;
    let (right, predicted) = run.predictions;
    let threads = match subject.scope {
        Scope::Shared => "all threads together".to_owned(),
        Scope::Private => {
            let threads = plural(run.threads(), "thread", "threads");
            match subject.processes.len() {
                0 | 1 => threads,
                processes => format!("{threads} in {processes} processes"),
            }
        }
    };
    let mut text = format!(
        "{}{}\n{} instructions and {} memory accesses in {} of {}; {}.\n\
         {} profiled ({}), {} samples",
        shortened(&subject.program, TITLE),
        if run.incomplete { "  (incomplete: observed in part)" } else { "" },
        count(run.instructions()),
        count(run.accesses()),
        plural(run.windows.len(), "window", "windows"),
        threads,
        plural(subject.settled().len(), "phase", "phases"),
        plural(run.profiled(), "window", "windows"),
        percent(run.profiled() as f64 / run.windows.len().max(1) as f64),
        count(run.phases.iter().map(|p| p.profile.samples()).sum()),
    );
    if predicted > 0 {
        text += &format!("; {} of the phases predicted right", percent(right as f64 / predicted as f64));
    }
    text.push('.');
    for note in &subject.notes {
        text += &format!("\nnote: {note}");
    }
    text
}

/// Rows of phases at most, and the share of the run from which on the others are folded.
const ROWS: usize = 10;
const ENOUGH: f64 = 0.9;

/// What one row of a table of phases speaks for.
#[derive(Clone, Debug)]
pub struct Row {
    /// Positions of its phases among those that are no transitions.
    pub phases: Vec<usize>,
    /// The code that sets it apart from the other rows, where there are several phases.
    pub distinct: Option<DistinctView>,
}

impl Row {
    /// That code, as a cell.
    pub fn code(&self) -> Cell {
        Cell::Text(self.distinct.as_ref().map_or_else(String::new, ToString::to_string))
    }
}

/// The rows for these phases, given with their instructions: one each, the first ones first, or several in a row if their code is
/// similar, where ten phases do not hold nine tenths of the run. `blocks` gives the code of a phase, by its position.
pub fn rows_of(
    phases: &[(PhaseId, u64)],
    centres: &BTreeMap<PhaseId, Vec<f64>>,
    blocks: impl Fn(usize) -> Vec<(u64, f64)>,
    mut locate: impl FnMut(u64) -> Option<String>,
) -> Vec<Row> {
    let sizes: Vec<(usize, f64)> = phases.iter().map(|phase| phase.1 as f64).enumerate().collect();
    let known =
        phases.iter().enumerate().filter_map(|(at, phase)| Some((at, centres.get(&phase.0)?.clone())));
    let grouped = families(&sizes, &known.collect(), ROWS, ENOUGH).unwrap_or_default();
    if grouped.len() == phases.len() {
        return (0..phases.len()).map(|at| Row { phases: vec![at], distinct: None }).collect();
    }
    let code = |family: &Vec<usize>| {
        let mut sums = CodeTotals::default();
        sums.extend(family.iter().flat_map(|&at| blocks(at)));
        sums.blocks()
    };
    let distinct = distinct_code(&grouped.iter().map(code).enumerate().collect::<Vec<_>>(), 1);
    let row = |(at, phases): (usize, Vec<usize>)| {
        let code = distinct.get(&at).and_then(|codes| codes.first()).filter(|_| phases.len() > 1);
        Row { phases, distinct: code.map(|code| DistinctView::new(code, &mut locate)) }
    };
    grouped.into_iter().enumerate().map(row).collect()
}

/// The phases as people see them first, and what is folded there.
#[derive(Clone, Debug)]
pub struct PhaseTable {
    /// At most ten rows of phases, the other phases in one row, transitions in another, and what the caller adds.
    pub shown: Table,
    /// The folded rows, with a line that names them.
    pub folded: Vec<(String, Table)>,
}

impl PhaseTable {
    /// Folds a table whose rows are phases, the largest first, the last `transitions` of them transitions. The first column
    /// names the phase, the next `additive` ones are counts and shares, `share` the one with the share of the run.
    /// `together` are the rows that the phases are shown in; `rest` gives the further cells of one of several phases.
    pub fn new(
        mut shown: Table,
        transitions: usize,
        (additive, share): (usize, usize),
        together: &[Row],
        rest: impl Fn(&Row) -> Vec<Cell>,
    ) -> Self {
        let mut folded = Vec::new();
        let settled = shown.rows.len() - transitions;
        let in_transition = shown.fold(settled, |_| "transitions".to_owned(), additive);
        let last = in_transition.is_some().then(|| shown.rows.pop()).flatten();
        let phases = std::mem::take(&mut shown.rows);
        for row in together {
            let rows: Vec<Vec<Cell>> = row.phases.iter().filter_map(|&at| phases.get(at).cloned()).collect();
            if rows.len() < 2 {
                shown.rows.extend(rows);
                continue;
            }
            let mut cells = vec![rows[0][0].and_more(rows.len() - 1)];
            cells.extend((1..=additive).map(|at| Cell::sum(rows.iter().map(|row| &row[at]))));
            cells.extend(rest(row));
            folded.push((
                format!("{}: {} phases with similar code", cells[0].shown(), rows.len()),
                Table { columns: shown.columns.clone(), rows, ..Table::default() },
            ));
            shown.rows.push(cells);
        }
        if !folded.is_empty() {
            shown.note = "A row such as A +3 is phase A and three others with similar code.".into();
        }
        let share_of = |row: &Vec<Cell>| if let Cell::Share(share) = row[share] { share } else { 0.0 };
        let mut covered = 0.0;
        let enough = shown.rows.iter().position(|row| {
            covered += share_of(row);
            covered >= ENOUGH - 1e-9
        });
        let rows = shown.rows.len();
        let listed = enough.map_or(ROWS, |at| at + 1).min(ROWS);
        // a single row is listed rather than folded
        let listed = if listed + 1 == rows && listed < ROWS { rows } else { listed };
        if let Some(table) = shown.fold(listed, |n| plural(n, "other", "others"), additive) {
            folded.push((plural(table.rows.len(), "other phase", "other phases"), table));
        }
        if let Some(table) = in_transition {
            let name = plural(table.rows.len(), "cluster", "clusters") + " in transition between phases";
            folded.push((name, table));
        }
        shown.rows.extend(last);
        Self { shown, folded }
    }

    /// As a part of a page; what is folded opens there.
    pub fn html(&self) -> String {
        let folded: String = self.folded.iter().map(|(name, table)| table.details(name)).collect();
        self.shown.html() + &folded
    }

    /// Whether a row has a star: a shown one, or also a folded one.
    pub fn starred(&self, or_folded: bool) -> bool {
        let star = |cell: &Cell| matches!(cell, Cell::Key(name, _) if name.ends_with('*'));
        let has = |table: &Table| table.rows.iter().any(|row| star(&row[0]));
        has(&self.shown) || or_folded && self.folded.iter().any(|(_, table)| has(table))
    }
}

/// A row per phase and one for the average: share of the instructions, code that sets it apart, miss ratio at the sizes of the
/// machine's caches.
pub fn phase_table(subject: &Subject<'_>) -> PhaseTable {
    let levels = subject.caches.levels.iter().map(|level| format!("{} {}", level.name, bytes(level.bytes)));
    let mut table = Table::bare(&["phase", "share", "windows", "profiled"]);
    table.columns.extend(levels);
    table.columns.push("code that sets it apart".to_owned());
    table.rows = subject.phases.iter().enumerate().map(|(rank, view)| row(subject, rank, view)).collect();
    let mut folded = PhaseTable::new(table, subject.transitions(), (3, 1), &subject.rows, |row| {
        let curves = row.phases.iter().map(|&at| (subject.phases[at].weight, subject.phases[at].curve));
        let mut cells = miss_ratios(subject, &curves.collect::<Vec<_>>());
        cells.push(row.code());
        cells
    });
    let mut average =
        vec!["all".into(), Cell::Share(1.0), subject.run.windows.len().into(), subject.run.profiled().into()];
    average.extend(miss_ratios(subject, &[(1.0, Some(&subject.curves.average))]));
    average.push("".into());
    folded.shown.rows.push(average);
    folded
}

/// What the reader of the table must know, in which a phase may be `starred`.
pub fn phase_table_notes(subject: &Subject<'_>, starred: bool) -> String {
    let mut text = String::new();
    if !subject.caches.measured {
        text += "(cache sizes assumed: this machine does not report its own)\n";
    }
    if starred {
        text += "(* never profiled: the miss ratios are those of the phase with the most similar code)\n";
    }
    if subject.curves.left_out >= 0.05 {
        text += &format!(
            "(the intervals leave out phases with {} of the accesses, of which one window of several was profiled)\n",
            percent(subject.curves.left_out)
        );
    }
    if subject.curves.unlike >= 0.005 {
        text += &format!(
            "({} of the accesses are in windows never profiled that make far more or fewer accesses per instruction\n \
             than those profiled in their place, as repeated string instructions do: --gap-limit 1 profiles all)\n",
            percent(subject.curves.unlike)
        );
    }
    let names = subject.phases.iter().filter_map(|phase| Some(&phase.distinct.as_ref()?.name));
    text + unnamed(names) + &first_touches(subject)
}

/// How code without a name gets one, if there is some among `names`.
pub fn unnamed<'a>(mut names: impl Iterator<Item = &'a String>) -> &'static str {
    if !names.any(|name| name.starts_with("0x")) {
        return "";
    }
    "(addresses alone are of code that was written while the program ran, and has names with node --perf-basic-prof\n \
     or java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit)\n"
}

/// Where first touches are a good part of the misses of the largest cache, phases are not to blame for them as they are shown.
fn first_touches(subject: &Subject<'_>) -> String {
    let phases = subject.phases.iter().filter(|phase| !phase.transition).count();
    let Some(level) = subject.caches.levels.last().filter(|_| phases > 1) else { return String::new() };
    let misses = subject.at(&subject.curves.average, level.bytes).map_or(0.0, |point| point.miss_ratio);
    let share = (subject.curves.first_touches / misses.max(f64::MIN_POSITIVE)).min(1.0);
    if misses < 0.0005 || share < 0.25 {
        return String::new();
    }
    format!(
        "(first touches of lines are {} of the misses in {} {}: they are counted in the phase that touches a\n \
         line last, not first)\n",
        percent(share),
        level.name,
        bytes(level.bytes)
    )
}

fn row(subject: &Subject<'_>, rank: usize, view: &PhaseView<'_>) -> Vec<Cell> {
    let star = if view.borrowed_from.is_some() { "*" } else { "" };
    let mut cells = vec![
        Cell::Key(view.name.clone() + star, rank),
        Cell::Share(view.share),
        Cell::Count(view.record.windows),
        Cell::Count(view.record.profiled),
    ];
    cells.extend(miss_ratios(subject, &[(1.0, view.curve)]));
    let code = match (&view.mixture, &view.distinct) {
        (Some((a, b)), _) => format!("between {a} and {b}"),
        (None, Some(code)) => code.to_string(),
        (None, None) => String::new(),
    };
    cells.push(Cell::Text(code));
    cells
}

/// The miss ratio at each cache level, averaged by the weights; as a range where unresolved samples or the choice of windows
/// leave more than half a point of doubt.
fn miss_ratios(subject: &Subject<'_>, curves: &[(f64, Option<&PhaseCurve>)]) -> Vec<Cell> {
    let cell = |bytes: u64| {
        let points = curves.iter().filter_map(|&(weight, curve)| Some((weight, subject.at(curve?, bytes)?)));
        let (mut all, mut sums) = (0.0, [0.0; 3]);
        for (weight, point) in points {
            all += weight;
            let values = [point.miss_ratio, point.lowest(), point.highest()];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
        }
        if all == 0.0 {
            return Cell::None;
        }
        let [miss_ratio, low, high] = sums.map(|sum| sum / all);
        if high - low > 0.005 { Cell::Shares(low, high) } else { Cell::Share(miss_ratio) }
    };
    subject.caches.levels.iter().map(|level| cell(level.bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_that_is_folded_away_is_not_in_sight() {
        let table = |names: [&str; 4]| {
            let mut table = Table::bare(&["phase", "share", "code"]);
            let shares = [0.95, 0.03, 0.01, 0.01];
            let row =
                |(name, share): (&str, f64)| vec![Cell::Key(name.into(), 0), Cell::Share(share), "f".into()];
            table.rows = names.into_iter().zip(shares).map(row).collect();
            let alone = |at| Row { phases: vec![at], distinct: None };
            PhaseTable::new(table, 1, (1, 1), &[0, 1, 2].map(alone), |_| Vec::new())
        };
        let starred = |names| [table(names).starred(false), table(names).starred(true)];
        assert_eq!(starred(["A", "B", "C", "D"]), [false, false]);
        assert_eq!(starred(["A*", "B", "C", "D"]), [true, true]);
        assert_eq!(starred(["A", "B", "C*", "D"]), [false, true]); // among two others
        assert_eq!(starred(["A", "B", "C", "D*"]), [false, true]); // a transition
    }

    #[test]
    fn code_of_no_file_is_said_to_have_names_elsewhere() {
        let note = |names: [&str; 2]| unnamed(names.map(str::to_owned).iter());
        assert_eq!(note(["f", "sort+0x7d"]), "");
        assert!(note(["f", "0x7d"]).contains("--perf-basic-prof"));
    }

    #[test]
    fn phases_with_similar_code_share_a_row_where_ten_do_not_hold_the_run() {
        // thirty phases of three kinds, each kind at a place of its own
        let phases: Vec<(PhaseId, u64)> = (0..30).map(|at| (PhaseId::new(at), 100 - u64::from(at))).collect();
        let centre = |at: u32| vec![f64::from(at % 3) + f64::from(at) * 0.001, 1.0];
        let centres = (0..30).map(|at| (PhaseId::new(at), centre(at))).collect();
        let blocks = |at: usize| vec![(at as u64 % 3, 3.0), (7, 1.0)];
        let rows = rows_of(&phases, &centres, blocks, |block| Some(format!("f{block}")));
        let of_one_kind = |row: &Row| row.phases.iter().all(|at| at % 3 == row.phases[0] % 3);
        assert!(rows.iter().all(of_one_kind), "{rows:?}");
        let windows: u64 = phases.iter().map(|phase| phase.1).sum();
        let mut table = Table::bare(&["phase", "windows", "share", "code"]);
        table.rows = phases
            .iter()
            .map(|&(phase, n)| {
                let share = n as f64 / windows as f64;
                vec![Cell::Key(phase.to_string(), 0), Cell::Count(n), Cell::Share(share), Cell::None]
            })
            .collect();
        let code = |row: &Row| vec![Cell::Text(row.distinct.as_ref().unwrap().name.clone())];
        let table = PhaseTable::new(table, 0, (2, 2), &rows, code);
        let share = |row: &Vec<Cell>| if let Cell::Share(share) = row[2] { share } else { 0.0 };
        assert!(table.shown.rows.iter().take(10).map(share).sum::<f64>() >= 0.9);
        assert!(table.shown.text().starts_with("A row such as A +3"));
        let (name, members) = &table.folded[0];
        let several = rows.iter().find(|row| row.phases.len() > 1).unwrap();
        assert_eq!(members.rows.len(), several.phases.len());
        let (first, others) = (several.phases[0], members.rows.len() - 1);
        assert_eq!(*name, format!("{first} +{others}: {} phases with similar code", members.rows.len()));
        let few = rows_of(&phases[..10], &BTreeMap::new(), blocks, |_| None);
        assert!(few.iter().enumerate().all(|(at, row)| row.phases == [at] && row.distinct.is_none()));
    }
}
