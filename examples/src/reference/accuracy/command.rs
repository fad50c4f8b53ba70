//! The command line, the table and the JSON.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Parser;
use reuse_sampler::auto::AutoTrace;
use reuse_sampler::trace::Side;
use reuse_sampler::{Bootstrap, CacheLines, Children, Cpu, Interval, ReusePlan, SampleGap};
use serde::Serialize;

use super::{Exact, Fit, Sets, Settings, Stream, exact, fits, intervals, samples, sets};
use crate::cli::{CommandLine, Common, Failure};
use crate::report::Table;
use crate::target::{Backend, embedded_workload, observing};
use crate::traces::{TraceFile, format_of, trace_program};

/// Compares the cache models with exact simulation, on recorded traces and embedded workloads.
///
/// Errors are those of the whole run's miss ratio, in percentage points, and their mean over the sizes.
#[derive(Clone, Debug, Parser)]
#[command(name = "model_accuracy", version)]
pub struct Args {
    /// Traces to compare on: x.din, x.lackey, also compressed
    #[arg(value_name = "TRACE", required_unless_present_any = ["workload", "command"])]
    traces: Vec<PathBuf>,
    /// Embedded workloads to compare on
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Commands to compare on, their words separated by spaces; they run translated or under the emulator, their output goes to
    /// standard error
    #[arg(long, value_name = "COMMAND")]
    command: Vec<String>,
    /// Windows of equal length that the run is divided into
    #[arg(long, value_name = "N", default_value_t = 20)]
    windows: u64,
    /// One sample in so many accesses on average; 1 measures every access
    #[arg(long, value_name = "ACCESSES", default_value_t = 1.0)]
    one_in: f64,
    /// Read at most so many accesses of each trace
    #[arg(long, value_name = "N", default_value_t = u64::MAX)]
    limit: u64,
    /// Smallest and largest cache, in lines; all powers of two in between are compared
    #[arg(long, value_name = "LINES", num_args = 2, default_values_t = [64, 16_384])]
    lines: Vec<u64>,
    /// Compare caches of so many ways, too, under LRU, tree-PLRU, Nehalem's accessed bits and random replacement
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    ways: Vec<u32>,
    /// Redraws of the samples for 95 % intervals of the models by merged windows, 100 or more: shows how often they hold
    /// the exact value
    #[arg(long, value_name = "N")]
    draws: Option<usize>,
    #[command(flatten)]
    common: Common,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("one sample in 100 accesses of a recorded trace", "--one-in 100 sort.lackey"),
        ("an embedded workload, as JSON", "--workload matmul_naive --json"),
        (
            "the first 9 million accesses of a program, in sets of 8",
            r#"--limit 9000000 --ways 8 --command "sort words""#,
        ),
    ];

    fn common(&self) -> &Common {
        &self.common
    }
}

#[derive(Serialize)]
struct Report {
    windows: u64,
    one_in: f64,
    seed: u64,
    lines: Vec<u64>,
    traces: Vec<Trace>,
    mean_absolute_error: Vec<Mean>,
    mean_absolute_error_in_sets: Vec<SetsMean>,
    /// Share of the 95 % intervals that hold the exact value: StatStack's, StatCache's.
    intervals_that_hold: Option<[f64; 2]>,
}

#[derive(Serialize)]
struct Trace {
    name: String,
    accesses: u64,
    touched_lines: u64,
    /// Phases of windows of [`PHASE_WINDOW`](super::PHASE_WINDOW) accesses.
    phases: usize,
    samples: u64,
    exact_lru: Vec<f64>,
    exact_random: Vec<f64>,
    models: Vec<Row>,
    sets: Vec<Sets>,
    intervals: Vec<IntervalRow>,
}

/// The 95 % intervals of a model by merged windows.
#[derive(Serialize)]
struct IntervalRow {
    model: &'static str,
    low: Vec<f64>,
    high: Vec<f64>,
    /// Share of them that hold the exact value.
    holding: f64,
}

#[derive(Serialize)]
struct Row {
    model: &'static str,
    grouping: &'static str,
    cache: &'static str,
    errors: Vec<f64>,
    mean_absolute_error: f64,
}

#[derive(Serialize)]
struct Mean {
    model: &'static str,
    grouping: &'static str,
    cache: &'static str,
    points: f64,
}

#[derive(Serialize)]
struct SetsMean {
    ways: u32,
    policy: &'static str,
    /// Taken for fully associative, in points.
    points: f64,
    /// With lines thrown into sets, in points.
    points_in_sets: Option<f64>,
}

