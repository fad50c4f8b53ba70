//! `report.html`: one file that needs nothing else.

use super::pictures::{Pictures, colour};
use super::report::Report;
use crate::report::{STYLE, count, escape, percent};

/// The page.
pub fn page(report: &Report<'_>, pictures: &Pictures) -> String {
    let title = escape(&report.ended.name);
    let state = if report.ended.incomplete {
        "<p class=\"incomplete\">The run was interrupted: this is what it had shown until then.</p>"
    } else {
        ""
    };
    let notes: String = report.notes.iter().map(|note| format!("<p>Note: {}</p>", escape(note))).collect();
    let sentence = escape(&report.sentence());
    let Pictures { bar, similarity, projection } = pictures;
    let (tiles, table) = (tiles(report), table(report));
    format!(
        r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Phases: {title}</title><style>
{STYLE}
figure svg {{ border: 1px solid var(--line); border-radius: 8px; }}</style></head><body><main>
<h1>Phases of <code>{title}</code></h1>
<p>{sentence}</p>
{state}{notes}
<div class="tiles">{tiles}</div>
<h2>Phases over time</h2>
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
<div class="scroll">{table}</div>
</main></body></html>
"#
    )
}

fn tiles(report: &Report<'_>) -> String {
    let found = report.found;
    let mut tiles = vec![
        (found.told.len().to_string(), "windows"),
        (found.phases.len().to_string(), "phases"),
        (report.coverage(0.9).to_string(), "phases hold 90 % of the windows"),
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
    tiles
        .iter()
        .map(|(value, label)| format!("<div class=\"tile\"><b>{value}</b><span>{label}</span></div>"))
        .collect()
}

fn table(report: &Report<'_>) -> String {
    let mut rows = String::new();
    for (rank, (phase, known)) in report.ranked().into_iter().enumerate() {
        let code = report.locations.get(&phase).map_or(String::new(), |(name, share)| {
            format!("{} <small>{}</small>", escape(name), percent(*share))
        });
        rows += &format!(
            "<tr><td class=\"left\"><span class=\"swatch\" style=\"background:{}\"></span>{phase}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td class=\"left code\">{code}</td></tr>",
            colour(rank),
            known.windows,
            percent(report.share(known)),
            known.first_window,
        );
    }
    format!(
        "<table><thead><tr><th class=\"left\">phase</th><th>windows</th><th>share</th><th>first window</th>\
         <th class=\"left\">hottest code, share of the phase's instructions</th></tr></thead><tbody>{rows}</tbody></table>"
    )
}
