//! The table of errors, for people and for programs.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};

use super::super::Args;
use super::super::judge::{Errors, Regret, kept};
use super::super::unknown::{Row as UnknownRow, Unknown};
use super::{MODELS, ROUTES, Row};
use crate::cli::Failure;
use crate::output::OutputDir;
use crate::report::{Table, percent};

/// Prints the table of errors.
///
/// # Errors
/// [`Failure`] if it cannot be written.
pub fn print(
    table: &super::Table,
    args: &Args,
    folder: Option<&OutputDir>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let object = object(table);
    args.common.present(
        folder,
        |folder| folder.write("accuracy.json", |out| writeln!(out, "{object}")).map_err(Failure::run),
        |out| writeln!(out, "{object}"),
        |out| write!(out, "{}", text(table)),
        out,
    )
}

fn object(table: &super::Table) -> Value {
    let rows = table.rows.iter().map(|row| {
        let of_models = |errors: [Errors; 3]| MODELS.into_iter().zip(errors).collect::<BTreeMap<_, _>>();
        let routes: BTreeMap<_, _> = ROUTES.into_iter().zip(row.time.map(of_models)).collect();
        json!({
            "program": row.program,
            "intervals": row.intervals,
            "phases": row.phases,
            "instances": row.instances,
            "time": routes,
            "power": {"same": row.power[0], "cross": row.power[1]},
            "multiplexing": {"by_phase": row.filling[0], "in_time": row.filling[1]},
            "multiplexed": {"time": row.multiplexed[0], "power": row.multiplexed[1]},
            "schedule": {
                "loss": row.regret.mean,
                "worst_phase": row.regret.worst,
                "saving_kept": row.regret.kept,
                "violations": row.regret.violations.iter().map(|(_, by)| by).collect::<Vec<_>>(),
            },
        })
    });
    let unknown = table.unknown.as_ref().map(|unknown| {
        let rows = unknown.rows.iter().map(|row| {
            json!({
                "program": row.program,
                "time": row.time,
                "power": {"same": row.power[0], "cross": row.power[1]},
                "inside": {"time": row.inside[0], "power": row.inside[1]},
                "schedule": {
                    "saving_kept": row.regret.kept,
                    "violations": row.regret.violations.iter().map(|(_, by)| by).collect::<Vec<_>>(),
                },
            })
        });
        let promised = unknown.promised.map(|[mean, interval]| json!({"mean": mean, "interval": interval}));
        json!({
            "programs": rows.collect::<Vec<_>>(),
            "promised": {"time": promised[0], "power": promised[1]},
        })
    });
    json!({
        "frequencies_ghz": table.stations.map(powersleuth::Hertz::ghz),
        "programs": rows.collect::<Vec<_>>(),
        "unknown": unknown,
    })
}

fn text(table: &super::Table) -> String {
    let stations = table.stations.map(|f| format!("{:.2}", f.ghz()));
    let mut text = format!(
        "Errors by phase instance, weighted by intervals; min, median and max are {} GHz.\n\nTime, mean (worst instance):\n",
        stations.join(", ")
    );
    let cell = |e: Errors| format!("{} ({})", percent(e.mean), percent(e.worst));
    let mut rows = vec![vec!["program".to_owned()]];
    for route in ROUTES {
        rows[0].extend(MODELS.iter().map(|model| format!("{route} {model}")));
    }
    rows[0].push(String::new());
    for row in &table.rows {
        let cells = row.time.iter().flatten().map(|&e| cell(e));
        rows.push(std::iter::once(row.program.clone()).chain(cells).chain([String::new()]).collect());
    }
    let over = |pick: &dyn Fn(&super::Table, usize, usize) -> f64, name: &str| -> Vec<String> {
        let cells = (0..9).map(|k| percent(pick(table, k / 3, k % 3)));
        std::iter::once(name.to_owned()).chain(cells).chain([String::new()]).collect()
    };
    rows.push(over(&|t, route, model| t.mean(|row| row.time[route][model].mean), "mean"));
    rows.push(over(&|t, route, model| t.worst(|row| row.time[route][model].mean), "worst"));
    text += &Table::from(rows).text();

    text += "\nPower, what multiplexing does, and schedules; the last saving is of all programs together:\n";
    let header = [
        "program",
        "power same",
        "power max -> min",
        "filled by phase",
        "filled in time",
        "time multiplexed",
        "power multiplexed",
        "schedule's loss",
        "saving kept",
        "bound broken by",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let mean = |of: &dyn Fn(&Row) -> f64| percent(table.mean(of));
    let signed = |x: f64| format!("{}{}", if x < 0.0 { "-" } else { "" }, percent(x.abs()));
    for row in &table.rows {
        rows.push(vec![
            row.program.clone(),
            cell(row.power[0]),
            cell(row.power[1]),
            percent(row.filling[0]),
            percent(row.filling[1]),
            cell(row.multiplexed[0]),
            cell(row.multiplexed[1]),
            signed(row.regret.mean),
            percent(row.regret.kept),
            broken(&row.regret),
        ]);
    }
    rows.push(vec![
        "mean".to_owned(),
        mean(&|row| row.power[0].mean),
        mean(&|row| row.power[1].mean),
        mean(&|row| row.filling[0]),
        mean(&|row| row.filling[1]),
        mean(&|row| row.multiplexed[0].mean),
        mean(&|row| row.multiplexed[1].mean),
        signed(table.mean(|row| row.regret.mean)),
        percent(kept(table.rows.iter().map(|row| &row.regret))),
        String::new(),
    ]);
    text += &Table::from(rows).text();
    if let Some(unknown) = &table.unknown {
        text += &unknown_text(unknown, &stations);
    }
    text
}

fn broken(regret: &Regret) -> String {
    regret.violations.iter().map(|(_, by)| percent(*by)).collect::<Vec<_>>().join(", ")
}

fn unknown_text(unknown: &Unknown, stations: &[String; 3]) -> String {
    let [lowest, _, highest] = stations;
    let [time, power] = unknown.promised;
    let mut text = format!(
        "\nCalibrated without knowing static power, voltages or weights; profiled at {highest} GHz, mean (worst instance), \
         and the share within the intervals. The calibration promises {} of time and {} of power at {lowest} GHz, and 95 % \
         within {} and {}:\n\n",
        percent(time[0]),
        percent(power[0]),
        percent(time[1]),
        percent(power[1])
    );
    let cell = |e: Errors| format!("{} ({})", percent(e.mean), percent(e.worst));
    let header = [
        "program",
        "time",
        "within",
        "power at highest",
        "at lowest",
        "within",
        "saving kept",
        "bound broken by",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for row in &unknown.rows {
        rows.push(vec![
            row.program.clone(),
            cell(row.time),
            percent(row.inside[0]),
            cell(row.power[0]),
            cell(row.power[1]),
            percent(row.inside[1]),
            percent(row.regret.kept),
            broken(&row.regret),
        ]);
    }
    let mean = |of: &dyn Fn(&UnknownRow) -> f64| percent(unknown.mean(of));
    rows.push(vec![
        "mean".to_owned(),
        mean(&|row| row.time.mean),
        mean(&|row| row.inside[0]),
        mean(&|row| row.power[0].mean),
        mean(&|row| row.power[1].mean),
        mean(&|row| row.inside[1]),
        percent(kept(unknown.rows.iter().map(|row| &row.regret))),
        String::new(),
    ]);
    text += &Table::from(rows).text();
    text
}
