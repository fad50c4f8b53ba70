//! The curve as JSON, as a table, as CSV and as a picture.

use std::io::{self, Write};

use plotters::prelude::*;
use reuse_sampler::CacheLines;
use serde::Serialize;
use serde_json::json;

use super::args::{Args, CacheSide, Model, Unit};
use super::coherence::ByOthers;
use super::measure::Measured;
use super::source::{LEVEL, Run, Settings};
use super::spots::{Spots, Tip};
use crate::cli::{ByName, Failure};
use crate::output::OutputDir;
use crate::report::{Table, bytes, count, named, percent, picture, present, process_table};
use crate::target::Scope;

/// Rows of hot spots on the terminal; the JSON has more.
const ROWS: usize = 16;

/// Share of the misses below which it is said how code gets names.
const NAMED: f64 = 0.9;
const HOW_TO_NAME: &str = "Names come from symbols and debug files; those of code made at run time from perf-PID.map and jitdump: node \
     --perf-basic-prof, java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit.";

/// The result, in each of its forms.
pub struct Report<'a> {
    pub args: &'a Args,
    pub settings: &'a Settings<'a>,
    pub run: &'a Run,
    /// What the reader should know.
    pub notes: &'a [String],
}

#[derive(Serialize)]
struct Point {
    bytes: u64,
    lines: u64,
    miss_ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
    loads: Option<f64>,
    stores: Option<f64>,
    /// Missed bytes over requested bytes.
    byte_miss_ratio: Option<f64>,
    #[serde(flatten)]
    sharing: Option<ByOthers>,
    /// Miss ratio of one cache of this size that all threads share.
    shared: Option<f64>,
}

