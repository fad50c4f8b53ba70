//! The command line.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use reuse_sampler::trace::TraceFormat;
use reuse_sampler::{LineSize, ReusePlan, SampleGap};

use crate::cli::values::{line_size, sample_rate};
use crate::cli::{ByName, CommandLine, Common, Failure};
use crate::traces::format_of;

/// Converts traces and samples to the formats of other tools.
///
/// Accesses come from csv, din, lackey, oracle-general and usf; they become csv (nothing is lost), din, a reuse
/// profile, or, where the trace has executed code, windows of it (bb). Samples in usf become a profile, bb becomes bb;
/// perf-data becomes bb, or a table of the accesses that were sampled. Compressed input is recognised by its content. The result goes to standard output, or with --out into a
/// directory, where a file is whole or absent. Ctrl-C ends with what was converted so far, marked as
/// incomplete.
#[derive(Clone, Debug, Parser)]
#[command(name = "convert_trace", version)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// File to convert; plain, .gz, .xz, .zst or .bz2 by its content; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(super) input: PathBuf,
    /// Format of the file [default: by its name, as in x.din or x.lackey.gz]
    #[arg(long, value_enum)]
    from: Option<From>,
    /// Format to convert to
    #[arg(long, value_enum)]
    pub(super) to: To,
    /// Stop after this many accesses, or windows if the input has no accesses
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
    /// Share of the accesses that a profile samples, above 0 and at most 1
    #[arg(long, value_name = "R", default_value = "1", value_parser = sample_rate)]
    sample_rate: f64,
    /// Cache line size of a profile in bytes, a power of two [default: 64; traces of objects have lines of one object]
    #[arg(long, value_name = "BYTES", value_parser = line_size)]
    line_size: Option<LineSize>,
    /// Length of the windows of bb in instructions [default: 1000000]; where the input is perf-data, in microseconds
    /// [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) window: Option<u64>,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("valgrind's trace as Dinero's", "ls.lackey --to din -o ls.din"),
        ("reuse distances of a compressed trace", "ls.din.gz --to profile --out profiles"),
        ("what perf recorded as SimPoint's windows", "perf.data --from perf-data --to bb --window 1000"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }

    fn streams(&self) -> bool {
        true
    }
}

/// What can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum From {
    /// A table of accesses with a header
    Csv,
    /// Dinero's text
    Din,
    /// The text of valgrind --tool=lackey --trace-mem=yes
    Lackey,
    /// libCacheSim's binary requests
    OracleGeneral,
    /// Uppsala Sample Format: a trace, or samples
    Usf,
    /// SimPoint's windows of executed code
    Bb,
    /// What perf record writes: sampled instructions or branches; sampled accesses, where it was given -d
    PerfData,
}

impl From {
    /// The format of accesses that it is.
    pub(super) const fn trace(self) -> Option<TraceFormat> {
        match self {
            Self::Csv => Some(TraceFormat::Csv),
            Self::Din => Some(TraceFormat::Din),
            Self::Lackey => Some(TraceFormat::Lackey),
            Self::OracleGeneral => Some(TraceFormat::OracleGeneral),
            Self::Usf => Some(TraceFormat::Usf),
            Self::Bb | Self::PerfData => None,
        }
    }

    /// Its name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match (self, self.trace()) {
            (_, Some(format)) => format.name(),
            (Self::PerfData, None) => "perf-data",
            (_, None) => "bb",
        }
    }

    fn named(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let plain =
            [".gz", ".xz", ".zst", ".bz2"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let (plain, is) =
            (Path::new(plain), |path: &Path, end: &str| path.extension().is_some_and(|e| e == end));
        if is(plain, "bb") {
            return Some(Self::Bb);
        }
        let stem = Path::new(plain.file_stem()?);
        (is(plain, "data") && (stem == Path::new("perf") || is(stem, "perf"))).then_some(Self::PerfData)
    }
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum To {
    /// A table of accesses and executed blocks
    Csv,
    /// Dinero's text: kinds and addresses
    Din,
    /// The histogram of reuse distances, as JSON
    Profile,
    /// SimPoint's windows of executed code
    Bb,
}

impl To {
    /// What the name of such a file ends with.
    pub(super) fn extension(self) -> String {
        match self {
            Self::Profile => "profile.json".to_owned(),
            other => other.name(),
        }
    }
}

impl Args {
    /// The format of the input.
    pub(super) fn from(&self) -> Result<From, Failure> {
        if let Some(from) = self.from.or_else(|| From::named(&self.input)) {
            return Ok(from);
        }
        let format = format_of(&self.input).ok();
        From::value_variants()
            .iter()
            .copied()
            .find(|from| format.is_some() && from.trace() == format)
            .ok_or_else(|| {
                let names: Vec<String> = From::value_variants()
                    .iter()
                    .filter_map(|from| Some(from.to_possible_value()?.get_name().to_owned()))
                    .collect();
                let path = self.input.display();
                Failure::Usage(format!(
                    "cannot determine the format of {path} from its name: give --from with one of {}",
                    names.join(", ")
                ))
            })
    }

    /// Where the result goes, if not to standard output.
    pub(super) fn folder_and_name(&self) -> Option<(PathBuf, String)> {
        if let Some(file) = &self.common.output {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            let name = file.file_name()?.to_string_lossy().into_owned();
            return Some((folder.unwrap_or(Path::new(".")).to_owned(), name));
        }
        self.common.out.clone().map(|folder| (folder, self.output_name()))
    }

    /// What the result is called in a directory: the input's name with another ending.
    fn output_name(&self) -> String {
        let name = self.input.file_name().and_then(|name| name.to_str()).unwrap_or("trace");
        let stem = name.split('.').find(|part| !part.is_empty() && *part != "-").unwrap_or("trace");
        format!("{stem}.{}", self.to.extension())
    }

    /// How a profile samples.
    pub(super) fn plan(&self) -> Result<ReusePlan, Failure> {
        if self.sample_rate >= 1.0 {
            return Ok(ReusePlan::Every);
        }
        Ok(ReusePlan::Sparse(SampleGap::mean(1.0 / self.sample_rate).map_err(Failure::usage)?))
    }

    /// The line size of a profile of a trace in `format`.
    pub(super) fn line_size(&self, format: TraceFormat) -> Result<LineSize, Failure> {
        match self.line_size {
            Some(_) if format.names_objects() => Err(Failure::Usage(format!(
                "{format} traces name objects, not bytes of memory: leave out --line-size"
            ))),
            None if format.names_objects() => LineSize::new(1).map_err(Failure::usage),
            given => Ok(given.unwrap_or_default()),
        }
    }
}
