//! `report.html`: one file that needs nothing else.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Subject, count, percent, phase_table, phase_table_notes};
use crate::guided::CurvePoint;
use reuse_sampler::AccessCount;

/// The style that all pages share.
pub const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Writes the page.
///
/// # Errors
/// What the writer answers.
pub fn write_page(subject: &Subject<'_>, mut out: impl Write) -> io::Result<()> {
    let title = escape(&subject.program);
    // A `<` inside the data could end the script element; JSON has another way to write it.
    let data = data(subject).to_string().replace('<', "\\u003c");
    let state = if subject.run.incomplete {
        "<p class=\"incomplete\">The run was observed in part: this is what it had shown until then.</p>"
    } else {
        ""
    };
    let notes: String = subject.notes.iter().map(|note| format!("<p>Note: {}</p>", escape(note))).collect();
    let model = escape(&subject.model);
    let phases = phase_table(subject);
    let line = subject.run.line_size.bytes();
    write!(
        out,
        r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Phases and miss ratio: {title}</title><style>
{STYLE}</style></head><body><main>
<h1>Phases and cache miss ratio of <code>{title}</code></h1>
<p>Modelled for {model} caches of every size with {line}-byte lines, from reuse samples of a real run.</p>
{state}{notes}
{tiles}<h2>Miss ratio over time and cache size</h2>
<p>Time runs to the right; the bar on top shows which phase the program is in. The darker a point, the larger the
share of memory accesses that miss in a cache of that size at that moment. Dashed: this machine's caches{assumed}.</p>
<p><select id="thread" hidden aria-label="thread"></select></p>
<figure><div class="plot" id="heat"></div><div class="tip" id="heat-tip"></div></figure>
<div class="legend">miss ratio 0 %<span class="scale" id="scale"></span><span id="scale-top"></span></div>
<h2>Each phase over cache size</h2>
<p>Where a curve falls, the phase's data begins to fit. Shaded: what the samples leave open.</p>
<figure><div class="plot" id="curves"></div><div class="tip" id="curves-tip"></div></figure>
<div class="legend" id="curve-legend"></div>
<h2>Phases</h2>
{table}
{table_notes}<h2>How to read the numbers</h2>
<p>The run is cut into windows. Windows that execute the same code in the same proportions belong to one phase. Only
some windows of each phase are profiled (the small ticks below the picture): there, memory accesses are followed until
their cache line is touched again. All windows of a phase share the miss ratios modelled from its samples. A range
in the table means that some samples could not be followed to their end, or that the phase's windows differ so that it
matters which of them were profiled (95 % intervals, by redrawing the profiled windows): the truth lies between the two
numbers as far as the samples show. Of the model itself expect errors of a few tenths of a percentage point.</p>
<script type="application/json" id="data">{data}</script><script>
{SCRIPT}</script></main></body></html>
"#,
        tiles = tiles(subject),
        assumed = if subject.caches.measured { "" } else { " (sizes assumed)" },
        table = phases.html(),
        table_notes = phase_table_notes(subject, phases.starred(true))
            .lines()
            .map(|note| format!("<p>{}</p>\n", escape(note)))
            .collect::<String>(),
    )
}

fn tiles(subject: &Subject<'_>) -> String {
    let run = subject.run;
    let mut tiles = vec![
        (count(run.instructions()), "instructions"),
        (count(run.accesses()), "memory accesses"),
        (run.windows.len().to_string(), "windows"),
        (subject.settled().len().to_string(), "phases"),
        (percent(run.profiled() as f64 / run.windows.len().max(1) as f64), "of windows profiled"),
    ];
    if run.predictions.1 > 0 {
        tiles.push((percent(run.predictions.0 as f64 / run.predictions.1 as f64), "predicted right"));
    }
    if run.instructions() == 0 {
        tiles.remove(0);
    }
    super::tiles(&tiles)
}

fn data(subject: &Subject<'_>) -> Value {
    let run = subject.run;
    let rounded = |x: f64| (x * 1e6).round() / 1e6;
    let by_instructions = run.instructions() > 0;
    let phases: Vec<Value> = subject
        .phases
        .iter()
        .map(|view| {
            let column = |get: fn(&CurvePoint) -> f64| {
                view.curve.map(|curve| {
                    curve.points[..subject.shown].iter().map(|p| rounded(get(p))).collect::<Vec<_>>()
                })
            };
            json!({
                "name": view.name,
                "curve": column(|p| p.miss_ratio),
                "low": column(CurvePoint::lowest),
                "high": column(CurvePoint::highest),
            })
        })
        .collect();
    let mut threads: BTreeMap<u32, Columns> = BTreeMap::new();
    for window in &run.windows {
        let columns = threads.entry(window.thread.0).or_default();
        let accesses = window.accesses.get();
        columns.index.push(window.index.0);
        columns.length.push(if by_instructions { window.instructions } else { accesses.unwrap_or(0) });
        columns.accesses.push(accesses);
        columns.estimated.push(u8::from(matches!(window.accesses, AccessCount::Estimated(_))));
        columns.phase.push(subject.rank(window.phase));
        columns.profiled.push(u8::from(window.profiled));
    }
    let mut threads: Vec<(u32, Columns)> = threads.into_iter().collect();
    threads.sort_by_key(|(_, columns)| std::cmp::Reverse(columns.index.len()));
    json!({
        "by_instructions": by_instructions,
        "sizes": subject.curves.sizes[..subject.shown].iter().map(|size| size.bytes(run.line_size)).collect::<Vec<_>>(),
        "caches": subject.caches.levels.iter().map(|l| json!({"name": l.name, "bytes": l.bytes})).collect::<Vec<_>>(),
        "phases": phases,
        "average": subject.curves.average.points[..subject.shown].iter().map(|p| rounded(p.miss_ratio)).collect::<Vec<_>>(),
        "threads": threads.into_iter().map(|(id, windows)| json!({"id": id, "columns": windows})).collect::<Vec<_>>(),
    })
}

/// The windows of a thread: a list for each property, which takes a fifth of a list of objects.
#[derive(Default, Serialize)]
struct Columns {
    index: Vec<u64>,
    length: Vec<u64>,
    accesses: Vec<Option<u64>>,
    estimated: Vec<u8>,
    phase: Vec<Option<usize>>,
    profiled: Vec<u8>,
}

/// Text as it is written inside an element.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
