//! Two runs' phase profiles: what became of the misses, overall and phase by phase.

mod align;
mod change;
mod report;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Parser;
use reuse_sampler::file::{PhaseProfile, Scope};

use self::change::{Change, Side, Verdict};
use crate::cli::parse_bytes;
use crate::cli::{CommandLine, Common, Failure};
use crate::machines::host::{CacheLevel, DataCaches};
use crate::output::OutputDir;
use crate::report::{StoredCurves, bytes};

/// Exit status if something became worse.
const WORSE: u8 = 3;

/// Compares the phase profiles of two versions of a program.
///
/// Judged are the misses of the whole run: with fewer accesses they may fall while the miss ratio rises. Phases are
/// matched by their code. A change counts if it is larger than its 95 % interval and than --tolerance. The
/// interval is what the samples of the runs leave open; with several runs of a version also their differences.
///
/// The exit status is 0 if nothing became worse, 3 where something did, 1 if a file cannot be read.
#[derive(Clone, Debug, Parser)]
#[command(name = "compare_profiles", version)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The profile.json of phase_guided_cache before the change; of several runs, separated by commas
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
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "did the change help? Recorded by phase_guided_cache --out",
            "before/profile.json after/profile.json",
        ),
        ("at one size, two runs of each version", "--sizes 1MiB b1.json,b2.json a1.json,a2.json"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }
}

/// Tolerances in points: see `--tolerance`. That of one run was chosen on 40 runs of the embedded workload `phased` with
/// other data, whose miss ratios differ by up to 0.5 points.
const ONE: f64 = 0.5;
const SEVERAL: f64 = 0.05;

/// A stored run and its curves.
struct Run {
    profile: PhaseProfile,
    curves: StoredCurves,
}

/// Compares what the command line names.
///
/// # Errors
/// [`Failure`] for a file that cannot be read or compared.
pub fn run(args: &Args, out: &mut dyn Write, _messages: &mut dyn Write) -> Result<u8, Failure> {
    let several = args.before.len() > 1 && args.after.len() > 1;
    let tolerance = args.tolerance.unwrap_or(if several { SEVERAL } else { ONE });
    if !(tolerance.is_finite() && tolerance >= 0.0) {
        return Err(Failure::Usage(format!("--tolerance {tolerance}: give a number of points, 0 or more")));
    }
    let read = |paths: &[PathBuf]| paths.iter().map(|path| read(path)).collect::<Result<Vec<Run>, Failure>>();
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    one_scope(args.before.iter().chain(&args.after).zip(before.iter().chain(&after)))?;
    let levels = levels(&args.sizes);
    let change = Change::between(&Side::new(&before), &Side::new(&after), &levels, tolerance / 100.0);
    let name =
        |paths: &[PathBuf]| paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
    let names = (name(&args.before), name(&args.after));
    let folder = args.common.out.as_deref().map(OutputDir::prepare).transpose().map_err(Failure::usage)?;
    args.common.present(
        folder.as_ref(),
        |folder| {
            folder
                .write("comparison.json", |out| report::json(&change, &names, out))
                .and_then(|()| folder.write("comparison.txt", |out| report::table(&change, &names, out)))
                .map_err(Failure::run)
        },
        |out| report::json(&change, &names, out),
        |out| report::table(&change, &names, out),
        out,
    )?;
    Ok(if change.verdict() == Verdict::Worse { WORSE } else { 0 })
}

fn read(path: &Path) -> Result<Run, Failure> {
    let failed = |problem: String| Failure::Run(format!("{}: {problem}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let profile = PhaseProfile::read(file).map_err(|error| failed(error.to_string()))?;
    let curves = profile.section("miss_ratios").map_err(|error| failed(error.to_string()))?;
    let curves: StoredCurves = curves.ok_or_else(|| {
        failed("has no section miss_ratios: record it with phase_guided_cache --out DIR".to_owned())
    })?;
    if curves.bytes.len() != curves.average.len() || curves.bytes.is_empty() {
        return Err(failed("its section miss_ratios has not as many points as sizes".to_owned()));
    }
    Ok(Run { profile, curves })
}

/// Refuses to compare a cache for each thread with one for all.
fn one_scope<'a>(runs: impl Iterator<Item = (&'a PathBuf, &'a Run)>) -> Result<(), Failure> {
    let mut first: Option<(&Path, Scope)> = None;
    for (path, run) in runs {
        let scope = run.profile.scope;
        let (before, other) = *first.get_or_insert((path, scope));
        if other != scope {
            return Err(Failure::Usage(format!(
                "{} is of {} caches, {} of {} ones: record both with the same --scope",
                before.display(),
                other.name(),
                path.display(),
                scope.name()
            )));
        }
    }
    Ok(())
}

/// The sizes asked for, or this machine's caches.
fn levels(sizes: &[u64]) -> Vec<CacheLevel> {
    if sizes.is_empty() {
        return DataCaches::of_this_machine().levels;
    }
    sizes.iter().map(|&size| CacheLevel { name: bytes(size), bytes: size }).collect()
}
