//! Results as tables, as JSON, as CSV and as pictures.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::args::Args;
use super::model::Model;
use super::played::Played;
use super::suite::{Group, Outcome, Results};
use crate::cli::Failure;
use crate::output::OutputDir;
use crate::report::{Table, named, percent, write_csv};

/// One JSON object with an entry for each trace.
pub fn played_json(args: &Args, model: Model, programs: &[Played]) -> Value {
    json!({
        "model": model.name(),
        "windows": args.windows,
        "seed": args.common.seed,
        "programs": programs,
    })
}

/// A table with a row for each trace.
pub fn played_table(out: &mut dyn Write, model: Model, programs: &[Played]) -> io::Result<()> {
    let rows = named(programs.iter().map(|Played { name, solo, predicted, simulated, .. }| {
        [
            ("program", name.clone()),
            ("alone: misses", percent(solo.miss_ratio)),
            ("CPI", format!("{:.4}", solo.cpi)),
            ("together: misses", percent(simulated.miss_ratio)),
            ("CPI", format!("{:.4}", simulated.cpi)),
            ("lines", format!("{:.0}", simulated.share_lines)),
            ("predicted: misses", percent(predicted.miss_ratio)),
            ("CPI", format!("{:.4}", predicted.cpi)),
            ("lines", format!("{:.0}", predicted.share_lines)),
            ("CPI error", format!("{:+.2} %", 100.0 * (predicted.cpi / simulated.cpi - 1.0))),
        ]
    }));
    write!(out, "{}", Table::from(rows).text())?;
    writeln!(
        out,
        "\nmisses: of the shared cache, per memory access; together: simulated; predicted by StatCC with {}",
        model.name()
    )
}

/// All of the suite in one JSON object.
pub fn suite_json(args: &Args, model: Model, results: &Results) -> Value {
    let candidates: Vec<Value> = results
        .choices
        .iter()
        .map(|c| {
            let rise = c.half - c.whole;
            json!({ "name": c.candidate.name, "miss_ratio": c.whole, "rise": rise, "chosen": c.chosen })
        })
        .collect();
    json!({
        "model": model.name(),
        "windows": args.windows,
        "accesses": args.suite.accesses,
        "seed": args.common.seed,
        "candidates": candidates,
        "programs": results.programs,
        "pairs": results.pairs,
        "pair_errors": results.pair_errors(),
        "pair_errors_one_profile": results.steady_errors(false),
        "pair_errors_on_cliffs": results.steady_errors(true),
        "mixes": results.mixes,
        "mix_errors": results.mix_errors(),
        "wrong_cpi_models": results.wrong_models,
        "sampled": results.sampled,
        "incomplete": results.incomplete,
    })
}

