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
use crate::report::{Table, named, percent};

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
        |folder| folder.write("accuracy.json", |out| writeln!(out, "{object}")),
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
    let signed = |x: f64| format!("{}{}", if x < 0.0 { "-" } else { "" }, percent(x.abs()));
    text += &Table::from(named(table.rows.iter().map(Some).chain([None]).map(|row| {
        let figure = |of: fn(&Row) -> f64| row.map_or_else(|| table.mean(of), of);
        let errors = |of: fn(&Row) -> Errors| {
            row.map_or_else(|| percent(table.mean(|row| of(row).mean)), |row| cell(of(row)))
        };
        let kept = row.map_or_else(|| kept(table.rows.iter().map(|row| &row.regret)), |row| row.regret.kept);
        [
            ("program", row.map_or("mean", |row| &row.program).to_owned()),
            ("power same", errors(|row| row.power[0])),
            ("power max -> min", errors(|row| row.power[1])),
            ("filled by phase", percent(figure(|row| row.filling[0]))),
            ("filled in time", percent(figure(|row| row.filling[1]))),
            ("time multiplexed", errors(|row| row.multiplexed[0])),
            ("power multiplexed", errors(|row| row.multiplexed[1])),
            ("schedule's loss", signed(figure(|row| row.regret.mean))),
            ("saving kept", percent(kept)),
            ("bound broken by", row.map_or_else(String::new, |row| broken(&row.regret))),
        ]
    })))
    .text();
    if let Some(unknown) = &table.unknown {
        text += &unknown_text(unknown, &stations);
    }
    text
}

fn cell(errors: Errors) -> String {
    format!("{} ({})", percent(errors.mean), percent(errors.worst))
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
    text += &Table::from(named(unknown.rows.iter().map(Some).chain([None]).map(|row| {
        let figure = |of: fn(&UnknownRow) -> f64| percent(row.map_or_else(|| unknown.mean(of), of));
        let errors = |of: fn(&UnknownRow) -> Errors| {
            row.map_or_else(|| percent(unknown.mean(|row| of(row).mean)), |row| cell(of(row)))
        };
        let kept =
            row.map_or_else(|| kept(unknown.rows.iter().map(|row| &row.regret)), |row| row.regret.kept);
        [
            ("program", row.map_or("mean", |row| &row.program).to_owned()),
            ("time", errors(|row| row.time)),
            ("within", figure(|row| row.inside[0])),
            ("power at highest", errors(|row| row.power[0])),
            ("at lowest", errors(|row| row.power[1])),
            ("within", figure(|row| row.inside[1])),
            ("saving kept", percent(kept)),
            ("bound broken by", row.map_or_else(String::new, |row| broken(&row.regret))),
        ]
    })))
    .text();
    text
}
