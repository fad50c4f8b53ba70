//! Tables, figures and files.

use std::io::{self, Write};

use serde_json::json;

use super::args::Args;
use super::compare::{Compared, STRATEGIES, Setting};
use super::score::{mean, samples_for};
use crate::cli::Failure;
use crate::output::OutputDir;
use crate::report::{Line, Panel, Table, count, draw_panels, named, write_document};

/// What the numbers are.
const EXPLAINED: &str = "CDF error: area between the distributions over time of the exact and the estimated miss ratio, \
in percentage points, mean over the cache sizes; mean and standard deviation over the seeds. Overhead ratio: samples of \
periodic over samples of phase-guided profiling, because the paper's sampler costs so much per sample and nothing in \
between. Equal error: samples until a strategy is as near as periodic profiling is at the paper's setting. The reference \
is an exact simulation of every access; LRU is modelled by StatStack.";

/// Prints the tables.
pub(super) fn tables(
    compared: &[Compared],
    args: &Args,
    folder: Option<&OutputDir>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", Table::from(table(compared)).text())?;
    if !args.brief {
        writeln!(out, "{}", Table::from(equal_error(compared)).text())?;
        writeln!(out, "{}", Table::from(trade(compared)).text())?;
    }
    writeln!(out, "{EXPLAINED}")?;
    for one in compared {
        for note in &one.notes {
            writeln!(out, "{}: note: {note}", one.program)?;
        }
        if one.incomplete {
            writeln!(out, "{}: stopped before its end", one.program)?;
        }
    }
    folder.map_or(Ok(()), |folder| writeln!(out, "written to {}", folder.path().display()))
}

pub(super) fn object(compared: &[Compared], args: &Args) -> serde_json::Value {
    json!({
        "seed": args.common.seed,
        "seeds": args.seeds().len(),
        "sizes": args.cache_sizes().unwrap_or_default().iter().map(|size| size.0).collect::<Vec<_>>(),
        "programs": compared,
        "mean": {
            "cdf_error_periodic": mean_of(compared, |c| c.settings[0].score.cdf_error),
            "cdf_error_guided": mean_of(compared, |c| c.settings[1].score.cdf_error),
            "cdf_error_guided_equal_overhead": mean_of(compared, |c| c.equal_overhead.score.cdf_error),
            "overhead_ratio": overhead(compared),
        },
    })
}

fn mean_of(compared: &[Compared], get: impl Fn(&Compared) -> f64) -> f64 {
    mean(&compared.iter().map(get).collect::<Vec<_>>())
}

/// Ratio of the mean overheads, as in the paper: an overhead is samples per access.
fn overhead(compared: &[Compared]) -> f64 {
    let rate = |at: usize| mean_of(compared, |c| c.settings[at].score.samples / c.accesses.max(1) as f64);
    rate(0) / rate(1).max(f64::MIN_POSITIVE)
}

fn error(setting: &Setting) -> String {
    format!("{:.2} ({:.2})", setting.score.cdf_error, setting.score.deviation)
}

/// The paper's settings.
fn table(compared: &[Compared]) -> Vec<Vec<String>> {
    let mut rows = named(compared.iter().map(|one| {
        let [periodic, guided] = &one.settings;
        [
            ("program", one.program.clone()),
            ("windows", one.windows.to_string()),
            ("phases", format!("{:.0}", guided.score.phases)),
            ("CDF error: periodic", error(periodic)),
            ("guided", error(guided)),
            ("samples: periodic", count(periodic.score.samples as u64)),
            ("guided", count(guided.score.samples as u64)),
            ("windows sampled: periodic", format!("{:.0}", periodic.score.profiled)),
            ("guided", format!("{:.0}", guided.score.profiled)),
            ("overhead ratio", format!("{:.1}", one.overhead_ratio)),
            ("with detection", format!("{:.1}", one.overhead_ratio_with_detection)),
            ("guided, as many samples", error(&one.equal_overhead)),
        ]
    }));
    let errors = |at: usize| format!("{:.2}", mean_of(compared, |c| c.settings[at].score.cdf_error));
    let mut means = vec![String::new(); 12];
    (means[0], means[3], means[4]) = ("mean".to_owned(), errors(0), errors(1));
    means[9] = format!("{:.1}", overhead(compared));
    means[10] = format!("{:.1}", mean_of(compared, |c| c.overhead_ratio_with_detection));
    means[11] = format!("{:.2}", mean_of(compared, |c| c.equal_overhead.score.cdf_error));
    rows.push(means);
    rows
}

