//! The loop: run a window, classify it, predict the next phase, and ask for what is not known of it yet.

use std::collections::HashMap;

use phase_detect::{
    Clusterer, CodeVector, LeaderFollower, LeaderFollowerConfig, PhaseId, Predictor, RunLengthMarkov,
    RunLengthMarkovConfig, Signature,
};
use reuse_sampler::{LineSize, ReusePlan, ReuseProfile, Sampler, ThreadId, Window, WindowIndex, WindowPlan};

use super::{GapPolicy, GuidedRun, PhaseRecord, WindowRecord};

/// Entries of the code signature. Every executed block is counted, so that there is no sampling noise that fewer
/// entries would average out, and with more of them fewer blocks share one.
pub const ENTRIES: usize = 128;

/// Threshold of clustering for signatures that count every block. Chosen by CCoV of the miss ratio at 32 KiB, in
/// windows of 10 M instructions: from 0.4 (right for signatures of a few hundred samples, whose noise it must cover)
/// over 0.2 to 0.1 it falls from 1.6 over 1.3 to 0.8 on a python script (2.2 without phases) and from 0.28 over 0.23 to
/// 0.18 on `xz` (0.28 without phases); at 0.05 it rises again on `xz`.
pub const THRESHOLD: f64 = 0.1;

/// Profiled windows of a phase that are followed as far as [`GuidedOptions::follow`] allows.
const FOLLOWED_FAR: u64 = 2;

/// Settings of the loop.
#[derive(Clone, Copy, Debug)]
pub struct GuidedOptions {
    /// How reuse is observed in profiled windows.
    pub reuse: ReusePlan,
    /// Mean gap after the first profiled window of a phase, in windows of the phase: 1 profiles the next one, too.
    pub first_gap: f64,
    /// Largest mean gap between profiled windows of a phase, in windows of the phase.
    pub gap_limit: f64,
    /// Windows after a profiled one in which open samples are followed on, at most. The first profiled windows of
    /// a phase are followed that far, to learn of its longest reuses; once a few were, a quarter of that (at least
    /// one window) serves for the others, and the product-limit estimate puts both together.
    pub follow: u32,
    /// Share of the samples of a window that may stay unresolved: with fewer open, they are not followed on.
    pub unresolved: f64,
    /// Threshold of leader-follower clustering, as a fraction of the largest possible distance.
    pub threshold: f64,
    /// Entries of the code signature.
    pub entries: usize,
    /// Line size the sampler observes reuse at.
    pub line_size: LineSize,
    /// Seed of the signature's hash and of the gaps.
    pub seed: u64,
}

impl Default for GuidedOptions {
    fn default() -> Self {
        Self {
            reuse: ReusePlan::Every,
            first_gap: 1.0,
            gap_limit: 32.0,
            follow: 4,
            unresolved: 0.005,
            threshold: THRESHOLD,
            entries: ENTRIES,
            line_size: LineSize::B64,
            seed: 0,
        }
    }
}

/// What the run tells while it goes on.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Windows so far.
    pub windows: usize,
    /// Windows of them that were profiled.
    pub profiled: usize,
    /// Phases so far.
    pub phases: usize,
    /// Instructions so far.
    pub instructions: u64,
}

/// Where the samples of a window go.
#[derive(Clone, Copy)]
struct Owner {
    phase: PhaseId,
    profiled: Option<u64>, // its number among the phase's profiled windows
}

/// State of the loop for one thread.
struct ThreadState {
    predictor: RunLengthMarkov,
    predicted: Option<PhaseId>,
    plan: ReusePlan,
    followed: u32,
    last_phase: Option<PhaseId>,
}

/// Phases, predictions and profiles, fed one window at a time.
pub struct PhaseGuide {
    options: GuidedOptions,
    vector: CodeVector,
    clusterer: LeaderFollower,
    policy: GapPolicy,
    threads: HashMap<ThreadId, ThreadState>,
    windows: Vec<WindowRecord>,
    phases: Vec<PhaseRecord>,
    owners: HashMap<WindowIndex, Owner>,
    signatures: HashMap<PhaseId, Signature>,
    predictions: (u64, u64),
    profiled: usize,
    instructions: u64,
}

impl PhaseGuide {
    /// A guide that has seen nothing.
    ///
    /// # Errors
    /// [`phase_detect::Error`] if a parameter of the detector is out of its range.
    pub fn new(options: GuidedOptions) -> Result<Self, phase_detect::Error> {
        let config = LeaderFollowerConfig { threshold: options.threshold, ..Default::default() };
        Ok(Self {
            vector: CodeVector::new(options.entries, options.seed)?,
            clusterer: LeaderFollower::new(config)?,
            policy: GapPolicy::new(options.gap_limit, options.seed).beginning_with(options.first_gap),
            options,
            threads: HashMap::new(),
            windows: Vec::new(),
            phases: Vec::new(),
            owners: HashMap::new(),
            signatures: HashMap::new(),
            predictions: (0, 0),
            profiled: 0,
            instructions: 0,
        })
    }

