//! A run, interval by interval.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use phase_detect::cluster::SAMPLED_THRESHOLD;
use phase_detect::online::PrivateHistories;
use phase_detect::{CodeVector, Detector, LeaderFollower, LeaderFollowerConfig, PhaseId, RunLengthMarkov};
use powersleuth::linux::{EnergyMeter, Files};
use powersleuth::multiplex::{Collector, PerPhase, Record};
use powersleuth::{Error, Joules, Kelvin};

use super::choose::Choice;
use super::{IntervalSource, Supplied};
use crate::cli::Failure;
use crate::tools::power_frequency::study::CodeOf;

/// What was counted of a program.
#[derive(Debug)]
pub struct Observed {
    /// Per interval its phase, instructions, cycles, and what was counted of the quantities.
    pub record: Record<PhaseId>,
    /// Where its phases execute.
    pub code: CodeOf,
    /// Cycles per second of the program's own time in each interval.
    pub clocks: Vec<f64>,
    /// What the machine drew meanwhile and for how long, where it has a meter.
    pub drawn: Option<Result<(Joules, Duration), Error>>,
    /// Mean temperature of the processor, where somebody measured it.
    pub temperature: Option<Kelvin>,
    /// Intervals whose phase was predicted, and those of them for which it was right.
    pub predicted: [usize; 2],
}

/// Lets `source` run to its end, or until `interrupted` is set, and counts each interval what `choice` says, on
/// `counters` counters in the turn of the phase that is predicted for it. The source is returned.
///
/// # Errors
/// [`Failure`] where the program cannot run or its events not be counted.
pub fn observe<S>(
    source: S,
    choice: &Choice,
    counters: usize,
    seed: u64,
    mut meter: Option<EnergyMeter<impl Files>>,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(usize),
) -> Result<(Observed, S), Failure>
where
    S: IntervalSource<Error: std::error::Error + 'static>,
{
    let groups = choice.groups(counters)?;
    let rotation = PerPhase::new(groups.as_slice().len());
    let mut collector = Collector::new(Supplied::new(source, choice), groups, rotation);
    let mut vector = CodeVector::new(phase_detect::signature::SAMPLED_ENTRIES, seed)?;
    let config = LeaderFollowerConfig { threshold: SAMPLED_THRESHOLD, ..LeaderFollowerConfig::default() };
    let histories = PrivateHistories::new(RunLengthMarkov::default());
    let mut detector: Detector<_, _> = Detector::new(LeaderFollower::new(config)?, histories);
    let (mut code, mut predicted, mut next) = (CodeOf::new(), [0, 0], None);
    let begin = Instant::now();
    while !interrupted.load(Ordering::Relaxed) {
        collector.begin(next)?;
        let Some(seen) = collector.source_mut().run()? else { break };
        for &(block, weight) in &seen {
            vector.add(block, weight);
        }
        let detection = detector.observe(0, &vector.finish()?)?;
        // Without a reduced sample rate every window has a phase.
        let Some(phase) = detection.phase else { continue };
        collector.end(phase)?;
        predicted[0] += usize::from(next.is_some());
        predicted[1] += usize::from(next == Some(phase));
        next = detection.prediction.map(|prediction| prediction.phase);
        code.entry(phase).or_default().extend(seen);
        // Often enough that no wrap of the meter goes unseen.
        if let Some(meter) = &mut meter {
            let _ = meter.read();
        }
        progress(collector.record().len());
    }
    let drawn = meter.map(|mut meter| meter.read().map(|joules| (joules, begin.elapsed())));
    let (record, supplied) = collector.finish();
    let clocks = supplied.clocks().to_vec();
    let temperature = None;
    Ok((Observed { record, code, clocks, drawn, temperature, predicted }, supplied.into_source()))
}