/// Samples to reach the same error.
fn equal_error(compared: &[Compared]) -> Vec<Vec<String>> {
    named(compared.iter().map(|one| {
        let equal = &one.equal_error;
        let samples = |n: Option<f64>| n.map_or_else(|| "-".to_owned(), |n| count(n as u64));
        let ratio = |n: Option<f64>| match (n, equal.guided) {
            (Some(n), Some(guided)) => format!("{:.1}", n / guided),
            _ => "-".to_owned(),
        };
        [
            ("program", one.program.clone()),
            ("at CDF error", format!("{:.2}", equal.cdf_error)),
            ("samples: periodic", samples(equal.periodic)),
            ("guided", samples(equal.guided)),
            ("SHARDS", samples(equal.shards)),
            ("periodic / guided", ratio(equal.periodic)),
            ("SHARDS / guided", ratio(equal.shards)),
        ]
    }))
}

/// Settings of a strategy, averaged over the programs: (parameter, gap, samples per million accesses, error).
fn averaged(compared: &[Compared], strategy: &str) -> Vec<(f64, f64, f64, f64)> {
    let Some(first) = compared.first() else { return Vec::new() };
    let mut settings = Vec::new();
    for (at, setting) in first.sweep.iter().enumerate().filter(|(_, s)| s.strategy == strategy) {
        let samples = mean_of(compared, |c| 1e6 * c.sweep[at].score.samples / c.accesses.max(1) as f64);
        settings.push((
            setting.parameter,
            setting.gap,
            samples,
            mean_of(compared, |c| c.sweep[at].score.cdf_error),
        ));
    }
    settings.sort_by(|a, b| a.2.total_cmp(&b.2));
    settings
}

/// Figure 11 as a table: samples that each strategy needs for some errors, programs averaged.
fn trade(compared: &[Compared]) -> Vec<Vec<String>> {
    let mut rows = vec![vec!["samples per million accesses for a mean CDF error of".to_owned()]];
    let errors = [4.0, 3.0, 2.0, 1.5, 1.0, 0.75, 0.5, 0.35, 0.25];
    rows[0].extend(errors.map(|error| format!("{error}")));
    for strategy in STRATEGIES {
        let settings: Vec<(f64, f64)> = averaged(compared, strategy).iter().map(|s| (s.2, s.3)).collect();
        let mut row = vec![strategy.to_owned()];
        row.extend(errors.map(|error| {
            samples_for(error, &settings).map_or_else(|| "-".to_owned(), |n| format!("{n:.1}"))
        }));
        rows.push(row);
    }
    rows
}

/// Writes the report, the figures and the tables.
pub(super) fn write(compared: &[Compared], args: &Args, folder: &OutputDir) -> Result<(), Failure> {
    let sweep = draw_panels("CDF error against samples", &sweep_panels(compared)).map_err(Failure::Run)?;
    let intra = draw_panels("Variation within phases", &intra_panels(compared)).map_err(Failure::Run)?;
    let pictures = if args.brief { String::new() } else { sweep.clone() };
    let body = format!(
        "<p>{EXPLAINED}</p>\n<h2>At the paper's settings</h2>\n{}<h2>Samples for the same error</h2>\n{}<h2>Error against \
         samples</h2>\n<figure>{pictures}</figure>\n{}<h2>Variation within phases</h2>\n<p>Error of the whole run's miss \
         ratio if the first windows of each phase, or as many at random, are used in place of all of them.</p>\n\
         <figure>{intra}</figure>\n",
        Table::from(table(compared)).html(),
        Table::from(equal_error(compared)).html(),
        Table::from(trade(compared)).html(),
    );
    folder
        .write("report.html", |out| write_document("Phase-guided and periodic profiling", &body, out))
        .and_then(|()| folder.write("samples.svg", |out| out.write_all(sweep.as_bytes())))
        .and_then(|()| folder.write("variation.svg", |out| out.write_all(intra.as_bytes())))
        .and_then(|()| folder.write("settings.csv", |out| settings_csv(compared, out)))
        .and_then(|()| folder.write("variation.csv", |out| variation_csv(compared, out)))
        .and_then(|()| folder.write("results.json", |out| writeln!(out, "{}", object(compared, args))))
}

