//! `heatmap.svg`: the phase bar, the heat map and the average curve, as the CGO paper's figure 1.

use std::collections::HashMap;

use plotters::prelude::*;

use reuse_sampler::file::PhaseProfile;

use super::{Area, Drawn, StoredCurves, StoredPoint, Subject, bytes, count, picture};
use crate::machines::host::CacheLevel;

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

/// What a heat map shows, of a run at hand or of a stored one.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Caches to compare with.
    caches: Vec<CacheLevel>,
    by_instructions: bool,
    windows: Vec<Stretch>,
    /// Cache sizes, ascending, in bytes: those shown.
    bytes: Vec<u64>,
    /// Each phase's miss ratios at these sizes and beyond, the phase with most accesses first.
    phases: Vec<Option<Vec<f64>>>,
    average: Vec<f64>,
    /// The miss ratio with the darkest colour.
    top: f64,
}

/// A window.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    thread: u32,
    /// In instructions, or in accesses where none are counted.
    length: u64,
    phase: Option<usize>,
}

impl HeatMap {
    /// Of a run at hand.
    pub fn of(subject: &Subject<'_>) -> Self {
        let run = subject.run;
        let by_instructions = run.instructions() > 0;
        let ratios = |curve: &crate::guided::PhaseCurve| curve.points.iter().map(|p| p.miss_ratio).collect();
        let windows = run.windows.iter().map(|w| Stretch {
            thread: w.thread.0,
            length: if by_instructions { w.instructions } else { w.accesses.get().unwrap_or(0) },
            phase: subject.rank(w.phase),
        });
        let sizes = &subject.curves.sizes[..subject.shown];
        Self {
            caches: subject.caches.levels.clone(),
            by_instructions,
            windows: windows.collect(),
            bytes: sizes.iter().map(|size| size.bytes(run.line_size)).collect(),
            phases: subject.phases.iter().map(|view| view.curve.map(ratios)).collect(),
            average: ratios(&subject.curves.average),
            top: 0.0,
        }
        .scaled()
    }

    /// Of a stored run. All sizes are shown.
    pub fn stored(profile: &PhaseProfile, curves: &StoredCurves, caches: &[CacheLevel]) -> Self {
        let by_instructions = profile.windows.iter().any(|w| w.instructions > 0);
        let ratios = |points: &Vec<StoredPoint>| points.iter().map(|p| p.miss_ratio).collect();
        let names: HashMap<&str, usize> =
            profile.phases.iter().enumerate().map(|(rank, phase)| (&*phase.phase, rank)).collect();
        let windows = profile.windows.iter().map(|w| Stretch {
            thread: w.thread,
            length: if by_instructions { w.instructions } else { w.accesses.unwrap_or(0) },
            phase: names.get(&*w.phase).copied(),
        });
        let of_phase = |name: &str| curves.phases.get(name).filter(|p| p.len() == curves.bytes.len());
        Self {
            caches: caches.to_vec(),
            by_instructions,
            windows: windows.collect(),
            bytes: curves.bytes.clone(),
            phases: profile.phases.iter().map(|phase| of_phase(&phase.phase).map(ratios)).collect(),
            average: ratios(&curves.average),
            top: 0.0,
        }
        .scaled()
    }

    fn scaled(self) -> Self {
        let top = self.phases.iter().flatten().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
        Self { top, ..self }
    }

    /// Gives two maps one scale of colours.
    pub fn share_scale(&mut self, other: &mut Self) {
        let top = self.top.max(other.top);
        (self.top, other.top) = (top, top);
    }

    /// Draws the thread with most windows as an SVG text.
    ///
    /// # Errors
    /// What the drawing library says, as text.
    pub fn draw(&self) -> Result<String, String> {
        picture((1000, 460), |root| draw(self, root))
    }
}

/// A column of the picture: the phase that fills most of it, and the miss ratio at each size.
#[derive(Clone, Default)]
struct Column {
    phase: Option<usize>,
    ratios: Vec<f64>,
}

fn draw(map: &HeatMap, root: &Area<'_>) -> Drawn {
    let (columns, total) = columns(map);
    let (heat, side) = root.split_horizontally(820);
    let (bar, heat) = heat.split_vertically(40);
    let (title, side) = side.split_vertically(40);
    draw_bar(&bar, &columns)?;
    draw_map(map, &heat, &columns, total)?;
    title.draw(&Text::new("average", (60, 22), ("sans-serif", 14)))?;
    draw_average(map, &side)
}

