//! The comparison on one recording: the paper's settings, the trade of samples for error, the variation within phases.

use reuse_sampler::CacheLines;

use super::intra::{Variation, variation};
use super::recording::Recording;
use super::score::{Score, samples_for};
use super::strategies::{Estimate, Guided, Periodic};
use crate::cli::Failure;

/// Settings of the appendix: every eighth window, one sample in 400,000 accesses of windows of 100 M instructions.
const PERIODIC: Periodic = Periodic { every: 8.0, gap: 400_000.0 };
/// One sample in 1 M accesses of windows of 100 M instructions.
const GUIDED_GAP: f64 = 1_000_000.0;
/// Instructions in the paper's windows.
const WINDOW: f64 = 100e6;
/// What periodic profiling costs on average in the paper, and what its phase detector costs: shares of the run.
const PAPER_PERIODIC: f64 = 1.33;
const DETECTOR: f64 = 0.02;

/// What the strategies are tried at.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Instructions in a window (accesses count 2.5 times where there are none).
    pub window: f64,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Whether many settings are tried, not the paper's alone.
    pub sweep: bool,
}

/// One setting of a strategy.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Setting {
    /// Which strategy.
    pub strategy: &'static str,
    /// Mean distance of profiled windows, or its limit within a phase; for SHARDS the share of lines followed.
    pub parameter: f64,
    /// Mean gap between samples in accesses; 0 for SHARDS.
    pub gap: f64,
    /// How it did.
    pub score: Score,
}

/// What is compared of one program.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Compared {
    /// Its name.
    pub program: String,
    /// Its windows.
    pub windows: usize,
    /// Its instructions.
    pub instructions: u64,
    /// Its accesses.
    pub accesses: u64,
    /// Different lines it touched.
    pub lines: u64,
    /// Whether it was stopped before its end.
    pub incomplete: bool,
    /// What the user should know about the run.
    pub notes: Vec<String>,
    /// Exact miss ratio of the run at each size.
    pub miss_ratio: Vec<f64>,
    /// The settings of the paper: periodic, then guided.
    pub settings: [Setting; 2],
    /// Samples of periodic profiling over those of guided profiling.
    pub overhead_ratio: f64,
    /// The same with the cost of the phase detector, if a sample costs what makes periodic profiling cost what it costs
    /// in the paper.
    pub overhead_ratio_with_detection: f64,
    /// Guided profiling in the same windows, so densely that it takes as many samples as periodic profiling.
    pub equal_overhead: Setting,
    /// Samples to get as near as periodic profiling does at the paper's setting.
    pub equal_error: EqualError,
    /// All settings tried.
    pub sweep: Vec<Setting>,
    /// Variation within phases.
    pub variation: Variation,
}

/// Samples that the strategies need for one error; `None` where no setting that was tried gets there.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct EqualError {
    /// The error, in points.
    pub cdf_error: f64,
    /// Samples of periodic profiling.
    pub periodic: Option<f64>,
    /// Samples of guided profiling.
    pub guided: Option<f64>,
    /// Samples of SHARDS: accesses to followed lines.
    pub shards: Option<f64>,
}

/// Names of the strategies in tables.
pub const STRATEGIES: [&str; 3] = ["periodic", "phase-guided", "SHARDS"];

