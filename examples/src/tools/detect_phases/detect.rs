//! From windows to phases and predictions, whichever clusterer: online ones answer at once, batch ones at the end.

use std::collections::BTreeMap;

use phase_detect::metrics::{CodeTotals, PredictionScore, Transition};
use phase_detect::online::{Histories, PrivateHistories};
use phase_detect::predict::{AnyPredictor, ScoredPredictors};
use phase_detect::simpoint::{BlockVector, SimPointConfig, SimPointRun};
use phase_detect::{
    Clusterer, CodeVector, Error, KMeans, LastValue, LeaderFollower, LeaderFollowerConfig, PhaseId, Pop,
    PopConfig, Ppm, Prediction, RunLengthMarkov, Signature, SignatureKind, SimPoint,
};

use super::args::{Args, ClustererName, PredictorName};
use super::input::{Observed, Seen};
use super::thinned::Thinned;
use crate::cli::Failure;
use crate::report::transitions_of;

/// Windows over which the scored table of predictors looks back.
const MEMORY: u32 = 32;
/// Signatures kept for pictures.
const MOST_IN_PICTURES: usize = 2048;
/// Numbers kept of signatures and blocks until a batch clusterer has found the phases: 128 MB.
const MOST_NUMBERS: usize = 1 << 24;
/// Phases that k-means looks for, or POP keeps, where the user does not say.
const K_MEANS_PHASES: usize = 10;
const POP_PHASES: usize = 32;

/// What a window executed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// 0 if the input does not count them.
    pub instructions: u64,
    pub accesses: Option<u64>,
}

impl Done {
    /// What the window counts for when phases are ranked: as in `GuidedRun::weight`.
    pub fn weight(self) -> f64 {
        self.accesses.unwrap_or(self.instructions) as f64
    }
}

/// What is said about one window.
#[derive(Clone, Copy, Debug)]
pub struct Labelled {
    pub window: u64,
    pub thread: u32,
    pub done: Done,
    pub phase: PhaseId,
    /// The phase had been seen in too few windows to be one.
    pub in_transition: bool,
    pub prediction: Option<Prediction>,
    /// Windows within which the phase changes with a probability of a half.
    pub change_within: Option<u32>,
}

/// What is known of one phase.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    pub windows: u64,
    pub first_window: u64,
    /// Sum of its windows' weights.
    pub weight: f64,
    pub instructions: u64,
    /// Accesses and instructions of the windows in which both were counted.
    pub counted: (u64, u64),
    /// Sum of its windows' frequency signatures, and of how many; empty where they are raw.
    sum: (Vec<f64>, u64),
    /// Executions times instructions of each block, where the input has blocks.
    pub blocks: CodeTotals<u64>,
}

impl Phase {
    /// Memory accesses per instruction, if any window counted both.
    pub fn mix(&self) -> Option<f64> {
        (self.counted.1 > 0).then(|| self.counted.0 as f64 / self.counted.1 as f64)
    }
}

/// All that was found.
pub struct Found {
    pub labelled: Vec<Labelled>,
    pub phases: BTreeMap<PhaseId, Phase>,
    /// Of windows outside transitions.
    pub score: PredictionScore,
    /// A phase of fewer windows is a transition; 0 where the clusterer knows none.
    pub transition_threshold: u64,
    pub threads: usize,
    pub instructions: u64,
    /// Some of the signatures and their threads, for pictures.
    pub sample: Thinned<(u32, Signature)>,
    /// Code and signatures of phases are known from one in so many windows.
    pub described: u64,
    pub simpoint: Option<SimPoint>,
}

impl Found {
    /// The instructions of a phase; its windows where the input has none.
    pub const fn size(&self, phase: &Phase) -> u64 {
        if self.instructions > 0 { phase.instructions } else { phase.windows }
    }

    /// The clusters that are transitions between phases. k-means and SimPoint find as many phases as they look for, and
    /// have none.
    pub fn transitions(&self) -> BTreeMap<PhaseId, Transition<PhaseId>> {
        if self.transition_threshold == 0 {
            return BTreeMap::new();
        }
        let labelled = self.labelled.iter().map(|labelled| (labelled.thread, labelled.phase));
        transitions_of(labelled, &self.centres())
    }

    /// The mean signature of each phase, where it is known.
    pub fn centres(&self) -> BTreeMap<PhaseId, Vec<f64>> {
        let known = self.phases.iter().filter(|(_, known)| known.sum.1 > 0);
        known
            .map(|(&phase, Phase { sum: (sum, n), .. })| (phase, sum.iter().map(|s| s / *n as f64).collect()))
            .collect()
    }
}

/// Windows on their way to phases.
pub struct Detection {
    kind: SignatureKind,
    code: CodeVector,
    clusterer: Kind,
    histories: PrivateHistories<ScoredPredictors, u32>,
    /// Per thread: the last phase outside transitions, and the prediction made after it.
    before: BTreeMap<u32, (Option<PhaseId>, Option<PhaseId>)>,
    found: Found,
}