/// The longest thread resampled to [`COLUMNS`] columns, and its length in instructions (accesses if unknown).
fn columns(map: &HeatMap) -> (Vec<Column>, u64) {
    let mut counts = std::collections::BTreeMap::new();
    for window in &map.windows {
        *counts.entry(window.thread).or_insert(0_u64) += 1;
    }
    let thread = counts.iter().max_by_key(|&(&id, &n)| (n, std::cmp::Reverse(id))).map(|(&id, _)| id);
    let windows: Vec<_> = map.windows.iter().filter(|w| Some(w.thread) == thread).collect();
    let total: u64 = windows.iter().map(|w| w.length).sum();
    let mut columns = vec![Column::default(); COLUMNS];
    let mut weights = vec![0.0; COLUMNS];
    let mut largest = vec![0.0; COLUMNS];
    let mut from = 0_u64;
    for window in windows {
        let scale = COLUMNS as f64 / total.max(1) as f64;
        let (a, b) = (from as f64 * scale, (from + window.length) as f64 * scale);
        from += window.length;
        let ratios = window.phase.and_then(|rank| map.phases[rank].as_ref());
        for x in a as usize..(b.ceil() as usize).min(COLUMNS) {
            let weight = b.min(x as f64 + 1.0) - a.max(x as f64);
            if weight > largest[x] {
                largest[x] = weight;
                columns[x].phase = window.phase;
            }
            let Some(ratios) = ratios else { continue };
            weights[x] += weight;
            columns[x].ratios.resize(ratios.len(), 0.0);
            for (sum, ratio) in columns[x].ratios.iter_mut().zip(ratios) {
                *sum += weight * ratio;
            }
        }
    }
    for (column, weight) in columns.iter_mut().zip(weights) {
        column.ratios.iter_mut().for_each(|sum| *sum /= weight);
    }
    (columns, total)
}

fn draw_bar(area: &Area<'_>, columns: &[Column]) -> Drawn {
    let (left, right) = (70, area.dim_in_pixel().0 as i32 - 10);
    let x = |column: usize| left + (column as i32 * (right - left)) / COLUMNS as i32;
    for (from, to, phase) in runs(columns.iter().map(|column| column.phase)) {
        let Some(phase) = phase else { continue };
        let colour = PHASES.get(phase).copied().unwrap_or(REST);
        area.draw(&Rectangle::new([(x(from), 12), (x(to), 34)], colour.filled()))?;
    }
    Ok(())
}

fn draw_map(map: &HeatMap, area: &Area<'_>, columns: &[Column], total: u64) -> Drawn {
    let sizes = &map.bytes;
    let log = |k: usize| (sizes[k] as f64).log2();
    let (low, high) =
        (log(0) - 0.5 * step(sizes.len(), log), log(sizes.len() - 1) + 0.5 * step(sizes.len(), log));
    let mut chart = ChartBuilder::on(area)
        .margin_right(10)
        .margin_top(2)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..total.max(1) as f64, low..high)?;
    let unit = if map.by_instructions { "instructions" } else { "accesses" };
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc(unit)
        .y_desc("cache size")
        .x_label_formatter(&|x| count(*x as u64))
        .y_label_formatter(&|y| bytes(y.exp2().round() as u64))
        .y_labels(8)
        .draw()?;
    let x = |column: usize| column as f64 * total.max(1) as f64 / COLUMNS as f64;
    for k in 0..sizes.len() {
        let below = if k == 0 { low } else { f64::midpoint(log(k - 1), log(k)) };
        let above = if k + 1 == sizes.len() { high } else { f64::midpoint(log(k), log(k + 1)) };
        let shade = |c: &Column| {
            let ratio = c.ratios.get(k).copied()?;
            Some(((ratio / map.top).clamp(0.0, 1.0).sqrt() * f64::from(SHADES)).round() as u8)
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
    for level in &map.caches {
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

fn draw_average(map: &HeatMap, area: &Area<'_>) -> Drawn {
    let sizes = &map.bytes;
    let log = |k: usize| (sizes[k] as f64).log2();
    let half = 0.5 * step(sizes.len(), log);
    let points = &map.average[..sizes.len()];
    let most = points.iter().map(|ratio| 100.0 * ratio).fold(1e-6, f64::max);
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
        points.iter().enumerate().map(|(k, ratio)| (100.0 * ratio, log(k))),
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
