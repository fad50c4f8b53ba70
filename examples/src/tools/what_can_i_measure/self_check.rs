//! A program whose distances are known, observed with counters: what a report from a machine that nobody here has can show.

use std::ffi::OsStr;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Instant;

use reuse_sampler::perf::{Capabilities, Coverage, PerfOptions, PerfSampler};
use reuse_sampler::{Clock, Outcome, ReusePlan, SampleGap, Sampler, SamplerError, WindowPlan};
use serde::Serialize;

/// Set, to anything, for the process that is to [walk] instead of what it does otherwise.
pub const WALK: &str = "WHAT_CAN_I_MEASURE_WALK";

const LINES: usize = 512;
const ROUNDS: u64 = 40_000_000;
/// Instructions, or nanoseconds, between two that are chosen.
const GAP: f64 = 100_000.0;

/// Loads one word of each of `LINES` lines, in turn, one load a round: the reuse distance is 511 accesses.
pub fn walk() {
    let mut next = vec![0_usize; LINES * 8 + 8];
    let first = (64 - next.as_ptr() as usize % 64) / 8 % 8;
    for line in 0..LINES {
        next[first + 8 * line] = first + 8 * ((line + 1) % LINES);
    }
    black_box((0..ROUNDS).fold(first, |at, _| next[at]));
}

/// What came of observing the [walk].
#[derive(Clone, Debug, Default, Serialize)]
pub struct SelfCheck {
    /// What `/proc/cpuinfo` says of the kind of the first processor.
    pub processor: Vec<String>,
    /// What was given up so that all events fit the counters.
    pub given_up: Vec<String>,
    /// Why they do not fit.
    pub no_group: Option<String>,
    /// Why the walk was not observed.
    pub missing: Option<String>,
    /// What distances are counted in.
    pub clock: Option<&'static str>,
    /// Samples that were reused, and those that were censored.
    pub reused: usize,
    /// Samples whose reuse was not seen.
    pub censored: usize,
    /// Tenth percentile, median and ninetieth percentile of the distances.
    pub distances: [u64; 3],
    /// Other lines' accesses between two of a line.
    pub expected: u64,
    /// Whether the distances are the expected ones: 511 accesses, or as many rounds of the loop in instructions. `None` where
    /// they are nanoseconds or there are too few.
    pub right: Option<bool>,
    /// Stops of the program.
    pub stops: u64,
    /// Stops that came later than at the instruction that was chosen.
    pub late: u64,
    /// Touches whose record was lost.
    pub lost_hits: u64,
    /// Seconds of the program alone, from its start to its end.
    pub seconds_alone: f64,
    /// Seconds of the program while it was observed.
    pub seconds_observed: f64,
    /// Warnings of the run.
    pub warnings: Vec<String>,
}