/// Runs the comparison and writes its result to `out`.
///
/// # Errors
/// [`Failure`] with one line for the user.
pub fn run(args: &Args, out: &mut dyn Write, _messages: &mut dyn Write) -> Result<u8, Failure> {
    let settings = settings(args)?;
    let folder = args.common.folder()?;
    let mut traces = Vec::new();
    for path in &args.traces {
        let mut file = TraceFile::open(path, format_of(path)?)?;
        let stream = Stream::read(&mut file.stream, args.limit, args.common.seed)?;
        traces.push(compare(path.display().to_string(), &stream, &settings, args)?);
    }
    for name in &args.workload {
        let mut events = embedded_workload(name, args.common.seed, 1)?.events()?;
        let stream = Stream::read(&mut events, args.limit, args.common.seed)?;
        traces.push(compare(name.clone(), &stream, &settings, args)?);
    }
    for command in &args.command {
        let stream = Stream::read(&mut program(command)?, args.limit, args.common.seed)?;
        traces.push(compare(command.clone(), &stream, &settings, args)?);
    }
    let report = Report {
        windows: args.windows,
        one_in: args.one_in,
        seed: args.common.seed,
        lines: settings.sizes.iter().map(|size| size.0).collect(),
        mean_absolute_error: means(&traces),
        mean_absolute_error_in_sets: sets_means(&traces),
        intervals_that_hold: that_hold(&traces),
        traces,
    };
    args.common.present(
        folder.as_ref(),
        |folder| folder.write("model_accuracy.json", |out| write_json(&report, out)),
        |out| write_json(&report, out),
        |out| write_tables(&report, out),
        out,
    )?;
    Ok(0)
}

fn settings(args: &Args) -> Result<Settings, Failure> {
    let plan = if args.one_in == 1.0 {
        ReusePlan::Every
    } else {
        ReusePlan::Sparse(SampleGap::mean(args.one_in).map_err(Failure::usage)?)
    };
    let sizes: Vec<CacheLines> = (0..31)
        .map(|power| CacheLines(1 << power))
        .filter(|size| args.lines.first() <= Some(&size.0) && Some(&size.0) <= args.lines.get(1))
        .collect();
    if sizes.is_empty() || args.windows == 0 {
        return Err(Failure::usage("give at least one window, and sizes with a power of two between them"));
    }
    Ok(Settings { sizes, windows: args.windows, plan, seed: args.common.seed, simulations: 7 })
}

/// A running program, its output on standard error.
fn program(command: &str) -> Result<AutoTrace, Failure> {
    let words: Vec<&str> = command.split_whitespace().collect();
    if words.is_empty() {
        return Err(Failure::usage(
            "--command is empty: give a program with its arguments, separated by spaces",
        ));
    }
    let options = observing(Backend::Exact, Children::Ignore, Cpu::Host, true);
    trace_program(&words, Side::Data, &options)
}

fn compare(name: String, stream: &Stream, settings: &Settings, args: &Args) -> Result<Trace, Failure> {
    let lines = &stream.lines;
    if lines.is_empty() {
        return Err(Failure::Run(format!("{name}: no memory access was seen")));
    }
    let exact = exact(lines, settings).map_err(Failure::usage)?;
    let samples = samples(stream, settings)?;
    let fits = fits(&samples, &settings.sizes)?;
    let in_sets = args.ways.iter().map(|&ways| sets(lines, &samples, settings, ways).map_err(Failure::run));
    let in_sets = in_sets.collect::<Result<Vec<_>, _>>()?.concat();
    let intervals = match args.draws {
        None => Vec::new(),
        Some(draws) => {
            let bootstrap = Bootstrap::new(0.95, draws, settings.seed).map_err(Failure::usage)?;
            let [lru, random, in_time] = intervals(&samples, &settings.sizes, &bootstrap)?;
            vec![
                interval_row("StatStack", &lru, &exact.lru),
                interval_row("StatCache", &random, &exact.random),
                interval_row("StatCache, in time", &in_time, &exact.random),
            ]
        }
    };
    Ok(Trace {
        intervals,
        sets: in_sets,
        name,
        accesses: exact.accesses,
        touched_lines: exact.lines,
        phases: samples.phases.len(),
        samples: samples.whole.samples(),
        models: fits.iter().map(|fit| row(fit, &exact)).collect(),
        exact_lru: exact.lru,
        exact_random: exact.random,
    })
}

fn interval_row(model: &'static str, intervals: &[Interval], exact: &[f64]) -> IntervalRow {
    let holds = |(interval, exact): &(&Interval, &f64)| (interval.low..=interval.high).contains(*exact);
    let holding = intervals.iter().zip(exact).filter(holds).count() as f64;
    IntervalRow {
        model,
        low: intervals.iter().map(|interval| interval.low).collect(),
        high: intervals.iter().map(|interval| interval.high).collect(),
        holding: holding / intervals.len().max(1) as f64,
    }
}

fn that_hold(traces: &[Trace]) -> Option<[f64; 2]> {
    let mean = |model: usize| {
        let each: Option<Vec<f64>> =
            traces.iter().map(|trace| Some(trace.intervals.get(model)?.holding)).collect();
        each.map(|each| each.iter().sum::<f64>() / each.len().max(1) as f64)
    };
    Some([mean(0)?, mean(1)?])
}