    /// The plan of every new thread: nothing is known, so its first window is profiled.
    #[must_use]
    pub const fn initial_plan(&self) -> WindowPlan {
        WindowPlan::new(self.options.reuse)
    }

    /// Takes in a window and plans the next one of its thread.
    ///
    /// # Errors
    /// [`GuideError::Phases`] if the window's signature is refused.
    pub fn take(&mut self, window: &Window) -> Result<WindowPlan, GuideError> {
        let thread = self.thread(window.thread)?;
        let (predicted, plan, last_phase) = (thread.predicted, thread.plan, thread.last_phase);
        let (phase, signature) = self.classify(window, last_phase)?;
        let profiled = plan.starts_samples();
        self.record(window, phase, predicted, profiled)?;
        if let Some(signature) = signature {
            self.signatures.entry(phase).or_insert(signature);
        }
        self.policy.note(phase, profiled);
        if let Some(predicted) = predicted {
            self.predictions.0 += u64::from(predicted == phase);
            self.predictions.1 += 1;
        }

        let started = window.accesses.get().unwrap_or(0) as f64;
        let options = self.options;
        let follow = if self.phases[phase.index()].profiled > FOLLOWED_FAR {
            options.follow.min((options.follow / 4).max(1))
        } else {
            options.follow
        };
        let Some(thread) = self.threads.get_mut(&window.thread) else {
            return Ok(WindowPlan::count_only());
        };
        thread.last_phase = Some(phase);
        thread.predictor.observe(phase);
        thread.predicted = thread.predictor.predict().map(|prediction| prediction.phase);
        if profiled {
            thread.followed = 0;
        }
        let weight = if let ReusePlan::Sparse(gap) = options.reuse { gap.accesses() } else { 1.0 };
        let unresolved = window.open_samples as f64 * weight > options.unresolved * started;
        thread.plan = if self.policy.is_due(thread.predicted) {
            options.reuse
        } else if plan.sees_accesses() && unresolved && thread.followed < follow {
            thread.followed += 1;
            ReusePlan::Watch
        } else {
            ReusePlan::Off
        };
        Ok(WindowPlan::new(thread.plan))
    }

