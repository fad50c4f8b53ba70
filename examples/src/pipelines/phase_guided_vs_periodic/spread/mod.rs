//! How far the results of hierarchical sampling scatter: figure 8 of the `StatStack` paper.
//!
//! A program is sampled over and over with settings S1 and S2 of the paper, all repetitions in one pass, and simulated
//! exactly in the same pass. A repetition's miss ratio is the mean of those modelled for its bursts. Reported are the
//! deviations from the mean of the repetitions, as the paper does, and the errors against the exact miss ratio.

mod repetitions;
mod schedule;

use std::io::Write;
use std::ops::ControlFlow;

use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::{CacheModel, Hierarchy};
use serde::Serialize;
use serde_json::json;
use statstack::StatStack;

use self::repetitions::{Burst, Repetitions};
use super::args::Args;
use super::score::mean;
use crate::cli::{Failure, Watch, unless_closed};
use crate::output::OutputDir;
use crate::reference::exact::ExactLru;
use crate::report::{align, bytes, count, html_table, write_document};
use crate::target::TargetError;
use crate::workloads::Workload;

/// The settings, the deviation in points that the paper states for each, and the share of repetitions within it.
const SETTINGS: [(&str, Hierarchy, f64, f64); 2] =
    [("S1", Hierarchy::S1, 0.2, 0.90), ("S2", Hierarchy::S2, 0.4, 0.89)];

/// One program at one setting and size, in percentage points.
#[derive(Clone, Debug, Serialize)]
pub struct Scatter {
    program: String,
    setting: &'static str,
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
    let names = args.workloads();
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
    let tables = [lengths_table(&lengths, args), summary(&scatters), details(&scatters)];
    if let Some(folder) = folder {
        let body: String = tables.iter().map(|table| html_table(table)).collect();
        folder
            .write("spread.html", |out| write_document("Spread of hierarchical sampling", &body, out))
            .and_then(|()| folder.write("spread.csv", |out| csv(&scatters, out)))
            .map_err(Failure::run)?;
    }
    unless_closed(if args.json {
        writeln!(out, "{}", json!({"seed": args.seed, "accesses": lengths, "spread": scatters}))
    } else {
        tables.iter().try_for_each(|table| writeln!(out, "{}", align(table)))
    })
}

