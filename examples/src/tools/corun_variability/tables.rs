//! The result as tables for people.

use std::io::{self, Write};

use cachesharing::{Culprit, Program, SlowdownDistribution};

use super::args::PredictArgs;
use super::object::QUANTILES;
use super::{Findings, Truth, certainty, schedule, ways};
use crate::cli::ByName;
use crate::output::OutputDir;
use crate::report::{Table, bytes, letters, percent, plural};

/// Culprits that are listed.
const CULPRITS: usize = 5;
/// What loading data costs is printed from this part of a pass on: ranges without a flag reach as far.
const LOADING: f64 = 0.03;

/// Writes the tables.
pub(super) fn write(
    args: &PredictArgs,
    found: &Findings,
    folder: Option<&OutputDir>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let runs = found.answer.chosen().slowdowns.len();
    writeln!(out, "{}: {runs} start offsets", found.title())?;
    for note in &found.notes {
        writeln!(out, "note: {note}")?;
    }
    for program in &found.programs {
        let windows = plural(program.window_count(), "window", "windows");
        let phases = plural(program.phases().len(), "phase", "phases");
        writeln!(out, "  {}: {windows} in {phases}", program.name())?;
    }
    writeln!(out)?;
    write!(out, "{}", Table::from(distributions(args, found)).text())?;
    for line in certainty::lines(args, &found.answer.chosen().distribution) {
        writeln!(out, "{line}")?;
    }
    uncertain(found, out)?;
    writeln!(out)?;
    write!(out, "{}", Table::from(methods(found)).text())?;
    writeln!(out, "\nWhich phases cost most:")?;
    for culprit in found.answer.culprits.iter().take(CULPRITS) {
        writeln!(
            out,
            "  phase {} beside {}: {} slower, {} of the time, {} of the whole",
            letters(culprit.phase as usize),
            beside(found, culprit),
            slower(culprit.slowdown),
            percent(culprit.time_share),
            percent(culprit.cost),
        )?;
    }
    let of = &found.answer.sensitivity;
    let share = bytes(found.answer.share as u64);
    let (less, more) = (percent(of.one_less - 1.0), percent(1.0 - of.one_more));
    writeln!(
        out,
        "The target has {share} of {} on average in its slowest run:",
        bytes(found.cache.bytes() as u64)
    )?;
    writeln!(out, "a way less would cost it {less} of its time, a way more would save {more}.")?;
    if let Some(schedule) = &found.schedule {
        write!(out, "\n{}", Table::from(schedule::table(schedule)).text())?;
        for line in schedule::pairings(schedule) {
            writeln!(out, "{line}")?;
        }
        if schedule::is_unsure(schedule) {
            writeln!(
                out,
                "{} depends on which program ran first, on a little more or less of the cache, or on what modelled curves or waiting for memory leave open",
                schedule::UNSURE
            )?;
        }
    }
    if let Some(divided) = &found.ways {
        let names: Vec<&str> = found.programs.iter().map(Program::name).collect();
        writeln!(out, "\nWays of the shared cache:")?;
        for line in ways::lines(divided, &names) {
            writeln!(out, "{line}")?;
        }
    }
    match folder {
        Some(folder) => writeln!(out, "\nThe pictures: {}", folder.path().join("report.html").display()),
        None => writeln!(out, "\nFor pictures, trajectories and all phases that meet, add --out DIR."),
    }
}

