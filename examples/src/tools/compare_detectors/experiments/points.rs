//! SimPoint: the mean CPI from its points, against as many windows at equal distances.

use phase_detect::simpoint::BlockVector;
use phase_detect::{Error, SimPointConfig};

use super::super::recording::{Block, Recording, Window};
use super::{Setting, at_equal_distances, mean};
use crate::report::{Cell, Table};

/// Seeds of projection and k-means over which errors are averaged.
const SEEDS: u64 = 6;

pub fn run(recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
    let mut table = Table::new(
        "points",
        "Mean CPI from simulation points".to_owned(),
        "Points: one window for each of SimPoint's phases, weighted by the phase's share. Relative error of the program's \
         mean CPI from them, and from as many windows at equal distances; means over six seeds.",
        &["program", "windows", "points", "SimPoint", "SimPoint, largest", "periodic"],
    );
    let mut all = Vec::new();
    for recording in recordings {
        let values = errors(recording, setting.seed)?;
        table.rows.push(row(&recording.name, values));
        all.push(values);
    }
    let means = std::array::from_fn(|at| mean(all.iter().map(|values| values[at])));
    table.rows.push(row("mean", means));
    Ok(vec![table])
}

fn row(name: &str, [windows, points, errors @ ..]: [f64; 5]) -> Vec<Cell> {
    let counts = [Cell::Count(windows.round() as u64), Cell::Number(points)];
    std::iter::once(name.into()).chain(counts).chain(errors.map(Cell::Share)).collect()
}

fn errors(recording: &Recording, seed: u64) -> Result<[f64; 5], Error> {
    let windows = recording.windows();
    let cpi: Vec<f64> = windows.iter().map(Window::cpi).collect();
    let blocks: Vec<BlockVector> =
        windows.iter().map(|window| executed(window, &recording.blocks)).collect::<Result<_, _>>()?;
    let whole = mean(cpi.iter().copied());
    let off = |estimate: f64| (estimate - whole).abs() / whole;
    let mut of_seeds = Vec::new();
    for seed in seed..seed + SEEDS {
        let chosen =
            SimPointConfig { seed, ..SimPointConfig::default() }.fit_blocks(blocks.iter().map(Ok))?;
        let points = chosen.points().len();
        let periodic = mean(at_equal_distances(points, cpi.len()).map(|window| cpi[window]));
        of_seeds.push([points as f64, off(chosen.estimate(|window| cpi[window])), off(periodic)]);
    }
    let [points, by_points, periodic] = std::array::from_fn(|at| mean(of_seeds.iter().map(|v| v[at])));
    let largest = of_seeds.iter().map(|values| values[1]).fold(0.0, f64::max);
    Ok([cpi.len() as f64, points, by_points, largest, periodic])
}

/// Instructions of each block in a window.
fn executed(window: &Window, blocks: &[Block]) -> Result<BlockVector, Error> {
    let counts = window.executions.iter().map(|&(block, times)| {
        let instructions = times * u64::from(blocks[block as usize].instructions);
        (u64::from(block), instructions as f64)
    });
    BlockVector::new(counts)
}
