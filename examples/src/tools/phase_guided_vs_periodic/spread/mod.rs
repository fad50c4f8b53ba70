//! How far the results of hierarchical sampling scatter: figure 8 of the `StatStack` paper.
//!
//! A program is sampled over and over with settings S1 and S2 of the paper, all repetitions in one pass, and simulated
//! exactly in the same pass. A repetition's miss ratio is the mean of those modelled for its bursts, as in the paper, or
//! weighs them by the phases they fall into. Reported are the
//! deviations from the mean of the repetitions, as the paper does, and the errors against the exact miss ratio.

mod estimate;
mod repetitions;
mod schedule;

use std::io::Write;
use std::ops::ControlFlow;

use reuse_sampler::Hierarchy;
use reuse_sampler::replay::{Event, EventSource};
use serde::Serialize;
use serde_json::json;

use self::estimate::{averaged, stratified};
use self::repetitions::{Piece, Repetitions};
use self::schedule::Spacing;
use super::args::Args;
use super::score::mean;
use crate::cli::{Failure, Watch};
use crate::guided::{Course, CoursePhases};
use crate::output::OutputDir;
use crate::report::{Table, bytes, count, named, write_document};
use crate::target::embedded_workload;
use crate::traces::Source;
use crate::workloads::Workload;
use reuse_sampler::reference::ExactLru;

/// The settings, the deviation in points that the paper states for each, and the share of repetitions within it.
const SETTINGS: [(&str, Hierarchy, f64, f64); 2] =
    [("S1", Hierarchy::S1, 0.2, 0.90), ("S2", Hierarchy::S2, 0.4, 0.89)];

/// Accesses in a window that has a phase: a burst of both settings.
const WINDOW: u64 = Hierarchy::S1.burst();

/// How the repetitions of each spacing are evaluated.
const ESTIMATES: [(&str, Spacing, Estimate); 3] = [
    ("published", Spacing::Gaps, Estimate::Mean),
    ("by phase", Spacing::Gaps, Estimate::ByPhase),
    ("by phase, a burst in each stretch", Spacing::Stretches, Estimate::ByPhase),
];
const SPACINGS: [Spacing; 2] = [Spacing::Gaps, Spacing::Stretches];

/// What becomes of the bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Estimate {
    Mean,
    ByPhase,
}

/// One program at one setting, estimate and size, in percentage points.
#[derive(Clone, Debug, Serialize)]
pub struct Scatter {
    program: String,
    setting: &'static str,
    estimate: &'static str,
    cache_bytes: u64,
    exact: f64,
    repetitions: Vec<f64>,
}

impl Scatter {
    fn deviations(&self) -> impl Iterator<Item = f64> + '_ {
        let centre = mean(&self.repetitions);
        self.repetitions.iter().map(move |found| (found - centre).abs())
    }

    fn errors(&self) -> impl Iterator<Item = f64> + '_ {
        self.repetitions.iter().map(|found| (found - self.exact).abs())
    }
}

/// Runs the experiment on the embedded workloads of the command line; until the watch ends it.
///
/// # Errors
/// [`Failure`] with one line for the user.
pub fn run(
    args: &Args,
    watch: &Watch<'_>,
    folder: Option<&OutputDir>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let sources = args.sources()?.into_iter().map(|(source, _)| source);
    let names: Vec<String> = sources.filter(Source::is_embedded).map(|source| source.name()).collect();
    if names.is_empty() {
        return Err(Failure::usage("--experiment spread runs embedded workloads: give --workload NAME"));
    }
    let (mut scatters, mut lengths) = (Vec::new(), Vec::new());
    for name in &names {
        if watch.is_interrupted() && !scatters.is_empty() {
            break;
        }
        let (accesses, found) = one(name, args, watch)?;
        lengths.push((name.clone(), accesses));
        scatters.extend(found);
    }
    let tables = [lengths_table(&lengths, args), summary(&scatters), details(&scatters)].map(Table::from);
    let files = |folder: &OutputDir| {
        let body: String = tables.iter().map(Table::html).collect();
        folder
            .write("spread.html", |out| write_document("Spread of hierarchical sampling", &body, out))
            .and_then(|()| folder.write("spread.csv", |out| csv(&scatters, out)))
    };
    args.common.present(
        folder,
        files,
        |out| writeln!(out, "{}", json!({"seed": args.common.seed, "accesses": lengths, "spread": scatters})),
        |out| tables.iter().try_for_each(|table| writeln!(out, "{}", table.text())),
        out,
    )
}

