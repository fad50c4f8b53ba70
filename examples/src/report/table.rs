//! The table of phases.

use super::{Cell, PhaseView, Subject, Table, bytes, count, percent};
use crate::guided::PhaseCurve;
use crate::target::Scope;

/// One paragraph about the run.
pub fn summary(subject: &Subject<'_>) -> String {
    let run = subject.run;
    let (right, predicted) = run.predictions;
    let threads = match run.threads() {
        _ if subject.scope == Scope::Shared => "all threads together".to_owned(),
        1 => "1 thread".to_owned(),
        several => format!("{several} threads"),
    };
    let mut text = format!(
        "{}{}\n{} instructions and {} memory accesses in {} windows of {}; {} phases.\n\
         {} windows profiled ({}), {} samples",
        subject.program,
        if run.incomplete { "  (incomplete: observed in part)" } else { "" },
        count(run.instructions()),
        count(run.accesses()),
        run.windows.len(),
        threads,
        subject.settled().len(),
        run.profiled(),
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

/// Phases listed one by one at most, and the share of the windows after which the others are folded.
const ROWS: usize = 10;
const ENOUGH: f64 = 0.9;

/// The phases as people see them first, and what is folded there.
#[derive(Clone, Debug)]
pub struct PhaseTable {
    /// At most ten phases, the other phases in one row, transitions in another, and what the caller adds.
    pub shown: Table,
    /// The folded rows, with a line that names them.
    pub folded: Vec<(String, Table)>,
}

impl PhaseTable {
    /// Folds a table whose rows are phases, the largest first, the last `transitions` of them transitions. The first column
    /// names the phase, the next `additive` ones are counts and shares, `share` the one with the share of the windows.
    pub fn new(mut shown: Table, transitions: usize, additive: usize, share: usize) -> Self {
        let settled = shown.rows.len() - transitions;
        let mut folded = Vec::new();
        let in_transition = shown.fold(settled, |_| "transitions".to_owned(), additive);
        let last = in_transition.is_some().then(|| shown.rows.pop()).flatten();
        let share_of = |row: &Vec<Cell>| if let Cell::Share(share) = row[share] { share } else { 0.0 };
        let mut covered = 0.0;
        let enough = shown.rows.iter().position(|row| {
            covered += share_of(row);
            covered >= ENOUGH - 1e-9
        });
        let listed = enough.map_or(ROWS, |at| at + 1).min(ROWS);
        // a single row is listed rather than folded
        let listed = if listed + 1 == settled && listed < ROWS { settled } else { listed };
        if let Some(table) = shown.fold(listed, |n| format!("{n} others"), additive) {
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

/// A row per phase and one for the average: share of the windows, code that sets it apart, miss ratio at the sizes of the
/// machine's caches.
pub fn phase_table(subject: &Subject<'_>) -> PhaseTable {
    let levels = subject.caches.levels.iter().map(|level| format!("{} {}", level.name, bytes(level.bytes)));
    let mut table = Table::bare(&["phase", "share", "windows", "profiled"]);
    table.columns.extend(levels);
    table.columns.push("code that sets it apart".to_owned());
    table.rows = subject.phases.iter().enumerate().map(|(rank, view)| row(subject, rank, view)).collect();
    let mut folded = PhaseTable::new(table, subject.transitions(), 3, 1);
    let mut average =
        vec!["all".into(), Cell::Share(1.0), subject.run.windows.len().into(), subject.run.profiled().into()];
    average.extend(miss_ratios(subject, Some(&subject.curves.average)));
    average.push("".into());
    folded.shown.rows.push(average);
    folded
}

fn plural(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
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
    text
}

fn row(subject: &Subject<'_>, rank: usize, view: &PhaseView<'_>) -> Vec<Cell> {
    let star = if view.borrowed_from.is_some() { "*" } else { "" };
    let mut cells = vec![
        Cell::Key(view.name.clone() + star, rank),
        Cell::Share(view.share),
        Cell::Count(view.record.windows),
        Cell::Count(view.record.profiled),
    ];
    cells.extend(miss_ratios(subject, view.curve));
    let code = match (&view.mixture, &view.distinct) {
        (Some((a, b)), _) => format!("between {a} and {b}"),
        (None, Some(code)) => code.to_string(),
        (None, None) => String::new(),
    };
    cells.push(Cell::Text(code));
    cells
}

/// The miss ratio at each cache level; as a range where unresolved samples or the choice of windows leave more than half
/// a point of doubt.
fn miss_ratios(subject: &Subject<'_>, curve: Option<&PhaseCurve>) -> Vec<Cell> {
    let cell = |bytes: u64| {
        let Some(point) = curve.and_then(|curve| subject.at(curve, bytes)) else { return Cell::None };
        let (low, high) = (point.lowest(), point.highest());
        if high - low > 0.005 { Cell::Shares(low, high) } else { Cell::Share(point.miss_ratio) }
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
            PhaseTable::new(table, 1, 1, 1)
        };
        let starred = |names| [table(names).starred(false), table(names).starred(true)];
        assert_eq!(starred(["A", "B", "C", "D"]), [false, false]);
        assert_eq!(starred(["A*", "B", "C", "D"]), [true, true]);
        assert_eq!(starred(["A", "B", "C*", "D"]), [false, true]); // among two others
        assert_eq!(starred(["A", "B", "C", "D*"]), [false, true]); // a transition
    }
}
