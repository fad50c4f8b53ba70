//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use reuse_sampler::trace::TraceFormat;

use crate::cli::{CommandLine, Common, Failure, trace_formats};
use crate::target::EMBEDDED_WINDOW;
use crate::traces::format_of;

/// Compares all phase detectors and all signatures on the same windows.
///
/// Every program is recorded once: blocks, accesses, misses of the wavelet paper's caches (16 KiB 2-way L1 with 32-byte
/// lines, 1 MiB 4-way L2 with 64-byte lines), cycles of the reference chip. Then all detectors see the same windows.
/// Embedded workloads run by default; PROGRAM runs under qemu-user, which tells every access; threads take turns. Ctrl-C ends the recording, and what was
/// recorded is compared.
#[derive(Clone, Debug, Parser)]
#[command(name = "compare_detectors", version)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// What to compare; several after commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "detectors", value_name = "NAME")]
    pub(super) experiment: Vec<Experiment>,
    /// Embedded workloads, after commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "few,phased,layouts",
          conflicts_with_all = ["program", "trace"])]
    pub(super) workload: Vec<String>,
    /// How many times as long the embedded workloads' phases are
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["program", "trace"])]
    pub(super) scale: u32,
    /// Read this trace instead; plain, .gz, .xz or .zst by its content; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    pub(super) trace: Option<PathBuf>,
    /// Format of the trace: one that tells executed code [default: by the file's name, as in x.lackey.gz]
    #[arg(long, value_parser = trace_formats(), requires = "trace")]
    format: Option<TraceFormat>,
    /// Instructions in a window [default: 500000 for embedded workloads, 1000000 otherwise]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(80..))]
    window: Option<u64>,
    /// End the recording after so many windows
    #[arg(long, value_name = "WINDOWS", value_parser = at_least_two)]
    pub(super) limit: Option<usize>,
    /// Samples in a window, where code is sampled
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) samples: u64,
    /// Threshold of leader-follower for vectors that count everything, as a fraction of the largest possible distance
    #[arg(long, value_name = "T", default_value_t = phase_detect::cluster::DEFAULT_THRESHOLD)]
    pub(super) threshold: f64,
    /// Entries of the large stride vectors (10000 in the paper)
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(super) stride_entries: usize,
    /// The program to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    pub(super) program: Vec<OsString>,
}

impl CommandLine for Args {
    fn common(&self) -> &Common {
        &self.common
    }
}

/// What can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Experiment {
    /// All detectors and signatures side by side
    Detectors,
    /// Error and CCoV against samples per window for each code vector (ScarPhase, figures I.4 and I.5)
    Samples,
    /// The dynamic sample rate: samples, unclassified windows, CCoV (ScarPhase, figures I.8 and I.9)
    Rate,
    /// CPI from one window per phase against periodic sampling (ScarPhase, figures I.11 to I.13)
    Profiling,
    /// CoV and STAB against the length of windows (POP, figure 5)
    Interval,
    /// Wavelets over matrix size and modulus (wavelet paper, figures 6 and 7)
    Wavelet,
    /// POP's selection of counters on two configurations of the reference chip (POP, table I)
    Counters,
    /// Leader-follower against batch clusterings into as many phases, and predictors against each other; asked for alone,
    /// PROGRAM runs under the emulator, for its code is enough
    Agreement,
    /// Parallel programs: phases per thread against the number of threads (Paper II); embedded programs of its own
    Threads,
    /// The same of a real program with threads, under the emulator, with modelled miss ratios in place of CPI
    RealThreads,
    /// All of them but the last, which needs the emulator
    All,
}

impl Experiment {
    /// Those on recordings, in the order in which they are reported.
    pub(super) const EACH: [Self; 8] = [
        Self::Detectors,
        Self::Samples,
        Self::Rate,
        Self::Profiling,
        Self::Interval,
        Self::Wavelet,
        Self::Counters,
        Self::Agreement,
    ];
}

impl Args {
    pub(super) fn window(&self) -> u64 {
        let embedded = self.trace.is_none() && self.program.is_empty();
        self.window.unwrap_or(if embedded { EMBEDDED_WINDOW } else { 1_000_000 })
    }

    pub(super) fn asks_for(&self, experiment: Experiment) -> bool {
        self.experiment.iter().any(|&asked| asked == experiment || asked == Experiment::All)
    }

    pub(super) fn trace_format(&self) -> Result<TraceFormat, Failure> {
        match (self.format, &self.trace) {
            (Some(format), _) => Ok(format),
            (None, Some(path)) => format_of(path).map_err(Failure::usage),
            (None, None) => Err(Failure::usage("no trace")),
        }
    }
}

fn at_least_two(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n >= 2).ok_or_else(|| "give a number of windows of at least 2".to_owned())
}
