//! `report.html`: one file that needs nothing else.

use super::pictures::Pictures;
use super::report::Report;
use crate::report::{STYLE, count, escape, percent};

/// The page.
pub fn page(report: &Report<'_>, pictures: &Pictures) -> String {
    let title = escape(&report.ended.name);
    let state = if report.ended.incomplete {
        "<p class=\"incomplete\">The run was observed in part: this is what it had shown until then.</p>"
    } else {
        ""
    };
    let notes: String = report.notes.iter().map(|note| format!("<p>Note: {}</p>", escape(note))).collect();
    let sentence = escape(&report.sentence());
    let Pictures { bar, similarity, projection } = pictures;
    let (tiles, table) = (tiles(report), report.table().html());
    format!(
        r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Phases: {title}</title><style>
{STYLE}
figure svg {{ border: 1px solid var(--line); border-radius: 8px; }}</style></head><body><main>
<h1>Phases of <code>{title}</code></h1>
<p>{sentence}</p>
{state}{notes}
{tiles}<h2>Phases over time</h2>
<p>Time runs to the right. A colour is a phase; those with fewest windows share the grey.</p>
<figure>{bar}</figure>
<h2>Every window against every other</h2>
<p>Time runs along the diagonal. The darker a point, the more alike are the windows of its row and its column: a phase
shows as a dark triangle on the diagonal, its return as a dark rectangle beside it. The phases found are above.</p>
<figure>{similarity}</figure>
<h2>The windows on a plane</h2>
<p>Signatures projected at random to two dimensions. Clouds of one colour are phases; clouds that overlap here may still
lie apart in the directions that are not shown.</p>
<figure>{projection}</figure>
<h2>Phases</h2>
{table}</main></body></html>
"#
    )
}

fn tiles(report: &Report<'_>) -> String {
    let found = report.found;
    let mut tiles = vec![
        (found.labelled.len().to_string(), "windows"),
        (report.settled().0.to_string(), "phases"),
        (report.coverage(0.9).to_string(), "phases hold 90 % of the windows outside transitions"),
        (format!("{:.1}", report.mean_run()), "windows in a row"),
    ];
    if found.instructions > 0 {
        tiles.push((count(found.instructions), "instructions"));
    }
    if found.threads > 1 {
        tiles.push((found.threads.to_string(), "threads"));
    }
    if let Some(right) = found.score.accuracy() {
        tiles.push((percent(right), "predicted right"));
    }
    if let Some(right) = found.score.change_accuracy() {
        tiles.push((percent(right), "of changes foreseen"));
    }
    crate::report::tiles(&tiles)
}