enum Kind {
    Online(Box<dyn Clusterer>),
    Batch(Box<Waiting>),
}

/// Windows whose phases are found at the end.
struct Waiting {
    clusterer: Batch,
    windows: Vec<(u32, Done)>,
    described: Thinned<Described>,
}

enum Batch {
    /// Whether fewer windows have fewer phases, and all signatures.
    KMeans(KMeans, bool, Vec<Signature>),
    /// Blocks are projected as they are, as the published tool does it; ready signatures have none, and are kept.
    SimPoint(SimPointConfig, SimPointRun, Vec<Signature>),
}

/// What phases that are found at the end are described by.
struct Described {
    signature: Signature,
    blocks: Option<BlockVector>,
}

impl Described {
    fn numbers(&self) -> usize {
        self.signature.len() + self.blocks.as_ref().map_or(0, |blocks| 2 * blocks.blocks().len())
    }
}

impl Detection {
    /// As the command line says.
    pub fn new(args: &Args) -> Result<Self, Failure> {
        let seed = args.common.seed;
        let threshold = args.threshold().unwrap_or_default();
        let online = |clusterer: Box<dyn Clusterer>| Kind::Online(clusterer);
        let batch = |clusterer| {
            let described = Thinned::new(MOST_NUMBERS, Described::numbers);
            Kind::Batch(Box::new(Waiting { clusterer, windows: Vec::new(), described }))
        };
        let (clusterer, kind) = match args.clusterer {
            ClustererName::LeaderFollower => {
                let mut config = LeaderFollowerConfig { threshold, ..Default::default() };
                config.capacity = args.max_phases.or(config.capacity);
                let clusterer = LeaderFollower::new(config).map_err(Failure::usage)?;
                (online(Box::new(clusterer)), SignatureKind::Frequency)
            }
            ClustererName::Pop => {
                let capacity = Some(args.max_phases.unwrap_or(POP_PHASES));
                let config = PopConfig { threshold, capacity, ..Default::default() };
                let clusterer = Pop::new(config).map_err(Failure::usage)?;
                (online(Box::new(clusterer)), SignatureKind::Raw)
            }
            ClustererName::KMeans => {
                let clusters = args.max_phases.unwrap_or(K_MEANS_PHASES);
                let config = KMeans { clusters, seed, ..KMeans::default() };
                (batch(Batch::KMeans(config, args.max_phases.is_none(), Vec::new())), args.kind())
            }
            ClustererName::Simpoint => {
                let mut config = SimPointConfig { seed, ..SimPointConfig::default() };
                config.max_clusters = args.max_phases.unwrap_or(config.max_clusters);
                let run = config.begin().map_err(Failure::usage)?;
                (batch(Batch::SimPoint(config, run, Vec::new())), SignatureKind::Frequency)
            }
        };
        let last: AnyPredictor = LastValue::new().into();
        let runs: AnyPredictor = RunLengthMarkov::default().into();
        let predictors = match args.predictor {
            PredictorName::LastValue => vec![last],
            PredictorName::RunLength => vec![runs],
            PredictorName::Ppm => vec![Ppm::default().into()],
            PredictorName::Scored => vec![last, runs, Ppm::default().into()],
        };
        let transition_threshold = match args.clusterer {
            ClustererName::LeaderFollower => LeaderFollowerConfig::default().transition_threshold,
            ClustererName::Pop => PopConfig::default().transition_threshold,
            ClustererName::KMeans | ClustererName::Simpoint => 0,
        };
        let prototype = ScoredPredictors::new(predictors, MEMORY).map_err(Failure::usage)?;
        Ok(Self {
            kind,
            code: CodeVector::new(args.entries, seed).map_err(Failure::usage)?,
            clusterer,
            histories: PrivateHistories::new(prototype),
            before: BTreeMap::new(),
            found: Found {
                labelled: Vec::new(),
                phases: BTreeMap::new(),
                score: PredictionScore::default(),
                transition_threshold,
                threads: 0,
                instructions: 0,
                sample: Thinned::new(MOST_IN_PICTURES, |_| 1),
                described: 1,
                simpoint: None,
            },
        })
    }

    /// Takes a window. An online clusterer says at once what it is.
    pub fn take(&mut self, window: Observed) -> Result<Option<Labelled>, Error> {
        let number = self.seen();
        self.found.instructions += window.instructions;
        let done = Done { instructions: window.instructions, accesses: window.accesses };
        let (signature, blocks) = match window.seen {
            Seen::Ready(signature) => (signature, None),
            Seen::Blocks(blocks) => (signature(&mut self.code, self.kind, &blocks)?, Some(blocks)),
        };
        match &mut self.clusterer {
            Kind::Batch(waiting) => {
                match (&mut waiting.clusterer, &blocks) {
                    (Batch::SimPoint(_, run, _), Some(blocks)) => run.push(blocks),
                    (Batch::SimPoint(_, _, all) | Batch::KMeans(_, _, all), _) => all.push(signature.clone()),
                }
                waiting.windows.push((window.thread, done));
                waiting.described.add(number, Described { signature, blocks });
                Ok(None)
            }
            Kind::Online(clusterer) => {
                let seen = clusterer.classify(&signature)?;
                let by = (window.thread, done);
                self.describe(seen.phase, &signature, blocks.as_ref());
                self.found.sample.add(number, (window.thread, signature));
                let labelled = self.conclude(by, seen.phase, seen.in_transition);
                Ok(Some(labelled))
            }
        }
    }