/// Samples and simulates one workload, again and again where it is shorter than asked for.
fn one(name: &str, args: &Args, watch: &Watch<'_>) -> Result<(u64, Vec<Scatter>), Failure> {
    let (line_size, sizes) = (args.line_size()?, args.cache_sizes()?);
    let samplers = (0_u64..).zip(SETTINGS).flat_map(|(k, setting)| {
        SPACINGS.into_iter().flat_map(move |spacing| {
            let seed = move |repetition| args.common.seed.wrapping_add(1000 * k + repetition);
            (0..u64::from(args.repetitions)).map(move |n| (setting.1, spacing, seed(n)))
        })
    });
    let mut repetitions = Repetitions::new(samplers, WINDOW);
    let mut phases = CoursePhases::new(WINDOW, args.common.seed)?;
    let mut refused = None;
    let mut lru = ExactLru::new();
    // Longer phases, not more of them: a program whose working sets last.
    let probe = embedded_workload(name, args.common.seed, 1)?;
    let mut length = 0_u64;
    probe.events()?.drive(|event| {
        length += u64::from(matches!(event, Event::Access(_)));
        if length >= args.accesses { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    // A little more than in proportion: not everything a workload does is repeated.
    let scale =
        u32::try_from((args.accesses + args.accesses / 4).div_ceil(length.max(1))).unwrap_or(u32::MAX);
    let workload = Workload::by_name(name, args.common.seed, scale).unwrap_or(probe);
    let mut events = workload.events()?;
    let mut look = 0_u64;
    events.drive(|event| {
        if let Event::Block { address, instructions } = event {
            phases.block(address, instructions);
        }
        if let Event::Access(access) = event {
            for line in line_size.lines(&access) {
                repetitions.access(line);
                lru.access(line);
                if let Err(error) = phases.access() {
                    refused = Some(error);
                    return ControlFlow::Break(());
                }
            }
            look += 1;
            if look % (1 << 20) == 0 {
                watch.show_with(|| format!("{name}: {} accesses", count(repetitions.accesses())));
                if watch.is_interrupted() {
                    return ControlFlow::Break(());
                }
            }
            if repetitions.accesses() >= args.accesses {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = refused {
        return Err(Failure::run(error));
    }
    let accesses = repetitions.accesses();
    let exact = lru.total().curve(line_size, &sizes);
    let course = phases.finish()?;
    let found = repetitions.finish();
    let mut of_spacing = found.chunks(args.repetitions as usize);
    let mut scatters = Vec::new();
    for (setting, ..) in SETTINGS {
        for spacing in SPACINGS {
            let repetitions = of_spacing.next().unwrap_or_default();
            for (estimate, _, method) in ESTIMATES.iter().filter(|(_, of, _)| *of == spacing) {
                let curves = curves(repetitions, *method, &course, args)?;
                for (at, point) in exact.points.iter().enumerate() {
                    scatters.push(Scatter {
                        program: name.to_owned(),
                        setting,
                        estimate,
                        cache_bytes: point.0.bytes(line_size),
                        exact: 100.0 * point.1,
                        repetitions: curves.iter().map(|curve| 100.0 * curve[at]).collect(),
                    });
                }
            }
        }
    }
    Ok((accesses, scatters))
}

/// The curve that each repetition with a burst comes to.
fn curves(
    repetitions: &[Vec<Piece>],
    method: Estimate,
    course: &Course,
    args: &Args,
) -> Result<Vec<Vec<f64>>, Failure> {
    let (line_size, sizes) = (args.line_size()?, args.cache_sizes()?);
    let curve = |pieces: &Vec<Piece>| match method {
        Estimate::Mean => averaged(pieces, line_size, &sizes),
        Estimate::ByPhase => stratified(pieces, course, line_size, &sizes),
    };
    let curves: Result<Vec<Vec<f64>>, _> = repetitions.iter().map(curve).collect();
    Ok(curves?.into_iter().filter(|curve| !curve.is_empty()).collect())
}

fn lengths_table(lengths: &[(String, u64)], args: &Args) -> Vec<Vec<String>> {
    let mut rows = vec![["program", "accesses", "repetitions"].map(str::to_owned).to_vec()];
    rows.extend(lengths.iter().map(|(name, n)| vec![name.clone(), count(*n), args.repetitions.to_string()]));
    rows
}

/// What the paper states, and what is found, over all programs and sizes.
fn summary(scatters: &[Scatter]) -> Vec<Vec<String>> {
    let of_each = SETTINGS.into_iter().flat_map(|setting| ESTIMATES.map(|estimate| (setting, estimate.0)));
    named(of_each.map(|((name, _, points, share), estimate)| {
        let of_setting = || scatters.iter().filter(|s| (s.setting, s.estimate) == (name, estimate));
        let deviations: Vec<f64> = of_setting().flat_map(Scatter::deviations).collect();
        let errors: Vec<f64> = of_setting().flat_map(Scatter::errors).collect();
        let within = |values: &[f64]| {
            let count = values.iter().filter(|&&value| value <= points).count();
            format!("{:.1} %", 100.0 * count as f64 / values.len().max(1) as f64)
        };
        let largest = |values: &[f64]| format!("{:.2}", values.iter().copied().fold(0.0, f64::max));
        [
            ("setting", name.to_owned()),
            ("estimate", estimate.to_owned()),
            ("points", points.to_string()),
            ("deviations within: paper", format!("{:.0} %", 100.0 * share)),
            ("here", within(&deviations)),
            ("largest deviation", largest(&deviations)),
            ("errors within, here", within(&errors)),
            ("mean error", format!("{:.3}", mean(&errors))),
            ("largest error", largest(&errors)),
        ]
    }))
}

fn details(scatters: &[Scatter]) -> Vec<Vec<String>> {
    named(scatters.iter().map(|scatter| {
        let extreme = |start, of: fn(f64, f64) -> f64| scatter.repetitions.iter().copied().fold(start, of);
        let shown = |value: f64| format!("{value:.3}");
        [
            ("program", scatter.program.clone()),
            ("setting", scatter.setting.to_owned()),
            ("estimate", scatter.estimate.to_owned()),
            ("cache", bytes(scatter.cache_bytes)),
            ("exact, %", shown(scatter.exact)),
            ("mean", shown(mean(&scatter.repetitions))),
            ("least", shown(extreme(f64::INFINITY, f64::min))),
            ("most", shown(extreme(0.0, f64::max))),
            ("mean deviation", shown(mean(&scatter.deviations().collect::<Vec<_>>()))),
            ("mean error", shown(mean(&scatter.errors().collect::<Vec<_>>()))),
        ]
    }))
}

fn csv(scatters: &[Scatter], out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "program,setting,cache_bytes,exact,repetition,miss_ratio,estimate")?;
    for s in scatters {
        for (repetition, found) in s.repetitions.iter().enumerate() {
            let Scatter { program, setting, cache_bytes, exact, estimate, .. } = s;
            writeln!(out, "{program},{setting},{cache_bytes},{exact},{repetition},{found},\"{estimate}\"")?;
        }
    }
    Ok(())
}
