//! Two runs' phase profiles: what became of the misses, overall and phase by phase.

mod align;
mod change;
mod estimate;
mod inputs;
mod lending;
mod report;
mod time;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Parser;

use self::change::{Change, Terms, Verdict};
use self::inputs::{Recording, Run, alike, distinct};
use self::time::Latencies;
use crate::cli::{CommandLine, Common, Failure, INTERRUPTED, interrupt_flag, parse_bytes};
use crate::machines::host::{CacheLevel, DataCaches};
use crate::report::{bytes, write_document};

/// Exit status if something became worse.
const WORSE: u8 = 3;
/// Exit status if the runs leave open whether anything changed.
const UNCLEAR: u8 = 4;

/// Compares the phase profiles of two versions of a program.
///
/// Judged are the misses of the whole run: with fewer accesses they may fall while the miss ratio rises. Phases are
/// matched by their code. A change counts if it is larger than its 95 % interval and than --tolerance. The
/// interval is what the samples of the runs leave open and what phases without samples borrow; with several runs
/// of a version also their differences. Where a change of a point could hide in it, the verdict is withheld.
///
/// The exit status is 0 if nothing became worse, 3 where something did, 4 where the runs leave it open, 1 if a file
/// cannot be read or a command fails, 130 if interrupted.
#[derive(Clone, Debug, Parser)]
#[command(name = "compare_profiles", version)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The profile.json of phase_guided_cache before the change; of several runs, separated by commas. With --run a
    /// command, as one argument
    #[arg(value_name = "BEFORE", value_delimiter = ',', required = true, num_args = 1)]
    before: Vec<PathBuf>,
    /// The same after the change
    #[arg(value_name = "AFTER", value_delimiter = ',', required = true, num_args = 1)]
    after: Vec<PathBuf>,
    /// Cache sizes to compare at, for example 32KiB,1MiB [default: this machine's data caches]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_bytes)]
    sizes: Vec<u64>,
    /// Changes of the misses for each access before, in percentage points, that do not count [default: 0.05 with
    /// several runs of both versions; 0.5 with one, which does not show how much two runs of one version differ]
    #[arg(long, value_name = "POINTS")]
    tolerance: Option<f64>,
    /// Cycles of a hit in each cache, the smallest first, and of memory, for predicted times [default: 4 up to 128 KiB,
    /// 14 up to 4 MiB, 50 beyond; 250 for memory]
    #[arg(long, value_name = "CYCLES", value_delimiter = ',')]
    latencies: Vec<f64>,
    /// BEFORE and AFTER are commands: run and record them now. Their output goes to standard error. No shell
    #[arg(long)]
    run: bool,
    /// How often each command is run
    #[arg(long, value_name = "N", default_value_t = 3, requires = "run",
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Instructions in a window of a command [default: 10000000]
    #[arg(long, value_name = "N", requires = "run", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "did the change help? Recorded by phase_guided_cache --out",
            "before/profile.json after/profile.json",
        ),
        ("at one size, two runs of each version", "--sizes 1MiB b1.json,b2.json a1.json,a2.json"),
        ("two commands, each run three times, with a page", "--out report --run './old data' './new data'"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }
}

/// Tolerances in points: see `--tolerance`. That of one run was chosen on 40 runs of the embedded workload `phased`
/// with other data, whose miss ratios differ by up to 0.5 points.
const ONE: f64 = 0.5;
const SEVERAL: f64 = 0.05;

/// Compares what the command line names.
///
/// # Errors
/// [`Failure`] for a file that cannot be read or compared, and for a command that fails.
pub fn run(args: &Args, out: &mut dyn Write, messages: &mut dyn Write) -> Result<u8, Failure> {
    let several = if args.run { args.runs > 1 } else { args.before.len() > 1 && args.after.len() > 1 };
    let tolerance = args.tolerance.unwrap_or(if several { SEVERAL } else { ONE });
    if !(tolerance.is_finite() && tolerance >= 0.0) {
        return Err(Failure::Usage(format!("--tolerance {tolerance}: give a number of points, 0 or more")));
    }
    let levels = levels(&args.sizes);
    let latencies = Latencies::new(&args.latencies, &levels)?;
    let terms = Terms { levels, latencies, tolerance: tolerance / 100.0 };
    let folder = args.common.folder()?;
    let Some([before, after]) = args.inputs(messages)? else {
        let _ = writeln!(messages, "compare_profiles: interrupted; nothing is compared");
        return Ok(INTERRUPTED);
    };
    if args.run {
        let runs = before
            .iter()
            .map(|run| (&args.before[0], run))
            .chain(after.iter().map(|run| (&args.after[0], run)));
        alike(runs, &terms.levels)?;
    } else {
        let paths = args.before.iter().chain(&args.after);
        alike(paths.zip(before.iter().chain(&after)), &terms.levels)?;
    }
    let change = Change::between(&before, &after, &terms);
    let name = |paths: &[PathBuf]| {
        let names = paths.iter().map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(if args.run { "," } else { ", " })
    };
    let names = (name(&args.before), name(&args.after));
    args.common.present(
        folder.as_ref(),
        |folder| {
            let page =
                report::page(&change, &names, (&before[0], &after[0]), &terms).map_err(Failure::Run)?;
            folder
                .write("comparison.json", |out| report::json(&change, &names, out))
                .and_then(|()| folder.write("comparison.txt", |out| report::table(&change, &names, out)))
                .and_then(|()| {
                    folder.write("report.html", |out| write_document(report::TITLE, &page, out))
                })?;
            for (side, runs) in [("before", &before), ("after", &after)].iter().filter(|_| args.run) {
                for (number, run) in runs.iter().enumerate() {
                    let name = format!("{side}-{}.json", number + 1);
                    let write = |out: &mut dyn Write| run.profile.write(out).map_err(io::Error::other);
                    folder.write(&name, write)?;
                }
            }
            Ok(())
        },
        |out| report::json(&change, &names, out),
        |out| report::table(&change, &names, out),
        out,
    )?;
    Ok(match change.verdict() {
        Verdict::Worse => WORSE,
        Verdict::Unclear => UNCLEAR,
        Verdict::Better | Verdict::None => 0,
    })
}

impl Args {
    /// The runs of both sides; nothing if interrupted.
    fn inputs(&self, messages: &mut dyn Write) -> Result<Option<[Vec<Run>; 2]>, Failure> {
        if self.run {
            let interrupted = interrupt_flag()?;
            let (window, runs, seed) = (self.window, self.runs, self.common.seed);
            let recording = Recording { window, runs, seed, interrupted: &interrupted };
            // A command may have commas, at which files are separated.
            let mut record = |parts: &[PathBuf]| {
                let parts: Vec<String> = parts.iter().map(|part| part.display().to_string()).collect();
                recording.record(&parts.join(","), messages)
            };
            let Some(before) = record(&self.before)? else { return Ok(None) };
            return Ok(record(&self.after)?.map(|after| [before, after]));
        }
        distinct(&self.before)?;
        distinct(&self.after)?;
        let read = |paths: &[PathBuf]| {
            paths.iter().map(|path| Run::read(path)).collect::<Result<Vec<Run>, Failure>>()
        };
        let (before, after) = (read(&self.before)?, read(&self.after)?);
        Ok(Some([before, after]))
    }
}

/// The sizes asked for, or this machine's caches.
fn levels(sizes: &[u64]) -> Vec<CacheLevel> {
    if sizes.is_empty() {
        return DataCaches::of_this_machine().levels;
    }
    sizes.iter().map(|&size| CacheLevel { name: bytes(size), bytes: size }).collect()
}
