//! The comparison as a table, a page and JSON.

use std::io::{self, Write};

use serde_json::json;

use super::Run;
use super::change::{Change, PhaseChange, Terms, Verdict};
use super::estimate::Figure;
use crate::report::{HeatMap, Table, bytes, escape, percent};

/// Title of the page.
pub(super) const TITLE: &str = "Did the change help?";
const PHASES_OF: &str = "Phases of the first run of each side, matched by their code:";

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
    writeln!(out, "{}\n", totals(change).join("\n"))?;
    write!(out, "{}\n{PHASES_OF}\n{}", levels(change).text(), phases(change).text())?;
    writeln!(out, "\n{}", verdict(change))?;
    notes(change).iter().try_for_each(|note| writeln!(out, "{note}"))
}

/// The body of a page.
pub(super) fn page(
    change: &Change,
    names: &(String, String),
    runs: (&Run, &Run),
    terms: &Terms,
) -> Result<String, String> {
    let map = |run: &Run| HeatMap::stored(&run.profile, &run.curves, &terms.levels);
    let (mut before, mut after) = (map(runs.0), map(runs.1));
    before.share_scale(&mut after);
    let paragraphs =
        |lines: &[String]| lines.iter().map(|l| format!("<p>{}</p>\n", escape(l))).collect::<String>();
    let picture = |side, name: &str, map: &HeatMap| {
        let svg = map.draw()?;
        Ok::<_, String>(format!("<h2>{side}: <code>{}</code></h2>\n<figure>{svg}</figure>\n", escape(name)))
    };
    Ok(format!(
        "<p><strong>{}</strong></p>\n{}{}<p>{PHASES_OF}</p>\n{}{}<p>Miss ratio over time and cache size of the first \
         run of each side, in one scale: the darker, the more accesses miss. Dashed: the caches compared.</p>\n{}{}",
        escape(verdict(change)),
        paragraphs(&totals(change)),
        levels(change).html(),
        phases(change).html(),
        paragraphs(&notes(change)),
        picture("Before", &names.0, &before)?,
        picture("After", &names.1, &after)?,
    ))
}

fn relative(value: Option<f64>) -> String {
    value.map_or("not known".to_owned(), |v| format!("{:+.2} %", 100.0 * v))
}

/// In percent or points, with what is left open.
fn open(figure: Figure) -> String {
    format!("{:+.2} +-{:.2}", 100.0 * figure.value, 100.0 * figure.margin)
}

fn totals(change: &Change) -> Vec<String> {
    let mut lines = Vec::new();
    if change.incomplete {
        lines.push("Incomplete: a run was observed in part, and is compared as far as it went.".to_owned());
    }
    let instructions = change.instructions.zip(change.instructions_margin);
    let instructions = instructions.map_or_else(
        || relative(change.instructions),
        |(value, margin)| format!("{} %", open(Figure { value, margin })),
    );
    lines.push(format!("instructions {instructions}, accesses {}", relative(change.accesses)));
    if let Some(time) = change.time {
        let cycles: Vec<String> = change.latencies.iter().map(f64::to_string).collect();
        lines.push(format!(
            "predicted time {} %: 1 cycle an instruction, {} an access from the first cache to memory, in order",
            open(time.change),
            cycles.join(", ")
        ));
    }
    lines
}

fn levels(change: &Change) -> Table {
    let mut rows =
        vec![["cache", "miss ratio before", "after", "change", "misses", ""].map(str::to_owned).to_vec()];
    rows.extend(change.levels.iter().map(|level| {
        let size = bytes(level.bytes);
        let name = if level.level == size { size } else { format!("{} {size}", level.level) };
        let misses = level.misses.map_or_else(String::new, |misses| relative(Some(misses)));
        let (before, after) = (percent(level.before.value), percent(level.after.value));
        vec![name, before, after, open(level.change), misses, said(level.verdict).to_owned()]
    }));
    Table::from(rows)
}

fn phases(change: &Change) -> Table {
    let head = ["before", "after", "share before", "after"].into_iter().map(str::to_owned);
    let levels = change.levels.iter().map(|level| level.level.clone());
    let more = ["instructions", "time, %", "code"].map(str::to_owned);
    let mut rows: Vec<Vec<String>> = vec![head.chain(levels).chain(more).collect()];
    rows.extend(change.phases.iter().take(ROWS).map(|phase| row(phase, change.levels.len())));
    Table::from(rows)
}

fn verdict(change: &Change) -> &'static str {
    match change.verdict() {
        Verdict::Better => "Better: fewer misses where they changed.",
        Verdict::Worse => "Worse: more misses in at least one cache.",
        Verdict::None => "No difference beyond what the runs leave open.",
        Verdict::Unclear if change.strangers() => "Cannot tell: these are two programs.",
        Verdict::Unclear => "Cannot tell: these runs could hide a change of a point or more.",
    }
}

fn notes(change: &Change) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(more) = change.phases.len().checked_sub(ROWS).filter(|&more| more > 0) {
        notes.push(format!("{more} phases with less of the run are not shown."));
    }
    let (before, after) = change.matched();
    if change.strangers() {
        notes.push(format!(
            "Only {} of the instructions before and {} after are in code that both sides execute: the figures of the whole run \
             compare two programs, not a program with its change.",
            percent(before),
            percent(after)
        ));
    }
    for level in &change.levels {
        if let Some(seen_at) = level.seen_at {
            notes.push(format!(
                "At {} nothing is seen, at {} a change: a model may be wrong by as much as lies between.",
                bytes(level.bytes),
                bytes(seen_at)
            ));
        }
    }
    let (before, after) = change.borrowed;
    if before.max(after) > WORTH_SAYING {
        notes.push(format!(
            "Of the instructions {} before and {} after are in phases that were never profiled: the miss ratio of \
             another phase stands in there, and the intervals are wider for it. To narrow them, record with \
             --gap-limit 1 or with a shorter --window.",
            percent(before),
            percent(after)
        ));
    } else if change.levels.iter().any(|level| level.verdict == Verdict::Unclear && level.seen_at.is_none())
        && change.verdict() == Verdict::Unclear
        && !change.strangers()
    {
        notes.push("To narrow the intervals, compare more runs of both versions.".to_owned());
    }
    let points = 100.0 * change.tolerance;
    if change.runs.0.min(change.runs.1) < 2 {
        notes.push(format!(
            "Changes below {points} points do not count: give several runs of both versions, separated by commas, to \
             see smaller ones."
        ));
    }
    notes
}

fn row(phase: &PhaseChange, levels: usize) -> Vec<String> {
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    let mut row =
        vec![name(&phase.before), name(&phase.after), percent(phase.share.0), percent(phase.share.1)];
    row.extend(
        (0..levels).map(|level| phase.levels.get(level).map_or_else(String::new, |level| open(level.change))),
    );
    row.push(phase.instructions.map_or_else(String::new, |change| relative(Some(change))));
    row.push(phase.time.map_or_else(String::new, |time| open(time.change)));
    row.push(phase.code.clone().unwrap_or_default());
    row
}

fn said(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "WORSE",
        Verdict::None => "",
        Verdict::Unclear => "unclear",
    }
}
