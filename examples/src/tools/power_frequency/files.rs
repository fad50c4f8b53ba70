//! The predictions as tables for other programs.

use std::io::{self, Write};

use super::report::Report;
use super::study::Study;
use crate::report::write_csv;

/// `intervals.csv`: a row per interval and frequency.
pub fn write_intervals(report: &Report<'_>, out: impl Write) -> io::Result<()> {
    let study = report.study;
    let mut out = io::BufWriter::new(out);
    writeln!(out, "interval,phase,ghz,seconds,watts,joules,true_seconds,true_watts,true_joules")?;
    for instance in study.predicted.instances() {
        let name = study.rank(instance.phase).map_or("", |rank| study.views[rank].name.as_str());
        for interval in instance.intervals.clone() {
            for (level, frequency) in study.predicted.frequencies().iter().enumerate() {
                let cost = study.predicted.interval_costs(interval)[level];
                let (seconds, watts, joules) = (cost.time.0, cost.power().0, cost.energy.0);
                write!(out, "{interval},{name},{:.4},{seconds:.9},{watts:.4},{joules:.9}", frequency.ghz())?;
                match &study.truth {
                    Some(truth) => {
                        let cost = truth.interval_costs(interval)[level];
                        writeln!(out, ",{:.9},{:.4},{:.9}", cost.time.0, cost.power().0, cost.energy.0)?;
                    }
                    None => writeln!(out, ",,,")?,
                }
            }
        }
    }
    out.flush()
}

/// `phases.csv`: a row per phase and frequency.
pub fn write_phases(report: &Report<'_>, out: impl Write) -> io::Result<()> {
    let study = report.study;
    let views =
        study.views.iter().filter_map(|view| Some((view, Study::phase(&study.predicted, view.phase)?)));
    let rows = views.flat_map(|(view, phase)| {
        let levels = phase.costs.iter().zip(study.predicted.frequencies()).enumerate();
        levels.map(move |(level, (cost, frequency))| {
            [
                ("phase", view.name.clone()),
                ("intervals", phase.intervals.to_string()),
                ("instances", phase.instances.to_string()),
                ("instructions", phase.instructions.to_string()),
                ("ghz", format!("{:.4}", frequency.ghz())),
                ("seconds", format!("{:.9}", cost.time.0)),
                ("watts", format!("{:.4}", cost.power().0)),
                ("joules", format!("{:.9}", cost.energy.0)),
                ("recommended", u8::from(report.level(view.phase).0 == level).to_string()),
                ("hottest_code", view.code.as_ref().map_or(String::new(), |(name, _)| name.clone())),
            ]
        })
    });
    write_csv(out, rows)
}

/// `pareto.csv`: a row per schedule that no other beats, with the frequency of each phase.
pub fn write_front(report: &Report<'_>, out: impl Write) -> io::Result<()> {
    let study = report.study;
    let mut csv = csv::Writer::from_writer(out);
    let names = study.views.iter().map(|view| format!("ghz_{}", view.name));
    csv.write_record(["seconds".to_owned(), "joules".to_owned()].into_iter().chain(names))?;
    for point in &report.advice.front {
        let levels = study.views.iter().map(|view| {
            point
                .schedule
                .level(&view.phase)
                .map_or(String::new(), |level| format!("{:.4}", report.ghz(level)))
        });
        let cost = [format!("{:.9}", point.cost.time.0), format!("{:.9}", point.cost.energy.0)];
        csv.write_record(cost.into_iter().chain(levels))?;
    }
    csv.flush()
}
