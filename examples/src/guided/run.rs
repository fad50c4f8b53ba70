//! What a phase-guided run has gathered.

use std::collections::{BTreeMap, BTreeSet};

use phase_detect::PhaseId;
use phase_detect::metrics::CodeTotals;
use reuse_sampler::{AccessCount, LineSize, ReuseProfile, ThreadId, WindowIndex};

use super::Batches;

/// One window of the run.
#[derive(Clone, Debug)]
pub struct WindowRecord {
    /// Number of the window.
    pub index: WindowIndex,
    /// Its thread.
    pub thread: ThreadId,
    /// Instructions executed, 0 if the source does not count them.
    pub instructions: u64,
    /// Memory accesses, measured or estimated from the phase's mix.
    pub accesses: AccessCount,
    /// Accesses of repeated string instructions that are counted in every window.
    pub repeated: u64,
    /// The phase it was classified as.
    pub phase: PhaseId,
    /// The phase that had been predicted for it.
    pub predicted: Option<PhaseId>,
    /// Whether samples were started in it.
    pub profiled: bool,
}

/// Windows of a phase at the beginning of the run.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// How many.
    pub windows: u64,
    /// What they weigh in averages, see [`GuidedRun::weight`].
    pub weight: f64,
    /// Samples started in them, by window.
    pub batches: Batches,
}

/// One phase of the run.
#[derive(Clone, Debug)]
pub struct PhaseRecord {
    /// The phase.
    pub phase: PhaseId,
    /// Windows classified as this phase.
    pub windows: u64,
    /// Windows of it that were profiled.
    pub profiled: u64,
    /// Instructions executed in it.
    pub instructions: u64,
    /// Samples started in its windows.
    pub profile: ReuseProfile,
    /// The same samples by the windows that started them, in batches: of those that the gaps chose.
    pub batches: Batches,
    /// Windows at the beginning of the run, which were all profiled: not in the batches.
    pub beginning: Beginning,
    /// Accesses counted in its windows, and the instructions of the windows in which they were.
    pub counted: (u64, u64),
    /// Of the accesses counted, those of repeated string instructions.
    pub repeated: u64,
    /// Instructions by block; accesses of a block that is a repeated string instruction.
    pub code: CodeTotals<u64>,
    /// The nearest other phase by signature that was profiled: it stands in where this one never was.
    pub nearest: Option<PhaseId>,
}

impl PhaseRecord {
    pub(super) fn new(phase: PhaseId, empty: &ReuseProfile) -> Self {
        Self {
            phase,
            windows: 0,
            profiled: 0,
            instructions: 0,
            profile: empty.clone(),
            batches: Batches::new(empty.clone()),
            beginning: Beginning { windows: 0, weight: 0.0, batches: Batches::new(empty.clone()) },
            counted: (0, 0),
            repeated: 0,
            code: CodeTotals::default(),
            nearest: None,
        }
    }

    /// Those of the windows at the beginning of the run, or of the others.
    pub(super) fn batches(&mut self, beginning: bool) -> &mut Batches {
        if beginning { &mut self.beginning.batches } else { &mut self.batches }
    }

    /// The phase whose profile stands in, if this one was never profiled.
    pub fn stand_in(&self) -> Option<PhaseId> {
        self.nearest.filter(|_| self.profile.is_empty())
    }

    /// What was [counted](Self::counted), without the accesses of repeated string instructions.
    pub(super) const fn counted_apart(&self) -> (u64, u64) {
        (self.counted.0.saturating_sub(self.repeated), self.counted.1)
    }

    /// The block in which most instructions of the phase are executed, with its share of them.
    pub fn hottest_block(&self) -> Option<(u64, f64)> {
        self.code.hottest()
    }

    /// Share of its windows that were profiled, without those at the beginning of the run.
    pub fn covered(&self) -> f64 {
        let (windows, profiled) =
            (self.windows - self.beginning.windows, self.profiled - self.beginning.windows);
        profiled as f64 / windows.max(1) as f64
    }

    /// Weights the samples by the windows that were not profiled: each profiled window counts for as many as it represents,
    /// and all windows of the phase together for `weight`.
    pub(super) fn weigh(&mut self, weight: f64) -> Result<(), reuse_sampler::Error> {
        if self.covered() == 0.0 || self.profiled == self.windows {
            return Ok(());
        }
        let (mut all, later) = (self.beginning.batches.together()?, self.batches.together()?);
        if later.is_empty() {
            return Ok(());
        }
        if all.is_empty() {
            all = later;
        } else {
            let wanted = weight / self.beginning.weight - 1.0;
            all.merge_weighted(&later, wanted * all.total_weight() as f64 / later.total_weight() as f64)?;
        }
        self.profile = all;
        Ok(())
    }

    /// Memory accesses per instruction, if any window counted both.
    pub fn mix(&self) -> Option<f64> {
        (self.counted.1 > 0).then(|| self.counted.0 as f64 / self.counted.1 as f64)
    }
}

/// A run, complete or interrupted.
#[derive(Clone, Debug)]
pub struct GuidedRun {
    /// All windows, by index.
    pub windows: Vec<WindowRecord>,
    /// All phases, by number.
    pub phases: Vec<PhaseRecord>,
    /// Mean signature of each phase that has code.
    pub centres: BTreeMap<PhaseId, Vec<f64>>,
    /// Line size of the profiles.
    pub line_size: LineSize,
    /// The run was stopped before the program ended.
    pub incomplete: bool,
    /// Windows without a prediction are not counted: (right, all).
    pub predictions: (u64, u64),
}

impl GuidedRun {
    /// The phase of a number handed out by the run's clusterer.
    pub fn phase(&self, phase: PhaseId) -> Option<&PhaseRecord> {
        self.phases.iter().find(|p| p.phase == phase)
    }

    /// The phase whose profile describes `phase`: itself, or the one that stands in.
    pub fn described_by(&self, phase: PhaseId) -> Option<&PhaseRecord> {
        let record = self.phase(phase)?;
        if record.profile.is_empty() { self.phase(record.stand_in()?) } else { Some(record) }
    }

    /// Windows in which samples were started.
    pub fn profiled(&self) -> usize {
        self.windows.iter().filter(|w| w.profiled).count()
    }

    /// Threads that its windows are of.
    pub fn threads(&self) -> usize {
        self.windows.iter().map(|w| w.thread).collect::<BTreeSet<_>>().len()
    }

    /// Accesses of all windows, measured or estimated.
    pub fn accesses(&self) -> u64 {
        self.windows.iter().filter_map(|w| w.accesses.get()).sum()
    }

    /// Instructions of all windows.
    pub fn instructions(&self) -> u64 {
        self.windows.iter().map(|w| w.instructions).sum()
    }

    /// What a window counts for in averages: its accesses where they are known, else its instructions.
    pub fn weight(&self, window: &WindowRecord) -> f64 {
        window.accesses.get().unwrap_or(window.instructions) as f64
    }

    /// The weight of the windows of each phase.
    pub fn weights(&self) -> BTreeMap<PhaseId, f64> {
        let mut weights = BTreeMap::new();
        for window in &self.windows {
            *weights.entry(window.phase).or_default() += self.weight(window);
        }
        weights
    }
}
