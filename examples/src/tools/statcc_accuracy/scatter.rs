//! The paper's figure 8: predicted over simulated CPI of every program in every pair.

use plotters::prelude::*;

use super::suite::Group;

/// Draws it as SVG.
pub fn draw(groups: &[Group]) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot draw the scatter plot: {error}");
    let points: Vec<(f64, f64)> = groups.iter().flatten().map(|o| (o.cpi, o.predicted_cpi)).collect();
    let top = points.iter().map(|p| p.0.max(p.1)).fold(1.0, f64::max) * 1.05;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (640, 600)).into_drawing_area();
        area.fill(&WHITE).map_err(|e| failed(&e))?;
        let mut chart = ChartBuilder::on(&area)
            .caption("CPI in pairs, by StatCC and simulated", ("sans-serif", 18))
            .margin(16)
            .x_label_area_size(48)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..top, 0.0..top)
            .map_err(|e| failed(&e))?;
        chart
            .configure_mesh()
            .x_desc("simulated CPI")
            .y_desc("predicted CPI")
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.12))
            .label_style(("sans-serif", 13))
            .draw()
            .map_err(|e| failed(&e))?;
        let diagonal = LineSeries::new([(0.0, 0.0), (top, top)], BLACK.mix(0.4));
        chart.draw_series(diagonal).map_err(|e| failed(&e))?;
        let colour = RGBColor(0x1f, 0x5f, 0xa8);
        let dots = points.iter().map(|&point| Circle::new(point, 3, colour.mix(0.7).filled()));
        chart.draw_series(dots).map_err(|e| failed(&e))?;
        area.present().map_err(|e| failed(&e))?;
    }
    Ok(svg)
}