/// Tries the strategies.
///
/// # Errors
/// [`Failure::Run`] if the phase detector refuses a window.
pub fn compare(recording: &Recording, plan: &Plan) -> Result<Compared, Failure> {
    let scale = plan.window / WINDOW;
    let base = Periodic { every: PERIODIC.every, gap: (PERIODIC.gap * scale).max(1.0) };
    let guided_base = Guided { gap: (GUIDED_GAP * scale).max(1.0), ..Guided::default() };
    let settings = [periodic(recording, plan, base), guided(recording, plan, guided_base)?];
    let ratio = settings[0].score.samples / settings[1].score.samples.max(1.0);
    let dense = Guided { gap: (guided_base.gap / ratio).max(1.0), ..guided_base };
    let equal_overhead = guided(recording, plan, dense)?;
    let mut sweep = Vec::new();
    if plan.sweep {
        for every in [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0] {
            for denser in [0.25, 1.0, 4.0, 16.0] {
                let gap = (base.gap / denser).max(1.0);
                sweep.push(periodic(recording, plan, Periodic { every, gap }));
            }
        }
        for (first_gap, gap_limit) in
            [(4.0, 8.0), (4.0, 16.0), (4.0, 32.0), (8.0, 8.0), (8.0, 32.0), (8.0, 64.0)]
        {
            for denser in [0.25, 1.0, 4.0, 16.0] {
                let gap = (guided_base.gap / denser).max(1.0);
                let setting = Guided { first_gap, gap_limit, gap, ..guided_base };
                sweep.push(guided(recording, plan, setting)?);
            }
        }
    } else {
        sweep.extend(settings.clone());
    }
    sweep.extend(shards(recording, plan.seeds.len()));
    let needed = |strategy: &str, error: f64| {
        let tried: Vec<(f64, f64)> = sweep
            .iter()
            .filter(|s| s.strategy == strategy)
            .map(|s| (s.score.samples, s.score.cdf_error))
            .collect();
        samples_for(error, &tried)
    };
    let error = settings[0].score.cdf_error;
    let first = guided_base.run(recording, plan.seeds[0])?;
    let phases: Vec<_> = first.run.windows.iter().map(|w| w.phase).collect();
    Ok(Compared {
        program: recording.name.clone(),
        windows: recording.windows.len(),
        instructions: recording.instructions(),
        accesses: recording.accesses(),
        lines: recording.lines,
        incomplete: recording.incomplete,
        notes: recording.notes.clone(),
        miss_ratio: recording.average(),
        overhead_ratio: ratio,
        overhead_ratio_with_detection: PAPER_PERIODIC / (PAPER_PERIODIC / ratio + DETECTOR),
        equal_overhead,
        equal_error: EqualError {
            cdf_error: error,
            periodic: needed(STRATEGIES[0], error),
            guided: needed(STRATEGIES[1], error),
            shards: needed(STRATEGIES[2], error),
        },
        variation: variation(recording, &phases, &plan.seeds),
        settings,
        sweep,
    })
}

fn periodic(recording: &Recording, plan: &Plan, setting: Periodic) -> Setting {
    let estimates: Vec<Estimate> = plan.seeds.iter().map(|&seed| setting.estimate(recording, seed)).collect();
    let score = Score::of(recording, &estimates);
    Setting { strategy: STRATEGIES[0], parameter: setting.every, gap: setting.gap, score }
}

fn guided(recording: &Recording, plan: &Plan, setting: Guided) -> Result<Setting, Failure> {
    let estimates: Result<Vec<Estimate>, _> =
        plan.seeds.iter().map(|&seed| setting.estimate(recording, seed)).collect();
    let score = Score::of(recording, &estimates?);
    Ok(Setting { strategy: STRATEGIES[1], parameter: setting.gap_limit, gap: setting.gap, score })
}

/// SHARDS by rate; the recording holds all rates of a seed together.
fn shards(recording: &Recording, seeds: usize) -> Vec<Setting> {
    let rates = recording.shards.len() / seeds.max(1);
    let of_rate = |at: usize| {
        let runs = || recording.shards.iter().skip(at).step_by(rates.max(1));
        let estimates: Vec<Estimate> = runs()
            .map(|run| Estimate {
                windows: run.windows.clone(),
                samples: run.samples,
                profiled: recording.windows.len(),
                phases: 0,
            })
            .collect();
        let parameter = recording.shards[at].rate;
        Setting { strategy: STRATEGIES[2], parameter, gap: 0.0, score: Score::of(recording, &estimates) }
    };
    (0..rates).map(of_rate).collect()
}

/// The sizes of the paper: twelve, from 1 KiB to 2 MiB.
pub fn paper_sizes() -> Vec<CacheLines> {
    (4..16).map(|power| CacheLines(1 << power)).collect()
}