impl SelfCheck {
    /// Of the machine that `found` describes; `program` with `arguments` is to [walk] where [`WALK`] is set.
    pub fn of(found: &Capabilities, program: &OsStr, arguments: &[&str]) -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut check = Self {
            processor: kind(&cpuinfo),
            given_up: found.group.clone().unwrap_or_default(),
            no_group: found.group.clone().err(),
            expected: LINES as u64 - 1,
            ..Self::default()
        };
        if let Err(error) = check.observe(program, arguments) {
            check.missing = Some(error.to_string());
        }
        check
    }

    fn observe(&mut self, program: &OsStr, arguments: &[&str]) -> Result<(), SamplerError> {
        let began = Instant::now();
        let alone = Command::new(program)
            .args(arguments)
            .env(WALK, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !alone.as_ref().is_ok_and(std::process::ExitStatus::success) {
            let problem = format!("the program of the self-check did not run: {alone:?}");
            return Err(SamplerError::Target { program: "the self-check".to_owned(), problem });
        }
        self.seconds_alone = began.elapsed().as_secs_f64();
        let mut options = PerfOptions::default().env(WALK, "1");
        (options.coverage, options.output_to_stderr) = (Coverage::Chunk, true);
        let plan = WindowPlan::new(ReusePlan::Sparse(SampleGap::mean(GAP)?));
        let began = Instant::now();
        let mut sampler = PerfSampler::spawn(program, arguments.iter().copied(), &options)?;
        let mut distances = Vec::new();
        while let Some(window) = sampler.next_window(&plan)? {
            for sample in &window.samples {
                match sample.outcome {
                    Outcome::Reused(distance) => distances.push(distance.0),
                    _ => self.censored += 1,
                }
            }
        }
        self.seconds_observed = began.elapsed().as_secs_f64();
        let clock = sampler.clocks().1;
        self.clock = Some(match clock {
            Clock::Accesses => "accesses",
            Clock::Instructions => "instructions",
            _ => "nanoseconds",
        });
        (self.stops, self.late) = (sampler.samples_and_stops().1, sampler.losses().late);
        (self.lost_hits, self.warnings) = (sampler.losses().lost_hits, sampler.warnings().to_vec());
        self.judge(distances, clock);
        Ok(())
    }

    fn judge(&mut self, mut distances: Vec<u64>, clock: Clock) {
        distances.sort_unstable();
        self.reused = distances.len();
        let at = |share: f64| distances.get((share * (distances.len() as f64 - 1.0)) as usize).copied();
        self.distances = [0.1, 0.5, 0.9].map(|share| at(share).unwrap_or(0));
        if clock == Clock::Time || distances.len() < 20 {
            return;
        }
        // One count more or less where a processor reports late. In instructions, as many as a round has between two lines.
        let near = |found: u64, expected: f64| (found as f64 - expected).abs() <= 0.02 * expected;
        let [low, median, high] = self.distances;
        let lines = LINES as f64;
        let round = if clock == Clock::Accesses { 1.0 } else { (median as f64 / lines).round().max(1.0) };
        let expected = round * lines - 1.0;
        self.right = Some([low, median, high].into_iter().all(|found| near(found, expected)));
    }
}

/// The lines of `cpuinfo` that name the kind of its first processor.
fn kind(cpuinfo: &str) -> Vec<String> {
    const NAMES: [&str; 9] = [
        "vendor_id",
        "cpu family",
        "model",
        "model name",
        "stepping",
        "CPU implementer",
        "CPU variant",
        "CPU part",
        "CPU revision",
    ];
    let first = cpuinfo.split("\n\n").next().unwrap_or_default().lines();
    let fields = first.filter_map(|line| line.split_once(':'));
    let wanted = fields.filter(|(name, _)| NAMES.contains(&name.trim()));
    wanted.map(|(name, value)| format!("{}: {}", name.trim(), value.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(distances: &[u64], clock: Clock) -> Option<bool> {
        let mut check = SelfCheck::default();
        check.judge(distances.repeat(20), clock);
        check.right
    }

    #[test]
    fn only_the_known_distances_are_right() {
        assert_eq!(judged(&[511], Clock::Accesses), Some(true));
        assert_eq!(judged(&[510, 511, 512], Clock::Accesses), Some(true));
        for wrong in [&[0_u64][..], &[700], &[1023], &[511, 511, 2047], &[100, 511]] {
            assert_eq!(judged(wrong, Clock::Accesses), Some(false), "{wrong:?}");
        }
        assert_eq!(judged(&[4 * 512 - 1], Clock::Instructions), Some(true));
        assert_eq!(judged(&[512 * 5 / 2], Clock::Instructions), Some(false));
        assert_eq!(judged(&[511], Clock::Time), None);
        let mut few = SelfCheck::default();
        few.judge(vec![511; 19], Clock::Accesses);
        assert_eq!((few.right, few.reused), (None, 19));
    }

    #[test]
    fn the_kind_of_processor_is_named_and_nothing_else() {
        let cpuinfo =
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\nflags\t: pebs\n\nvendor_id\t: Other\n";
        assert_eq!(kind(cpuinfo), ["vendor_id: GenuineIntel", "model: 85"]);
    }
}