/// Figure 11, for each program and for their mean; both axes in decades.
fn sweep_panels(compared: &[Compared]) -> Vec<Panel> {
    let panel = |name: &str, settings: &dyn Fn(&str) -> Vec<(f64, f64)>| Panel {
        across: "samples, decades".to_owned(),
        up: format!("{name}: CDF error, points, decades"),
        lines: STRATEGIES
            .iter()
            .enumerate()
            .map(|(colour, strategy)| Line {
                label: (*strategy).to_owned(),
                colour,
                thin: *strategy == STRATEGIES[2],
                points: envelope(&settings(strategy)),
            })
            .collect(),
    };
    let mut panels = vec![panel("mean, samples per million accesses", &|strategy| {
        averaged(compared, strategy).iter().map(|s| (s.2, s.3)).collect()
    })];
    panels.extend(compared.iter().map(|one| {
        panel(&short(&one.program), &|strategy| {
            let settings = one.sweep.iter().filter(|s| s.strategy == strategy);
            settings.map(|s| (s.score.samples, s.score.cdf_error)).collect()
        })
    }));
    panels
}

/// Settings that no cheaper one beats, in decades.
fn envelope(settings: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted = settings.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut best = f64::INFINITY;
    sorted.retain(|&(samples, error)| {
        let better = samples > 0.0 && error > 0.0 && error < best;
        if better {
            best = error;
        }
        better
    });
    sorted.iter().map(|(samples, error)| (samples.log10(), error.log10())).collect()
}

fn intra_panels(compared: &[Compared]) -> Vec<Panel> {
    let panel = |one: &Compared| {
        let line = |label: &str, colour, errors: &[f64]| Line {
            label: label.to_owned(),
            colour,
            thin: false,
            points: one.variation.windows.iter().map(|&w| w as f64).zip(errors.iter().copied()).collect(),
        };
        Panel {
            across: "windows of each phase".to_owned(),
            up: format!("{}: error, points", short(&one.program)),
            lines: vec![
                line("in order", 0, &one.variation.in_order),
                line("at random", 1, &one.variation.at_random),
            ],
        }
    };
    compared.iter().map(panel).collect()
}

/// Enough of a command to know it by.
fn short(name: &str) -> String {
    let first = name.split_whitespace().next().unwrap_or(name);
    first.rsplit('/').next().unwrap_or(first).to_owned()
}

fn settings_csv(compared: &[Compared], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "program,strategy,parameter,gap,samples,windows_sampled,phases,cdf_error,deviation,course_error,average_error"
    )?;
    for one in compared {
        for setting in one.settings.iter().chain(&one.sweep) {
            let Setting { strategy, parameter, gap, score } = setting;
            writeln!(
                out,
                "\"{}\",{strategy},{parameter},{gap},{},{},{},{},{},{},{}",
                one.program.replace('"', "\"\""),
                score.samples,
                score.profiled,
                score.phases,
                score.cdf_error,
                score.deviation,
                score.course_error,
                score.average_error
            )?;
        }
    }
    Ok(())
}

fn variation_csv(compared: &[Compared], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "program,windows,in_order,at_random")?;
    for one in compared {
        let v = &one.variation;
        for ((windows, in_order), at_random) in v.windows.iter().zip(&v.in_order).zip(&v.at_random) {
            writeln!(out, "\"{}\",{windows},{in_order},{at_random}", one.program.replace('"', "\"\""))?;
        }
    }
    Ok(())
}