/// What makes the prediction unsure, and how far.
fn uncertain(found: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let cliff = found.answer.chosen().time_on_cliff;
    if cliff > 0.0 {
        writeln!(
            out,
            "{} of the target's time is predicted on a cliff, where a little cache more or less changes much.",
            percent(cliff)
        )?;
    }
    let waiting = found.answer.chosen().time_waiting;
    if waiting > 0.0 {
        writeln!(
            out,
            "In {} of its time the target is predicted to wait because memory serves others, which is less certain than \
             the rest.",
            percent(waiting)
        )?;
    }
    let ranges = &found.answer.chosen().ranges;
    let (range, flagged) = (found.answer.chosen().range(), ranges.iter().filter(|r| r.flagged).count());
    let uncertainty = found.programs.iter().map(Program::uncertainty).fold(0.0, f64::max);
    if uncertainty > 0.0 {
        writeln!(
            out,
            "Curves were modelled, not measured: slowdowns may be {} off. Whichever program ran first, in a cache a \
             little larger or smaller, the mean lies between {} and {}.",
            percent(uncertainty),
            slower(range.low),
            slower(range.high)
        )?;
    } else if range.flagged {
        writeln!(
            out,
            "{flagged} of {} runs depend on which program ran first, {}on a little more or less of the cache. The numbers \
             above are for programs that have run together before. Whichever ran first, in a cache a little larger or \
             smaller, the mean lies between {} and {}.",
            ranges.len(),
            if waiting > 0.0 { "on how long memory is waited for, or " } else { "or " },
            slower(range.low),
            slower(range.high)
        )?;
    }
    if range.first_pass > range.high.max(range.slowdown * (1.0 + LOADING)) {
        writeln!(
            out,
            "A pass that has to load its data, because only the others ran before, is up to {} slower.",
            slower(range.first_pass)
        )?;
    }
    Ok(())
}

/// What is predicted and simulated.
pub(super) fn distributions(args: &PredictArgs, found: &Findings) -> Vec<Vec<String>> {
    let mut header = ["slower by", "mean", "spread"].map(str::to_owned).to_vec();
    header.extend(QUANTILES.iter().map(|p| format!("{:.0} %", 100.0 * p)));
    let row = |name: String, of: &SlowdownDistribution| {
        let mut row = vec![name, slower(of.mean()), percent(of.standard_deviation())];
        row.extend(QUANTILES.iter().map(|&p| slower(of.quantile(p))));
        row
    };
    let chosen = format!("predicted ({})", args.method.name());
    let mut rows = vec![header, row(chosen, &found.answer.chosen().distribution)];
    if let Some(truth) = &found.truth {
        rows.push(row(format!("simulated ({} runs)", truth.slowdowns.len()), &truth.distribution));
    }
    rows
}

/// The paper's table IV.1 for this one set of programs, and how far each method is off.
pub(super) fn methods(found: &Findings) -> Vec<Vec<String>> {
    let mut header = ["method", "invocations", "time"].map(str::to_owned).to_vec();
    if found.truth.is_some() {
        header.extend(["speed-up", "error of the mean", "KS distance"].map(str::to_owned));
    }
    let mut rows = vec![header];
    for (number, by) in found.answer.methods.iter().enumerate() {
        let time = format!("{:.2} ms", 1e3 * by.seconds);
        let mut row = vec![by.method.name(), by.variability.invocations.to_string(), time];
        if let Some(truth) = &found.truth {
            row.push(format!("{:.0} x", found.speedup(by.seconds, truth)));
            row.extend(compared(found, number, truth));
        }
        rows.push(row);
    }
    rows
}

fn compared(found: &Findings, method: usize, truth: &Truth) -> Vec<String> {
    let Some(predicted) = found.predicted_of(method, truth) else { return Vec::new() };
    let error = percent(predicted.mean_error(&truth.distribution));
    vec![error, format!("{:.3}", predicted.kolmogorov_smirnov(&truth.distribution))]
}

/// A slowdown as what is lost: 1.17 is 17 %.
pub(super) fn slower(slowdown: f64) -> String {
    format!("{:.1} %", 100.0 * (slowdown - 1.0))
}

/// The phases that the target met.
pub(super) fn beside(found: &Findings, culprit: &Culprit<u64>) -> String {
    let others = culprit.beside.iter().zip(&found.programs[1..]);
    let each =
        others.map(|(phase, program)| format!("phase {} of {}", letters(*phase as usize), program.name()));
    each.collect::<Vec<_>>().join(" and ")
}
