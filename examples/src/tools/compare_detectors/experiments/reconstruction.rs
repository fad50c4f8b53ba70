//! ScarPhase, figure I.12: a program's CPI over time, as it was and as few profiled windows show it.

use crate::report::{Line, Panel, draw_panels};

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
    let panel = |program: &Reconstruction| {
        let line = |label: &str, values: &[f64], colour, thin| {
            let points = (0_u32..).zip(values).map(|(window, &cpi)| (f64::from(window), cpi)).collect();
            Line { label: label.to_owned(), colour, thin, points }
        };
        let lines = vec![
            line("measured", &program.measured, 0, false),
            line("periodic", &program.periodic, 1, true),
            line("by phase", &program.by_phase, 2, true),
        ];
        Panel { across: "window".to_owned(), up: format!("CPI of {}", program.name), lines }
    };
    let panels: Vec<Panel> = programs.iter().take(MOST).map(panel).collect();
    draw_panels("CPI, measured and from few profiled windows", &panels)
}
