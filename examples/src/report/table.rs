//! The table of phases, as text.

use super::{PhaseView, Subject, bytes, count, percent};
use crate::guided::PhaseCurve;

/// One paragraph about the run.
#[must_use]
pub fn summary(subject: &Subject<'_>) -> String {
    let run = subject.run;
    let (right, predicted) = run.predictions;
    let threads = run.windows.iter().map(|w| w.thread).collect::<std::collections::BTreeSet<_>>().len();
    let mut text = format!(
        "{}{}\n{} instructions and {} memory accesses in {} windows of {} thread{}; {} phases.\n\
         {} windows profiled ({}), {} samples",
        subject.program,
        if run.incomplete { "  (interrupted: incomplete)" } else { "" },
        count(run.instructions()),
        count(run.accesses()),
        run.windows.len(),
        threads,
        if threads == 1 { "" } else { "s" },
        subject.phases.len(),
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

/// A row per phase and one for the average: share of the windows, hottest code, miss ratio at the sizes of the
/// machine's caches. Phases beyond the `most`th are added up in one row.
#[must_use]
pub fn phase_table(subject: &Subject<'_>, most: usize) -> String {
    let mut rows = vec![header(subject)];
    let shown = &subject.phases[..subject.phases.len().min(most)];
    rows.extend(shown.iter().map(|view| row(subject, view)));
    if subject.phases.len() > most {
        let rest = &subject.phases[most..];
        let share: f64 = rest.iter().map(|view| view.share).sum();
        let windows: u64 = rest.iter().map(|view| view.record.windows).sum();
        let profiled: u64 = rest.iter().map(|view| view.record.profiled).sum();
        let mut cells =
            vec![format!("{} more", rest.len()), percent(share), windows.to_string(), profiled.to_string()];
        cells.resize(rows[0].len() - 1, String::new());
        cells.push(String::new());
        rows.push(cells);
    }
    let mut average = vec![
        "all".to_owned(),
        percent(1.0),
        subject.run.windows.len().to_string(),
        subject.run.profiled().to_string(),
    ];
    average.extend(miss_ratios(subject, Some(&subject.curves.average)));
    average.push(String::new());
    rows.push(average);
    let mut text = align(&rows);
    if !subject.caches.measured {
        text += "(cache sizes assumed: this machine does not tell its own)\n";
    }
    if shown.iter().any(|view| view.borrowed_from.is_some()) {
        text += "(* never profiled: the miss ratios are those of the phase with the most similar code)\n";
    }
    text
}

fn header(subject: &Subject<'_>) -> Vec<String> {
    let mut cells: Vec<String> = ["phase", "share", "windows", "profiled"].map(str::to_owned).into();
    cells.extend(subject.caches.levels.iter().map(|level| format!("{} {}", level.name, bytes(level.bytes))));
    cells.push("hottest code".to_owned());
    cells
}

fn row(subject: &Subject<'_>, view: &PhaseView<'_>) -> Vec<String> {
    let star = if view.borrowed_from.is_some() { "*" } else { "" };
    let mut cells = vec![
        view.name.clone() + star,
        percent(view.share),
        view.record.windows.to_string(),
        view.record.profiled.to_string(),
    ];
    cells.extend(miss_ratios(subject, view.curve));
    cells.push(
        view.location.as_ref().map_or(String::new(), |(name, share)| format!("{name} ({})", percent(*share))),
    );
    cells
}

/// The miss ratio at each cache level; as a range where unresolved samples or the choice of windows leave more than half
/// a point of doubt.
fn miss_ratios(subject: &Subject<'_>, curve: Option<&PhaseCurve>) -> Vec<String> {
    let cell = |bytes: u64| {
        let point = curve.and_then(|curve| subject.at(curve, bytes))?;
        let (low, high) = (point.lowest(), point.highest());
        Some(if high - low > 0.005 {
            format!("{}..{}", percent(low).trim_end_matches(" %"), percent(high))
        } else {
            percent(point.miss_ratio)
        })
    };
    subject.caches.levels.iter().map(|level| cell(level.bytes).unwrap_or("-".to_owned())).collect()
}

/// Columns as wide as their widest cell; numbers to the right, the first and the last column to the left.
#[must_use]
pub fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(c, cell)| {
            let pad = " ".repeat(widths[c] - cell.chars().count());
            if c == 0 || c == columns - 1 { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}
