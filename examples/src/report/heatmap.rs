//! `heatmap.svg`: the phase bar, the heat map and the average curve, as the CGO paper's figure 1.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Subject, bytes, count};

/// Columns that a run is resampled to.
pub(crate) const COLUMNS: usize = 480;
const SHADES: u8 = 48;
/// Colours of the first phases.
pub(crate) const PHASES: [RGBColor; 8] = [
    RGBColor(42, 120, 214),
    RGBColor(217, 130, 43),
    RGBColor(31, 157, 115),
    RGBColor(184, 69, 154),
    RGBColor(122, 91, 209),
    RGBColor(194, 160, 20),
    RGBColor(44, 159, 184),
    RGBColor(209, 73, 91),
];
/// Colour of all others.
pub(crate) const REST: RGBColor = RGBColor(190, 190, 186);

/// Draws the thread with most windows as an SVG text.
///
/// # Errors
/// What the drawing library says, as text.
pub fn draw_heatmap(subject: &Subject<'_>) -> Result<String, String> {
    let mut svg = String::new();
    draw(subject, &mut svg).map_err(|error| error.to_string())?;
    Ok(svg)
}

/// A column of the picture: the phase that fills most of it, and the miss ratio at each size.
#[derive(Clone, Default)]
struct Column {
    phase: Option<usize>,
    ratios: Vec<f64>,
}

fn draw(
    subject: &Subject<'_>,
    svg: &mut String,
) -> Result<(), DrawingAreaErrorKind<impl std::error::Error + use<>>> {
    let root = SVGBackend::with_string(svg, (1000, 460)).into_drawing_area();
    root.fill(&WHITE)?;
    let (columns, total) = columns(subject);
    let (heat, side) = root.split_horizontally(820);
    let (bar, heat) = heat.split_vertically(40);
    let (title, side) = side.split_vertically(40);
    draw_bar(&bar, &columns)?;
    draw_map(subject, &heat, &columns, total)?;
    title.draw(&Text::new("average", (60, 22), ("sans-serif", 14)))?;
    draw_average(subject, &side)?;
    root.present()
}

/// The longest thread resampled to [`COLUMNS`] columns, and its length in instructions (accesses if unknown).
fn columns(subject: &Subject<'_>) -> (Vec<Column>, u64) {
    let run = subject.run;
    let by_instructions = run.instructions() > 0;
    let mut counts = std::collections::BTreeMap::new();
    for window in &run.windows {
        *counts.entry(window.thread).or_insert(0_u64) += 1;
    }
    let thread = counts.iter().max_by_key(|&(&id, &n)| (n, std::cmp::Reverse(id))).map(|(&id, _)| id);
    let length = |w: &crate::guided::WindowRecord| {
        if by_instructions { w.instructions } else { w.accesses.get().unwrap_or(0) }
    };
    let windows: Vec<_> = run.windows.iter().filter(|w| Some(w.thread) == thread).collect();
    let total: u64 = windows.iter().map(|w| length(w)).sum();
    let mut columns = vec![Column::default(); COLUMNS];
    let mut weights = vec![0.0; COLUMNS];
    let mut largest = vec![0.0; COLUMNS];
    let mut from = 0_u64;
    for window in windows {
        let scale = COLUMNS as f64 / total.max(1) as f64;
        let (a, b) = (from as f64 * scale, (from + length(window)) as f64 * scale);
        from += length(window);
        let curve = subject.curves.of(window);
        for x in a as usize..(b.ceil() as usize).min(COLUMNS) {
            let weight = b.min(x as f64 + 1.0) - a.max(x as f64);
            if weight > largest[x] {
                largest[x] = weight;
                columns[x].phase = subject.rank(window.phase);
            }
            let Some(curve) = curve else { continue };
            weights[x] += weight;
            columns[x].ratios.resize(curve.points.len(), 0.0);
            for (sum, point) in columns[x].ratios.iter_mut().zip(&curve.points) {
                *sum += weight * point.miss_ratio;
            }
        }
    }
    for (column, weight) in columns.iter_mut().zip(weights) {
        column.ratios.iter_mut().for_each(|sum| *sum /= weight);
    }
    (columns, total)
}

fn draw_bar<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    columns: &[Column],
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let (left, right) = (70, area.dim_in_pixel().0 as i32 - 10);
    let x = |column: usize| left + (column as i32 * (right - left)) / COLUMNS as i32;
    for (from, to, phase) in runs(columns.iter().map(|column| column.phase)) {
        let Some(phase) = phase else { continue };
        let colour = PHASES.get(phase).copied().unwrap_or(REST);
        area.draw(&Rectangle::new([(x(from), 12), (x(to), 34)], colour.filled()))?;
    }
    Ok(())
}

