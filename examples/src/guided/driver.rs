//! The loop: run a window, let the guide decide what to do in the next one, and file the samples by phase.

use std::collections::HashMap;

use phase_detect::cluster::DEFAULT_THRESHOLD;
use phase_detect::online::PrivateHistories;
use phase_detect::signature::DEFAULT_ENTRIES;
use phase_detect::{
    Action, CodeVector, Detector, Guidance, Guide, GuideConfig, LeaderFollower, LeaderFollowerConfig,
    PhaseId, Ppm,
};
use reuse_sampler::{
    CacheLines, Clock, LineSize, OpenSamples, ReusePlan, ReuseProfile, Sampler, Scope, ThreadId, Window,
    WindowIndex, WindowPlan,
};

use super::{GuidedRun, PhaseRecord, WindowRecord};
use crate::cli::Failure;

/// Settings of the loop.
#[derive(Clone, Copy, Debug)]
pub struct GuidedOptions {
    /// How reuse is observed in profiled windows.
    pub reuse: ReusePlan,
    /// Which windows are profiled, and the seed of the signature's hash.
    pub guide: GuideConfig,
    /// Threshold of leader-follower clustering, as a fraction of the largest possible distance.
    pub threshold: f64,
    /// Entries of the code signature.
    pub entries: usize,
    /// Line size the sampler observes reuse at.
    pub line_size: LineSize,
    /// The largest cache of interest: samples that miss there whenever they end are not followed.
    pub largest: CacheLines,
    /// Whether the windows are those of each thread, or those of all threads together.
    pub scope: Scope,
}

impl Default for GuidedOptions {
    fn default() -> Self {
        Self {
            reuse: ReusePlan::Every,
            guide: GuideConfig::default(),
            threshold: DEFAULT_THRESHOLD,
            entries: DEFAULT_ENTRIES,
            line_size: LineSize::B64,
            largest: CacheLines(u64::MAX),
            scope: Scope::Private,
        }
    }
}

impl GuidedOptions {
    fn empty(&self) -> ReuseProfile {
        ReuseProfile::with_units(self.line_size, Clock::Accesses, self.scope)
    }
}

/// What the run reports while it goes on.
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
    beginning: bool,
    profiled: Option<u64>, // its number among the phase's profiled windows, of the beginning or after it
}

