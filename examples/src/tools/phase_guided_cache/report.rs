//! What is written and printed at the end.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::cli::Failure;
use crate::guided::{CurvePoint, PhaseCurve};
use crate::output::OutputDir;
use crate::report::{
    HeatMap, Subject, phase_table, phase_table_notes, process_table, stored_profile, summary,
    write_miss_ratios, write_page, write_profile, write_windows,
};

/// Level of the intervals.
pub(super) const LEVEL: f64 = 0.95;

/// Writes all files of the report.
pub(super) fn write(subject: &Subject<'_>, folder: &OutputDir) -> Result<(), Failure> {
    let picture = HeatMap::of(subject).draw().map_err(Failure::Run)?;
    let profile = stored_profile(subject)?;
    folder
        .write("report.html", |out| write_page(subject, out))
        .and_then(|()| folder.write("heatmap.svg", |out| out.write_all(picture.as_bytes())))
        .and_then(|()| folder.write("windows.csv", |out| write_windows(subject, out)))
        .and_then(|()| folder.write("mrc.csv", |out| write_miss_ratios(subject, out)))
        .and_then(|()| write_profile(&profile, folder))
}

/// Prints the table.
pub(super) fn table(
    subject: &Subject<'_>,
    folder: Option<&OutputDir>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let phases = phase_table(subject);
    let notes = phase_table_notes(subject, phases.starred(false));
    write!(out, "{}\n\n{}{notes}", summary(subject), phases.shown.text())?;
    if subject.processes.len() > 1 {
        write!(out, "\n{}", process_table(&subject.processes))?;
    }
    match folder {
        Some(folder) => writeln!(out, "\nThe picture: {}", folder.path().join("report.html").display()),
        None => writeln!(out, "\nFor the picture over time and cache size, add --out DIR."),
    }
}

/// The JSON object.
pub(super) fn object(subject: &Subject<'_>) -> Value {
    let run = subject.run;
    let curve = |curve: &PhaseCurve| -> Vec<Value> {
        let point = |(size, p): (&reuse_sampler::CacheLines, &CurvePoint)| {
            let bytes = size.bytes(run.line_size);
            json!({
                "bytes": bytes,
                "lines": size.0,
                "miss_ratio": p.miss_ratio,
                "low": p.low,
                "high": p.high,
                "interval_low": p.interval.map(|interval| interval.0),
                "interval_high": p.interval.map(|interval| interval.1),
            })
        };
        subject.curves.sizes.iter().zip(&curve.points).map(point).collect()
    };
    let phases: Vec<Value> = subject
        .phases
        .iter()
        .enumerate()
        .map(|(rank, view)| {
            let levels: serde_json::Map<String, Value> = subject
                .caches
                .levels
                .iter()
                .filter_map(|level| {
                    let point = view.curve.and_then(|curve| subject.at(curve, level.bytes))?;
                    Some((level.name.clone(), json!(point.miss_ratio)))
                })
                .collect();
            json!({
                "phase": view.name,
                "family": subject.family(rank),
                "windows": view.record.windows,
                "share": view.record.windows as f64 / subject.run.windows.len().max(1) as f64,
                "profiled": view.record.profiled,
                "samples": view.record.profile.samples(),
                "instructions": view.record.instructions,
                "accesses_per_instruction": view.record.mix(),
                "hottest_code": view.location.as_ref().map(|(name, _)| name),
                "hottest_code_share": view.location.as_ref().map(|(_, share)| share),
                "distinct_code": view.distinct.as_ref().map(|code| &code.name),
                "distinct_code_share": view.distinct.as_ref().map(|code| code.share),
                "distinct_code_elsewhere": view.distinct.as_ref().map(|code| code.elsewhere),
                "transition": view.transition,
                "mixture": view.mixture.as_ref().map(|(a, b)| [a, b]),
                "borrows_from": view.borrowed_from,
                "miss_ratio": levels,
                "points": view.curve.map(curve),
            })
        })
        .collect();
    let mut report = json!({
        "program": subject.program,
        "incomplete": run.incomplete,
        "model": subject.model,
        "line_size": run.line_size.bytes(),
        "scope": subject.scope.name(),
        "instructions": run.instructions(),
        "accesses": run.accesses(),
        "windows": run.windows.len(),
        "profiled": run.profiled(),
        "samples": run.phases.iter().map(|p| p.profile.samples()).sum::<u64>(),
        "predictions": {"right": run.predictions.0, "all": run.predictions.1},
        "caches": subject.caches.levels.iter().map(|l| json!({"name": l.name, "bytes": l.bytes})).collect::<Vec<_>>(),
        "caches_measured": subject.caches.measured,
        "notes": subject.notes,
        "phases": phases,
        "average": curve(&subject.curves.average),
        "interval_level": LEVEL,
        "interval_covers": subject.curves.interval_covers,
        "unlike": subject.curves.unlike,
        "first_touches": subject.curves.first_touches,
    });
    if !subject.processes.is_empty() {
        report["processes"] = json!(subject.processes);
    }
    if let Some(operands) = subject.operands {
        report["operands"] = json!(operands);
    }
    report
}
