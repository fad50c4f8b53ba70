//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use phase_detect::{SignatureKind, cluster, signature};
use reuse_sampler::Cpu;

use crate::cli::{CommandLine, Common};
use crate::target::{Backend, ChildProcesses};

/// Prints the phase of every window of a program, and the phase predicted for the next one.
///
/// Reads block vectors (--bbv, as valgrind's exp-bbv, gem5 and QEMU's bbv plugin write them) or ready signatures
/// (--signatures), or runs PROGRAM unmodified, translated if the machine has no counters. Without any of them
/// an embedded workload runs. With --json one object is printed per window, as soon as its phase is known, and a last
/// one with a summary; the program's own output then goes to standard error. Ctrl-C ends with what was seen until then.
///
/// The object of a window is {"window": its number from 0, "phase": its phase, "predicted_next": the phase predicted for
/// the next window of its thread, "confidence": 0 to 1, "change_within": windows within which the phase changes with a
/// probability of a half}; the last three are null while nothing is predicted. All threads but the first have a "thread"
/// too. The last line is {"summary": {...}}.
///
/// With --out DIR, profile.json has the windows and the phases, named A, B, ... as by phase_guided_cache, the one with most
/// accesses first. No reuse is sampled: what predicts misses from a profile refuses this one.
#[derive(Clone, Debug, Parser)]
#[command(name = "detect_phases", version)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Read block vectors from this file (.bb); plain, .gz, .xz or .zst by its content; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["signatures", "program", "workload"])]
    pub(super) bbv: Option<PathBuf>,
    /// Read ready signatures from this table: one row a window, one column an entry, a header allowed; compressed or
    /// not; - is standard input
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["program", "workload"])]
    pub(super) signatures: Option<PathBuf>,
    /// What the table's columns are: frequency (divided by their sum) or raw (as they are) [default: raw for pop,
    /// frequency for all others]
    #[arg(long, value_enum, requires = "signatures")]
    kind: Option<Kind>,
    /// How windows are grouped into phases
    #[arg(long, value_enum, default_value_t = ClustererName::LeaderFollower)]
    pub(super) clusterer: ClustererName,
    /// Largest distance at which a window still joins a phase. leader-follower: a fraction of the largest possible
    /// distance, 0 to 1 [default: 0.1; for ready signatures, which may be sampled, 0.2; under hardware counters, 0.4].
    /// pop: an average percentage difference, 0 to 2 [default: 0.2]. The others have none
    #[arg(long, value_name = "T")]
    threshold: Option<f64>,
    /// leader-follower, pop: most phases kept at once; the least recently used one is replaced [default: 4096; 32 for
    /// pop]. k-means: number of phases [default: 10]. simpoint: most phases tried [default: 30]
    #[arg(long, value_name = "N")]
    pub(super) max_phases: Option<usize>,
    /// What predicts the next phase
    #[arg(long, value_enum, default_value_t = PredictorName::Ppm)]
    pub(super) predictor: PredictorName,
    /// simpoint: with --out also write the points of the largest phases that hold this percentage of the windows, 1 to
    /// 100, as phases.simpoints.lptP and phases.weights.lptP, P being the share
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(super) coverage: Option<u8>,
    /// Entries that executed blocks are hashed into, a power of two
    #[arg(long, value_name = "N", default_value_t = signature::DEFAULT_ENTRIES, conflicts_with = "signatures")]
    pub(super) entries: usize,
    /// Instructions in a window of a program [default: 10000000 for programs, 500000 for embedded workloads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["bbv", "signatures"])]
    pub(super) window: Option<u64>,
    /// What observes PROGRAM
    #[arg(long, value_enum, default_value = "auto", requires = "program")]
    pub(super) backend: Backend,
    /// What to do with processes that PROGRAM starts
    #[arg(long, value_enum, default_value = "follow", requires = "program")]
    pub(super) children: ChildProcesses,
    /// The processor that PROGRAM is shown: host, or x86-64, x86-64-v2, x86-64-v3 or x86-64-v4, with which libraries
    /// choose the same functions on every machine
    #[arg(long, value_name = "CPU", default_value = "host", requires = "program")]
    pub(super) cpu: Cpu,
    /// Embedded workload to run without other input
    #[arg(long, value_name = "NAME", default_value = "phased", conflicts_with = "program")]
    pub(super) workload: String,
    /// How many times as long the embedded workload's phases are
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["program", "bbv", "signatures"])]
    pub(super) scale: u32,
    /// The program to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    pub(super) program: Vec<OsString>,
}

impl CommandLine for Args {
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("a program, with a picture", "--out report -- xz --keep --stdout file"),
        ("block vectors of valgrind, gem5 or QEMU, a JSON object a window", "--bbv ls.bb --json"),
        ("SimPoint's files", "--bbv ls.bb --clusterer simpoint --out points"),
    ];

    fn common(&self) -> &Common {
        &self.common
    }

    fn program(&self) -> &[OsString] {
        &self.program
    }
}

/// How windows are grouped into phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ClustererName {
    /// Online, one pass, Manhattan distance (ScarPhase)
    LeaderFollower,
    /// At the end, for a given number of phases, Euclidean distance
    KMeans,
    /// At the end; the number of phases by the Bayesian information criterion; with --out writes simulation points
    Simpoint,
    /// Online, average percentage difference, at most 32 phases (POP)
    Pop,
}

/// What predicts the next phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PredictorName {
    /// Partial matching over runs of windows
    Ppm,
    /// The run-length Markov table (ScarPhase)
    RunLength,
    /// The phase of the last window
    LastValue,
    /// All, scored while they run; the best one predicts
    Scored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Frequency,
    Raw,
}

/// Threshold for ready signatures. Nobody says whether they are exact or a few hundred samples each: less than what is
/// right for samples ([`cluster::SAMPLED_THRESHOLD`]), more than what is right for counts ([`cluster::DEFAULT_THRESHOLD`]).
const READY_THRESHOLD: f64 = cluster::SAMPLED_THRESHOLD / 2.0;

impl Args {
    /// The kind of signature that the table holds.
    pub(super) fn kind(&self) -> SignatureKind {
        match (self.kind, self.clusterer) {
            (Some(Kind::Raw), _) | (None, ClustererName::Pop) => SignatureKind::Raw,
            _ => SignatureKind::Frequency,
        }
    }

    /// The threshold in use, if the clusterer has one.
    pub(super) fn threshold(&self) -> Option<f64> {
        let default = match self.clusterer {
            ClustererName::KMeans | ClustererName::Simpoint => return None,
            ClustererName::Pop => 0.2,
            ClustererName::LeaderFollower if self.signatures.is_some() => READY_THRESHOLD,
            ClustererName::LeaderFollower if !self.program.is_empty() && self.backend.samples(self.cpu) => {
                cluster::SAMPLED_THRESHOLD
            }
            ClustererName::LeaderFollower => cluster::DEFAULT_THRESHOLD,
        };
        Some(self.threshold.unwrap_or(default))
    }

    /// Whether a threshold was given that would have no effect.
    pub(super) fn idle_threshold(&self) -> bool {
        self.threshold.is_some() && self.threshold().is_none()
    }
}
