//! `report.html`: one file that needs nothing else.

use std::io::{self, Write};

use powersleuth::analysis::{Level, Quantity};

use super::figures::Pictures;
use super::report::Report;
use crate::report::{Cell, STYLE, count, escape, percent, quantity};

/// Pictures have a white ground, in the dark too.
const MORE_STYLE: &str = "figure svg { width: 100%; height: auto; border: 1px solid var(--line); border-radius: 8px; }\n\
    .modelled { border-left: 4px solid var(--mark); padding-left: 12px; color: var(--ink); }\n\
    figure text { fill: #333; }\n";

/// Writes the page.
pub fn write(report: &Report<'_>, pictures: &Pictures, mut out: impl Write) -> io::Result<()> {
    let study = report.study;
    let title = escape(&study.program);
    let state = if study.incomplete {
        "<p class=\"incomplete\">The run was observed in part: this is what it had shown until then.</p>"
    } else {
        ""
    };
    let notes: String = study.notes.iter().map(|note| format!("<p>Note: {}</p>", escape(note))).collect();
    let lines = report.recommendation();
    let lines: Vec<String> = lines.iter().filter(|l| !l.is_empty()).map(|line| escape(line)).collect();
    let advice = lines.join("<br>");
    let class = if study.modelled { "modelled" } else { "basis" };
    let [high, low] = report.ends().map(|level| format!("{:.2} GHz", report.ghz(level)));
    write!(
        out,
        r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Time, power and energy: {title}</title><style>
{STYLE}{MORE_STYLE}</style></head><body><main>
<h1>Time, power and energy of <code>{title}</code> at any frequency</h1>
<p class="{class}">{basis}</p>
<p>Models: {models}.</p>
{state}{notes}
{tiles}<h2>Energy over time and frequency</h2>
<p>Time runs to the right; the bar on top shows which phase the program is in. The darker a point, the more energy the
program takes there at that frequency; the darkest two per cent are shown alike. Right: the average.</p>
<figure>{energy}</figure>
<div class="legend">{legend}</div>
<h2>Recommended frequencies</h2>
<p>{advice}</p>
<p>Power over time, at {high} throughout and with the recommended frequency for each phase. Both take as long as they
take.</p>
<figure>{schedule}</figure>
<h2>The most important phases at {high} and {low}</h2>
<p>{ranking}</p>
<figure>{phases}</figure>
<h2>Phases</h2>
{table}{remark}<h2>Time against energy</h2>
<p>Every point on the line gives each phase a frequency of its own, such that no other choice is better in both.</p>
<figure>{pareto}</figure>
<h2>How to read the numbers</h2>
<p>The run is cut into intervals. Intervals that execute the same code in the same proportions belong to one phase;
successive ones are an instance of it. Cycles spent waiting for memory keep their time when the clock changes, all
others their number. Power is static power plus frequency times squared voltage times what the program's activity
charges per cycle. Percentages of time and energy compare with {high}.</p>
</main></body></html>
"#,
        basis = escape(&study.basis()),
        models = escape(&study.models.in_words()),
        tiles = tiles(report),
        energy = pictures.energy,
        legend = legend(report),
        schedule = pictures.schedule,
        phases = pictures.phases,
        ranking = ranking(report),
        table = report.table(usize::MAX, true).html(),
        remark =
            if study.truth.is_some() { "<p>In brackets: how far that is from the truth.</p>\n" } else { "" },
        pareto = pictures.pareto,
    )
}

fn tiles(report: &Report<'_>) -> String {
    let (study, advice) = (report.study, report.advice);
    let analysis = &study.predicted;
    let fastest = analysis.program_costs()[analysis.fastest().0];
    let ghz = report.ghz(analysis.fastest());
    let changed = |now: f64, then: f64| {
        let ratio = now / then - 1.0;
        format!("{}{}", if ratio < 0.0 { "-" } else { "+" }, percent(ratio.abs()))
    };
    let length = format!("intervals of {} instructions", count(study.interval));
    let clock = format!("at {ghz:.2} GHz");
    let now = advice.predicted.total;
    crate::report::tiles(&[
        (analysis.intervals().to_string(), &length),
        (analysis.phases().len().to_string(), "phases"),
        (quantity(fastest.time.0, "s"), &clock),
        (quantity(fastest.energy.0, "J"), &clock),
        (changed(now.time.0, fastest.time.0), "time as recommended"),
        (changed(now.energy.0, fastest.energy.0), "energy as recommended"),
    ])
}

fn legend(report: &Report<'_>) -> String {
    let views = report.study.views.iter().take(8).enumerate();
    views.map(|(rank, view)| format!("<span>{}</span>", Cell::Key(view.name.clone(), rank).html())).collect()
}

/// Which phase comes first, by what and where.
fn ranking(report: &Report<'_>) -> String {
    let study = report.study;
    let order = |by: Quantity, level: Level| -> String {
        let ranked = study.predicted.rank(by, level).unwrap_or_default();
        let names = ranked
            .iter()
            .take(6)
            .filter_map(|phase| Some(study.views[study.rank(phase.phase)?].name.as_str()));
        names.collect::<Vec<_>>().join(" ")
    };
    let sentences = [(Quantity::Time, "time"), (Quantity::Energy, "energy")].map(|(by, what)| {
        let [high, low] = report.ends();
        format!(
            "By {what}: {} at {:.2} GHz, {} at {:.2} GHz.",
            order(by, high),
            report.ghz(high),
            order(by, low),
            report.ghz(low)
        )
    });
    sentences.join(" ")
}