fn row(fit: &Fit, exact: &Exact) -> Row {
    let truth = if fit.random { &exact.random } else { &exact.lru };
    let errors: Vec<f64> =
        fit.ratios.iter().zip(truth).map(|(found, exact)| 100.0 * (found - exact)).collect();
    Row {
        model: fit.model,
        grouping: fit.grouping,
        cache: if fit.random { "random" } else { "lru" },
        mean_absolute_error: mean_absolute(&errors),
        errors,
    }
}

fn means(traces: &[Trace]) -> Vec<Mean> {
    let Some(first) = traces.first() else { return Vec::new() };
    let mean = |(k, row): (usize, &Row)| {
        let errors = traces.iter().map(|trace| trace.models[k].mean_absolute_error);
        let points = errors.map(|error| error / traces.len() as f64).sum();
        Mean { model: row.model, grouping: row.grouping, cache: row.cache, points }
    };
    first.models.iter().enumerate().map(mean).collect()
}

fn sets_means(traces: &[Trace]) -> Vec<SetsMean> {
    let Some(first) = traces.first() else { return Vec::new() };
    let mean = |(k, sets): (usize, &Sets)| {
        let over_traces = |errors: &dyn Fn(&Sets) -> Option<f64>| -> Option<f64> {
            let all: Option<Vec<f64>> = traces.iter().map(|trace| errors(&trace.sets[k])).collect();
            all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
        };
        SetsMean {
            ways: sets.ways,
            policy: sets.policy,
            points: over_traces(&|sets| Some(mean_absolute(&sets.errors))).unwrap_or(0.0),
            points_in_sets: over_traces(&|sets| sets.errors_in_sets.as_deref().map(mean_absolute)),
        }
    };
    first.sets.iter().enumerate().map(mean).collect()
}

fn mean_absolute(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len().max(1) as f64
}

fn write_json(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, report)?;
    writeln!(out)
}

fn write_tables(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for trace in &report.traces {
        let Trace { name, accesses, touched_lines, phases, samples, .. } = trace;
        writeln!(
            out,
            "{name}: {accesses} accesses to {touched_lines} lines, {samples} samples, {phases} phases"
        )?;
        let row = |name: String, cells: &mut dyn Iterator<Item = String>, last: String| {
            std::iter::once(name).chain(cells).chain([last]).collect::<Vec<String>>()
        };
        let lines = &mut report.lines.iter().map(u64::to_string);
        let mut rows = vec![row("cache size in lines".to_owned(), lines, "mean".to_owned())];
        for (name, ratios) in [("exact LRU, %", &trace.exact_lru), ("exact random, %", &trace.exact_random)] {
            rows.push(row(
                name.to_owned(),
                &mut ratios.iter().map(|&ratio| in_percent(ratio)),
                String::new(),
            ));
        }
        for model in &trace.models {
            let mean = format!("{:.4}", model.mean_absolute_error);
            let name = format!("{}, by {}", model.model, model.grouping);
            rows.push(row(name, &mut model.errors.iter().map(|&error| signed(error)), mean));
        }
        for model in &trace.intervals {
            let halves = model.low.iter().zip(&model.high).map(|(low, high)| in_percent(0.5 * (high - low)));
            let name = format!("{}, half the 95 % interval", model.model);
            rows.push(row(name, &mut { halves }, format!("{:.0} % hold", 100.0 * model.holding)));
        }
        for sets in &trace.sets {
            let name = format!("{} ways, {}, simulated, %", sets.ways, sets.policy);
            let simulated = &mut sets.simulated.iter().map(|&ratio| in_percent(ratio));
            rows.push(row(name, simulated, String::new()));
            let kinds =
                [("model as it is", Some(&sets.errors)), ("in random sets", sets.errors_in_sets.as_ref())];
            for (name, errors) in kinds {
                let Some(errors) = errors else { continue };
                let mean = format!("{:.4}", mean_absolute(errors));
                rows.push(row(format!("  {name}"), &mut errors.iter().map(|&error| signed(error)), mean));
            }
        }
        writeln!(out, "{}", Table::from(rows).text())?;
    }
    writeln!(out, "mean absolute error over all traces and sizes, percentage points")?;
    for mean in &report.mean_absolute_error {
        writeln!(out, "{:44}{:>8.4}", format!("{}, by {}", mean.model, mean.grouping), mean.points)?;
    }
    if let Some([lru, random]) = report.intervals_that_hold {
        writeln!(
            out,
            "95 % intervals that hold the exact value: StatStack {:.1} %, StatCache {:.1} %",
            100.0 * lru,
            100.0 * random
        )?;
    }
    for mean in &report.mean_absolute_error_in_sets {
        let what = format!("{} ways, {}, model taken as it is", mean.ways, mean.policy);
        write!(out, "{what:44}{:>8.4}", mean.points)?;
        match mean.points_in_sets {
            Some(points) => writeln!(out, ", in random sets {points:.4}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn in_percent(ratio: f64) -> String {
    format!("{:.3}", 100.0 * ratio)
}

fn signed(points: f64) -> String {
    format!("{points:+.3}")
}
