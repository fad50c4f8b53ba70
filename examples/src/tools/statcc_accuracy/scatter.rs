//! The paper's figure 8: predicted over simulated CPI of every program in every pair.

use plotters::prelude::*;

use super::suite::Group;
use crate::report::picture;

/// Draws it as SVG.
pub fn draw(groups: &[Group]) -> Result<String, String> {
    let points: Vec<(f64, f64)> = groups.iter().flatten().map(|o| (o.cpi, o.predicted_cpi)).collect();
    let top = points.iter().map(|p| p.0.max(p.1)).fold(1.0, f64::max) * 1.05;
    let drawn = picture((640, 600), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption("CPI in pairs, by StatCC and simulated", ("sans-serif", 18))
            .margin(16)
            .x_label_area_size(48)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..top, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc("simulated CPI")
            .y_desc("predicted CPI")
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.12))
            .label_style(("sans-serif", 13))
            .draw()?;
        let diagonal = LineSeries::new([(0.0, 0.0), (top, top)], BLACK.mix(0.4));
        chart.draw_series(diagonal)?;
        let colour = RGBColor(0x1f, 0x5f, 0xa8);
        let dots = points.iter().map(|&point| Circle::new(point, 3, colour.mix(0.7).filled()));
        chart.draw_series(dots)?;
        Ok(())
    });
    drawn.map_err(|error| format!("cannot draw the scatter plot: {error}"))
}
