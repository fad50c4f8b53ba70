//! The command line.

use clap::Parser;

use crate::cli::{CommandLine, Common, Failure};
use crate::target::EMBEDDED_WINDOW;
use crate::traces::{Source, SourceArgs};

/// Compares all phase detectors and all signatures on the same windows.
///
/// Every program is recorded once: blocks, accesses, misses of the wavelet paper's caches (16 KiB 2-way L1 with 32-byte
/// lines, 1 MiB 4-way L2 with 64-byte lines), cycles of the reference chip. Then all detectors see the same windows.
/// Embedded workloads run by default; programs run translated, or under qemu-user, so that every access is seen; threads take turns. Ctrl-C
/// ends the recording, and what was recorded is compared.
#[derive(Clone, Debug, Parser)]
#[command(name = "compare_detectors", version)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// What to compare; several after commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "detectors", value_name = "NAME")]
    pub(super) experiment: Vec<Experiment>,
    /// Instructions in a window [default: 500000 for embedded workloads, 1000000 otherwise]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(80..))]
    window: Option<u64>,
    /// End the recording after so many windows
    #[arg(long, value_name = "WINDOWS", value_parser = at_least_two)]
    pub(super) limit: Option<usize>,
    /// Samples in a window, for detectors that sample code
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) samples: u64,
    /// Threshold of leader-follower for vectors that count everything, as a fraction of the largest possible distance
    #[arg(long, value_name = "T", default_value_t = phase_detect::cluster::DEFAULT_THRESHOLD)]
    pub(super) threshold: f64,
    /// Entries of the large stride vectors (10000 in the paper)
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(super) stride_entries: usize,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("all detectors and signatures on embedded workloads", ""),
        ("the first 200 windows of a program", "--limit 200 -- xz --keep --stdout file"),
        (
            "which claims of the papers hold on a program; repeat --command for more",
            r#"--experiment verdict --command "sort words""#,
        ),
    ];

    fn common(&self) -> &Common {
        &self.common
    }
}

/// Instructions in a window of a program or a trace, where the user does not say.
const PROGRAM_WINDOW: u64 = 1_000_000;

/// What can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Experiment {
    /// All detectors and signatures side by side
    Detectors,
    /// Error and CCoV against samples per window for each code vector (ScarPhase, figures I.4 and I.5)
    Samples,
    /// All of them over all programs, with 95 % intervals, and whether the papers' claims hold
    Verdict,
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
    /// PROGRAM runs translated or under the emulator, for its code is enough
    Agreement,
    /// CPI from SimPoint's points against as many windows at equal distances
    Points,
    /// Parallel programs: phases per thread against the number of threads (Paper II); embedded programs of its own
    Threads,
    /// The same of a real program with threads, under the emulator, with modelled miss ratios in place of CPI
    RealThreads,
    /// All of them but the last, which needs the emulator
    All,
}

impl Experiment {
    /// Those on recordings, in the order in which they are reported.
    pub(super) const EACH: [Self; 10] = [
        Self::Detectors,
        Self::Verdict,
        Self::Samples,
        Self::Rate,
        Self::Profiling,
        Self::Interval,
        Self::Wavelet,
        Self::Counters,
        Self::Agreement,
        Self::Points,
    ];
}

impl Args {
    /// Instructions in a window of the first program.
    pub(super) fn window(&self) -> Result<u64, Failure> {
        Ok(self.sources()?.first().map_or(EMBEDDED_WINDOW, |(_, window)| *window))
    }

    /// The programs, each with the length of its windows.
    pub(super) fn sources(&self) -> Result<Vec<(Source, u64)>, Failure> {
        self.sources.with_windows(
            &["few", "phased", "layouts"],
            self.window,
            [EMBEDDED_WINDOW, PROGRAM_WINDOW],
        )
    }

    pub(super) fn asks_for(&self, experiment: Experiment) -> bool {
        self.experiment.iter().any(|&asked| asked == experiment || asked == Experiment::All)
    }
}

fn at_least_two(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n >= 2).ok_or_else(|| "give a number of windows of at least 2".to_owned())
}
