//! `curves.svg`: CPI, bandwidth, and miss and fetch ratio over the cache size, one below the other as in the
//! paper's figure 10. Points that are not trusted are hollow; bars up and down are two standard errors, bars to the
//! sides the bounds of what was left to the program.

use plotters::prelude::*;

use cache_pirate::CurvePoint;

use super::Measured;
use crate::report::{Area, Drawn, bytes, picture};

const LINE: RGBColor = RGBColor(0x1f, 0x5f, 0xa8);
const SECOND: RGBColor = RGBColor(0xd9, 0x82, 0x2b);

/// Standard errors of a bar, each way.
const BAR: f64 = 2.0;
/// Labels on the axis of sizes: halves of halves of the cache, which are round in binary units.
const EIGHTHS: f64 = 8.0;

/// One curve of a panel.
struct Curve {
    label: &'static str,
    colour: RGBColor,
    dots: Vec<Dot>,
}

/// One point of a curve, in eighths of the cache.
struct Dot {
    x: f64,
    bounds: (f64, f64),
    y: f64,
    bar: f64, // each way
    trusted: bool,
}

/// A value of a point and its standard error.
type Values<'a> = &'a dyn Fn(&CurvePoint) -> Option<(f64, Option<f64>)>;

/// Draws the curves as an SVG text.
pub fn draw(measured: &Measured, incomplete: bool) -> Result<String, String> {
    let cache = measured.curve.cache().bytes;
    let eighths = |bytes: u64| bytes as f64 / cache as f64 * EIGHTHS;
    let series = |label, colour, values: Values<'_>| {
        let dots = measured.curve.points().iter().filter_map(|point| {
            let (y, error) = values(point)?;
            let (from, to) = point.effective_bytes;
            let (x, bounds) = (eighths(point.bytes), (eighths(from), eighths(to)));
            Some(Dot { x, bounds, y, bar: BAR * error.unwrap_or(0.0), trusted: point.is_trusted() })
        });
        Curve { label, colour, dots: dots.collect() }
    };
    let cent = |value: f64| 100.0 * value;
    let cpi = series("CPI", LINE, &|point| Some((point.cpi, point.cpi_error)));
    let bandwidth = series("bandwidth", LINE, &|point| Some((point.bandwidth?, point.bandwidth_error)));
    let misses =
        series("misses", LINE, &|point| Some((cent(point.miss_ratio?), point.miss_ratio_error.map(cent))));
    let fetches = series("fetches", SECOND, &|point| {
        Some((cent(point.fetch_ratio?), point.fetch_ratio_error.map(cent)))
    });
    let panels = [
        (format!("{}s per {}", measured.time, measured.work), vec![cpi]),
        (format!("bytes per {}", measured.time), vec![bandwidth]),
        ("per access (%)".to_owned(), vec![fetches, misses]),
    ];
    let panels: Vec<_> =
        panels.into_iter().filter(|(_, curves)| curves.iter().any(|curve| !curve.dots.is_empty())).collect();

    let state = if incomplete { " (incomplete)" } else { "" };
    let title = format!("{}{state}", measured.source);
    picture((840, 60 + 240 * panels.len() as u32), |area| {
        let area = area.titled(&title, ("sans-serif", 18))?;
        let mut areas = area.split_evenly((panels.len(), 1)).into_iter().zip(&panels);
        areas.try_for_each(|(area, (unit, curves))| draw_panel(&area, cache, unit, curves))
    })
}

fn draw_panel(area: &Area<'_>, cache: u64, unit: &str, curves: &[Curve]) -> Drawn {
    let values = curves.iter().flat_map(|curve| curve.dots.iter().map(|dot| dot.y + dot.bar));
    let top = values.fold(0.0, f64::max) * 1.1;
    let top = if top > 0.0 { top } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..EIGHTHS, 0.0..top)?;
    chart
        .configure_mesh()
        .y_desc(unit)
        .x_labels(9)
        .y_labels(5)
        .x_label_formatter(&|eighths| bytes((eighths / EIGHTHS * cache as f64).round() as u64))
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 13))
        .draw()?;
    for Curve { label, colour, dots } in curves {
        let colour = *colour;
        chart
            .draw_series(LineSeries::new(dots.iter().map(|dot| (dot.x, dot.y)), colour.stroke_width(2)))?
            .label(*label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        let upright = dots.iter().filter(|dot| dot.bar > 0.0);
        let upright = upright.map(|dot| vec![(dot.x, (dot.y - dot.bar).max(0.0)), (dot.x, dot.y + dot.bar)]);
        let level = dots.iter().filter(|dot| dot.bounds.1 > dot.bounds.0);
        let level = level.map(|dot| vec![(dot.bounds.0, dot.y), (dot.bounds.1, dot.y)]);
        let bars = upright.chain(level).map(|ends| PathElement::new(ends, colour.mix(0.5).stroke_width(1)));
        chart.draw_series(bars)?;
        chart.draw_series(dots.iter().map(|dot| Circle::new((dot.x, dot.y), 3, WHITE.filled())))?;
        chart.draw_series(dots.iter().map(|dot| {
            let style = if dot.trusted { colour.filled() } else { colour.stroke_width(1) };
            Circle::new((dot.x, dot.y), 3, style)
        }))?;
    }
    if curves.len() > 1 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .border_style(BLACK.mix(0.2))
            .background_style(WHITE)
            .draw()?;
    }
    Ok(())
}
