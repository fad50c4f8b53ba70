//! The curve as JSON, as a table and as CSV.

use std::io::{self, Write};

use cache_pirate::{CurvePoint, Distrust, Trust};
use cachesharing::file::ProgramFile;
use reuse_sampler::LineSize;
use reuse_sampler::file::PhaseProfile;
use serde::Serialize;
use serde_json::{Value, json};

use super::figure::draw;
use super::{MECHANISMS, Measured};
use crate::cli::Failure;
use crate::output::OutputDir;
use crate::report::{Cell, Table, bytes, escape, percent, present, write_document, write_profile};
use crate::tools::corun_variability::stored::Stored;

/// The result, in each of its forms.
pub struct Report<'a> {
    pub measured: &'a Measured,
    pub incomplete: bool,
    pub seed: u64,
}

#[derive(Serialize)]
struct Point {
    bytes: u64,
    cpi: f64,
    miss_ratio: Option<f64>,
    fetch_ratio: Option<f64>,
    hit_rate: Option<f64>,
    bandwidth: Option<f64>,
    trusted: bool,
    reason: Option<String>,
    bytes_at_least: u64,
    bytes_at_most: u64,
    cpi_error: Option<f64>,
    miss_ratio_error: Option<f64>,
    fetch_ratio_error: Option<f64>,
    bandwidth_error: Option<f64>,
    spared: Option<f64>,
    pirate_fetch_ratio: f64,
    intervals: u64,
}

impl Report<'_> {
    /// One JSON object on one line: a superset of the cache-curve file, and called that where every point has what the
    /// format requires. Readers of the format ignore what they do not know.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.object())
    }

    fn object(&self) -> Value {
        let curve = &self.measured.curve;
        let run = self.measured.run.as_ref();
        let alone = curve.at(curve.cache().bytes).map(|point| point.cpi);
        let mut object = json!({
            "version": 1,
            "name": self.measured.source,
            "work": self.measured.work,
            "time": self.measured.time,
            "mechanism": self.measured.mechanism,
            "line_size": curve.cache().line_size,
            "mix": curve.points().iter().rev().find_map(|point| point.mix).unwrap_or(1.0),
            "cache_bytes": curve.cache().bytes,
            "points": curve.points().iter().map(|each| present(point(each))).collect::<Vec<_>>(),
            "stealable_bytes": curve.stealable(),
            "threads": self.measured.threads(),
            "overhead": run.zip(alone).map(|(run, alone)| run.overhead(alone)),
            "suspended": run.map(|run| run.suspended / run.total.elapsed),
            "notes": self.measured.notes,
            "seed": self.seed,
            "incomplete": self.incomplete,
        });
        if curve.points().iter().all(|point| point.miss_ratio.is_some()) {
            object["format"] = json!("cache-curve");
        }
        object
    }

    /// The curve as a section of a phase profile without phases, where it is a cache curve.
    fn profile(&self) -> Result<Option<PhaseProfile>, Failure> {
        let object = self.object();
        if object["format"].is_null() {
            return Ok(None);
        }
        let file: ProgramFile = serde_json::from_value(object).map_err(Failure::run)?;
        let line_size = LineSize::new(file.line_size).map_err(Failure::run)?;
        let mut profile = PhaseProfile::new(self.measured.source.as_str(), line_size);
        (profile.machine, profile.incomplete) = (self.measured.machine.clone(), self.incomplete);
        Stored::measured(file).write(&mut profile)?;
        Ok(Some(profile))
    }

    /// A table for people.
    pub fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let measured = self.measured;
        let state = if self.incomplete { "  (interrupted: incomplete)" } else { "" };
        writeln!(out, "{}{state}", measured.source)?;
        for note in &measured.notes {
            writeln!(out, "note: {note}")?;
        }
        let unit = format!("{}s/{}", measured.time, measured.work);
        writeln!(
            out,
            "{:>10}  {:>18}  {:>8}  {:>11}  {:>14}  pirate's fetches",
            "cache", unit, "misses", "fetches", "bytes/time"
        )?;
        for point in measured.curve.points() {
            let ratio = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
            let bandwidth = point.bandwidth.map_or_else(|| "-".to_owned(), |b| format!("{b:.4}"));
            let verdict = reason(point).map_or_else(String::new, |reason| format!("  not trusted: {reason}"));
            writeln!(
                out,
                "{:>10}  {:>18}  {:>8}  {:>11}  {:>14}  {}{verdict}",
                bytes(point.bytes),
                figures(point.cpi),
                ratio(point.miss_ratio),
                if point.miss_ratio.is_some() && point.fetch_ratio.is_none() {
                    "misses only".to_owned()
                } else {
                    ratio(point.fetch_ratio)
                },
                bandwidth,
                percent(point.pirate_fetch_ratio),
            )?;
        }
        if measured.mechanism == MECHANISMS[1] {
            return Ok(());
        }
        let stolen = bytes(measured.curve.stealable());
        let threads = measured.threads();
        let plural = if threads == 1 { "" } else { "s" };
        writeln!(out, "{stolen} could be stolen with {threads} pirate thread{plural}.")
    }

    fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(out);
        for each in self.measured.curve.points() {
            csv.serialize(point(each))?;
        }
        csv.flush()
    }

    /// The curves, the table with what may be off, and the reasons of what is not trusted, on a page.
    fn write_page(&self, picture: &str, out: &mut dyn Write) -> io::Result<()> {
        let measured = self.measured;
        let mut table = Table {
            columns: ["cache", "left to the program", "CPI", "misses", "fetches", "bytes/time", "verdict"]
                .map(str::to_owned)
                .to_vec(),
            ..Table::default()
        };
        let with = |value: Option<f64>, error: Option<f64>, shown: &dyn Fn(f64) -> String| {
            let text = value.map(|value| match error {
                Some(error) => format!("{} +- {}", shown(value), shown(error)),
                None => shown(value),
            });
            text.map_or(Cell::None, Cell::Figure)
        };
        for point in measured.curve.points() {
            let (from, to) = point.effective_bytes;
            table.rows.push(vec![
                Cell::Figure(bytes(point.bytes)),
                Cell::Figure(if from == to {
                    bytes(from)
                } else {
                    format!("{} to {}", bytes(from), bytes(to))
                }),
                with(Some(point.cpi), point.cpi_error, &figures),
                with(point.miss_ratio, point.miss_ratio_error, &percent),
                with(point.fetch_ratio, point.fetch_ratio_error, &percent),
                with(point.bandwidth, point.bandwidth_error, &figures),
                Cell::Text(
                    reason(point).map_or_else(|| "trusted".to_owned(), |why| format!("not trusted: {why}")),
                ),
            ]);
        }
        let mut body = String::new();
        if self.incomplete {
            body += "<p class=\"incomplete\">The run was interrupted: this is what was measured until then.</p>\n";
        }
        for note in &measured.notes {
            body += &format!("<p>Note: {}</p>\n", escape(note));
        }
        body += &format!(
            "<figure>{picture}</figure>\n<p>CPI is in {}s per {}, bandwidth in bytes per {}. Bars are two standard \
             errors each way, from the differences between intervals; a bar to the right or left shows what may really \
             have been left to the program. Hollow points are not trusted, for the reason in the table.</p>\n{}",
            measured.time,
            measured.work,
            measured.time,
            table.html()
        );
        write_document(&format!("Performance over cache size: {}", measured.source), &body, out)
    }

    /// `report.html`, `curves.svg`, `curve.csv`, `curve.json` in the cache-curve format, and `profile.json`.
    pub fn write_files(&self, folder: &OutputDir) -> Result<(), Failure> {
        let picture = draw(self.measured, self.incomplete).map_err(Failure::Run)?;
        folder.write("curves.svg", |out| out.write_all(picture.as_bytes()))?;
        folder.write("report.html", |out| self.write_page(&picture, out))?;
        folder.write("curve.csv", |out| self.write_csv(out))?;
        folder.write("curve.json", |out| self.write_json(out))?;
        self.profile()?.map_or(Ok(()), |profile| write_profile(&profile, folder))
    }
}