    /// How far the run has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            windows: self.windows.len(),
            profiled: self.profiled,
            phases: self.phases.len(),
            instructions: self.instructions,
        }
    }

    /// What was gathered. Unknown access counts are estimated, and phases that were never profiled borrow from
    /// the nearest one that was.
    #[must_use]
    pub fn finish(mut self, incomplete: bool) -> GuidedRun {
        self.windows.sort_by_key(|window| window.index);
        self.lend_profiles();
        let mut run = GuidedRun {
            windows: Vec::new(),
            phases: self.phases,
            line_size: self.options.line_size,
            incomplete,
            predictions: self.predictions,
        };
        let overall = mix(run.phases.iter().map(|p| p.counted));
        for mut window in self.windows {
            let mix = run.described_by(window.phase).and_then(PhaseRecord::mix).or(overall);
            if let (reuse_sampler::AccessCount::Unknown, Some(mix)) = (window.accesses, mix) {
                let estimate = (window.instructions as f64 * mix).round() as u64;
                window.accesses = reuse_sampler::AccessCount::Estimated(estimate);
            }
            run.windows.push(window);
        }
        run
    }

    fn thread(&mut self, id: ThreadId) -> Result<&ThreadState, phase_detect::Error> {
        if !self.threads.contains_key(&id) {
            let state = ThreadState {
                predictor: RunLengthMarkov::new(RunLengthMarkovConfig::default())?,
                predicted: None,
                plan: self.options.reuse,
                followed: 0,
                last_phase: None,
            };
            self.threads.insert(id, state);
        }
        Ok(&self.threads[&id])
    }

    /// The phase of a window. One without executed blocks (a trace of accesses alone, or a thread that ended right
    /// after a boundary) goes on with the thread's last phase, or all form one.
    fn classify(
        &mut self,
        window: &Window,
        last: Option<PhaseId>,
    ) -> Result<(PhaseId, Option<Signature>), phase_detect::Error> {
        if window.code.is_empty() {
            return Ok((last.unwrap_or(PhaseId::new(0)), None));
        }
        for &(address, instructions) in &window.code {
            self.vector.add(address, instructions as f64);
        }
        let signature = self.vector.finish()?;
        Ok((self.clusterer.classify(&signature)?.phase, Some(signature)))
    }

    fn record(
        &mut self,
        window: &Window,
        phase: PhaseId,
        predicted: Option<PhaseId>,
        profiled: bool,
    ) -> Result<(), reuse_sampler::Error> {
        let line_size = self.options.line_size;
        let record = phase_record(&mut self.phases, phase, line_size);
        record.windows += 1;
        record.profiled += u64::from(profiled);
        let own = Owner { phase, profiled: profiled.then(|| record.batches.begin()) };
        self.owners.insert(window.index, own);
        record.instructions += window.instructions;
        for &(address, instructions) in &window.code {
            *record.code.entry(address).or_default() += instructions;
        }
        if let reuse_sampler::AccessCount::Measured(accesses) = window.accesses {
            record.counted.0 += accesses;
            record.counted.1 += window.instructions;
            if profiled {
                add(record, own, |profile| profile.add_accesses(accesses))?;
            }
        }
        // A sample belongs to the phase of the window that started it.
        for (started_in, outcome, count, weight) in window.outcomes() {
            let owner = self.owners.get(&started_in).copied().unwrap_or(own);
            let record = phase_record(&mut self.phases, owner.phase, line_size);
            add(record, owner, |profile| profile.record_many(outcome, count, weight))?;
        }
        for overlap in &window.overlaps {
            let owner = self.owners.get(&overlap.started_in).copied().unwrap_or(own);
            let record = phase_record(&mut self.phases, owner.phase, line_size);
            add(record, owner, |profile| profile.record_overlap(overlap))?;
        }
        self.profiled += usize::from(profiled);
        self.instructions += window.instructions;
        self.windows.push(WindowRecord {
            index: window.index,
            thread: window.thread,
            instructions: window.instructions,
            accesses: window.accesses,
            phase,
            predicted,
            profiled,
        });
        Ok(())
    }

    fn lend_profiles(&mut self) {
        let profiled: Vec<PhaseId> =
            self.phases.iter().filter(|p| !p.profile.is_empty()).map(|p| p.phase).collect();
        for phase in self.phases.iter_mut().filter(|p| p.profile.is_empty()) {
            let Some(own) = self.signatures.get(&phase.phase) else { continue };
            let distance = |other: &PhaseId| -> f64 {
                self.signatures.get(other).map_or(f64::INFINITY, |signature| {
                    own.values().iter().zip(signature.values()).map(|(a, b)| (a - b).abs()).sum()
                })
            };
            phase.stand_in = profiled.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        }
    }
}

/// Runs `sampler` to the end of its program, or until `interrupted` says so.
///
/// # Errors
/// [`GuideError`] if the sampler or the detector fails.
pub fn run_guided(
    sampler: &mut dyn Sampler,
    options: GuidedOptions,
    mut interrupted: impl FnMut(&Progress) -> bool,
) -> Result<GuidedRun, GuideError> {
    let mut guide = PhaseGuide::new(options)?;
    let mut plan = guide.initial_plan();
    let mut incomplete = false;
    while let Some(window) = sampler.next_window(&plan)? {
        plan = guide.take(&window)?;
        if !incomplete && interrupted(&guide.progress()) {
            incomplete = true;
            sampler.stop()?;
        }
    }
    Ok(guide.finish(incomplete))
}

/// Why a guided run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuideError {
    /// The target could not be run or observed.
    #[error(transparent)]
    Sampler(#[from] reuse_sampler::SamplerError),
    /// Profiles that do not go together.
    #[error(transparent)]
    Profiles(#[from] reuse_sampler::Error),
    /// A window or a parameter was refused by the phase detector.
    #[error(transparent)]
    Phases(#[from] phase_detect::Error),
}

/// Does the same to the phase's profile and to the batch of the window.
fn add(
    record: &mut PhaseRecord,
    owner: Owner,
    what: impl Fn(&mut ReuseProfile),
) -> Result<(), reuse_sampler::Error> {
    what(&mut record.profile);
    if let Some(window) = owner.profiled {
        what(record.batches.of(window)?);
    }
    Ok(())
}

fn phase_record(phases: &mut Vec<PhaseRecord>, phase: PhaseId, line_size: LineSize) -> &mut PhaseRecord {
    while phases.len() <= phase.index() {
        phases.push(PhaseRecord::new(PhaseId::new(phases.len() as u32), line_size));
    }
    &mut phases[phase.index()]
}

fn mix(counted: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let (accesses, instructions) = counted.fold((0, 0), |sum: (u64, u64), c| (sum.0 + c.0, sum.1 + c.1));
    (instructions > 0).then(|| accesses as f64 / instructions as f64)
}
