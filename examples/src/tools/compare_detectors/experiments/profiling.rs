//! ScarPhase, figures I.11 to I.13: CPI from one window per phase against as many windows at equal distances.

use phase_detect::Error;
use phase_detect::metrics::{
    estimate_from_phases, interpolate, mean_relative_error, profile_once, reconstruct_from_phases,
};

use super::super::detectors::scarphase;
use super::super::recording::{Recording, Window};
use super::reconstruction::{Reconstruction, draw};
use super::{Setting, at_equal_distances, mean};
use crate::report::{Cell, Table};

/// Windows in which a phase must have been seen before it is profiled.
const SEEN_BEFORE: usize = 2;

pub fn run(recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
    let columns = [
        "program",
        "profiled",
        "mean: periodic",
        "mean: static",
        "mean: dynamic",
        "window: average",
        "window: periodic",
        "window: static",
        "window: dynamic",
    ];
    let mut table = Table::new(
        "profiling",
        "CPI from few profiled windows".to_owned(),
        "Profiled: share of the windows, each phase once when it is predicted, and as many at equal distances. Mean: \
         relative error of the program's mean CPI (figure I.11; the paper has 8 % periodic and 3 % by phase). Window: mean \
         relative error of each window's CPI (figure I.13; the paper has 32 % by the average, 24 % periodic, 10 to 11 % by \
         phase).",
        &columns,
    );
    let (mut sums, mut pictures) = (Vec::new(), Vec::new());
    for recording in recordings {
        let (values, reconstruction) = errors(recording, setting)?;
        table.rows.push(row(&recording.name, values));
        sums.push(values);
        pictures.push(reconstruction);
    }
    // The numbers stand without it.
    table.picture = draw(&pictures).ok();
    let means = std::array::from_fn(|at| mean(sums.iter().map(|values| values[at])));
    table.rows.push(row("mean", means));
    Ok(vec![table])
}

fn row(name: &str, values: [f64; 8]) -> Vec<Cell> {
    std::iter::once(name.into()).chain(values.map(Cell::Share)).collect()
}

fn errors(recording: &Recording, setting: Setting) -> Result<([f64; 8], Reconstruction), Error> {
    let windows = recording.windows();
    let cpi: Vec<f64> = windows.iter().map(Window::cpi).collect();
    let whole = cpi.iter().sum::<f64>() / cpi.len() as f64;
    let off = |estimate: f64| (estimate - whole).abs() / whole;
    let by_phase = |dynamic: bool| {
        let run = scarphase(recording, &windows, setting.samples, dynamic, setting.seed)?;
        let predicted: Vec<_> = run.predicted.iter().map(|p| p.map(Some)).collect();
        let mut profiled = profile_once(&run.labels, &predicted, SEEN_BEFORE)?;
        if profiled.is_empty() {
            profiled.push(0); // nothing was ever predicted: the first window has to do
        }
        let mean = estimate_from_phases(&run.labels, &cpi, &profiled)?;
        let each = reconstruct_from_phases(&run.labels, &cpi, &profiled)?;
        let error = mean_relative_error(&cpi, &each)?;
        Ok::<_, Error>((profiled.len(), off(mean), error, each))
    };
    let (profiled, fixed_mean, fixed_each, by_phase_each) = by_phase(false)?;
    let (_, dynamic_mean, dynamic_each, _) = by_phase(true)?;
    let periodic: Vec<usize> = at_equal_distances(profiled, cpi.len()).collect();
    let periodic_mean = mean(periodic.iter().map(|&w| cpi[w]));
    let straight = interpolate(&cpi, &periodic)?;
    let lines = mean_relative_error(&cpi, &straight)?;
    let average = mean_relative_error(&cpi, &vec![whole; cpi.len()])?;
    let share = profiled as f64 / cpi.len() as f64;
    let values =
        [share, off(periodic_mean), fixed_mean, dynamic_mean, average, lines, fixed_each, dynamic_each];
    let name = recording.name.clone();
    let reconstruction = Reconstruction { name, measured: cpi, by_phase: by_phase_each, periodic: straight };
    Ok((values, reconstruction))
}
