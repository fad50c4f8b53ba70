//! Lines in panels, one below the other: what is compared over time, size or share of the runs.

use std::io;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::PHASES;

/// A part of a picture.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What drawing answers.
pub(crate) type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// A picture on white as an SVG text.
///
/// # Errors
/// What the drawing library says, as text.
pub(crate) fn picture(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let drawn = area.fill(&WHITE).and_then(|()| draw(&area)).and_then(|()| area.present());
        drawn.map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

/// A line of a panel.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// Number of its colour.
    pub colour: usize,
    /// Whether it is drawn thin, as what others are held against.
    pub thin: bool,
    /// Its points, by rising x.
    pub points: Vec<(f64, f64)>,
}

/// A panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What goes to the right.
    pub across: String,
    /// What goes up.
    pub up: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Draws the panels as an SVG text. Lines without points are left out.
///
/// # Errors
/// What the drawing library says, as text.
pub fn draw_panels(title: &str, panels: &[Panel]) -> Result<String, String> {
    picture((920, 40 + 260 * panels.len().max(1) as u32), |area| {
        let area = area.titled(title, ("sans-serif", 17))?;
        let areas = area.split_evenly((panels.len().max(1), 1));
        areas.iter().zip(panels).try_for_each(|(area, panel)| draw(area, panel))
    })
}

fn draw(area: &Area<'_>, panel: &Panel) -> Drawn {
    let points = || panel.lines.iter().flat_map(|line| line.points.iter().copied());
    let (left, right) = range(points().map(|p| p.0));
    let (low, high) = range(points().map(|p| p.1).chain([0.0]));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(left..right, low..high + 0.08 * (high - low))?;
    chart
        .configure_mesh()
        .x_desc(&panel.across)
        .y_desc(&panel.up)
        .y_labels(6)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 13))
        .draw()?;
    for line in panel.lines.iter().filter(|line| !line.points.is_empty()) {
        let colour = PHASES[line.colour % PHASES.len()];
        let style = if line.thin { colour.mix(0.55).stroke_width(1) } else { colour.stroke_width(2) };
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style))?
            .label(line.label.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK.mix(0.2))
        .background_style(WHITE.mix(0.8))
        .draw()
}

/// From the least to the largest finite value, with some width in any case.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|v| v.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    match (low.is_finite(), high > low) {
        (false, _) => (0.0, 1.0),
        (true, false) => (low, low + 1.0),
        (true, true) => (low, high),
    }
}

/// `1.5M`, `20k`, `0.25`.
fn short(value: f64) -> String {
    let size = value.abs();
    let (scaled, unit) = match size {
        s if s >= 1e9 => (value / 1e9, "G"),
        s if s >= 1e6 => (value / 1e6, "M"),
        s if s >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_drawn_of_anything() {
        let line = |points| Line { label: "one".into(), colour: 9, thin: false, points };
        for points in [vec![], vec![(1.0, 2.0)], vec![(0.0, 0.0), (1e7, 3.0)]] {
            let panel = Panel { across: "time".into(), up: "CPI".into(), lines: vec![line(points)] };
            let svg = draw_panels("title", &[panel]).unwrap();
            assert!(svg.starts_with("<svg") && svg.contains("CPI"), "{svg}");
        }
        assert!(draw_panels("nothing", &[]).unwrap().starts_with("<svg"));
        assert_eq!(
            [short(1_500_000.0), short(20_000.0), short(0.25), short(0.0)],
            ["1.5M", "20k", "0.25", "0"]
        );
    }
}