impl Report<'_> {
    fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let coherence = self.run.measured.coherence.as_ref();
        self.run.measured.points.iter().enumerate().map(move |(k, &(size, miss_ratio))| {
            let kinds = self.run.measured.kinds.as_ref().and_then(|kinds| kinds.get(k));
            let interval = self.run.measured.intervals.as_ref().and_then(|intervals| intervals.get(k));
            Point {
                bytes: size.bytes(self.settings.line_size),
                lines: size.0,
                miss_ratio,
                low: interval.map(|interval| interval.low),
                high: interval.map(|interval| interval.high),
                loads: kinds.and_then(|kinds| kinds[0]),
                stores: kinds.and_then(|kinds| kinds[1]),
                byte_miss_ratio: self
                    .run
                    .measured
                    .byte_ratios
                    .as_ref()
                    .and_then(|ratios| ratios.get(k))
                    .copied(),
                shared: self
                    .run
                    .measured
                    .shared
                    .as_ref()
                    .and_then(|shared| shared.get(k))
                    .map(|point| point.1),
                sharing: coherence.and_then(|coherence| coherence.points.get(k)).copied(),
            }
        })
    }

    /// One JSON object on one line, without what is not known; `ways` are null for fully associative caches.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let measured = &self.run.measured;
        let coherence = measured.coherence.as_ref();
        let mut object = present(json!({
            "model": self.args.model.name(),
            "line_size": self.settings.line_size.bytes(),
            "accesses": measured.accesses,
            "operands": measured.operands,
            "samples": measured.samples,
            "windows": measured.windows,
            "in_time": (self.args.model == Model::Statcache).then_some(measured.in_time),
            "sample_rate": if self.args.model.is_exact() { 1.0 } else { self.args.sample_rate() },
            "seed": self.args.common.seed,
            "source": self.run.source,
            "incomplete": measured.incomplete,
            "side": self.args.side.name(),
            "prefetch": self.args.prefetch.map(|prefetch| prefetch.name()),
            "prefetches": measured.prefetches,
            "scope": self.settings.scope.name(),
            "unit": self.settings.unit.map(|unit| unit.name()),
            "level": measured.intervals.as_ref().map(|_| LEVEL),
            "points": self.points().map(present).collect::<Vec<_>>(),
            "sets_simulated": filled(&measured.sets),
            "stretch": coherence.and_then(|coherence| coherence.stretch),
            "threads": coherence.and_then(|coherence| filled(&coherence.threads)),
            "falsely_shared": coherence.and_then(|coherence| filled(&coherence.falsely_shared)),
            "hot_spots": measured.spots,
            "processes": filled(&self.run.processes),
            "notes": self.notes,
        }));
        object["ways"] = json!(self.args.ways);
        writeln!(out, "{object}")?;
        out.flush()
    }

    /// Sizes at which lines fall on the sets otherwise than by chance.
    fn write_uneven(&self, out: &mut dyn Write) -> io::Result<()> {
        let flagged = self.run.measured.sets.iter().filter(|sets| sets.flagged);
        let sizes: Vec<String> = flagged
            .map(|sets| format!("{:.4} % at {}", 100.0 * sets.miss_ratio, bytes(sets.bytes)))
            .collect();
        if sizes.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\nWARNING: lines do not fall on the sets by chance, as the model has it. Simulated sets miss {}; --model \
             exact-{} simulates them all.",
            sizes.join(", "),
            if self.args.model == Model::Statcache { "random" } else { "lru" },
        )
    }

    /// A table with a bar for each size.
    pub fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Measured { accesses, samples, threads, incomplete, .. } = &self.run.measured;
        writeln!(out, "{}: {}{}{}", self.run.source, self.args.model.title(), self.through(), self.sets())?;
        match self.settings.unit {
            None => write!(out, "{accesses} accesses to lines of {} bytes", self.settings.line_size.bytes())?,
            Some(_) => write!(out, "{accesses} requests for objects")?,
        }
        let touched = if self.run.measured.prefetches.is_some() { "and of the lines fetched " } else { "" };
        writeln!(out, ", {samples} of them {touched}sampled")?;
        if let (Some(prefetch), Some(lines)) = (self.args.prefetch, self.run.measured.prefetches) {
            let name = prefetch.name();
            writeln!(
                out,
                "behind a {name} prefetcher that touched {lines} lines, each there at once: misses of the program's own accesses"
            )?;
        }
        if *threads > 1 {
            let coherence = match self.run.measured.coherence {
                Some(_) => "with the misses that other threads' stores cause",
                None => "without the misses that other threads' stores cause",
            };
            writeln!(out, "of {threads} threads, each with a private cache, {coherence}")?;
        }
        if *incomplete {
            writeln!(out, "INCOMPLETE: observed in part")?;
        }
        let range = if self.run.measured.intervals.is_some() { "       95 % interval " } else { "" };
        let both = self.points().any(|point| point.loads.is_some() && point.stores.is_some());
        let kinds = if both { "    of loads   of stores " } else { "" };
        let of_bytes = if self.settings.unit == Some(Unit::Bytes) { "  of bytes " } else { "" };
        let lines = if self.settings.unit.is_some() { "" } else { "lines" };
        let shared = self.run.measured.coherence.as_ref().map_or("", |coherence| {
            let split = coherence.points.iter().any(|point| point.true_sharing.is_some());
            if split { "  by sharing: true    false    upgrades" } else { "  by sharing" }
        });
        let in_common = if self.run.measured.shared.is_some() { "  one for all" } else { "" };
        writeln!(
            out,
            "\n{:>10} {lines:>10}  miss ratio{range}{kinds}{of_bytes}{shared}{in_common}",
            self.size_name()
        )?;
        for point in self.points() {
            let bar = "#".repeat((point.miss_ratio * 40.0).round() as usize);
            let (size, percent) = (self.size(point.bytes), 100.0 * point.miss_ratio);
            let lines = if self.settings.unit.is_some() { String::new() } else { point.lines.to_string() };
            let of_bytes =
                point.byte_miss_ratio.map_or_else(String::new, |p| format!(" {:8.4} %", 100.0 * p));
            let range = point.low.zip(point.high).map_or_else(String::new, |(low, high)| {
                format!(" {:8.4} to {:8.4}", 100.0 * low, 100.0 * high)
            });
            let kinds = point.loads.zip(point.stores).filter(|_| both);
            let kinds = kinds.map_or_else(String::new, |(loads, stores)| {
                format!(" {:9.4} % {:9.4} %", 100.0 * loads, 100.0 * stores)
            });
            let shared = point.sharing.map_or_else(String::new, |sharing| {
                let all = [sharing.true_sharing, sharing.false_sharing, sharing.upgrades];
                match all.into_iter().collect::<Option<Vec<f64>>>() {
                    Some(split) => split.iter().map(|ratio| format!("  {:8.4} %", 100.0 * ratio)).collect(),
                    None => format!("  {:8.4} %", 100.0 * sharing.coherence),
                }
            });
            let in_common =
                point.shared.map_or_else(String::new, |ratio| format!("  {:9.4} %", 100.0 * ratio));
            writeln!(
                out,
                "{size:>10} {lines:>10}  {percent:8.4} %{range}{kinds}{of_bytes}{shared}{in_common} {bar}"
            )?;
        }
        if self.run.measured.intervals.is_some() {
            writeln!(
                out,
                "\nThe intervals hold what the choice of samples leaves open and what the model got wrong on other programs."
            )?;
        }
        self.write_uneven(out)?;
        if let Some(coherence) = &self.run.measured.coherence {
            coherence.write_table(out)?;
        }
        if let Some(spots) = &self.run.measured.spots {
            self.write_spots(spots, out)?;
        }
        if self.run.processes.len() > 1 {
            let of = match self.settings.scope {
                Scope::Private => "a private cache for each thread of these processes",
                Scope::Shared if self.args.side == CacheSide::Instruction => {
                    "one cache that these processes share; those of one program have its code in common"
                }
                Scope::Shared => "one cache that these processes share, each with memory of its own",
            };
            write!(out, "\nThe curve is that of {of}:\n{}", process_table(&self.run.processes))?;
        }
        out.flush()
    }

    /// The instructions that miss most.
    fn write_spots(&self, spots: &Spots, out: &mut dyn Write) -> io::Result<()> {
        let size = bytes(CacheLines(spots.lines).bytes(self.settings.line_size));
        writeln!(out, "\nWho misses in {size} ({} samples):", spots.samples)?;
        let rows = named(spots.by_instruction.iter().take(ROWS).map(|spot| {
            let stride = spot.stride.zip(spot.stride_share);
            let hints: Vec<String> = spot.advice.iter().map(|tip| hint(tip, spots)).collect();
            [
                ("code", spot.code.clone().unwrap_or_else(|| format!("{:#x}", spot.pc))),
                ("kind", spot.kind.to_owned()),
                ("misses", percent(spot.misses)),
                ("of its own", percent(spot.miss_ratio)),
                ("first touches", percent(spot.first_touches)),
                ("accesses", percent(spot.accesses)),
                ("wasted", percent(spot.wasted)),
                (
                    "stride",
                    stride.map_or_else(String::new, |(bytes, share)| format!("{bytes} ({})", percent(share))),
                ),
                ("hint", hints.join("; ")),
            ]
        }));
        write!(out, "{}", Table::from(rows).text())?;
        let levels: Vec<String> = spots.levels.iter().map(|&level| bytes(level)).collect();
        writeln!(
            out,
            "\n{} of the misses are at code with a name. Hints: the share of all misses at {} that each would remove; of \
             blocking and fusing at most that. Prefetching fetches the same lines, earlier. Whether loops may be rearranged is \
             not checked.",
            percent(spots.named),
            levels.join(", "),
        )?;
        if spots.named < NAMED {
            writeln!(out, "{HOW_TO_NAME}")?;
        }
        Ok(())
    }

    /// A cache size as people read it.
    fn size(&self, size: u64) -> String {
        if self.settings.unit == Some(Unit::Objects) { count(size) } else { bytes(size) }
    }

    fn size_name(&self) -> &'static str {
        if self.settings.unit == Some(Unit::Objects) { "objects" } else { "size" }
    }

    /// What StatCache made of the windows.
    fn through(&self) -> &'static str {
        match self.args.model {
            Model::Statcache if self.run.measured.in_time => " in time",
            Model::Statcache => ", averaged over windows",
            _ => "",
        }
    }

    fn sets(&self) -> String {
        self.args.ways.map_or_else(String::new, |ways| format!(", sets of {ways}"))
    }

    /// Writes `curve.csv` and `curve.svg`.
    pub fn write_files(&self, folder: &OutputDir) -> Result<(), Failure> {
        let picture = self.draw().map_err(Failure::Run)?;
        folder
            .write("curve.csv", |out| {
                let with_range = self.run.measured.intervals.is_some();
                let of_bytes = if self.settings.unit == Some(Unit::Bytes) { ",byte_miss_ratio" } else { "" };
                let range = if with_range { ",low,high" } else { "" };
                let shared = match self.run.measured.coherence {
                    Some(_) => ",coherence,true_sharing,false_sharing,upgrades,shared",
                    None => "",
                };
                writeln!(out, "bytes,lines,miss_ratio{range}{of_bytes}{shared}")?;
                self.points().try_for_each(|p| {
                    write!(out, "{},{},{}", p.bytes, p.lines, p.miss_ratio)?;
                    if let Some((low, high)) = p.low.zip(p.high) {
                        write!(out, ",{low},{high}")?;
                    }
                    if let Some(ratio) = p.byte_miss_ratio {
                        write!(out, ",{ratio}")?;
                    }
                    if let Some(sharing) = p.sharing {
                        write!(out, ",{}", sharing.coherence)?;
                        for part in [sharing.true_sharing, sharing.false_sharing, sharing.upgrades, p.shared]
                        {
                            write!(out, ",{}", part.map_or_else(String::new, |ratio| ratio.to_string()))?;
                        }
                    }
                    writeln!(out)
                })
            })
            .and_then(|()| folder.write("curve.svg", |out| out.write_all(picture.as_bytes())))
    }

    /// The curve as a picture: miss ratio in percent over the logarithm of the size.
    fn draw(&self) -> Result<String, String> {
        let points: Vec<(f64, f64)> =
            self.points().map(|p| ((p.bytes as f64).log2(), 100.0 * p.miss_ratio)).collect();
        let end = |ratio: fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
            self.points().filter_map(|p| Some(((p.bytes as f64).log2(), 100.0 * ratio(&p)?))).collect()
        };
        let (low, high) = (end(|p| p.low), end(|p| p.high));
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Err("cannot draw a curve without sizes".to_owned());
        };
        let left = first.0.floor();
        let right = last.0.ceil().max(left + 1.0);
        let top = points.iter().chain(&high).map(|p| p.1).fold(0.0, f64::max).max(0.1) * 1.08;
        let drawn = picture((840, 480), |area| {
            let state = if self.run.measured.incomplete { " (incomplete)" } else { "" };
            let (model, through) = (self.args.model.title(), self.through());
            let title = format!("{}: {model}{through}{}{state}", self.run.source, self.sets());
            let mut chart = ChartBuilder::on(area)
                .caption(title, ("sans-serif", 18))
                .margin(16)
                .x_label_area_size(48)
                .y_label_area_size(64)
                .build_cartesian_2d((left..right + 0.2).step(1.0), 0.0..top)?; // so that the last size has its label
            chart
                .configure_mesh()
                .x_desc(if self.settings.unit == Some(Unit::Objects) {
                    "cache size in objects"
                } else {
                    "cache size"
                })
                .y_desc("miss ratio (%)")
                .x_labels((right - left) as usize + 1)
                .x_label_formatter(&|octave| self.size(octave.exp2().round() as u64))
                .light_line_style(WHITE)
                .bold_line_style(BLACK.mix(0.12))
                .label_style(("sans-serif", 13))
                .draw()?;
            let colour = RGBColor(0x1f, 0x5f, 0xa8);
            if !low.is_empty() {
                let band: Vec<(f64, f64)> = high.iter().chain(low.iter().rev()).copied().collect();
                chart.draw_series([Polygon::new(band, colour.mix(0.18).filled())])?;
            }
            chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
            let dots = points.iter().map(|&point| Circle::new(point, 3, colour.filled()));
            chart.draw_series(dots)?;
            Ok(())
        });
        drawn.map_err(|error| format!("cannot draw the curve: {error}"))
    }
}

fn filled<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// A hint and what it would remove at each level.
fn hint(tip: &Tip, spots: &Spots) -> String {
    let removes: Vec<String> = tip.removes.iter().map(|&share| percent(share)).collect();
    let with = tip.with.and_then(|with| spots.by_instruction.iter().find(|spot| spot.pc == with));
    let with = with.and_then(|spot| spot.code.as_ref()).map(|code| format!(" with {code}"));
    let with = with.or_else(|| tip.with.map(|with| format!(" with {with:#x}"))).unwrap_or_default();
    let ahead = tip.ahead.map_or_else(String::new, |ahead| format!(" {ahead} ahead"));
    format!("{}{with}{ahead} ({})", tip.hint, removes.join(", "))
}