fn draw_map<DB: DrawingBackend>(
    subject: &Subject<'_>,
    area: &DrawingArea<DB, Shift>,
    columns: &[Column],
    total: u64,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let sizes = &subject.curves.sizes[..subject.shown];
    let line_size = subject.run.line_size;
    let log = |k: usize| (sizes[k].bytes(line_size) as f64).log2();
    let (low, high) =
        (log(0) - 0.5 * step(sizes.len(), log), log(sizes.len() - 1) + 0.5 * step(sizes.len(), log));
    let mut chart = ChartBuilder::on(area)
        .margin_right(10)
        .margin_top(2)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..total.max(1) as f64, low..high)?;
    let unit = if subject.run.instructions() > 0 { "instructions" } else { "accesses" };
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc(unit)
        .y_desc("cache size")
        .x_label_formatter(&|x| count(*x as u64))
        .y_label_formatter(&|y| bytes(y.exp2().round() as u64))
        .y_labels(8)
        .draw()?;
    let top = subject.phases.iter().filter_map(|p| p.curve).flat_map(|c| &c.points).map(|p| p.miss_ratio);
    let top = top.fold(f64::MIN_POSITIVE, f64::max);
    let x = |column: usize| column as f64 * total.max(1) as f64 / COLUMNS as f64;
    for k in 0..sizes.len() {
        let below = if k == 0 { low } else { f64::midpoint(log(k - 1), log(k)) };
        let above = if k + 1 == sizes.len() { high } else { f64::midpoint(log(k), log(k + 1)) };
        let shade = |c: &Column| {
            let ratio = c.ratios.get(k).copied()?;
            Some(((ratio / top).clamp(0.0, 1.0).sqrt() * f64::from(SHADES)).round() as u8)
        };
        for (from, to, shade) in runs(columns.iter().map(shade)) {
            let Some(shade) = shade else { continue };
            let corners = [(x(from), below), (x(to), above)];
            chart.draw_series([Rectangle::new(
                corners,
                colour_of(f64::from(shade) / f64::from(SHADES)).filled(),
            )])?;
        }
    }
    for level in &subject.caches.levels {
        let y = (level.bytes as f64).log2();
        if y > low && y < high {
            let dashes = (0..100).step_by(2).map(|i| {
                let at = |i: i32| (f64::from(i) * total.max(1) as f64 / 100.0, y);
                PathElement::new(vec![at(i), at(i + 1)], BLACK.mix(0.6))
            });
            chart.draw_series(dashes)?;
            chart.draw_series([Text::new(
                level.name.clone(),
                (total as f64 * 0.005, y),
                ("sans-serif", 12),
            )])?;
        }
    }
    Ok(())
}

fn draw_average<DB: DrawingBackend>(
    subject: &Subject<'_>,
    area: &DrawingArea<DB, Shift>,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let sizes = &subject.curves.sizes[..subject.shown];
    let log = |k: usize| (sizes[k].bytes(subject.run.line_size) as f64).log2();
    let half = 0.5 * step(sizes.len(), log);
    let points = &subject.curves.average.points[..subject.shown];
    let most = points.iter().map(|p| 100.0 * p.miss_ratio).fold(1e-6, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin_right(20)
        .margin_top(2)
        .x_label_area_size(44)
        .build_cartesian_2d(0.0..most * 1.05, log(0) - half..log(sizes.len() - 1) + half)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("miss ratio, %")
        .x_labels(4)
        .x_label_formatter(&|x| tidy(*x))
        .draw()?;
    chart.draw_series(LineSeries::new(
        points.iter().enumerate().map(|(k, p)| (100.0 * p.miss_ratio, log(k))),
        BLACK.stroke_width(2),
    ))?;
    Ok(())
}

fn tidy(x: f64) -> String {
    if x >= 10.0 { format!("{x:.0}") } else { format!("{x:.1}") }
}

fn step(sizes: usize, log: impl Fn(usize) -> f64) -> f64 {
    if sizes > 1 { log(1) - log(0) } else { 1.0 }
}

/// Runs of equal values as (first column, column after the last, value).
pub(crate) fn runs<T: PartialEq + Copy>(values: impl Iterator<Item = T>) -> Vec<(usize, usize, T)> {
    let mut runs: Vec<(usize, usize, T)> = Vec::new();
    for (at, value) in values.enumerate() {
        match runs.last_mut() {
            Some(run) if run.2 == value => run.1 = at + 1,
            _ => runs.push((at, at + 1, value)),
        }
    }
    runs
}

/// From the paper's white through blue to nearly black.
pub(crate) fn colour_of(t: f64) -> RGBColor {
    const STOPS: [[f64; 3]; 4] =
        [[250.0, 250.0, 248.0], [176.0, 208.0, 244.0], [42.0, 110.0, 200.0], [8.0, 28.0, 72.0]];
    let at = t * 3.0;
    let i = (at as usize).min(2);
    let part = |c: usize| (STOPS[i][c] + (at - i as f64) * (STOPS[i + 1][c] - STOPS[i][c])).round() as u8;
    RGBColor(part(0), part(1), part(2))
}