    fn seen(&self) -> u64 {
        match &self.clusterer {
            Kind::Online(_) => self.found.labelled.len() as u64,
            Kind::Batch(waiting) => waiting.windows.len() as u64,
        }
    }

    /// Whether no window was taken yet.
    pub fn is_empty(&self) -> bool {
        self.seen() == 0
    }

    /// Ends: batch clusterers now look at all windows. Answers how many windows at the end were not labelled before.
    pub fn finish(mut self) -> Result<(Found, usize), Error> {
        let before = self.found.labelled.len();
        let none = Kind::Online(Box::new(LeaderFollower::new(LeaderFollowerConfig::default())?));
        if let Kind::Batch(waiting) = std::mem::replace(&mut self.clusterer, none) {
            let Waiting { clusterer, windows, described } = *waiting;
            let labels = if windows.is_empty() { Vec::new() } else { self.batch(clusterer)? };
            self.found.described = described.every();
            for (window, Described { signature, blocks }) in described.into_windows() {
                self.describe(labels[window as usize], &signature, blocks.as_ref());
                self.found.sample.add(window, (windows[window as usize].0, signature));
            }
            for (by, phase) in windows.into_iter().zip(labels) {
                self.conclude(by, phase, false);
            }
        }
        self.found.threads = self.before.len();
        let late = self.found.labelled.len() - before;
        Ok((self.found, late))
    }

    /// The phase of each window.
    fn batch(&mut self, clusterer: Batch) -> Result<Vec<PhaseId>, Error> {
        match clusterer {
            Batch::KMeans(config, shrinks, signatures) => {
                let clusters = if shrinks { config.clusters.min(signatures.len()) } else { config.clusters };
                Ok(KMeans { clusters, ..config }.fit(&signatures)?.labels)
            }
            Batch::SimPoint(config, run, signatures) => {
                let fit = if signatures.is_empty() { run.find()? } else { config.fit(&signatures)? };
                let labels = fit.labels().to_vec();
                self.found.simpoint = Some(fit);
                Ok(labels)
            }
        }
    }

    /// Notes what a window of a phase executed.
    fn describe(&mut self, phase: PhaseId, signature: &Signature, blocks: Option<&BlockVector>) {
        let known = self.found.phases.entry(phase).or_default();
        if signature.kind() == SignatureKind::Frequency {
            let (sum, windows) = &mut known.sum;
            sum.resize(signature.len(), 0.0);
            sum.iter_mut().zip(signature.values()).for_each(|(sum, value)| *sum += value);
            *windows += 1;
        }
        known.blocks.extend(blocks.map_or(&[][..], BlockVector::blocks).iter().copied());
    }

    /// Notes the phase of the next window of `thread`, scores what was predicted for it, and predicts again.
    fn conclude(&mut self, (thread, done): (u32, Done), phase: PhaseId, in_transition: bool) -> Labelled {
        let window = self.found.labelled.len() as u64;
        let known = self.found.phases.entry(phase).or_default();
        if known.windows == 0 {
            known.first_window = window;
        }
        known.windows += 1;
        known.weight += done.weight();
        known.instructions += done.instructions;
        if let Some(accesses) = done.accesses {
            known.counted = (known.counted.0 + accesses, known.counted.1 + done.instructions);
        }
        let before = self.before.entry(thread).or_default();
        if !in_transition {
            if let Some(predicted) = before.1 {
                self.found.score.record(predicted, phase, before.0);
            }
            self.histories.observe(thread, phase);
            before.0 = Some(phase);
        }
        let prediction = self.histories.predict(thread);
        before.1 = prediction.map(|p| p.phase);
        let change_within = self.histories.windows_to_change(thread, 0.5);
        let labelled = Labelled { window, thread, done, phase, in_transition, prediction, change_within };
        self.found.labelled.push(labelled);
        labelled
    }
}

/// The blocks of a window hashed into a short vector: the share of its instructions in each entry. POP compares them one
/// by one as percentages, like counts per instruction.
fn signature(code: &mut CodeVector, kind: SignatureKind, blocks: &BlockVector) -> Result<Signature, Error> {
    blocks.add_to(code);
    let shares = code.finish()?;
    match kind {
        SignatureKind::Frequency => Ok(shares),
        SignatureKind::Raw => Signature::raw(shares.values()),
    }
}
