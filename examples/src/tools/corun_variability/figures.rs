//! The paper's figures of a co-run: slowdowns over runs (IV.5), programs over time (IV.8), bandwidth (IV.6).

use cachesharing::{BandwidthDistribution, Program, SlowdownDistribution, TrajectoryBin};

use super::courses;
use super::predict::Course;
use super::reference::Run;
use super::{Findings, MethodName};
use crate::cli::{ByName, Failure};
use crate::report::{Line, Panel, draw_panels};

/// Pictures by the name of their file, with what they show.
pub(super) fn all(found: &Findings) -> Result<Vec<(&'static str, &'static str, String)>, Failure> {
    Ok(vec![
        ("slowdowns.svg", "Slowdowns of all runs, sorted: predicted and simulated", slowdowns(found)?),
        ("trajectory.svg", "The slowest run over time", trajectory(found)?),
        ("bandwidth.svg", "For how much of the time how much bandwidth is asked for", bandwidth(found)?),
    ])
}

/// Slowdowns in order, over the share of the runs.
pub(super) fn sorted(label: String, colour: usize, thin: bool, of: &SlowdownDistribution) -> Line {
    let runs = of.sorted().len() as f64;
    let point =
        |(rank, slowdown): (usize, &f64)| (100.0 * (rank as f64 + 0.5) / runs, 100.0 * (slowdown - 1.0));
    Line { label, colour, thin, points: of.sorted().iter().enumerate().map(point).collect() }
}

/// A flat line is no variation; a point (x, y) says that x % of the runs lose at most y %.
fn slowdowns(found: &Findings) -> Result<String, Failure> {
    let mut lines = Vec::new();
    if let Some(truth) = &found.truth {
        lines.push(sorted("simulated".to_owned(), 1, false, &truth.distribution));
    }
    for (number, by) in found.answer.methods.iter().enumerate() {
        let chosen = number == found.answer.chosen;
        if chosen || by.method == MethodName::Oblivious {
            let colour = if chosen { 0 } else { 4 };
            lines.push(sorted(by.method.name(), colour, !chosen, &by.variability.distribution));
        }
    }
    let panel = Panel { across: "runs (%)".to_owned(), up: "slower by at most (%)".to_owned(), lines };
    draw_panels(&found.title(), &[panel]).map_err(Failure::Run)
}

fn trajectory(found: &Findings) -> Result<String, Failure> {
    let courses = (0..found.programs.len()).map(|i| found.courses(i)).collect::<Result<Vec<_>, Failure>>()?;
    let mut panels = vec![
        panel("work per time", &found.programs, &courses, TrajectoryBin::ipc),
        panel("share of the cache (bytes)", &found.programs, &courses, |bin| bin.bytes),
        panel("bytes from memory per time", &found.programs, &courses, |bin| bin.bandwidth),
    ];
    panels.push(together(&courses));
    draw_panels(&format!("{}: the slowest run", found.title()), &panels).map_err(Failure::Run)
}

type Courses = Vec<(&'static str, Vec<TrajectoryBin>)>;

fn panel(
    up: &str,
    programs: &[Program<u64>],
    courses: &[Courses],
    value: fn(&TrajectoryBin) -> f64,
) -> Panel {
    let mut lines = Vec::new();
    for (number, (program, course)) in programs.iter().zip(courses).enumerate() {
        for (source, bins) in course {
            lines.push(Line {
                label: format!("{} ({source})", program.name()),
                colour: number,
                thin: *source != "predicted",
                points: bins.iter().map(|bin| (bin.start + bin.time / 2.0, value(bin))).collect(),
            });
        }
    }
    Panel { across: "time".to_owned(), up: up.to_owned(), lines }
}

/// The throughput of all programs.
fn together(courses: &[Courses]) -> Panel {
    let sources = courses.first().map_or(0, Vec::len);
    let lines = (0..sources).map(|source| {
        let programs: Vec<&[TrajectoryBin]> =
            courses.iter().filter_map(|c| c.get(source)).map(|c| c.1.as_slice()).collect();
        let bins = programs.iter().map(|bins| bins.len()).min().unwrap_or(0);
        let point = |i: usize| (programs[0][i].start, programs.iter().map(|bins| bins[i].ipc()).sum());
        let label = courses[0][source].0;
        Line {
            label: format!("all ({label})"),
            colour: 2,
            thin: label != "predicted",
            points: (0..bins).map(point).collect(),
        }
    });
    Panel { across: "time".to_owned(), up: "throughput".to_owned(), lines: lines.collect() }
}

fn bandwidth(found: &Findings) -> Result<String, Failure> {
    let truth = found.truth.as_ref();
    let panels = [
        demand(found, "fastest run", &found.answer.fastest, truth.map(|t| &t.fastest)),
        demand(found, "slowest run", &found.answer.slowest, truth.map(|t| &t.slowest)),
    ];
    draw_panels(&format!("{}: bandwidth", found.title()), &panels).map_err(Failure::Run)
}

fn demand(found: &Findings, name: &str, course: &Course, run: Option<&Run>) -> Panel {
    let line = |label: String, colour, of: &BandwidthDistribution| {
        let steps = (0..=100).map(|i| (f64::from(i), of.exceeded_during(f64::from(i) / 100.0)));
        Line { label, colour, thin: false, points: steps.collect() }
    };
    let mut lines = vec![line(format!("{name} (predicted)"), 0, &course.demand)];
    if let Some(run) = run {
        let width = courses::width(course.trajectory.time());
        lines.push(line(format!("{name} (simulated)"), 1, &courses::demand(run, width, found.line)));
    }
    Panel { across: "of the time (%)".to_owned(), up: "more bytes per time than".to_owned(), lines }
}