/// Samples and simulates one workload, again and again where it is shorter than asked for.
fn one(name: &str, args: &Args, watch: &Watch<'_>) -> Result<(u64, Vec<Scatter>), Failure> {
    let (line_size, sizes) = (args.line_size()?, args.cache_sizes()?);
    let seeds = |setting: u64| {
        (0..u64::from(args.repetitions)).map(move |k| args.seed.wrapping_add(1000 * setting + k))
    };
    let mut repetitions =
        Repetitions::new((0_u64..).zip(SETTINGS).flat_map(|(k, s)| seeds(k).map(move |seed| (s.1, seed))));
    let mut lru = ExactLru::new();
    // Longer phases, not more of them: a program whose working sets last.
    let probe = Workload::by_name(name, args.seed, 1)
        .ok_or_else(|| Failure::usage(TargetError::Workload { name: name.to_owned() }))?;
    let mut length = 0_u64;
    probe
        .events()
        .map_err(Failure::run)?
        .drive(|event| {
            length += u64::from(matches!(event, Event::Access(_)));
            if length >= args.accesses { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .map_err(Failure::run)?;
    // A little more than in proportion: not everything a workload does is repeated.
    let scale =
        u32::try_from((args.accesses + args.accesses / 4).div_ceil(length.max(1))).unwrap_or(u32::MAX);
    let workload = Workload::by_name(name, args.seed, scale).unwrap_or(probe);
    let mut events = workload.events().map_err(Failure::run)?;
    let mut look = 0_u64;
    events
        .drive(|event| {
            if let Event::Access(access) = event {
                for line in line_size.lines(&access) {
                    repetitions.access(line);
                    lru.access(line);
                }
                look += 1;
                if look % (1 << 20) == 0 {
                    watch.tell_with(|| format!("{name}: {} accesses", count(repetitions.accesses())));
                    if watch.is_interrupted() {
                        return ControlFlow::Break(());
                    }
                }
                if repetitions.accesses() >= args.accesses {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })
        .map_err(Failure::run)?;
    let accesses = repetitions.accesses();
    let exact = lru.total().curve(line_size, &sizes);
    let found: Vec<Vec<f64>> =
        repetitions.finish().iter().map(|bursts| averaged(bursts, args)).collect::<Result<_, _>>()?;
    let mut scatters = Vec::new();
    for (setting, found) in SETTINGS.iter().zip(found.chunks(args.repetitions as usize)) {
        for (at, point) in exact.points.iter().enumerate() {
            scatters.push(Scatter {
                program: name.to_owned(),
                setting: setting.0,
                cache_bytes: point.0.bytes(line_size),
                exact: 100.0 * point.1,
                repetitions: found
                    .iter()
                    .filter(|curve| !curve.is_empty())
                    .map(|curve| 100.0 * curve[at])
                    .collect(),
            });
        }
    }
    Ok((accesses, scatters))
}

/// Mean over the bursts of their modelled miss ratio at each size, weighted by their accesses; nothing if there is no
/// burst.
fn averaged(bursts: &[Burst], args: &Args) -> Result<Vec<f64>, Failure> {
    let (line_size, sizes) = (args.line_size()?, args.cache_sizes()?);
    let mut sums = vec![0.0; sizes.len()];
    let mut all = 0.0;
    for burst in bursts {
        let weight = burst.accesses.end.saturating_sub(burst.accesses.start) as f64;
        let model = StatStack::fit(&burst.profile(line_size)).map_err(Failure::run)?;
        for (sum, point) in sums.iter_mut().zip(model.curve(&sizes).points) {
            *sum += weight * point.1;
        }
        all += weight;
    }
    Ok(if all > 0.0 { sums.iter().map(|sum| sum / all).collect() } else { Vec::new() })
}

fn lengths_table(lengths: &[(String, u64)], args: &Args) -> Vec<Vec<String>> {
    let mut rows = vec![["program", "accesses", "repetitions"].map(str::to_owned).to_vec()];
    rows.extend(lengths.iter().map(|(name, n)| vec![name.clone(), count(*n), args.repetitions.to_string()]));
    rows
}

/// What the paper states, and what is found, over all programs and sizes.
fn summary(scatters: &[Scatter]) -> Vec<Vec<String>> {
    let heads = [
        "setting",
        "points",
        "deviations within: paper",
        "here",
        "largest deviation",
        "errors within, here",
        "mean error",
        "largest error",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for (name, _, points, share) in SETTINGS {
        let of_setting = || scatters.iter().filter(|s| s.setting == name);
        let deviations: Vec<f64> = of_setting().flat_map(Scatter::deviations).collect();
        let errors: Vec<f64> = of_setting().flat_map(Scatter::errors).collect();
        let within = |values: &[f64]| {
            let count = values.iter().filter(|&&value| value <= points).count();
            format!("{:.1} %", 100.0 * count as f64 / values.len().max(1) as f64)
        };
        let largest = |values: &[f64]| format!("{:.2}", values.iter().copied().fold(0.0, f64::max));
        rows.push(vec![
            name.to_owned(),
            points.to_string(),
            format!("{:.0} %", 100.0 * share),
            within(&deviations),
            largest(&deviations),
            within(&errors),
            format!("{:.3}", mean(&errors)),
            largest(&errors),
        ]);
    }
    rows
}

fn details(scatters: &[Scatter]) -> Vec<Vec<String>> {
    let heads =
        ["program", "setting", "cache", "exact, %", "mean", "least", "most", "mean deviation", "mean error"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for scatter in scatters {
        let least = scatter.repetitions.iter().copied().fold(f64::INFINITY, f64::min);
        let most = scatter.repetitions.iter().copied().fold(0.0, f64::max);
        let mut row = vec![scatter.program.clone(), scatter.setting.to_owned(), bytes(scatter.cache_bytes)];
        let deviation = mean(&scatter.deviations().collect::<Vec<_>>());
        let error = mean(&scatter.errors().collect::<Vec<_>>());
        row.extend(
            [scatter.exact, mean(&scatter.repetitions), least, most, deviation, error]
                .map(|v| format!("{v:.3}")),
        );
        rows.push(row);
    }
    rows
}

fn csv(scatters: &[Scatter], out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "program,setting,cache_bytes,exact,repetition,miss_ratio")?;
    for s in scatters {
        for (repetition, found) in s.repetitions.iter().enumerate() {
            writeln!(out, "{},{},{},{},{repetition},{found}", s.program, s.setting, s.cache_bytes, s.exact)?;
        }
    }
    Ok(())
}