fn point(point: &CurvePoint) -> Point {
    Point {
        bytes: point.bytes,
        cpi: point.cpi,
        miss_ratio: point.miss_ratio,
        fetch_ratio: point.fetch_ratio,
        hit_rate: point.hit_rate,
        bandwidth: point.bandwidth,
        trusted: point.is_trusted(),
        reason: reason(point),
        bytes_at_least: point.effective_bytes.0,
        bytes_at_most: point.effective_bytes.1,
        cpi_error: point.cpi_error,
        miss_ratio_error: point.miss_ratio_error,
        fetch_ratio_error: point.fetch_ratio_error,
        bandwidth_error: point.bandwidth_error,
        spared: point.spared,
        pirate_fetch_ratio: point.pirate_fetch_ratio,
        intervals: point.intervals,
    }
}

/// Why a point is not trusted, if it is not.
fn reason(point: &CurvePoint) -> Option<String> {
    let Trust::Untrusted(distrust) = point.trust else { return None };
    Some(match distrust {
        Distrust::LostLines { fetch_ratio, limit } => {
            format!("the pirate fetched {} of its lines, more than {}", percent(fetch_ratio), percent(limit))
        }
        Distrust::Spared { fetch_ratio, limit } => format!(
            "the pirate's losses may have spared it {} of fetches, more than {}",
            percent(fetch_ratio),
            percent(limit)
        ),
        Distrust::NotWalked { walks } => format!("the pirate made only {walks:.2} walks in an interval"),
        Distrust::NotHeld { held } => {
            format!("alone, the pirate held no more than {}", bytes(held))
        }
        Distrust::CacheTooLarge { held, cache } => format!(
            "alone, the pirate held only {} of {}: the cache is smaller, give its size with --cache",
            bytes(held),
            bytes(cache)
        ),
        Distrust::CacheTooSmall { cache } => format!(
            "alone, the pirate held more than {}: the cache is larger, give its size with --cache",
            bytes(cache)
        ),
        Distrust::Steep { from, to } => format!(
            "where the pirate's lines lie, or how lines are replaced, leaves the program {} to {}, between which too much changes",
            bytes(from),
            bytes(to)
        ),
        Distrust::ScanResistant { kept } => format!(
            "the cache favours lines that are touched often, such as the pirate's: it kept {} of them through a scan",
            percent(kept)
        ),
        Distrust::OldLines { share, limit } => format!(
            "{} of the ways that are not the program's still held lines of its own, more than {}",
            percent(share),
            percent(limit)
        ),
        Distrust::NotShared => "the two did not share a cache at the time".to_owned(),
        Distrust::Truncated { .. } => "the program ended too soon".to_owned(),
        Distrust::OtherWork => {
            "in this run the program ended otherwise, or read and wrote other amounts, than in its first one"
                .to_owned()
        }
        _ => "nothing was measured".to_owned(),
    })
}

/// Four significant figures of numbers from 0.01 to 1e12.
fn figures(value: f64) -> String {
    let digits = (3.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}
