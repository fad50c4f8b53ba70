//! A calibrated machine: its models as a file, and what they are worth as a table.

use std::io::Write;

use powersleuth::calibration::MachineModel;

use super::Args;
use crate::cli::Failure;
use crate::output::OutputDir;
use crate::report::{Table, percent, quantity};

/// Prints the model, and writes `machine.json`.
pub fn print(
    model: &MachineModel,
    args: &Args,
    folder: Option<&OutputDir>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let file = serde_json::to_string(model)?;
    args.common.present(
        folder,
        |folder| folder.write("machine.json", |out| writeln!(out, "{file}")),
        |out| writeln!(out, "{file}"),
        |out| write!(out, "{}", text(model)),
        out,
    )
}

fn text(model: &MachineModel) -> String {
    let points = model.power.points().as_slice();
    let Some(highest) = points.last() else { return String::new() };
    let name = model.time_at(highest.frequency).map_or("none", |fit| fit.model.name());
    let mut text = format!(
        "{}\nTime by the {name} model. Errors are of profiles at {:.2} GHz, on kernels left out of the fit: mean, and what \
         95 % of a new program lies within.\n",
        model.power.machine(),
        highest.frequency.ghz()
    );
    if let Some(thermal) = &model.thermal {
        text += &format!(
            "Power without activity rises by {} per kelvin that the room warms up.\n",
            percent(thermal.per_kelvin)
        );
    }
    let header = ["GHz", "relative voltage", "power without activity", "time", "95 %", "power", "95 %", ""];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for point in points {
        let mut row = vec![
            format!("{:.2}", point.frequency.ghz()),
            format!("{:.3}", point.voltage / highest.voltage),
            quantity(point.power(model.power.capacitance().constant()).0, "W"),
        ];
        if let Some(route) = model.route(highest.frequency, point.frequency) {
            for accuracy in [route.time, route.power] {
                row.extend([percent(accuracy.mean), percent(accuracy.interval)]);
            }
        }
        row.resize(header.len(), String::new());
        rows.push(row);
    }
    text + "\n" + &Table::from(rows).text() + "\nFor the file that --power-model reads, add --json -o FILE.\n"
}
