//! The curve as JSON, as a table, as CSV and as a picture.

use std::io::{self, Write};

use plotters::prelude::*;
use reuse_sampler::LineSize;
use serde::Serialize;

use super::args::Model;
use super::measure::Measured;
use crate::cli::Failure;
use crate::output::OutputDir;
use crate::report::bytes;

/// What is told, whatever the form.
pub struct Report<'a> {
    pub model: Model,
    pub line_size: LineSize,
    pub source: &'a str,
    pub sample_rate: f64,
    pub seed: u64,
    pub measured: &'a Measured,
}

#[derive(Serialize)]
struct Object<'a> {
    model: &'static str,
    line_size: u32,
    accesses: u64,
    samples: u64,
    windows: usize,
    sample_rate: f64,
    seed: u64,
    source: &'a str,
    incomplete: bool,
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Point {
    bytes: u64,
    lines: u64,
    miss_ratio: f64,
}

impl Report<'_> {
    fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.measured.points.iter().map(|&(size, miss_ratio)| Point {
            bytes: size.bytes(self.line_size),
            lines: size.0,
            miss_ratio,
        })
    }

    /// One JSON object on one line.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let object = Object {
            model: self.model.name(),
            line_size: self.line_size.bytes(),
            accesses: self.measured.accesses,
            samples: self.measured.samples,
            windows: self.measured.windows,
            sample_rate: self.sample_rate,
            seed: self.seed,
            source: self.source,
            incomplete: self.measured.incomplete,
            points: self.points().collect(),
        };
        let text = serde_json::to_string(&object).map_err(io::Error::other)?;
        writeln!(out, "{text}")?;
        out.flush()
    }

    /// A table with a bar for each size.
    pub fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Measured { accesses, samples, incomplete, .. } = *self.measured;
        writeln!(out, "{}: {}", self.source, self.model.title())?;
        let lines = self.line_size.bytes();
        writeln!(out, "{accesses} accesses to lines of {lines} bytes, {samples} of them sampled")?;
        if incomplete {
            writeln!(out, "INCOMPLETE: interrupted before the end")?;
        }
        writeln!(out, "\n{:>10} {:>10}  miss ratio", "size", "lines")?;
        for point in self.points() {
            let bar = "#".repeat((point.miss_ratio * 40.0).round() as usize);
            let (size, percent) = (bytes(point.bytes), 100.0 * point.miss_ratio);
            writeln!(out, "{size:>10} {:>10}  {percent:8.4} % {bar}", point.lines)?;
        }
        out.flush()
    }

    /// Writes `curve.csv` and `curve.svg`.
    pub fn write_files(&self, folder: &OutputDir) -> Result<(), Failure> {
        let picture = self.draw().map_err(Failure::Run)?;
        folder
            .write("curve.csv", |out| {
                writeln!(out, "bytes,lines,miss_ratio")?;
                self.points().try_for_each(|p| writeln!(out, "{},{},{}", p.bytes, p.lines, p.miss_ratio))
            })
            .and_then(|()| folder.write("curve.svg", |out| out.write_all(picture.as_bytes())))
            .map_err(Failure::run)
    }

    /// The curve as a picture: miss ratio in percent over the logarithm of the size.
    fn draw(&self) -> Result<String, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot draw the curve: {error}");
        let points: Vec<(f64, f64)> =
            self.points().map(|p| ((p.bytes as f64).log2(), 100.0 * p.miss_ratio)).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Err("cannot draw a curve without sizes".to_owned());
        };
        let left = first.0.floor();
        let right = last.0.ceil().max(left + 1.0);
        let top = points.iter().map(|p| p.1).fold(0.0, f64::max).max(0.1) * 1.08;
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (840, 480)).into_drawing_area();
            area.fill(&WHITE).map_err(|e| failed(&e))?;
            let state = if self.measured.incomplete { " (incomplete)" } else { "" };
            let title = format!("{}: {}{state}", self.source, self.model.title());
            let mut chart = ChartBuilder::on(&area)
                .caption(title, ("sans-serif", 18))
                .margin(16)
                .x_label_area_size(48)
                .y_label_area_size(64)
                .build_cartesian_2d((left..right + 0.2).step(1.0), 0.0..top) // so that the last size has its label
                .map_err(|e| failed(&e))?;
            chart
                .configure_mesh()
                .x_desc("cache size")
                .y_desc("miss ratio (%)")
                .x_labels((right - left) as usize + 1)
                .x_label_formatter(&|octave| bytes(octave.exp2().round() as u64))
                .light_line_style(WHITE)
                .bold_line_style(BLACK.mix(0.12))
                .label_style(("sans-serif", 13))
                .draw()
                .map_err(|e| failed(&e))?;
            let colour = RGBColor(0x1f, 0x5f, 0xa8);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))
                .map_err(|e| failed(&e))?;
            let dots = points.iter().map(|&point| Circle::new(point, 3, colour.filled()));
            chart.draw_series(dots).map_err(|e| failed(&e))?;
            area.present().map_err(|e| failed(&e))?;
        }
        Ok(svg)
    }
}
