//! `curves.svg`: CPI, bandwidth, and miss and fetch ratio over the cache size, one below the other as in the
//! paper's figure 10; sizes that are not trusted lie in grey.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::Measured;
use crate::report::bytes;

const LINE: RGBColor = RGBColor(0x1f, 0x5f, 0xa8);
const SECOND: RGBColor = RGBColor(0xd9, 0x82, 0x2b);

/// One curve of a panel.
struct Curve {
    label: &'static str,
    colour: RGBColor,
    values: Vec<(f64, f64)>,
}

/// Draws the curves as an SVG text.
pub fn draw(measured: &Measured, incomplete: bool) -> Result<String, String> {
    let points = measured.curve.points();
    let series = |label, colour, value: &dyn Fn(&cache_pirate::CurvePoint) -> Option<f64>| {
        let values = points.iter().filter_map(|point| Some((point.bytes as f64, value(point)?))).collect();
        Curve { label, colour, values }
    };
    let cpi = series("CPI", LINE, &|point| Some(point.cpi));
    let bandwidth = series("bandwidth", LINE, &|point| point.bandwidth);
    let misses = series("misses", LINE, &|point| point.miss_ratio.map(|ratio| 100.0 * ratio));
    let fetches = series("fetches", SECOND, &|point| point.fetch_ratio.map(|ratio| 100.0 * ratio));
    let panels = [
        (format!("{}s per {}", measured.time, measured.work), vec![cpi]),
        (format!("bytes per {}", measured.time), vec![bandwidth]),
        ("per access (%)".to_owned(), vec![fetches, misses]),
    ];
    let panels: Vec<_> = panels
        .into_iter()
        .filter(|(_, curves)| curves.iter().any(|curve| !curve.values.is_empty()))
        .collect();

    let mut svg = String::new();
    {
        let height = 60 + 240 * panels.len() as u32;
        let area = SVGBackend::with_string(&mut svg, (840, height)).into_drawing_area();
        area.fill(&WHITE).map_err(|e| e.to_string())?;
        let state = if incomplete { " (incomplete)" } else { "" };
        let title = format!("{}{state}", measured.source);
        let area = area.titled(&title, ("sans-serif", 18)).map_err(|e| e.to_string())?;
        let grey = untrusted(measured);
        for (panel, (unit, curves)) in area.split_evenly((panels.len(), 1)).iter().zip(&panels) {
            draw_panel(panel, measured.curve.cache().bytes, unit, curves, &grey)?;
        }
        area.present().map_err(|e| e.to_string())?;
    }
    Ok(svg)
}

/// Ranges of sizes around untrusted points: half way to each neighbour.
fn untrusted(measured: &Measured) -> Vec<(f64, f64)> {
    let points = measured.curve.points();
    let size = |i: usize| points[i].bytes as f64;
    let last = points.len() - 1;
    (0..points.len())
        .filter(|&i| !points[i].is_trusted())
        .map(|i| {
            let from = if i == 0 { 0.0 } else { f64::midpoint(size(i - 1), size(i)) };
            let to = if i == last { size(i) } else { f64::midpoint(size(i), size(i + 1)) };
            (from, to)
        })
        .collect()
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    cache: u64,
    unit: &str,
    curves: &[Curve],
    grey: &[(f64, f64)],
) -> Result<(), String> {
    let values = curves.iter().flat_map(|curve| curve.values.iter().map(|point| point.1));
    let top = values.fold(0.0, f64::max) * 1.1;
    let top = if top > 0.0 { top } else { 1.0 };
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..cache as f64, 0.0..top)
        .map_err(|e| failed(&e))?;
    let boxes =
        grey.iter().map(|&(from, to)| Rectangle::new([(from, 0.0), (to, top)], BLACK.mix(0.15).filled()));
    chart.draw_series(boxes).map_err(|e| failed(&e))?;
    chart
        .configure_mesh()
        .y_desc(unit)
        .x_labels(9)
        .y_labels(5)
        .x_label_formatter(&|size| bytes(size.round() as u64))
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 13))
        .draw()
        .map_err(|e| failed(&e))?;
    for curve in curves {
        let colour = curve.colour;
        chart
            .draw_series(LineSeries::new(curve.values.iter().copied(), colour.stroke_width(2)))
            .map_err(|e| failed(&e))?
            .label(curve.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        let dots = curve.values.iter().map(|&point| Circle::new(point, 3, colour.filled()));
        chart.draw_series(dots).map_err(|e| failed(&e))?;
    }
    if curves.len() > 1 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .border_style(BLACK.mix(0.2))
            .background_style(WHITE)
            .draw()
            .map_err(|e| failed(&e))?;
    }
    Ok(())
}