/// The paper's tables.
pub fn suite_table(out: &mut dyn Write, results: &Results) -> io::Result<()> {
    writeln!(
        out,
        "Programs, by the rise of their miss ratio from the whole cache to half of it (StatStack)"
    )?;
    for choice in &results.choices {
        let mark = if choice.chosen { '*' } else { ' ' };
        let (name, rise) = (choice.candidate.name, 100.0 * (choice.half - choice.whole));
        writeln!(out, "{mark} {name:<20} {:>10}  {rise:+8.3} points", percent(choice.whole))?;
    }
    writeln!(out, "\nErrors of the predicted CPI in pairs (Eklöv, thesis, Paper II, table 2)")?;
    writeln!(out, "  {:<20} {:>9} {:>9} {:>9} {:>9}", "", "average", "median", "std. dev.", "largest")?;
    let rows = results.programs.iter().map(|program| (program.name.as_str(), program.errors));
    let all = [
        ("all pairs", results.pair_errors()),
        ("mixes of four", results.mix_errors()),
        ("pairs, one profile", results.steady_errors(false)),
        ("one profile, cliffs", results.steady_errors(true)),
    ];
    for (name, errors) in rows.chain(all).filter(|(_, errors)| errors.count > 0) {
        let [mean, median, deviation, max] = [errors.mean, errors.median, errors.deviation, errors.max]
            .map(|error| format!("{:.2} %", 100.0 * error));
        writeln!(out, "  {name:<20} {mean:>9} {median:>9} {deviation:>9} {max:>9}")?;
    }
    writeln!(out, "  one profile: of each whole program, solved once; cliffs: those it flags as such")?;
    if !results.wrong_models.is_empty() {
        writeln!(out, "\nIncrease of the errors when CPI models are wrong by a factor (table 3)")?;
        writeln!(out, "  {:>6} {:>7} {:>12} {:>10}", "first", "second", "miss ratio", "CPI")?;
    }
    for cell in &results.wrong_models {
        let (miss_ratio, cpi) = (100.0 * cell.miss_ratio, 100.0 * cell.cpi);
        writeln!(out, "  {:>6} {:>7} {miss_ratio:>+10.3} % {cpi:>+8.2} %", cell.first, cell.second)?;
    }
    if !results.sampled.is_empty() {
        writeln!(
            out,
            "\nErrors that sampling adds (figure 10): 95 % are within; the paper gives them around the means"
        )?;
        for sampled in &results.sampled {
            let errors = [
                sampled.cpi,
                sampled.cpi_spread,
                sampled.one_profile_cpi,
                sampled.one_profile_cpi_spread,
                sampled.miss_ratio,
            ];
            let [cpi, spread, one, one_spread, ratio] = errors.map(|error| 100.0 * error.p95);
            writeln!(
                out,
                "  1 in {:<6} {:>9.0} samples a program: CPI {cpi:.2} % ({spread:.2} % around the means), one profile \
                 {one:.2} % ({one_spread:.2} %); miss ratio {ratio:.3} points; on average CPI {:+.2} %",
                sampled.rate.recip().round(),
                sampled.samples,
                100.0 * sampled.bias
            )?;
        }
    }
    out.flush()
}

/// Writes `pairs.csv`, `mixes.csv` and `scatter.svg` (the paper's figure 8).
pub fn suite_files(folder: &OutputDir, results: &Results, json: &Value) -> Result<(), Failure> {
    let picture = super::scatter::draw(&results.pairs).map_err(Failure::Run)?;
    for (name, groups) in [("pairs.csv", &results.pairs), ("mixes.csv", &results.mixes)] {
        folder.write(name, |out| csv(out, groups))?;
    }
    folder
        .write("scatter.svg", |out| out.write_all(picture.as_bytes()))
        .and_then(|()| folder.write("results.json", |out| writeln!(out, "{json}")))
}

/// Writes `programs.csv`.
pub fn played_files(folder: &OutputDir, programs: &[Played], json: &Value) -> Result<(), Failure> {
    let row = |p: &Played| {
        [
            ("name", p.name.clone()),
            ("mix", p.mix.to_string()),
            ("accesses", p.accesses.to_string()),
            ("solo_miss_ratio", p.solo.miss_ratio.to_string()),
            ("solo_cpi", p.solo.cpi.to_string()),
            ("predicted_miss_ratio", p.predicted.miss_ratio.to_string()),
            ("predicted_cpi", p.predicted.cpi.to_string()),
            ("predicted_lines", p.predicted.share_lines.to_string()),
            ("simulated_miss_ratio", p.simulated.miss_ratio.to_string()),
            ("simulated_cpi", p.simulated.cpi.to_string()),
            ("simulated_lines", p.simulated.share_lines.to_string()),
        ]
    };
    folder
        .write("results.json", |out| writeln!(out, "{json}"))
        .and_then(|()| folder.write("programs.csv", |out| write_csv(out, programs.iter().map(row))))
}

fn csv(out: &mut dyn Write, groups: &[Group]) -> io::Result<()> {
    let members =
        groups.iter().enumerate().flat_map(|(number, group)| group.iter().map(move |o| (number, o)));
    let row = |(number, o): (usize, &Outcome)| {
        [
            ("group", number.to_string()),
            ("name", o.name.clone()),
            ("miss_ratio", o.miss_ratio.to_string()),
            ("predicted_miss_ratio", o.predicted_miss_ratio.to_string()),
            ("cpi", o.cpi.to_string()),
            ("predicted_cpi", o.predicted_cpi.to_string()),
            ("lines", o.lines.to_string()),
            ("predicted_lines", o.predicted_lines.to_string()),
            ("error", o.error.to_string()),
        ]
    };
    write_csv(out, members.map(row))
}
