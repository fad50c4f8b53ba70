//! ScarPhase, figure I.12: a program's CPI over time, as it was and as few profiled windows show it.

use plotters::prelude::*;

/// One program's CPI, window by window.
pub struct Reconstruction {
    pub name: String,
    pub measured: Vec<f64>,
    pub by_phase: Vec<f64>,
    pub periodic: Vec<f64>,
}

/// Programs drawn at most, one below the other.
const MOST: usize = 6;

/// Draws them as an SVG text.
pub fn draw(programs: &[Reconstruction]) -> Result<String, String> {
    let shown = &programs[..programs.len().min(MOST)];
    let mut svg = String::new();
    {
        let height = 40 + 240 * shown.len().max(1) as u32;
        let area = SVGBackend::with_string(&mut svg, (1000, height)).into_drawing_area();
        area.fill(&WHITE).map_err(|error| error.to_string())?;
        for (panel, program) in area.split_evenly((shown.len().max(1), 1)).iter().zip(shown) {
            draw_panel(panel, program).map_err(|error| error.to_string())?;
        }
        area.present().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

fn draw_panel<DB: DrawingBackend>(
    area: &DrawingArea<DB, plotters::coord::Shift>,
    program: &Reconstruction,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let lines = [
        ("periodic", &program.periodic, RGBColor(0xd9, 0x82, 0x2b), 1),
        ("measured", &program.measured, RGBColor(0xa5, 0xa4, 0x9d), 3),
        ("by phase", &program.by_phase, RGBColor(0x1f, 0x5f, 0xa8), 1),
    ];
    let top = lines.iter().flat_map(|line| line.1).copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(&program.name, ("sans-serif", 15))
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(54)
        // room for the legend on the right
        .build_cartesian_2d(0.0..1.12 * program.measured.len().max(1) as f64, 0.0..1.08 * top)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("window")
        .y_desc("CPI")
        .y_labels(5)
        .x_label_formatter(&|window| format!("{window:.0}"))
        .draw()?;
    for (label, values, colour, width) in lines {
        let points = (0_u32..).zip(values).map(|(window, &cpi)| (f64::from(window), cpi));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(width)))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(width)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.2)).draw()
}
