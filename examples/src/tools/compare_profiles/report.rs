//! The comparison as a table and as JSON.

use std::io::{self, Write};

use serde_json::json;

use super::change::{Change, LevelChange, PhaseChange, Verdict};
use crate::report::{Table, bytes, percent};

/// Phases shown; the others have less of the run.
const ROWS: usize = 12;
/// A share of instructions that may matter to miss ratios in points.
const WORTH_SAYING: f64 = 0.01;

pub(super) fn json(change: &Change, names: &(String, String), out: &mut dyn Write) -> io::Result<()> {
    let object = json!({
        "before": names.0, "after": names.1, "verdict": change.verdict(), "comparison": change,
    });
    writeln!(out, "{object}")
}

pub(super) fn table(change: &Change, names: &(String, String), out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "before: {}\nafter:  {}", names.0, names.1)?;
    if change.incomplete {
        writeln!(out, "Incomplete: a run was interrupted, and is compared as far as it went.")?;
    }
    let relative =
        |value: Option<f64>| value.map_or("not known".to_owned(), |v| format!("{:+.2} %", 100.0 * v));
    writeln!(
        out,
        "instructions {}, accesses {}\n",
        relative(change.instructions),
        relative(change.accesses)
    )?;
    let mut rows =
        vec![["cache", "miss ratio before", "after", "change", "misses", ""].map(str::to_owned).to_vec()];
    rows.extend(change.levels.iter().map(|level| {
        let size = bytes(level.bytes);
        let name = if level.level == size { size } else { format!("{} {size}", level.level) };
        let value = |figure: super::change::Figure| percent(figure.value);
        let misses = level.misses.map_or_else(String::new, |misses| relative(Some(misses)));
        let (before, after) = (value(level.before), value(level.after));
        vec![name, before, after, difference(level), misses, said(level.verdict).to_owned()]
    }));
    write!(out, "{}", Table::from(rows).text())?;

    writeln!(out, "\nPhases of the first run of each side, matched by their code:")?;
    let head = ["before", "after", "share before", "after"].into_iter().map(str::to_owned);
    let levels = change.levels.iter().map(|level| level.level.clone());
    let mut rows: Vec<Vec<String>> = vec![head.chain(levels).chain(["code".to_owned()]).collect()];
    rows.extend(change.phases.iter().take(ROWS).map(|phase| row(phase, change.levels.len())));
    write!(out, "{}", Table::from(rows).text())?;
    if let Some(more) = change.phases.len().checked_sub(ROWS).filter(|&more| more > 0) {
        writeln!(out, "and {more} with less of the run")?;
    }
    let verdict = match change.verdict() {
        Verdict::Better => "Better: fewer misses where they changed.",
        Verdict::Worse => "Worse: more misses in at least one cache.",
        Verdict::None => "No difference beyond what the runs leave open.",
    };
    writeln!(out, "\n{verdict}")?;
    let (before, after) = change.borrowed;
    if before.max(after) > WORTH_SAYING {
        writeln!(
            out,
            "Of the instructions {} before and {} after are in phases that were never profiled: the miss ratio of another \
             phase stands in there, and the margins do not cover that. Record with shorter windows to be sure.",
            percent(before),
            percent(after)
        )?;
    }
    let points = 100.0 * change.tolerance;
    if change.runs.0.min(change.runs.1) < 2 {
        writeln!(
            out,
            "Changes below {points} points do not count: give several runs of both versions, separated by commas, to see \
             smaller ones."
        )?;
    }
    Ok(())
}

fn row(phase: &PhaseChange, levels: usize) -> Vec<String> {
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    let mut row =
        vec![name(&phase.before), name(&phase.after), percent(phase.share.0), percent(phase.share.1)];
    row.extend((0..levels).map(|level| phase.levels.get(level).map_or_else(String::new, difference)));
    row.push(phase.code.clone().unwrap_or_default());
    row
}

/// In points, with what is left open.
fn difference(level: &LevelChange) -> String {
    format!("{:+.2} +-{:.2}", 100.0 * level.change.value, 100.0 * level.change.margin)
}

fn said(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "WORSE",
        Verdict::None => "",
    }
}