/// Phases, predictions and profiles, fed one window at a time.
pub struct PhaseGuide {
    options: GuidedOptions,
    vector: CodeVector,
    guide: Guide<LeaderFollower, PrivateHistories<Ppm, ThreadId>, ThreadId>,
    windows: Vec<WindowRecord>,
    phases: Vec<PhaseRecord>,
    owners: HashMap<WindowIndex, Owner>,
    open: OpenSamples,
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
        let histories = PrivateHistories::new(Ppm::default());
        let detector = Detector::new(LeaderFollower::new(config)?, histories);
        Ok(Self {
            vector: CodeVector::new(options.entries, options.guide.seed)?,
            guide: Guide::new(detector, options.guide)?,
            options,
            windows: Vec::new(),
            phases: Vec::new(),
            owners: HashMap::new(),
            open: OpenSamples::default(),
            predictions: (0, 0),
            profiled: 0,
            instructions: 0,
        })
    }

    /// The plan of every new thread: nothing is known, so its first window is profiled.
    pub const fn initial_plan(&self) -> WindowPlan {
        WindowPlan::new(self.options.reuse)
    }

    /// Takes in a window and plans the next one of its thread.
    ///
    /// # Errors
    /// [`Failure`] if the window's signature is refused.
    pub fn take(&mut self, window: &Window) -> Result<WindowPlan, Failure> {
        self.vector.extend(window.code_weights());
        // a trace of accesses alone has no code, nor has a thread that ended right after a boundary
        let signature = if window.code.is_empty() { None } else { Some(self.vector.finish()?) };
        self.open.take(window)?;
        let open = |windows_ago| self.open.undecided(window.thread, windows_ago, self.options.largest);
        let guidance = self.guide.observe(window.thread, signature.as_ref(), open)?;
        self.record(window, &guidance)?;
        Ok(WindowPlan::new(match guidance.next {
            Action::Profile => self.options.reuse,
            Action::Follow => ReusePlan::Watch,
            Action::LeaveAlone => ReusePlan::Off,
        }))
    }

    /// How far the run has come.
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
    ///
    /// # Errors
    /// [`reuse_sampler::Error`] cannot happen: all profiles have one line size.
    pub fn finish(mut self, incomplete: bool) -> Result<GuidedRun, reuse_sampler::Error> {
        self.windows.sort_by_key(|window| window.index);
        let profiled: Vec<bool> = self.phases.iter().map(|p| !p.profile.is_empty()).collect();
        for record in &mut self.phases {
            let own = record.phase;
            record.nearest = self.guide.lender(own, |p| p != own && profiled.get(p.index()) == Some(&true));
        }
        let centres = self.guide.detector().clusterer().phases();
        let mut run = GuidedRun {
            windows: Vec::new(),
            phases: self.phases,
            centres: centres.map(|(phase, _, centre)| (phase, centre.to_vec())).collect(),
            line_size: self.options.line_size,
            incomplete,
            predictions: self.predictions,
        };
        let overall = mix(run.phases.iter().map(PhaseRecord::counted_apart));
        for mut window in self.windows {
            let own = run.described_by(window.phase).and_then(|by| mix([by.counted_apart()].into_iter()));
            if let (reuse_sampler::AccessCount::Unknown, Some(mix)) = (window.accesses, own.or(overall)) {
                let estimate = (window.instructions as f64 * mix).round() as u64 + window.repeated;
                window.accesses = reuse_sampler::AccessCount::Estimated(estimate);
            }
            run.windows.push(window);
        }
        let weights = run.weights();
        for record in &mut run.phases {
            record.weigh(weights.get(&record.phase).copied().unwrap_or(0.0))?;
        }
        Ok(run)
    }

    fn record(&mut self, window: &Window, guidance: &Guidance<ThreadId>) -> Result<(), reuse_sampler::Error> {
        let Guidance { phase, predicted, profiled, represents, .. } = *guidance;
        // a transition cannot be foreseen; it is neither right nor wrong
        if let (Some(predicted), Some(settled)) = (predicted, guidance.detection.settled()) {
            self.predictions.0 += u64::from(predicted == settled);
            self.predictions.1 += 1;
        }
        let empty = self.options.empty();
        let record = phase_record(&mut self.phases, phase, &empty);
        record.windows += 1;
        record.profiled += u64::from(profiled);
        let beginning = profiled && (self.windows.len() as u64) < self.options.guide.profile_first;
        let number = if profiled { Some(record.batches(beginning).begin(represents)?) } else { None };
        let own = Owner { phase, beginning, profiled: number };
        if beginning {
            record.beginning.windows += 1;
            record.beginning.weight += window.accesses.get().unwrap_or(window.instructions) as f64;
        }
        self.owners.insert(window.index, own);
        record.instructions += window.instructions;
        record.code.extend(window.code.iter().chain(&window.repeated).map(|&(block, n)| (block, n as f64)));
        let repeated = window.repeated_accesses();
        if let reuse_sampler::AccessCount::Measured(accesses) = window.accesses {
            record.counted.0 += accesses;
            record.counted.1 += window.instructions;
            record.repeated += repeated;
            if profiled {
                add(record, own, |profile| profile.add_accesses(accesses));
            }
        }
        // A sample belongs to the phase of the window that started it.
        for (started_in, outcome, count, weight) in window.outcomes() {
            let owner = self.owners.get(&started_in).copied().unwrap_or(own);
            let record = phase_record(&mut self.phases, owner.phase, &empty);
            add(record, owner, |profile| profile.record_many(outcome, count, weight));
        }
        for overlap in &window.overlaps {
            let owner = self.owners.get(&overlap.started_in).copied().unwrap_or(own);
            let record = phase_record(&mut self.phases, owner.phase, &empty);
            add(record, owner, |profile| profile.record_overlap(overlap));
        }
        self.profiled += usize::from(profiled);
        self.instructions += window.instructions;
        self.windows.push(WindowRecord {
            index: window.index,
            thread: window.thread,
            instructions: window.instructions,
            accesses: window.accesses,
            repeated,
            phase,
            predicted,
            profiled,
        });
        Ok(())
    }
}

/// Runs `sampler` to the end of its program, or until `interrupted` says so.
///
/// # Errors
/// [`Failure`] if the sampler or the detector fails.
pub fn run_guided(
    sampler: &mut dyn Sampler,
    options: GuidedOptions,
    mut interrupted: impl FnMut(&Progress) -> bool,
) -> Result<GuidedRun, Failure> {
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
    Ok(guide.finish(incomplete)?)
}

/// Does the same to the phase's profile and to the batch of the window.
fn add(record: &mut PhaseRecord, owner: Owner, what: impl Fn(&mut ReuseProfile)) {
    what(&mut record.profile);
    if let Some(window) = owner.profiled {
        what(record.batches(owner.beginning).of(window));
    }
}

fn phase_record<'a>(
    phases: &'a mut Vec<PhaseRecord>,
    phase: PhaseId,
    empty: &ReuseProfile,
) -> &'a mut PhaseRecord {
    while phases.len() <= phase.index() {
        phases.push(PhaseRecord::new(PhaseId::new(phases.len() as u32), empty));
    }
    &mut phases[phase.index()]
}

fn mix(counted: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let (accesses, instructions) = counted.fold((0, 0), |sum: (u64, u64), c| (sum.0 + c.0, sum.1 + c.1));
    (instructions > 0).then(|| accesses as f64 / instructions as f64)
}
